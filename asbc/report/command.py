"""The command `asbc-report`: one page, figures and tables from results."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from asbc.progress import Progress
from asbc.report.evidence import Evidence, read_evidence
from asbc.report.figures import WIDTHS, Drawing, draw_figures, save_print, save_svg
from asbc.report.page import GENERATOR, analyze, draw_together, render
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
    with evidence.own_methods():
        return _write(evidence, target, shown, pdf=pdf, width=width)


def _write(evidence: Evidence, target: Path, shown: Progress, *, pdf: bool, width: str) -> Path:
    reports = []
    with shown.step("compare", total=len(evidence.subjects), unit="data sets") as advance:
        for subject in evidence.subjects:
            reports.append(analyze(subject))
            advance()
    with shown.step("draw"):
        together = draw_together(reports) if len(reports) > 1 else []
        text = render(evidence, reports, together)
        write_atomic(target / PAGE, text)
        for report in reports:
            drawings = [drawing for drawn in report.drawings.values() for drawing in drawn]
            _save(drawings, target / "figures" / report.subject.slug, pdf, width)
        _save(together, target / "figures", pdf, width)
    return target / PAGE


def show_experiment(evidence: Evidence, experiment: str, out: str | Path = "figures", *, width: str = "double") -> None:
    """Print the tables of one experiment, and write its figures as SVG, PNG and PDF to a folder per subject."""
    from rich.console import Console

    found = [subject for subject in evidence.subjects if experiment in subject.studies]
    if not found:
        names = dict.fromkeys(name for subject in evidence.subjects for name in subject.studies)
        raise ResultsError(f"no results of {experiment!r}; there are: {', '.join(names)}")
    console = Console(width=None if sys.stdout.isatty() else 160)
    with evidence.own_methods():
        for subject in found:
            study = subject.studies[experiment]
            for table in fill_tables(study):
                console.print(table.rich())
            for path in _save(draw_figures(study), Path(out) / subject.slug, True, width):
                console.print(str(path), soft_wrap=True, highlight=False)


def _save(drawings: Iterable[Drawing], folder: Path, pdf: bool, width: str) -> list[Path]:
    paths = []
    for drawing in drawings:
        paths.append(save_svg(drawing, folder))
        paths += save_print(drawing, folder, width) if pdf else []
    return paths


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
