"""Weights & Biases: the logger, and `asbc-upload`, which sends finished runs later, each once."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from asbc.evaluate.scores import PER_SAMPLE
from asbc.extras import MissingExtraError, needed
from asbc.runs.command import summary
from asbc.runs.record import Experiment
from asbc.runs.results import ALL, CANDIDATES, PER_NODE, RESULTS, StoredRun, last_level, list_runs, open_run, read_rows
from asbc.runs.run import Send
from asbc.storage import write_atomic

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")
TIMEOUT = 10.0  # seconds until W&B counts as unreachable; its own library would try for minutes
MAX_TAG, MAX_NAME = 64, 128  # characters; W&B refuses longer ones
# First parts of keys that are not in the names of runs: where results go, and what the experiment and encoder imply.
UNNAMED = {
    "experiment", "embedding", "logger", "out", "rerun", "threads", "progress", "tags", "record", "hydra",
    "hparams_search", "optimized_metric",
}  # fmt: skip


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

    Examples
    --------
    `asbc 'logger=[csv,wandb]' logger.wandb.mode=offline` creates

    >>> from asbc.runs import WandbLogger
    >>> WandbLogger(project="asbc", mode="offline").resolved_mode()
    'offline'
    """

    project: str = "asbc"
    entity: str | None = None
    tags: tuple[str, ...] = ()
    mode: str | None = None
    dashboard: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, "online", "offline"):
            raise ValueError(f"mode must be online, offline or null; got {self.mode!r}")

    def resolved_mode(self) -> str:
        """Return `mode`, or what applies on this machine if it is None."""
        return self.mode or os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")

    def complete(self, run: StoredRun) -> bool:
        """Whether W&B has a finished run, or offline its files are written."""
        return uploaded(run.path) or (self.resolved_mode() == "offline" and written(run) is not None)

    @contextmanager
    def open(self, run: StoredRun) -> Iterator[Send]:
        """Open a W&B run, and yield the function that sends the rows of the finished run."""
        with needed("logger=wandb", "wandb"):
            import wandb

        mode: Any = self.resolved_mode()
        if mode == "online":
            check_connection()
        facts = run.status
        tags = [facts["experiment"], facts["dataset"], facts["encoder"], *facts.get("tags", ()), *self.tags]
        looks = {"titles": run.record.titles, "colors": run.record.colors}
        sent = wandb.init(
            id=wandb_id(run),
            name=run_name(run)[:MAX_NAME],
            project=self.project,
            entity=self.entity,
            group=facts.get("group"),
            job_type=run.experiment,
            tags=sorted({str(tag)[:MAX_TAG] for tag in tags}),
            config=wandb_config(run) | {key: value for key, value in looks.items() if value},
            dir=str(run.path),
            mode=mode,
            resume="never",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        code = 1
        try:
            yield partial(_send, sent, run)
            code = 0
        except KeyboardInterrupt:
            code = 130
            raise
        finally:
            sent.finish(exit_code=code)
        if mode == "online":
            write_atomic(run.path / "uploaded.txt", f"{sent.id}\n")
        elif mode == "offline":
            folder = Path(sent.dir).parent
            write_atomic(run.path / "offline.txt", f"{sent.id}\n{os.path.relpath(folder, run.path)}\n")
            log.info("W&B is offline: written to %s; send it with: wandb sync %s", folder, shlex.quote(str(folder)))


def _send(sent: Any, run: StoredRun, table: pd.DataFrame) -> None:
    """Send the rows of a finished run to an open W&B run."""
    import wandb

    rows = history(table, run.record)
    for axis in dict.fromkeys(next(iter(row)) for row in rows):
        sent.define_metric(axis, hidden=True, summary="none")
        for key in dict.fromkeys(key for row in rows if axis in row for key in row if key != axis):
            # W&B's summary has the last row, which is that of the largest samples or of the most labels.
            sent.define_metric(key, step_metric=axis, summary="none" if axis == "scale" else None)
    for row in rows:
        sent.log(row)
    sent.summary.update(summary(table, run.record))
    shown = table.drop(columns=PER_NODE, errors="ignore")
    nullable = [name for name, kind in shown.dtypes.items() if str(kind) in ("Int64", "boolean")]
    sent.log({"results": wandb.Table(dataframe=shown.astype(dict.fromkeys(nullable, "float64")))})
    artifact = wandb.Artifact(f"results-{run.id}", type="results", metadata=run.status)
    artifact.add_file(str(run.path / RESULTS))
    sent.log_artifact(artifact)


def has_key() -> bool:
    """Whether there is a key to log in with: in the environment, or where `wandb login` writes it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    with suppress(ImportError):
        from requests.utils import get_netrc_auth  # W&B installs it

        return get_netrc_auth(address()) is not None
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


def wandb_id(run: StoredRun) -> str:
    """Return the id of a run in W&B, one per attempt: a second one must not write into that of a killed one."""
    return f"{run.id}-{run.status['attempt']}"


def wandb_config(run: StoredRun) -> dict[str, Any]:
    """Return the config for W&B: all settings by the names they have on the command line."""
    bandwidth = run.settings.get("bandwidth", {})
    return {
        **run.settings,
        **{key: run.status[key] for key in ("experiment", "encoder", "dataset")},
        "embedding": run.status.get("embedding"),
        "method": list(run.settings.get("methods", {})),
        **{key: bandwidth[key] for key in ("gamma", "n_grid") if key in bandwidth},
        "run_id": run.id,
    }


def run_name(run: StoredRun) -> str:
    """Return the run's name in W&B: experiment, encoder, and what was typed about the settings.

    Examples
    --------
    >>> from pathlib import Path
    >>> from asbc.runs.record import find_record
    >>> from asbc.runs.results import StoredRun
    >>> from asbc.runs.wandb import run_name
    >>> typed = ["experiment=loo", "embedding=simclr", "gamma=0.5", "k_cand=15", "out=results"]
    >>> status = {"experiment": "loo", "encoder": "simclr", "overrides": typed}
    >>> run_name(StoredRun(Path(), status, {}, find_record("loo")))
    'loo simclr gamma=0.5 k_cand=15'
    """
    words = []
    for override in run.status.get("overrides") or ():
        key = override.lstrip("+~").partition("=")[0]
        if key in ("embedding.dataset", "embedding.path"):
            words.append(f"dataset={run.status['dataset']}")
        elif key.partition(".")[0].partition("/")[0] not in UNNAMED:
            words.append(override.lstrip("+"))
    words.sort(key=lambda word: "[" in word)  # W&B cuts long names off, and lists are rarely swept
    return " ".join(dict.fromkeys([run.experiment, str(run.status["encoder"]), *words]))


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

    from asbc.evaluate.scores import Bootstrap

    found: list[dict[str, float]] = []
    group: Any
    for group, part in points(table, record).groupby(["axis", "x"], sort=True):
        wide = part.pivot_table("value", "trial", "key", sort=False)
        row: dict[Any, float] = {group[0]: float(group[1]), **wide.mean().to_dict()}
        # With all nodes, trials are only seeds, unless they differ in the labels that are revealed or moved.
        only_seeds = part["all_nodes"].all() and group[0] in (axis_name(PER_SAMPLE), "scale")
        if len(wide) > 1 and not only_seeds:
            draws = Bootstrap().trials(len(wide)) / len(wide)
            low, high = np.quantile(draws @ wide.to_numpy(), (0.025, 0.975), axis=0)
            for end, values in (("low", low), ("high", high)):
                row |= {f"{key}/{end}": value for key, value in zip(wide, values.tolist(), strict=True)}
        found.append({key: value for key, value in row.items() if value == value})
    return found


def uploaded(path: Path) -> bool:
    """Whether W&B has a run."""
    return (path / "uploaded.txt").exists()


def written(run: StoredRun) -> Path | None:
    """Return the folder of W&B's files of a run, for `wandb sync`; None if this attempt has none."""
    try:
        noted, folder = (run.path / "offline.txt").read_text().splitlines()
    except (OSError, ValueError):
        return None
    return run.path / folder if noted == wandb_id(run) and (run.path / folder).is_dir() else None


@dataclass
class Sent:
    """Result of :func:`upload_runs`: numbers of runs, and offline the folders for `wandb sync`."""

    sent: int = 0  # now; offline, runs whose files were written now
    there: int = 0  # before; offline, runs whose files already exist
    unfinished: int = 0
    folders: list[Path] = field(default_factory=list)


def upload_runs(folder: Path, logger: WandbLogger) -> Sent:
    """Send every finished run under a folder that W&B does not have yet; offline, write its files."""
    result = Sent()
    for path, status in list_runs(folder):
        if status["state"] != "finished":
            result.unfinished += 1
            continue
        run = open_run(path)
        if logger.complete(run):
            result.there += 1
        else:
            try:
                with logger.open(run) as send:
                    send(read_rows(path / RESULTS))
                result.sent += 1
            except wandb_error() as error:
                # W&B refuses the same id twice: a kill came before the run was recorded as sent.
                if "already exists" not in str(error):
                    raise
                log.warning("%s: W&B already has %s; to send it again, delete it there", path, wandb_id(run))
                result.there += 1
        if logger.resolved_mode() == "offline" and not uploaded(path) and (files := written(run)):
            result.folders.append(files)
    return result


def wandb_error() -> type[Exception]:
    """Return the exception that W&B raises when it cannot be reached, or refuses."""
    import wandb

    return wandb.errors.Error


def main() -> None:
    """`asbc-upload`: send finished runs to W&B, each once."""
    parser = argparse.ArgumentParser(prog="asbc-upload", description="Send finished runs to W&B, each once.")
    parser.add_argument("folder", type=Path, help="outputs, a results folder, or one run")
    parser.add_argument("--project", default="asbc", help="W&B project, asbc by default")
    parser.add_argument("--entity", default=None, help="W&B user or team, your default one by default")
    parser.add_argument("--tag", action="append", default=[], help="may be given several times")
    parser.add_argument("--offline", action="store_true", help="write W&B's files without sending them")
    parser.add_argument("--dashboard", action="store_true", help="also save a workspace per experiment (online)")
    parser.add_argument(
        "--report", action="store_true", help="also save workspaces and a W&B report with their panels (online)"
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
            print("send them later by the same command without --offline, or these files with:")
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
