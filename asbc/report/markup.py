"""Tables, differences and marks of the report as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from asbc.evaluate.comparison import Comparison
from asbc.evaluate.ranking import Gap
from asbc.report.chart import Line
from asbc.report.svg import sample_svg
from asbc.report.table import Cell, Table

ABOVE, BELOW = "#00694d", "#a34700"  # better and worse


def table_html(table: Table) -> str:
    """A table with its title and note; a difference is shown with its interval drawn beside it."""
    # A method's name is not broken at its hyphen.
    if not table.rows:
        return f'<h3>{escape(table.title)}</h3><p class="note">No rows.</p>'
    head = "".join(f"<th>{escape(name).replace('-', '&#8209;')}</th>" for name in table.header)
    spans = [_span(column) for column in zip(*table.rows, strict=True)]
    above, below = (BELOW, ABOVE) if table.less_is_better else (ABOVE, BELOW)
    rows = "".join(
        f"<tr>{''.join(_cell(cell, spans[i], i, above, below) for i, cell in enumerate(row))}</tr>"
        for row in table.rows
    )
    compared = sum(span is not None for span in spans)
    many = compared > 2 or (compared == 2 and len(spans) > 8)
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll"><table{" class=stacked" if many else ""}>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        + (f'<p class="note">{escape(table.note)}</p>' if table.note else "")
    )


def _span(column: Sequence[Cell]) -> tuple[float, float] | None:
    """From the lowest to the highest end of a column's intervals, zero included."""
    found = [cell for cell in column if isinstance(cell, Comparison)]
    if not found:
        return None
    low, high = min(0.0, *(c.low for c in found)), max(0.0, *(c.high for c in found))
    return (low, high) if high > low else (-1.0, 1.0)


def _cell(cell: Cell, span: tuple[float, float] | None, column: int, above: str, below: str) -> str:
    if column == 0:
        return f'<th scope="row">{escape(str(cell))}</th>'
    if cell is None:
        return '<td class="none">–</td>'
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    assert span is not None
    color = above if cell.low > 0 else below if cell.high < 0 else "#7b8794"
    text = f"{cell.difference:+.4f} <small>[{cell.low:+.4f}, {cell.high:+.4f}]</small>"
    return f'<td><span class="diff"><span>{minus(text)}</span>{_whisker(cell, span, color)}</span></td>'


def gap_html(gap: Gap, span: tuple[float, float]) -> str:
    """A difference with its interval, in words and drawn."""
    color = ABOVE if gap.low > 0 else BELOW if gap.high < 0 else "#7b8794"
    drawn = _whisker(gap, span if span[1] > span[0] else (-1.0, 1.0), color)
    text = f"{gap.difference:+.4f} <small>[{gap.low:+.4f}, {gap.high:+.4f}]</small>"
    return f'<span class="diff"><span>{minus(text)}</span>{drawn}</span>'


def key_html(lines: Sequence[Line]) -> str:
    """Which colour and mark is which method."""
    return f'<ul class="key">{"".join(f"<li>{sample_svg(line)}{escape(line.label)}</li>" for line in lines)}</ul>'


def _whisker(c: Comparison | Gap, span: tuple[float, float], color: str, width: int = 72, height: int = 14) -> str:
    """A difference and its interval beside zero, to the same scale down a column."""

    def x(value: float) -> float:
        return 4 + (value - span[0]) / (span[1] - span[0]) * (width - 8)

    middle = height / 2
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-hidden="true">'
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height}" stroke="#9aa5b1"/>'
        f'<line x1="{x(c.low):.1f}" x2="{x(c.high):.1f}" y1="{middle}" y2="{middle}" stroke="{color}" '
        'stroke-width="2"/>'
        f'<circle cx="{x(c.difference):.1f}" cy="{middle}" r="3.2" fill="{color}"/></svg>'
    )


def minus(text: str) -> str:
    """Text with the hyphen before a digit replaced by a minus sign."""
    for digit in "0123456789":
        text = text.replace(f"-{digit}", f"−{digit}")
    return text


def ticks(text: str) -> str:
    """Escaped text, with `code` set as code and proper minus signs."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else minus(piece) for i, piece in enumerate(pieces))
