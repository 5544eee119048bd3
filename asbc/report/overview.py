"""Several encoders or data sets side by side: methods per task, claims, and the same curves of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from asbc.report.answers import TASKS, Answer
from asbc.report.chart import Figure
from asbc.report.curves import side_by_side
from asbc.report.findings import Findings
from asbc.report.markup import minus
from asbc.report.parts import BASE
from asbc.report.sections import figure_html, verdict_html
from asbc.report.style import full_label

METRICS = ("loo", "lp")


def multiples(findings: Sequence[Findings]) -> list[Figure]:
    """Figures 3 and 4 of all subjects, a panel each; none where there is only one."""
    subjects = [found.subject for found in findings]
    return [figure for metric in METRICS if (figure := side_by_side(subjects, metric)) is not None]


def overview_html(findings: Sequence[Findings], figures: Sequence[Figure]) -> str:
    """What several subjects have in common and where they differ, before each of them by itself."""
    out = ['<h2 id="side-by-side">Which graph for which embeddings?</h2>']
    for task in TASKS:
        answers = [next((a for a in found.answers if a.task == task), None) for found in findings]
        if any(answers):
            out.append(_methods(task.name, task.measure, findings, answers))
    out.append(
        '<p class="note">Means over trials, with the difference from kNN below them. Green: the graph with the highest '
        "mean and all that the data cannot tell from it, by intervals that hold for all pairs of graphs at once; bold "
        "where it is the best beyond doubt. Settings may differ between rows; each section says which they were.</p>"
    )
    out += [figure_html(figure) for figure in figures]
    out.append(_claims(findings))
    return "\n".join(out)


def _methods(name: str, measure: str, findings: Sequence[Findings], answers: Sequence[Answer | None]) -> str:
    times = Counter(method for a in answers if a for method in _in_order(a))
    methods = sorted(times, key=lambda method: -times[method])  # those that most rows have stand where all readers look
    head = "".join(f"<th>{_unbroken(full_label(method))}</th>" for method in methods)
    rows = []
    for found, given in zip(findings, answers, strict=True):
        cells = "".join(_cell(given, method) for method in methods)
        rows.append(f'<tr><th scope="row">{escape(found.subject.name)}</th>{cells}</tr>')
    return (
        f'<h3>{escape(name)}</h3><div class="scroll"><table class="matrix"><thead><tr><th>{escape(measure)}</th>{head}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _in_order(given: Answer) -> list[str]:
    return [method for method in given.part.methods if method in given.ranking.means]


def _cell(given: Answer | None, method: str) -> str:
    if given is None or method not in given.ranking.means:
        return '<td class="none">–</td>'
    ranking = given.ranking
    best = ranking.methods[0]
    kind = ""
    if given.sure and (method == best or method in ranking.alike):
        kind = ' class="top clear"' if given.clear else ' class="top"'
    gap = ranking.gaps.get((method, BASE))
    below = "" if gap is None else f"<small>{minus(_signed(gap.difference))}</small>"
    return f"<td{kind}>{ranking.means[method]:.3f}{below}</td>"


def _signed(value: float) -> str:
    text = f"{value:+.3f}"
    return text if float(text) else text[1:]  # nothing has no sign


def _unbroken(text: str) -> str:
    """Escaped, with hyphens at which no line breaks: NNK-σ is one word."""
    return escape(text).replace("-", "&#8209;")


def _claims(findings: Sequence[Findings]) -> str:
    """Claims against subjects."""
    head = "".join(f"<th>{escape(found.subject.name)}</th>" for found in findings)
    rows = []
    for lines in zip(*(found.claims for found in findings), strict=True):
        cells = "".join(f"<td>{verdict_html(claim)}</td>" for claim in lines)
        rows.append(f'<tr><td class="text">{_unbroken(lines[0].text)}</td>{cells}</tr>')
    return (
        '<h2 id="claims">The claims, side by side</h2><div class="scroll"><table>'
        f"<thead><tr><th>claim</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
