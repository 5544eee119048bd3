"""One HTML page that needs nothing else: no network, no scripts, images and style inside."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from asbc.report.claims import FAILS, HOLDS, UNKNOWN, Claim, judge
from asbc.report.evidence import EXPERIMENTS, Evidence, Part, Record, Subject
from asbc.report.figures import FIGURES, Figure, png
from asbc.report.markup import minus, table_html
from asbc.report.tables import TABLES, Table

GENERATOR = "asbc-report"

HEADINGS = {
    "regimes": "Regimes",
    "alignment": "Alignment",
    "loo": "Leave-one-out",
    "lp": "Label propagation",
    "gamma": "Gamma",
    "ablation": "Ablation",
    "selectors": "Selectors",
    "regret": "Regret",
    "k_cand": "Candidates",
    "n_grid": "Grid",
}
_CLASSES = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "open"}


@dataclass(frozen=True)
class Findings:
    """What there is to say about one subject.

    Attributes
    ----------
    subject : Subject
    claims : sequence of Claim
    figures : mapping of str to Figure
        By experiment.
    tables : mapping of str to sequence of Table
        By experiment.
    """

    subject: Subject
    claims: Sequence[Claim]
    figures: Mapping[str, Figure]
    tables: Mapping[str, Sequence[Table]]


def find(subject: Subject) -> Findings:
    """Claims, figures and tables of one subject.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    Findings
    """
    parts = subject.parts
    return Findings(
        subject,
        judge(subject),
        {name: FIGURES[name](part) for name, part in parts.items() if name in FIGURES},
        {name: [make(part) for make in TABLES[name]] for name, part in parts.items() if name in TABLES},
    )


def render(evidence: Evidence, findings: Sequence[Findings]) -> str:
    """The page as HTML; the same text for the same results.

    Parameters
    ----------
    evidence : Evidence
    findings : sequence of Findings
        One per subject of the evidence.

    Returns
    -------
    str
    """
    several = len(findings) > 1
    names = ", ".join(found.subject.name for found in findings)
    body = [_matrix(findings)] if several else []
    body += [_subject(found, several) for found in findings]
    body.append(_runs(evidence))
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
<h1>A bandwidth for every node: what the data say</h1>
<p class="lead">Neighbourhood graphs on {escape(names)}: the experiments of “Geometry-Aware Graph Construction via
Adaptive Spectral Bandwidth Control”, run again. Every difference is paired by trial and has its interval; every
verdict is worked out from the numbers on this page.</p>
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
    links = []
    if len(findings) > 1:
        links = [(found.subject.slug, found.subject.name) for found in findings]
    else:
        (found,) = findings
        links = [("claims-" + found.subject.slug, "Claims")]
        links += [
            (f"{name}-{found.subject.slug}", HEADINGS[name]) for name in EXPERIMENTS if name in found.subject.parts
        ]
    links.append(("runs", "Configuration"))
    return "<nav>" + "".join(f'<a href="#{anchor}">{escape(text)}</a>' for anchor, text in links) + "</nav>"


def _matrix(findings: Sequence[Findings]) -> str:
    """Claims against subjects."""
    head = "".join(f"<th>{escape(found.subject.name)}</th>" for found in findings)
    rows = []
    for lines in zip(*(found.claims for found in findings), strict=True):
        cells = "".join(f"<td>{_verdict(claim)}</td>" for claim in lines)
        rows.append(f'<tr><td class="text">{escape(lines[0].text)}</td>{cells}</tr>')
    return (
        '<h2 id="claims">The claims, side by side</h2><div class="scroll"><table>'
        f"<thead><tr><th>claim</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _subject(found: Findings, several: bool) -> str:
    subject = found.subject
    out = [f'<section id="{subject.slug}">']
    if several:
        out.append(f"<h2>{escape(subject.name)}</h2>")
    out.append(_claims(found))
    out.append(_missing(subject))
    for name in EXPERIMENTS:
        if name in subject.parts:
            out.append(f'<h2 id="{name}-{subject.slug}">{HEADINGS[name]}</h2>')
            out.append(_standing(subject.parts[name]))
            out.append(_figure(found.figures[name]) if name in found.figures else "")
            out += [table_html(table) for table in found.tables.get(name, [])]
            out.append(_crowded(subject.parts[name]))
    out.append("</section>")
    return "\n".join(out)


def _claims(found: Findings) -> str:
    out = [f'<h2 id="claims-{found.subject.slug}">The paper’s claims</h2>']
    ours = [claim for claim in found.claims if not claim.of_paper]
    theirs = [claim for claim in found.claims if claim.of_paper]
    tally = Counter(claim.verdict for claim in theirs)
    out.append('<ul class="tally">')
    for verdict in (HOLDS, FAILS, UNKNOWN):
        noun = {HOLDS: "hold", FAILS: "do not hold", UNKNOWN: "cannot be told"}[verdict]
        noun = verdict if tally[verdict] == 1 else noun
        out.append(f'<li class="verdict {_CLASSES[verdict]}">{tally[verdict]} {noun}</li>')
    out.append("</ul>")
    out.append(_claim_list(theirs, found.subject))
    out.append("<h3>Questions beyond the paper</h3>")
    out.append(_claim_list(ours, found.subject))
    out.append(
        '<p class="note">A claim “a above b” holds where the paired 95% interval of a − b lies above zero, does not '
        "hold where it lies below, and cannot be told where it has zero in it. Verdicts are about these embeddings, "
        "not about those of the paper. Where nothing differs at all, one claim in forty would still be said to hold. "
        "p is that of Wilcoxon’s test over trials; with 5 trials it cannot fall below 0.06, so no verdict rests on "
        "it.</p>"
    )
    return "\n".join(out)


def _claim_list(claims: Sequence[Claim], subject: Subject) -> str:
    lines = []
    for claim in claims:
        evidence = _ticks(claim.evidence)
        if claim.missing and claim.experiment in subject.failed:
            evidence = f"The run failed: {escape(subject.failed[claim.experiment])}"
        elif claim.missing:
            evidence = f"Not run yet: <code>{escape(subject.command(claim.experiment))}</code>"
        elif claim.experiment in subject.parts:
            evidence += f' <a href="#{claim.experiment}-{subject.slug}">{HEADINGS[claim.experiment]}</a>'
        lines.append(
            f"<li><div>{_verdict(claim)}</div><div><strong>{escape(claim.text)}</strong><p>{evidence}</p></div></li>"
        )
    return f'<ul class="claims">{"".join(lines)}</ul>'


def _verdict(claim: Claim) -> str:
    return f'<span class="verdict {_CLASSES[claim.verdict]}">{claim.verdict}</span>'


def _missing(subject: Subject) -> str:
    names = [name for name in EXPERIMENTS if name not in subject.parts and name not in subject.failed]
    failed = "".join(
        f"<li><span>{HEADINGS[name]}</span>{escape(error)}<code>{escape(subject.command(name))}</code></li>"
        for name, error in subject.failed.items()
    )
    told = (
        f'<div class="missing"><strong>Failed.</strong> These commands try again:<ul>{failed}</ul></div>'
        if failed
        else ""
    )
    if not names:
        return told
    lines = "".join(
        f"<li><span>{HEADINGS[name]}</span><code>{escape(subject.command(name))}</code></li>" for name in names
    )
    return told + (
        f'<div class="missing"><strong>Not run yet.</strong> These commands make what is missing:<ul>{lines}</ul></div>'
    )


def _standing(part: Part) -> str:
    """What a reader must know before the numbers: how it was set up, what is unfinished, what was left out."""
    out = [f'<p class="note">{escape(_setup(part))}</p>']
    if not part.finished:
        there = {record.id: (_units(record), record.status) for record in part.records if not record.finished}
        text = "; ".join(
            f"{id} is {status['state']}, {done} of {status.get('units', '?')} subsamples"
            for id, (done, status) in there.items()
        )
        out.append(f'<div class="missing partial"><strong>Not finished:</strong> {escape(text)}.</div>')
    if part.others:
        ids = ", ".join(record.id for record in part.others)
        out.append(
            f'<div class="missing">{len(part.others)} more run(s) of this experiment have other settings and are '
            f"not shown: {escape(ids)}. Give a run’s own folder to <code>asbc-report</code> to see it.</div>"
        )
    return "".join(out)


def _units(record: Record) -> int:
    return 0 if record.rows is None else len(record.rows[["samples", "trial"]].drop_duplicates())


def _crowded(part: Part) -> str:
    """A warning where classes are smaller than neighbourhoods: kNN's accuracy then says little about the graph."""
    rows = part.of("loo")
    ks = [record.setting("k_cand") for record in part.records]
    k = max((k for k in ks if isinstance(k, int)), default=0)
    sizes = sorted(int(size) for size in rows["samples"].unique())
    few = [size for size in sizes if 0 < size <= k]  # 0 stands for all samples
    if not few or "knn" not in part.methods:
        return ""
    averages = ", and this dominates averages over levels" if len(sizes) > 1 else ""
    return (
        f'<p class="note">At {", ".join(map(str, few))} samples per class a node has more candidates (k_cand = {k}) '
        "than there are other nodes of its class, so kNN with equal weights must count votes of other classes there"
        f"{averages}.</p>"
    )


def _setup(part: Part) -> str:
    record = part.records[-1]
    get = record.setting
    samples = ", ".join(map(str, sorted(part.rows["samples"].unique())))
    facts = [
        f"{samples} samples per class" if samples != "0" else "all samples",
        f"{part.rows['trial'].nunique()} trials",
        f"k_cand = {get('k_cand')}" if part.experiment != "k_cand" else "",
        f"{get('neighbors.metric')} metric",
        f"dimension by {get('dimension.estimator')}",
        f"γ = {get('bandwidth.gamma')}" if part.experiment != "gamma" and get("bandwidth.gamma") else "",
        f"{get('bandwidth.n_grid')} grid points" if part.experiment != "n_grid" and get("bandwidth.n_grid") else "",
        f"seed {get('seed')}",
    ]
    return ", ".join(fact for fact in facts if fact and "None" not in fact) + "."


def _figure(figure: Figure) -> str:
    images = "".join(
        f'<img alt="{escape(alt)}" src="data:image/png;base64,{base64.b64encode(png([panel])).decode()}">'
        for panel, alt in zip(figure.panels, figure.alt, strict=True)
    )
    kind = "panels three" if len(figure.panels) == 3 else "panels"
    return (
        f'<figure><h3>{escape(figure.title)}</h3><div class="{kind}">{images}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


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
        data = names.get(record.id, f"{status.get('dataset', '?')} · {status.get('encoder', '?')}")
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
    from omegaconf import OmegaConf

    text = OmegaConf.to_yaml(OmegaConf.create(record.settings))
    return (
        f"<details><summary>{escape(record.experiment)} <code>{escape(record.id)}</code></summary>"
        f"<pre>{escape(text)}</pre></details>"
    )


def _ticks(text: str) -> str:
    """Escaped text, with `code` set as code and proper minus signs."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if i % 2 else minus(piece) for i, piece in enumerate(pieces))
