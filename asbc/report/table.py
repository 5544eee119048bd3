"""What a table of the report is, whatever stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from asbc.evaluate.comparison import Comparison

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Cell = str | Comparison | None


@dataclass(frozen=True)
class Table:
    """A table of the report.

    Attributes
    ----------
    name : str
    title, note : str
    header : sequence of str
    rows : sequence of rows
        A cell is text, a comparison, or `None` where there is nothing to say.
    less_is_better : bool
        Whether a difference below 0 is the better one.
    """

    name: str
    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    less_is_better: bool = False

    def filled(self) -> Table:
        """The table without columns that have nothing in any row, as accuracies where there are no labels."""
        kept = [i for i in range(len(self.header)) if not self.rows or any(row[i] is not None for row in self.rows)]
        rows = [[row[i] for i in kept] for row in self.rows]
        return replace(self, header=[self.header[i] for i in kept], rows=rows)

    def text(self) -> list[list[str]]:
        """Cells as plain text."""
        return [
            ["" if c is None else interval(c) if isinstance(c, Comparison) else c for c in row] for row in self.rows
        ]

    def markdown(self) -> str:
        """The table for a README."""
        lines = [list(self.header), ["---"] + ["---:"] * (len(self.header) - 1), *self.text()]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def rich(self) -> RichTable:
        """The table for a terminal."""
        from rich.table import Table as RichTable

        view = RichTable(title=self.title, caption=self.note)
        for column, name in enumerate(self.header):
            view.add_column(name, justify="left" if column == 0 else "right")
        for row in self.text():
            view.add_row(*row)
        return view


def interval(c: Comparison) -> str:
    """A difference and its interval in one short line."""
    return f"{c.difference:+.4f} [{c.low:+.4f}, {c.high:+.4f}]"
