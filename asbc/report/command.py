"""The command `asbc-report`: from results to figures and one page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from threadpoolctl import threadpool_limits

from asbc.files import write_whole
from asbc.report.canvas import save
from asbc.report.chart import Figure
from asbc.report.evidence import read_evidence
from asbc.report.findings import find, steps
from asbc.report.overview import multiples
from asbc.report.page import GENERATOR, render
from asbc.report.svg import figure_svg
from asbc.runs.results import ResultsError

PAGE = "report.html"
Progress = Callable[[int, int, str], None]


def make_report(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    pdf: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the page and the figures for all runs under some folders.

    Nothing is written before all of it has been worked out, so bad results leave an earlier report as it was.

    Parameters
    ----------
    folders : sequence of str or Path
        Results folders (`outputs`), or single runs.
    out : str or Path, default=None
        Folder of the report; None for `report` in the first folder.
    pdf : bool, default=False
        Write each figure as PNG and PDF too, for slides and a paper.
    progress : callable, default=None
        Called as `progress(done, total, what)` after each step.

    Returns
    -------
    Path
        The page, `report.html`; figures as SVG are in the folder `figures` beside it.

    See Also
    --------
    asbc.report.evidence.read_evidence : what the page is made of.
    """
    if not folders:
        raise ResultsError("no folder given; `asbc` writes to `outputs` by default")
    target = Path(out) if out is not None else Path(folders[0]) / "report"
    _check_target(target)
    evidence = read_evidence(folders)
    total = 1 + sum(map(steps, evidence.subjects)) + 1
    done = 0

    def told(what: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total, what)

    told("reading")
    # One thread: the matrix products are small, and waiting threads would only burn time.
    with threadpool_limits(1, user_api="blas"):
        findings = [find(subject, told) for subject in evidence.subjects]
    together = multiples(findings) if len(findings) > 1 else []
    text = render(evidence, findings, together)
    # The page first: it is whole by itself, and it marks the folder as ours.
    write_whole(target / PAGE, lambda path: path.write_text(text, encoding="utf-8"))
    for found in findings:
        _write(found.figures.values(), target / "figures" / found.subject.slug, pdf)
    _write(together, target / "figures", pdf)
    told("writing")
    return target / PAGE


def _write(figures: Iterable[Figure], folder: Path, pdf: bool) -> None:
    for figure in figures:
        drawn = figure_svg(figure)
        write_whole(folder / f"{figure.name}.svg", lambda path, text=drawn: path.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        if pdf:
            save(figure, folder)


def _check_target(target: Path) -> None:
    page = target / PAGE
    if target.exists() and not target.is_dir():
        raise ResultsError(f"{target}: a file; a folder is wanted for the report")
    if page.exists() and f'content="{GENERATOR}"' not in page.read_text(encoding="utf-8", errors="replace"):
        raise ResultsError(f"{page}: not made by {GENERATOR}, and left alone; give another folder with --out")


@contextmanager
def _bar() -> Iterator[Progress]:
    """A bar with the time left; nothing where the output is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}", markup=False),
    )
    with progress.Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


def main(arguments: Sequence[str] | None = None) -> None:
    """`asbc-report outputs`: figures and one page of all that was run."""
    parser = argparse.ArgumentParser(prog="asbc-report", description="Figures and one page of all runs under a folder.")
    parser.add_argument("folders", nargs="+", type=Path, help="results folders (`outputs`), or single runs")
    parser.add_argument("--out", type=Path, help="folder of the report; default: `report` in the first folder")
    parser.add_argument(
        "--pdf", action="store_true", help="write each figure as PNG and PDF too, for slides and a paper"
    )
    options = parser.parse_args(arguments)
    try:
        with _bar() as progress:
            page = make_report(options.folders, options.out, pdf=options.pdf, progress=progress)
    except (ResultsError, OSError) as error:
        parser.exit(1, f"asbc-report: {error}\n")
    print(page)


if __name__ == "__main__":
    main()
