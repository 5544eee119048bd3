"""The command `asbc-report`: from results to figures and one page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from asbc.files import write_whole
from asbc.report.evidence import read_evidence
from asbc.report.figures import save
from asbc.report.page import GENERATOR, find, render
from asbc.runs.results import ResultsError

PAGE = "report.html"


def make_report(folders: Sequence[str | Path], out: str | Path | None = None) -> Path:
    """Write the page and the figures for all runs under some folders.

    Nothing is written before all of it has been worked out, so bad results leave an earlier report as it was.

    Parameters
    ----------
    folders : sequence of str or Path
        Results folders (`outputs`), or single runs.
    out : str or Path, default=None
        Folder of the report; None for `report` in the first folder.

    Returns
    -------
    Path
        The page, `report.html`; figures are in the folder `figures` beside it.

    See Also
    --------
    asbc.report.evidence.read_evidence : what the page is made of.
    """
    if not folders:
        raise ResultsError("no folder given; `asbc` writes to `outputs` by default")
    target = Path(out) if out is not None else Path(folders[0]) / "report"
    _check_target(target)
    evidence = read_evidence(folders)
    findings = [find(subject) for subject in evidence.subjects]
    text = render(evidence, findings)
    # The page first: it is whole by itself, and it marks the folder as ours.
    write_whole(target / PAGE, lambda path: path.write_text(text, encoding="utf-8"))
    for found in findings:
        for figure in found.figures.values():
            save(figure, target / "figures" / found.subject.slug)
    return target / PAGE


def _check_target(target: Path) -> None:
    page = target / PAGE
    if target.exists() and not target.is_dir():
        raise ResultsError(f"{target}: a file; a folder is wanted for the report")
    if page.exists() and f'content="{GENERATOR}"' not in page.read_text(encoding="utf-8", errors="replace"):
        raise ResultsError(f"{page}: not made by {GENERATOR}, and left alone; give another folder with --out")


def main(arguments: Sequence[str] | None = None) -> None:
    """`asbc-report outputs`: figures and one page of all that was run."""
    parser = argparse.ArgumentParser(prog="asbc-report", description="Figures and one page of all runs under a folder.")
    parser.add_argument("folders", nargs="+", type=Path, help="results folders (`outputs`), or single runs")
    parser.add_argument("--out", type=Path, help="folder of the report; default: `report` in the first folder")
    options = parser.parse_args(arguments)
    try:
        with Console(stderr=True).status("Working out figures, tables and verdicts"):
            page = make_report(options.folders, options.out)
    except (ResultsError, OSError) as error:
        parser.exit(1, f"asbc-report: {error}\n")
    print(page)


if __name__ == "__main__":
    main()
