"""The sections of the page about one subject, as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from asbc.report.answers import Answer
from asbc.report.chart import Figure, panel_size
from asbc.report.claims import FAILS, HOLDS, NOT_RUN, UNKNOWN, Claim
from asbc.report.contrasts import FEWEST_TRIALS
from asbc.report.findings import Findings
from asbc.report.hidden import Finding
from asbc.report.markup import gap_html, key_html, table_html, ticks
from asbc.report.parts import BASE, EXPERIMENTS, WITHOUT_LABELS, Part, Record, Subject
from asbc.report.style import full_label
from asbc.report.svg import panel_svg
from asbc.report.words import by_size, level_name, listed, shortened

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
    "noise": "Label noise",
}
CLASSES = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "open", NOT_RUN: "idle"}
BLIND = ("regimes", "alignment")  # whose claims can be judged without labels
NO_DIFFERENCE = "no difference that the data can show"


def heading(experiment: str) -> str:
    """What an experiment is called on the page."""
    return HEADINGS.get(experiment, experiment)


def anchor(experiment: str, subject: Subject) -> str:
    """Where an experiment stands on the page; its name may have any characters."""
    safe = "".join(c if c.isalnum() or c == "_" else "-" for c in experiment)
    number = list(subject.parts).index(experiment) if experiment not in EXPERIMENTS else ""
    return f"{safe}{number}-{subject.slug}"


def answers_html(found: Findings) -> str:
    """The best graph per task, before everything else."""
    subject = found.subject
    out = [f'<h2 id="answers-{subject.slug}">Which graph for these data?</h2>']
    if not subject.labeled:
        return out[0] + (
            "<p>These embeddings have no labels, so which graph votes, propagates or clusters best cannot be measured. "
            "What can be seen without labels is below: how the local kernels behave, how many directions there are, "
            "and what the graphs are like. <code>asbc-explore</code> shows the embeddings themselves: a map, outliers "
            "and near-duplicates.</p>"
        )
    if not found.answers:
        return out[0] + "<p>Nothing that compares two graphs on a task has been run yet.</p>"
    out.append('<div class="answers">')
    out += [_answer(found_one, subject) for found_one in found.answers]
    out.append("</div>")
    together = f"{found.answers[0].ranking.confidence:.0%}"
    out.append(
        '<p class="note">The best of many graphs looks better than it is, since luck took part in the choice. So the '
        f"intervals here are made for all pairs of graphs at once: with {together} certainty all of them are right "
        "together, and they are wider than those in the tables below. A graph is called the best only where its "
        "interval against every other graph lies above zero. Trials and nodes are redrawn, for clusters trials alone: "
        "how other data of this kind would turn out is then not in the interval.</p>"
    )
    return "\n".join(out)


def _answer(found: Answer, subject: Subject) -> str:
    ranking, best = found.ranking, found.ranking.methods[0]
    lead = full_label(best)
    alike = [full_label(name) for name in ranking.alike]
    if not found.sure:
        verdict, kind = f"cannot tell: {ranking.trials} of {FEWEST_TRIALS} trials", "open"
        told = f"{lead} has the highest mean, but fewer than {FEWEST_TRIALS} trials cannot show that it is the best."
    elif found.clear:
        verdict, kind = "best", "holds"
        told = f"{lead} is above every other graph that was compared."
    elif BASE in ranking.alike:
        verdict, kind = "no difference", "open"
        told = (
            f"There is {NO_DIFFERENCE} between {full_label(BASE)} and the graph with the highest mean, {lead}: the "
            "plain graph will do."
        )
    else:
        verdict, kind = "among the best", "open"
        told = f"The highest mean; there is {NO_DIFFERENCE} from {shortened(alike, 6)}."
    lines = []
    rivals = [other for other in dict.fromkeys([BASE, found.runner_up]) if found.over(other) is not None]
    gaps = {other: gap for other in rivals if (gap := found.over(other)) is not None}
    span = (min(0.0, *(g.low for g in gaps.values())), max(0.0, *(g.high for g in gaps.values())))
    for other, gap in gaps.items():
        name = full_label(other) + (" (runner-up)" if other == found.runner_up else "")
        lines.append(f"<tr><th scope=row>{escape(lead)} − {escape(name)}</th><td>{gap_html(gap, span)}</td></tr>")
    line = f"<pre>{escape(found.line)}</pre>" if found.line else ""
    place = f'<a href="#{anchor(found.part.experiment, subject)}">{escape(heading(found.part.experiment))}</a>'
    measure = found.task.measure[0].upper() + found.task.measure[1:]
    return (
        f"<article><h3>{escape(found.task.name)}</h3>"
        f'<p class="pick"><strong>{escape(full_label(found.method))}</strong> '
        f'<span class="verdict {kind}">{escape(verdict)}</span></p>'
        f"<p>{escape(measure)} {ranking.means[found.method]:.3f}. {escape(told)}</p>"
        f'<table class="gaps"><tbody>{"".join(lines)}</tbody></table>{line}'
        f'<p class="note">{escape(found.where)}; {place}.</p></article>'
    )


def hidden_html(found: Sequence[Finding], subject: Subject) -> str:
    """What averages hide."""
    if not found:
        return ""
    lines = "".join(
        f"<li><strong>{escape(one.text)}</strong><p>{ticks(one.evidence)} "
        f'<a href="#{anchor(one.experiment, subject)}">{escape(heading(one.experiment))}</a></p></li>'
        for one in found
    )
    return f'<h2 id="hidden-{subject.slug}">What averages hide</h2><ul class="claims plain">{lines}</ul>'


def claims_html(found: Findings) -> str:
    """The claims of the paper and questions beyond it."""
    subject = found.subject
    out = [f'<h2 id="claims-{subject.slug}">The paper’s claims</h2>']
    ours = [claim for claim in found.claims if not claim.of_paper]
    theirs = [claim for claim in found.claims if claim.of_paper]
    tally = Counter(claim.verdict for claim in theirs)
    out.append('<ul class="tally">')
    for verdict in (HOLDS, FAILS, UNKNOWN, NOT_RUN):
        if not tally[verdict]:
            continue
        noun = {HOLDS: "hold", FAILS: "do not hold", UNKNOWN: "cannot be told", NOT_RUN: "not run"}[verdict]
        noun = verdict if tally[verdict] == 1 else noun
        out.append(f'<li class="verdict {CLASSES[verdict]}">{tally[verdict]} {noun}</li>')
    out.append("</ul>")
    out.append(_claim_list(theirs, subject))
    out.append("<h3>Questions beyond the paper</h3>")
    out.append(_claim_list(ours, subject))
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
        evidence = ticks(claim.evidence)
        if claim.missing and claim.experiment in subject.failed:
            evidence = f"The run failed: {escape(subject.failed[claim.experiment])}"
        elif claim.missing and not subject.labeled and claim.experiment not in BLIND:
            evidence = "Needs labels, and there are none."
        elif claim.missing and claim.experiment in subject.missing:
            evidence = f"Not run yet: <code>{escape(subject.command(claim.experiment))}</code>"
        elif claim.experiment in subject.parts:
            evidence += f' <a href="#{anchor(claim.experiment, subject)}">{escape(heading(claim.experiment))}</a>'
        lines.append(
            f"<li><div>{verdict_html(claim)}</div><div><strong>{escape(claim.text)}</strong><p>{evidence}</p></div></li>"
        )
    return f'<ul class="claims">{"".join(lines)}</ul>'


def verdict_html(claim: Claim) -> str:
    """A verdict as a coloured word."""
    return f'<span class="verdict {CLASSES[claim.verdict]}">{claim.verdict}</span>'


def missing_html(subject: Subject) -> str:
    """What failed and what was not run, with the commands that make it; none that cannot work."""
    failed = "".join(
        f"<li><span>{escape(heading(name))}</span>{escape(error)}"
        + (f"<code>{escape(subject.command(name))}</code>" if name in EXPERIMENTS else "")
        + "</li>"
        for name, error in subject.failed.items()
    )
    told = (
        f'<div class="missing"><strong>Failed.</strong> These commands try again:<ul>{failed}</ul></div>'
        if failed
        else ""
    )
    lines = "".join(
        f"<li><span>{heading(name)}</span><code>{escape(subject.command(name))}</code></li>" for name in subject.missing
    )
    if lines:
        told += (
            "<div class=missing><strong>Not run yet.</strong> These commands make what is missing:"
            f"<ul>{lines}</ul></div>"
        )
    if not subject.labeled:
        others = listed([heading(name) for name in EXPERIMENTS if name not in WITHOUT_LABELS])
        told += f"<div class=missing>{others} need labels, and these embeddings have none.</div>"
    return told


def experiment_html(found: Findings, name: str) -> str:
    """One experiment: how it was set up, its figure and its tables."""
    subject = found.subject
    part = subject.parts[name]
    out = [f'<h2 id="{anchor(name, subject)}">{escape(heading(name))}</h2>', standing_html(part)]
    if name in found.figures:
        out.append(figure_html(found.figures[name]))
    out += [table_html(table) for table in found.tables.get(name, [])]
    return "\n".join(out)


def standing_html(part: Part) -> str:
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


def _setup(part: Part) -> str:
    record = part.records[-1]
    get = record.setting
    levels = sorted(part.rows["samples"].unique().tolist(), key=by_size)
    samples = ", ".join(map(level_name, levels))
    facts = [
        f"{samples} samples per class" if samples != "all" else "all samples",
        f"{part.rows['trial'].nunique()} trials",
        f"k_cand = {get('k_cand')}" if part.experiment != "k_cand" else "",
        f"{get('neighbors.metric')} metric",
        f"dimension by {get('dimension.estimator')}",
        f"γ = {get('bandwidth.gamma')}" if part.experiment != "gamma" and get("bandwidth.gamma") else "",
        f"{get('bandwidth.n_grid')} grid points" if part.experiment != "n_grid" and get("bandwidth.n_grid") else "",
        f"seed {get('seed')}",
    ]
    return ", ".join(fact for fact in facts if fact and "None" not in fact) + "."


def figure_html(figure: Figure) -> str:
    """A figure whose panels flow with the width of the page."""
    size = panel_size(3 if figure.three else 2)
    images = "".join(panel_svg(panel, alt, size) for panel, alt in zip(figure.panels, figure.alt, strict=True))
    kind = "panels three" if figure.three else "panels"
    key = key_html(figure.key) if figure.key else ""
    return (
        f'<figure><h3>{escape(figure.title)}</h3>{key}<div class="{kind}">{images}</div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )
