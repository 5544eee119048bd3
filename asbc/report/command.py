"""The command `asbc-report`: one page, figures and tables from results."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rich.console import Console

from asbc.progress import Progress
from asbc.report.evidence import Evidence, read_evidence
from asbc.report.figures import WIDTHS, draw_figures, save
from asbc.report.page import GENERATOR, SubjectReport, draw_together, render
from asbc.report.tables import fill_tables
from asbc.runs.results import ResultsError
from asbc.storage import write_atomic

PAGE = "report.html"


def make_report(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    pdf: bool = False,
    width: str = "double",
    progress: bool = False,
) -> Path:
    """Write the page and the figures of all runs under some folders.

    Nothing is written before everything is computed, so an error leaves an earlier report as it was.

    Parameters
    ----------
    folders : sequence of str or Path
        Results folders (`outputs`), or single runs.
    out : str or Path, default=None
        Folder of the report; None for `report` in the first folder.
    pdf : bool, default=False
        Also write each figure as PDF and as PNG with 300 dpi.
    width : {"single", "double"}, default="double"
        Width of these files: one or two columns of a paper.
    progress : bool, default=False
        Whether to show progress on the standard error.

    Returns
    -------
    Path
        The page, `report.html`. The figures are in the folder `figures` next to it.

    See Also
    --------
    asbc.report.evidence.read_evidence : the runs that the page shows.
    """
    if not folders:
        raise ResultsError("no folder given; `asbc` writes to `outputs` by default")
    target = Path(out) if out is not None else Path(folders[0]) / "report"
    _check_target(target)
    shown = Progress(progress)
    with shown.step("read"):
        evidence = read_evidence(folders)
    with shown.step("compare", total=len(evidence.subjects), unit="data sets") as advance:
        reports = []
        for subject in evidence.subjects:
            reports.append(SubjectReport(subject))
            advance()
    kinds = ("svg", "png", "pdf") if pdf else ("svg",)
    with shown.step("draw"):
        together = draw_together(reports)
        write_atomic(target / PAGE, render(evidence, reports, together))
        for report in reports:
            for drawing in chain(*report.drawings.values()):
                save(drawing, target / "figures" / report.subject.slug, width, kinds)
        for drawing in together:
            save(drawing, target / "figures", width, kinds)
    return target / PAGE


def show_experiment(evidence: Evidence, experiment: str, out: str | Path = "figures", *, width: str = "double") -> None:
    """Print the tables of one experiment, and write its figures as SVG, PNG and PDF to a folder per subject."""
    found = [subject for subject in evidence.subjects if experiment in subject.studies]
    if not found:
        names = dict.fromkeys(name for subject in evidence.subjects for name in subject.studies)
        raise ResultsError(f"no results of {experiment!r}; there are: {', '.join(names)}")
    console = Console(width=None if sys.stdout.isatty() else 160)
    for subject in found:
        study = subject.studies[experiment]
        for table in fill_tables(study):
            console.print(table.rich())
        for drawing in draw_figures(study):
            for path in save(drawing, Path(out) / subject.slug, width):
                console.print(str(path), soft_wrap=True, highlight=False)


def _check_target(target: Path) -> None:
    page = target / PAGE
    if target.exists() and not target.is_dir():
        raise ResultsError(f"{target}: this is a file; --out must name a folder")
    if page.exists() and f'content="{GENERATOR}"' not in page.read_text(encoding="utf-8", errors="replace"):
        raise ResultsError(
            f"{page}: not written by {GENERATOR}, so it is not overwritten; give another folder with --out"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `asbc-report`."""
    parser = argparse.ArgumentParser(
        prog="asbc-report",
        description="Write one page with the figures, tables and verdicts of all runs under a folder.",
        epilog="Examples: asbc-report outputs | asbc-report outputs --only loo | asbc-report outputs --pdf",
    )
    add = parser.add_argument
    add("folders", nargs="+", type=Path, help="results folders (`outputs`), or single runs")
    add("--out", type=Path, help="folder of the report; default: `report` in the first folder")
    add("--only", metavar="EXPERIMENT", help="print only the tables of one experiment and write only its figures")
    add("--pdf", action="store_true", help="also write each figure as PDF and as PNG with 300 dpi")
    add("--width", choices=tuple(WIDTHS), default="double", help="width of these files: one or two columns of a paper")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="asbc-report: %(message)s", level=logging.WARNING)
    try:
        if options.only:
            target = (options.out or options.folders[0] / "report") / "figures"
            show_experiment(read_evidence(options.folders), options.only, target, width=options.width)
            return
        page = make_report(
            options.folders, options.out, pdf=options.pdf, width=options.width, progress=sys.stderr.isatty()
        )
    except (ResultsError, OSError) as error:
        parser.exit(1, f"asbc-report: {error}\n")
    print(page)


if __name__ == "__main__":
    main()
