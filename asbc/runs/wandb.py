"""Weights & Biases: the logger, and `asbc-upload`, which sends finished runs later, each once."""

from __future__ import annotations

import argparse
import functools
import logging
import os
import re
import shlex
import ssl
from contextlib import nullcontext
from dataclasses import dataclass, field
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from asbc.configs import conf_dir
from asbc.evaluate.metrics import PER_SAMPLE
from asbc.extras import MissingExtraError, needed
from asbc.runs.loggers import RunFacts, Session
from asbc.runs.record import Experiment, read_record
from asbc.runs.results import (
    ALL,
    PER_NODE,
    RESULTS,
    canonical,
    flat_settings,
    list_runs,
    read_rows,
    read_settings,
)
from asbc.runs.terminal import CANDIDATES, last_level, summary
from asbc.storage import write_atomic

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")
TIMEOUT = 10.0  # seconds until W&B counts as unreachable; its own library would try for minutes
MAX_TAG, MAX_NAME = 64, 128  # characters; W&B refuses longer ones


@dataclass(frozen=True)
class WandbLogger:
    """Copy the results to Weights & Biases: one W&B run per job, one group per sweep. `logger=wandb`.

    The history has one row per level, written when the run is finished: the mean over trials by ``metric/method``, and
    the ends of its 95% bootstrap interval by ``metric/method/low`` and ``/high``. The summary has the printed numbers.

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
    dashboard : bool, default=False
        Save a workspace for each experiment at the end of the run or sweep, as `asbc-upload --dashboard` does.

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
    dashboard: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, "online", "offline"):
            raise ValueError(f"mode must be online, offline or null; got {self.mode!r}")

    def __call__(self, facts: RunFacts) -> Session:
        return WandbSession(facts, self)

    def resolved_mode(self) -> str:
        """Return `mode`, or what applies on this machine if it is None."""
        return self.mode or os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")


class WandbSession(Session):
    """See :class:`WandbLogger`."""

    def __init__(self, facts: RunFacts, options: WandbLogger) -> None:
        self.facts = facts
        self.options = options
        self.mode: Any = options.resolved_mode()
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
        tags = [facts["experiment"], facts["dataset"], facts["encoder"], *facts.get("tags", ()), *self.options.tags]
        self.run = wandb.init(
            id=self.id,  # one per attempt: a second one must not write into the W&B run of a killed one
            name=run_name(self.facts)[:MAX_NAME],
            project=self.options.project,
            entity=self.options.entity,
            group=facts.get("group"),
            job_type=facts["experiment"],
            tags=sorted({str(tag)[:MAX_TAG] for tag in tags}),
            config=wandb_config(self.facts),
            dir=str(self.facts.path),
            mode=self.mode,
            resume="never",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        return self

    def conclude(self, table: pd.DataFrame) -> None:
        import wandb

        record = read_record(self.facts.path, str(self.facts.facts["experiment"]))
        rows = history(table, record)
        for axis in dict.fromkeys(next(iter(row)) for row in rows):
            self.run.define_metric(axis, hidden=True, summary="none")
            for key in dict.fromkeys(key for row in rows if axis in row for key in row if key != axis):
                # W&B's summary has the last row, which is that of the largest samples or of the most labels.
                self.run.define_metric(key, step_metric=axis, summary="none" if axis == "scale" else None)
        for row in rows:
            self.run.log(row)
        self.run.summary.update(summary(table, record))
        shown = table.drop(columns=PER_NODE, errors="ignore")
        nullable = [name for name, kind in shown.dtypes.items() if str(kind) in ("Int64", "boolean")]
        self.run.log({"results": wandb.Table(dataframe=shown.astype(dict.fromkeys(nullable, "float64")))})
        artifact = wandb.Artifact(f"results-{self.facts.run_id}", type="results", metadata=dict(self.facts.facts))
        artifact.add_file(str(self.facts.path / RESULTS))
        self.run.log_artifact(artifact)

    def complete(self) -> bool:
        return uploaded(self.facts.path) or written(self.facts.path, self.id) is not None

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
    """Return the config for W&B: all settings by the names they have on the command line."""
    bandwidth = facts.settings.get("bandwidth", {})
    return {
        **facts.settings,
        **{key: facts.facts[key] for key in ("experiment", "encoder", "dataset")},
        "embedding": facts.facts.get("embedding"),
        "method": list(facts.settings.get("methods", {})),
        **{key: bandwidth[key] for key in ("gamma", "n_grid") if key in bandwidth},
        "run_id": facts.run_id,
    }


def run_name(facts: RunFacts) -> str:
    """Return the run's name in W&B: experiment, encoder, and the settings that differ from the experiment's defaults.

    Examples
    --------
    >>> from pathlib import Path
    >>> from asbc.runs.loggers import RunFacts
    >>> from asbc.runs.wandb import run_name
    >>> settings = {"k_cand": 15, "bandwidth": {"gamma": 0.5, "n_grid": 12}}
    >>> run_name(RunFacts("abc", 1, Path(), settings, {"experiment": "loo", "encoder": "simclr"}))
    'loo simclr gamma=0.5 k_cand=15'
    """
    experiment, encoder = (str(facts.facts[key]) for key in ("experiment", "encoder"))
    own, usual = flat_settings(canonical(facts.settings)), default_settings(experiment)
    changed = [key for key in usual if key in own and own[key] != usual[key] and key != "name"]
    # Methods hold copies of the bandwidth, and the search one of k_cand.
    copies = {f"methods.{name}.{key}" for name in facts.settings.get("methods", {}) for key in changed}
    copies |= {"neighbors.k"} if "k_cand" in changed else set()
    changes = {key.removesuffix("._target_"): own[key] for key in changed if key not in copies}
    for group, label in (("methods", "method"), ("evaluate", "evaluate")):
        names = list(facts.settings.get(group, {}))
        default = list(dict.fromkeys(key.split(".")[1] for key in usual if key.startswith(f"{group}.")))
        if names and default and names != default:
            changes[label] = names
    dataset = facts.facts.get("dataset")
    path = conf_dir() / "embedding" / f"{encoder}.yaml"
    if path.is_file() and dataset not in (None, default_dataset(path)):
        changes["dataset"] = dataset
    return " ".join([experiment, encoder, *(f"{_typed(key)}={_in_words(value)}" for key, value in changes.items())])


def _typed(key: str) -> str:
    return key.removeprefix("bandwidth.") if key in ("bandwidth.gamma", "bandwidth.n_grid") else key


def _in_words(value: Any) -> str:
    return ",".join(map(_in_words, value)) if isinstance(value, list) else str(value).rpartition("asbc.")[2]


@functools.cache
def default_settings(experiment: str) -> dict[str, Any]:
    """Return the settings of an experiment without overrides, by dotted path.

    In a run, experiments of `--config-dir` are known. Otherwise methods and evaluations of other people's are left out.
    """
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException

    from asbc.runs.run import settings_of

    running = GlobalHydra.instance().is_initialized()
    with nullcontext() if running else initialize_config_dir(str(conf_dir()), version_base="1.3"):
        try:
            cfg = compose("config", [f"experiment={experiment}"] if experiment != "default" else [])
        except HydraException:
            settings = settings_of(compose("config"))
            return flat_settings(canonical({**settings, "methods": {}, "evaluate": {}}))
    return flat_settings(canonical(settings_of(cfg)))


def default_dataset(path: Path) -> Any:
    """Return the data set of an encoder's config."""
    from omegaconf import OmegaConf

    general: Any = OmegaConf.load(path.with_name("encoder.yaml"))
    own: Any = OmegaConf.load(path)
    return own.get("dataset", general.dataset)


def points(table: pd.DataFrame, record: Experiment) -> pd.DataFrame:
    """Return the rows as points of curves: `axis`, `x`, `key` (``metric/method``), `metric`, `trial`, `value` and more.

    Samples per class, labels per class and scales are separate axes. For all but the first, only the largest samples
    count. All nodes are placed at their mean number per class, after all other levels.
    """
    rows = table[~table["method"].str.startswith(CANDIDATES)].reset_index(drop=True)
    scale = rows["scale"] if "scale" in rows else rows["value"] * float("nan")
    axis = rows["metric"].map(lambda name: axis_name(record.metric(name).level)).where(scale.isna(), "scale")
    nodes, total, classes = (rows.get(name, rows["level"] * 0) for name in ("nodes", "total_nodes", "classes"))
    mean = (nodes // classes.clip(lower=1)).clip(lower=rows["samples"].max() + 1)
    x = rows["level"].where((rows["level"] != ALL) | (axis != axis_name(PER_SAMPLE)), mean)
    key = rows["metric"] + "/" + rows["method"]
    for column in ("target", "estimator"):
        if column in rows:
            key += ("/" + rows[column].astype("string")).fillna("").astype(str)
    found = rows[["metric", "trial", "value"]].assign(axis=axis, x=x.astype(float).where(scale.isna(), scale), key=key)
    found["all_nodes"] = (nodes == total) & (nodes > 0)
    return found[(axis == axis_name(PER_SAMPLE)) | (rows["samples"] == last_level(rows))]


def axis_name(unit: str) -> str:
    """Return the key of an axis in the history, such as samples_per_class."""
    return re.sub(r"\W+", "_", unit.replace("%", "percent")).strip("_")


def history(table: pd.DataFrame, record: Experiment) -> list[dict[str, float]]:
    """Return the history for W&B: for each level the means over trials, and their intervals where trials differ."""
    import numpy as np

    from asbc.evaluate.comparison import Bootstrap

    found: list[dict[str, float]] = []
    group: Any
    for group, part in points(table, record).groupby(["axis", "x"], sort=True):
        wide = part.pivot_table("value", "trial", "key", sort=False)
        row: dict[Any, float] = {group[0]: float(group[1]), **wide.mean().to_dict()}
        if len(wide) > 1 and not part["all_nodes"].all():  # with all nodes, trials are only seeds
            draws = Bootstrap().trials(len(wide)) / len(wide)
            low, high = np.quantile(draws @ wide.to_numpy(), (0.025, 0.975), axis=0)
            for end, values in (("low", low), ("high", high)):
                row |= {f"{key}/{end}": value for key, value in zip(wide, values.tolist(), strict=True)}
        found.append({key: value for key, value in row.items() if value == value})
    return found


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
            session = WandbSession(RunFacts(status["run_id"], status["attempt"], path, settings, facts), logger)
            if session.mode == "offline" and (folder_before := written(path, session.id)):
                there += 1
                folders.append(folder_before)
                continue
            try:
                with session:
                    session.conclude(table)
            except wandb_error() as error:
                # W&B refuses the same id twice: a kill came before the run was recorded as sent.
                if "already exists" not in str(error):
                    raise
                log.warning("%s: W&B already has %s; to send it again, delete it there", path, session.id)
                there += 1
                continue
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
    parser.add_argument("--dashboard", action="store_true", help="also save a workspace for each experiment")
    parser.add_argument(
        "--report", action="store_true", help="also save workspaces and a new W&B report with their panels"
    )
    options = parser.parse_args()
    if options.offline and (options.dashboard or options.report):
        parser.exit(2, "asbc-upload: --dashboard and --report need a connection; --offline cannot write them\n")
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
        if options.dashboard or options.report:
            from asbc.runs.workspace import save

            print("\n".join(save(options.folder, logger, with_report=options.report)))
    except (MissingExtraError, ValueError, RuntimeError) as error:
        parser.exit(1, f"asbc-upload: {error}\n")
    except (wandb_error(), OSError) as error:
        why = " ".join(str(error).split())
        parser.exit(
            1, f"asbc-upload: W&B did not answer ({why}); the same command tries again, --offline writes files\n"
        )
