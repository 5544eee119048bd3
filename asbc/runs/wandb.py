"""Weights & Biases: the logger, the workspace, and `asbc-upload`, which sends finished runs later, each once."""

from __future__ import annotations

import argparse
import io
import logging
import os
import shlex
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from asbc.extras import MissingExtraError, needed
from asbc.runs.loggers import RunFacts, Session
from asbc.runs.record import Experiment, read_record
from asbc.runs.results import PER_NODE, RESULTS, collect, list_runs, read_rows, read_settings
from asbc.runs.terminal import summary
from asbc.storage import write_atomic

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")
TIMEOUT = 10.0  # seconds until W&B counts as unreachable; its own library would try for minutes


@dataclass(frozen=True)
class WandbLogger:
    """Copy the rows to Weights & Biases: one W&B run per job, one group per sweep. `logger=wandb`.

    Parameters
    ----------
    project : str, default="asbc"
        Where the runs appear in W&B.
    entity : str, default=None
        User or team in W&B; None for that of the key.
    tags : sequence of str, default=()
        In addition to experiment, data set, encoder and the `tags` of the run.
    mode : {"online", "offline"}, default=None
        None for the value of WANDB_MODE; without it, online if there is a key and offline otherwise.

    See Also
    --------
    CsvLogger : a file, without an account.

    Examples
    --------
    >>> from asbc.runs import WandbLogger
    >>> WandbLogger(project="graphs", mode="offline").project
    'graphs'
    """

    project: str = "asbc"
    entity: str | None = None
    tags: tuple[str, ...] = ()
    mode: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in (None, "online", "offline"):
            raise ValueError(f"mode must be online, offline or null; got {self.mode!r}")

    def __call__(self, facts: RunFacts) -> Session:
        return WandbSession(facts, self)


class WandbSession(Session):
    """See :class:`WandbLogger`."""

    def __init__(self, facts: RunFacts, options: WandbLogger) -> None:
        self.facts = facts
        self.options = options
        self.mode: Any = options.mode or os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")
        self.run: Any = None

    @property
    def id(self) -> str:
        """The run's name in W&B."""
        return f"{self.facts.run_id}-{self.facts.attempt}"

    def __enter__(self) -> WandbSession:
        with needed("logger=wandb", "wandb"):
            import wandb

        if self.mode == "online":
            check_connection()
        facts = self.facts.facts
        tags = {str(facts[key]) for key in ("experiment", "dataset", "encoder")}
        self.run = wandb.init(
            id=self.id,  # one per attempt: a second one must not write into the W&B run of a killed one
            name=f"{facts['experiment']} {facts['encoder']} {self.facts.run_id[:6]}",
            project=self.options.project,
            entity=self.options.entity,
            group=facts.get("group"),
            job_type=facts["experiment"],
            tags=sorted(tags | {*map(str, facts.get("tags", ()))} | {*map(str, self.options.tags)}),
            config=wandb_config(self.facts),
            dir=str(self.facts.path),
            mode=self.mode,
            resume="never",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        for axis in ("samples", "level", "trial"):
            self.run.define_metric(axis, hidden=True)
        self.run.define_metric("*", step_metric="level")
        return self

    def log(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> None:
        import pandas as pd

        frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
        axes = ["samples", "trial", "level"]
        for where, part in frame.groupby(axes, sort=True):
            at = dict(zip(axes, where, strict=True))
            self.run.log(at | {f"{metric}/{method}": value for metric, method, value in _by_method(part)})

    def conclude(self, table: pd.DataFrame) -> None:
        import wandb

        record = read_record(self.facts.path, str(self.facts.facts["experiment"]))
        for key, value in summary(table, record).items():
            self.run.summary[key] = value
        shown = table.drop(columns=PER_NODE, errors="ignore")
        nullable = [name for name, kind in shown.dtypes.items() if str(kind) in ("Int64", "boolean")]
        self.run.log({"results": wandb.Table(dataframe=shown.astype(dict.fromkeys(nullable, "float64")))})
        for metric in dict.fromkeys(metric for figure in record.figures for metric in figure.metrics):
            if metric in set(table["metric"]):
                self.run.log({f"figures/{metric}": wandb.Image(_picture(level_curves(table, metric, record)))})
        artifact = wandb.Artifact(f"results-{self.facts.run_id}", type="results", metadata=dict(self.facts.facts))
        artifact.add_file(str(self.facts.path / RESULTS))
        self.run.log_artifact(artifact)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self.run is None:
            return
        self.run.finish(exit_code=0 if error is None else 130 if kind is KeyboardInterrupt else 1)
        if error is None and self.mode == "online":
            mark_uploaded(self.facts.path, self.run.id)
        elif error is None and self.mode == "offline":
            folder = Path(self.run.dir).parent
            mark_written(self.facts.path, self.run.id, folder)
            log.info("W&B is offline: written to %s; send it with: wandb sync %s", folder, shlex.quote(str(folder)))


def has_key() -> bool:
    """Whether there is a key to log in with: in the environment, or where `wandb login` writes it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(address()).hostname or ""
    places = [os.environ.get("NETRC"), Path.home() / ".netrc", Path.home() / "_netrc"]
    for place in places:
        if place and Path(place).is_file():
            try:
                return netrc(str(place)).authenticators(host) is not None
            except (NetrcParseError, OSError):
                return False
    return False


def address() -> str:
    """Return the address of W&B."""
    return os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")


def check_connection() -> None:
    """Raise a ConnectionError if nothing answers at W&B's address; a refusal is an answer."""
    try:
        urlopen(address(), timeout=TIMEOUT).close()
    except HTTPError:
        return
    except OSError as error:
        why = error.reason if isinstance(error, URLError) else error
        if not isinstance(why, ssl.SSLError):  # W&B has certificates of its own
            raise ConnectionError(f"{address()}: {why}") from None


def wandb_config(facts: RunFacts) -> dict[str, Any]:
    """Return the config for W&B: all settings, and those that experiments sweep also by their short names."""
    settings = facts.settings
    return {
        **{key: facts.facts[key] for key in ("experiment", "dataset", "encoder")},
        "gamma": settings.get("bandwidth", {}).get("gamma"),
        "n_grid": settings.get("bandwidth", {}).get("n_grid"),
        "k_cand": settings.get("k_cand"),
        "run_id": facts.run_id,
        "settings": dict(settings),
    }


def mark_uploaded(path: Path, id: str) -> None:
    """Record that W&B has a run, so that it is not sent again."""
    write_atomic(path / "uploaded.txt", id + "\n")


def uploaded(path: Path) -> bool:
    """Whether W&B has a run."""
    return (path / "uploaded.txt").exists()


def mark_written(path: Path, id: str, folder: Path) -> None:
    """Record where W&B's files of a run are, for `wandb sync`."""
    write_atomic(path / "offline.txt", f"{id}\n{os.path.relpath(folder, path)}\n")


def written(path: Path, id: str) -> Path | None:
    """Return the folder of W&B's files of a run; None if this attempt has none."""
    try:
        noted, folder = (path / "offline.txt").read_text().splitlines()
    except (OSError, ValueError):
        return None
    return path / folder if noted == id and (path / folder).is_dir() else None


def level_curves(table: pd.DataFrame, metric: str, record: Experiment) -> Any:
    """Return a figure of one metric against the level: a line per method, bars of one standard deviation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    rows = table[table["metric"] == metric]
    for method, part in rows.groupby("method", sort=False):
        curve = part.groupby("level")["value"].agg(["mean", "std"])
        axes.errorbar(curve.index, curve["mean"], yerr=curve["std"].fillna(0), marker="o", ms=3, label=str(method))
    axes.set(xlabel=record.metric(metric).level, ylabel=record.metric(metric).title)
    axes.legend(fontsize=7, ncols=2)
    return figure


def _picture(figure: Any) -> Any:
    from PIL import Image

    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=150)
    return Image.open(stream)


def _by_method(part: pd.DataFrame) -> Iterable[tuple[str, str, float]]:
    """Yield metric, method and value of every row; values of further columns are appended to the method's name."""
    extra = [c for c in ("scale", "per_node", "target", "estimator") if c in part and part[c].notna().any()]
    for row in part.to_dict("records"):
        suffix = "".join(f"/{row[c]}" for c in extra if row[c] == row[c] and row[c] is not None)
        yield row["metric"], f"{row['method']}{suffix}", row["value"]


def workspace(folder: Path, entity: str, project: str) -> Any:
    """Return a W&B workspace for the runs under a folder, a section per experiment; `.save()` sends it.

    Parameters
    ----------
    folder : Path
    entity, project : str

    Returns
    -------
    wandb_workspaces.workspaces.Workspace
    """
    with needed("the dashboard", "wandb"):
        import wandb_workspaces.workspaces as ws

    sections = []
    for experiment, rows in collect(folder, finished_only=True).groupby("experiment", sort=False):
        record = next(
            read_record(path, str(experiment))
            for path, status in list_runs(folder)
            if status["experiment"] == experiment
        )
        if panels := _panels(record, rows):
            sections.append(ws.Section(name=record.heading, panels=panels, is_open=True))
    return ws.Workspace(entity=entity, project=project, name="asbc", sections=sections)


def _panels(record: Experiment, rows: pd.DataFrame) -> list[Any]:
    """One panel per metric of the headline: against the swept setting if there is one, as bars otherwise."""
    import wandb_workspaces.reports.v2 as wr

    panels: list[Any] = []
    for metric in [name for name in record.headline if name in set(rows["metric"])]:
        methods = rows.loc[rows["metric"] == metric, "method"].drop_duplicates().tolist()
        keys = [f"{metric}/{method}" for method in methods if not method.startswith("tuned_")]
        title = record.metric(metric).title
        if record.axis is None:
            panels.append(wr.BarPlot(title=f"{record.name}: {title}", metrics=[wr.SummaryMetric(key) for key in keys]))
            continue
        setting = record.axis.key.rpartition(".")[2]
        panels += [
            wr.ScatterPlot(title=f"{key} against {setting}", x=wr.Config(setting), y=wr.SummaryMetric(key))
            for key in keys
        ]
    return panels


@dataclass(frozen=True)
class Sent:
    """Result of :func:`upload_runs`.

    Attributes
    ----------
    sent : int
        Runs sent now; offline, runs whose files were written now.
    there : int
        Runs that W&B already has; offline, runs whose files already exist.
    unfinished : int
        Runs that are not finished and were skipped.
    folders : list of Path
        Offline: folders for `wandb sync`, those of earlier calls included.
    """

    sent: int
    there: int
    unfinished: int
    folders: list[Path] = field(default_factory=list)


def upload_runs(folder: Path, logger: WandbLogger) -> Sent:
    """Send every finished run under a folder that W&B does not have yet; offline, write its files.

    Parameters
    ----------
    folder : Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.
    logger : WandbLogger
        Where in W&B the runs go, and whether they are sent or only written.

    Returns
    -------
    Sent
    """
    sent = there = unfinished = 0
    folders: list[Path] = []
    for path, status in list_runs(folder):
        if status["state"] != "finished":
            unfinished += 1
        elif uploaded(path):
            there += 1
        else:
            settings = read_settings(path)
            facts = settings.pop("data")
            table = read_rows(path / RESULTS)
            # W&B refuses the same id twice, so a run is not sent again if a kill came before it was recorded as sent.
            session = WandbSession(RunFacts(status["run_id"], status["attempt"], path, settings, facts), logger)
            if session.mode == "offline" and (folder_before := written(path, session.id)):
                there += 1
                folders.append(folder_before)
                continue
            with session:
                session.log(table)
                session.conclude(table)
            sent += 1
            if session.mode == "offline" and (folder_now := written(path, session.id)):
                folders.append(folder_now)
    return Sent(sent, there, unfinished, folders)


def wandb_error() -> type[Exception]:
    """Return the exception that W&B raises when it cannot be reached, or refuses."""
    import wandb

    return wandb.errors.Error


def main() -> None:
    """`asbc-upload`: send finished runs to W&B, each once."""
    parser = argparse.ArgumentParser(prog="asbc-upload", description="Send finished runs to W&B, each once.")
    parser.add_argument("folder", type=Path, help="outputs, a results folder, or one run")
    parser.add_argument("--project", default="asbc")
    parser.add_argument("--entity", default=None)
    parser.add_argument("--tag", action="append", default=[], help="may be given several times")
    parser.add_argument("--offline", action="store_true", help="write W&B's files without sending them")
    parser.add_argument("--dashboard", action="store_true", help="also save a workspace with curves and bars")
    options = parser.parse_args()
    if options.dashboard and (options.offline or options.entity is None):
        parser.exit(
            2, "asbc-upload: --dashboard needs a connection and --entity; it cannot be written with --offline\n"
        )
    if not options.offline and not has_key():
        parser.exit(2, "asbc-upload: W&B has no key; run `wandb login` first, or use --offline\n")
    logger = WandbLogger(
        options.project, options.entity, tuple(options.tag), "offline" if options.offline else "online"
    )
    try:
        if not options.offline:
            check_connection()
        sent = upload_runs(options.folder, logger)
        done = "written, not sent" if options.offline else "sent"
        print(f"{sent.sent} run(s) {done}, {sent.there} already there, {sent.unfinished} not finished")
        if sent.folders:
            print("send them with:")
            for folder in sent.folders:
                print(f"wandb sync {shlex.quote(str(folder))}")
        if options.dashboard:
            print(workspace(options.folder, options.entity, options.project).save().url)
    except (MissingExtraError, ValueError, RuntimeError) as error:
        parser.exit(1, f"asbc-upload: {error}\n")
    except (wandb_error(), OSError) as error:
        why = " ".join(str(error).split())
        parser.exit(
            1, f"asbc-upload: W&B did not answer ({why}); the same command tries again, --offline writes files\n"
        )
