"""Weights & Biases as a copy of the result table, and the files that note which runs it already has."""

from __future__ import annotations

import io
import logging
import os
import shlex
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from asbc.extras import needed
from asbc.files import write_whole
from asbc.runs.loggers import NOT_SHOWN, RunFacts, Session

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")
PATIENCE = 10.0  # seconds that W&B has to answer at all; its own library would try for minutes


@dataclass(frozen=True)
class WandbLogger:
    """Copies the rows to Weights & Biases: one W&B run per job, in one group per sweep. `logger=wandb`.

    Parameters
    ----------
    project : str, default="asbc"
        Where the runs appear in W&B.
    entity : str, default=None
        User or team in W&B; None for that of the key.
    tags : sequence of str, default=()
        Beside experiment, data set and encoder, which are tags anyway.
    mode : {"online", "offline"}, default=None
        None for what WANDB_MODE says; where it says nothing, online if there is a key and offline if not.

    See Also
    --------
    CsvLogger : a file that needs no account.

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
            must_answer()
        facts = self.facts.facts
        self.run = wandb.init(
            # A run of its own for every attempt: a second one must not write into what a killed one left.
            id=self.id,
            name=f"{facts['experiment']} {facts['encoder']} {self.facts.run_id[:6]}",
            project=self.options.project,
            entity=self.options.entity,
            group=facts.get("group"),
            job_type=facts["experiment"],
            tags=sorted({str(facts[key]) for key in ("experiment", "dataset", "encoder")} | set(self.options.tags)),
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
            self.run.log(at | {f"{metric}/{method}": value for metric, method, value in _last(part)})

    def conclude(self, table: pd.DataFrame) -> None:
        import wandb

        shown = table.drop(columns=NOT_SHOWN, errors="ignore")
        means = table.groupby(["encoder", "metric", "method"])["value"].mean().reset_index()
        for row in means.to_dict("records"):
            self.run.summary[f"{row['encoder']}/{row['metric']}/{row['method']}"] = row["value"]
        self.run.log({"results": wandb.Table(dataframe=shown)})
        for metric in [m for m in ("loo", "lp", "regret") if m in set(table["metric"])]:
            self.run.log({f"figures/{metric}": wandb.Image(_picture(level_curves(table, metric)))})
        artifact = wandb.Artifact(f"results-{self.facts.run_id}", type="results", metadata=dict(self.facts.facts))
        artifact.add_file(str(self.facts.path / "results.parquet"))
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
            log.info("W&B is offline: written to %s; send it by: wandb sync %s", folder, shlex.quote(str(folder)))


def has_key() -> bool:
    """Whether W&B has a key to log in with: in the environment, or where `wandb login` leaves it."""
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
    """Where W&B is."""
    return os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")


def must_answer() -> None:
    """Raise ConnectionError where nothing answers at W&B's address. Any answer will do, be it a refusal."""
    try:
        urlopen(address(), timeout=PATIENCE).close()
    except HTTPError:
        return
    except OSError as error:
        why = error.reason if isinstance(error, URLError) else error
        if not isinstance(why, ssl.SSLError):  # W&B has certificates of its own
            raise ConnectionError(f"{address()}: {why}") from None


def wandb_config(facts: RunFacts) -> dict[str, Any]:
    """Settings for W&B: all of them, and those that experiments sweep by short names too."""
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
    """Note that W&B has a run, so that it is not sent again."""
    write_whole(path / "uploaded.txt", lambda p: p.write_text(id + "\n"))


def uploaded(path: Path) -> bool:
    """Whether W&B has a run."""
    return (path / "uploaded.txt").exists()


def mark_written(path: Path, id: str, folder: Path) -> None:
    """Note that W&B's files of a run are there, yet to be sent by `wandb sync`."""
    text = f"{id}\n{os.path.relpath(folder, path)}\n"
    write_whole(path / "offline.txt", lambda p: p.write_text(text))


def written(path: Path, id: str) -> Path | None:
    """Folder of W&B's files of a run, `None` where there are none of this attempt."""
    try:
        noted, folder = (path / "offline.txt").read_text().splitlines()
    except (OSError, ValueError):
        return None
    return path / folder if noted == id and (path / folder).is_dir() else None


def level_curves(table: pd.DataFrame, metric: str) -> Any:
    """A figure of one metric against the level, one line per method, bars of one standard deviation over trials."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    rows = table[table["metric"] == metric]
    for method, part in rows.groupby("method", sort=False):
        curve = part.groupby("level")["value"].agg(["mean", "std"])
        axes.errorbar(curve.index, curve["mean"], yerr=curve["std"].fillna(0), marker="o", ms=3, label=str(method))
    axes.set(xlabel="labels per class" if metric == "lp" else "samples per class", ylabel=metric)
    axes.legend(fontsize=7, ncols=2)
    return figure


def _picture(figure: Any) -> Any:
    from PIL import Image

    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=150)
    return Image.open(stream)


def _last(part: pd.DataFrame) -> Iterable[tuple[str, str, float]]:
    """(metric, method, value) of every row; the values of further columns are appended to the method's name."""
    extra = [c for c in ("scale", "per_node", "target", "estimator") if c in part and part[c].notna().any()]
    for row in part.to_dict("records"):
        suffix = "".join(f"/{row[c]}" for c in extra if row[c] == row[c] and row[c] is not None)
        yield row["metric"], f"{row['method']}{suffix}", row["value"]
