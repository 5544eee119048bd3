"""One HTML page that needs nothing else: no network, no scripts, images and style inside."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from asbc.report.chart import Figure
from asbc.report.findings import Findings
from asbc.report.glossary import glossary_html
from asbc.report.overview import overview_html
from asbc.report.parts import Evidence, Record
from asbc.report.sections import (
    anchor,
    answers_html,
    claims_html,
    experiment_html,
    heading,
    hidden_html,
    missing_html,
)
from asbc.report.words import named

GENERATOR = "asbc-report"


def render(evidence: Evidence, findings: Sequence[Findings], multiples: Sequence[Figure] = ()) -> str:
    """The page as HTML; the same text for the same results.

    Parameters
    ----------
    evidence : Evidence
    findings : sequence of Findings
        One per subject of the evidence.
    multiples : sequence of Figure, default=()
        Figures of all subjects together.

    Returns
    -------
    str
    """
    several = len(findings) > 1
    labeled = any(found.subject.labeled for found in findings)
    first = "the best one per task" if labeled else "what can be seen of them without labels"
    names = ", ".join(found.subject.name for found in findings)
    body = [overview_html(findings, multiples)] if several else []
    body += [_subject(found, several) for found in findings]
    body += [glossary_html(), _runs(evidence)]
    ended = max(record.status.get("ended", record.status.get("started", 0.0)) for record in evidence.records)
    css = (files("asbc.report") / "page.css").read_text()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="{GENERATOR}">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>asbc report: {escape(names)}</title>
<style>
{css}</style>
</head>
<body>
<header><div>
<h1>Which graph to build, and what the data say</h1>
<p class="lead">Neighbourhood graphs on {escape(names)}: {first}, and the experiments of “Geometry-Aware
Graph Construction via Adaptive Spectral Bandwidth Control”, run again. Every difference is paired by trial and has its
interval; every verdict is worked out from the numbers on this page.</p>
{_nav(findings)}
</div></header>
<main>
{"".join(body)}
</main>
<footer>
<p>Made by <code>asbc-report</code> from {len(evidence.records)} runs, the last of
{time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(ended))}.</p>
</footer>
</body>
</html>
"""


def _nav(findings: Sequence[Findings]) -> str:
    if len(findings) > 1:
        links = [("side-by-side", "Side by side"), ("claims", "Claims")]
        links += [(found.subject.slug, found.subject.name) for found in findings]
    else:
        (found,) = findings
        subject = found.subject
        links = [("answers-" + subject.slug, "Which graph?")]
        links += [("hidden-" + subject.slug, "What averages hide")] if found.hidden else []
        links += [("claims-" + subject.slug, "Claims")]
        links += [(anchor(name, subject), heading(name)) for name in subject.parts]
    links += [("words", "Words"), ("runs", "Configuration")]
    return "<nav>" + "".join(f'<a href="#{place}">{escape(text)}</a>' for place, text in links) + "</nav>"


def _subject(found: Findings, several: bool) -> str:
    subject = found.subject
    out = [f'<section id="{subject.slug}">']
    if several:
        out.append(f'<h2 class="name">{escape(subject.name)}</h2>')
    out += [answers_html(found), hidden_html(found.hidden, subject), claims_html(found), missing_html(subject)]
    out += [experiment_html(found, name) for name in subject.parts]
    out.append("</section>")
    return "\n".join(out)


def _runs(evidence: Evidence) -> str:
    names = {
        record.id: subject.name
        for subject in evidence.subjects
        for part in subject.parts.values()
        for record in [*part.records, *part.others]
    }
    rows = []
    for record in evidence.records:
        status = record.status
        seconds = f"{status['seconds']:,.0f}" if "seconds" in status else "–"
        count = "0" if record.rows is None else f"{len(record.rows):,}"
        data = names.get(record.id, named(str(status.get("dataset", "?")), str(status.get("encoder", "?"))))
        rows.append(
            f'<tr><th scope="row">{escape(record.experiment)}</th><td>{escape(data)}</td>'
            f"<td>{escape(str(status['state']))}</td><td>{count}</td><td>{seconds}</td><td><code>{escape(record.id)}</code></td></tr>"
        )
    errors = [
        f"<li><span>{escape(record.experiment)}</span><span>{escape(str(record.status['error']))}</span></li>"
        for record in evidence.records
        if record.status.get("error")
    ]
    return (
        '<h2 id="runs">Configuration</h2><div class="scroll"><table><thead><tr><th>experiment</th><th>data</th>'
        f"<th>state</th><th>rows</th><th>seconds</th><th>run</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        + (f'<div class="missing partial"><strong>Stopped.</strong><ul>{"".join(errors)}</ul></div>' if errors else "")
        + '<p class="note">The settings that each run was resolved to; the same settings and data make the same run.'
        "</p>" + "".join(_settings(record) for record in evidence.records)
    )


def _settings(record: Record) -> str:
    return (
        f"<details><summary>{escape(record.experiment)} <code>{escape(record.id)}</code></summary>"
        f"<pre>{escape(record.text)}</pre></details>"
    )
