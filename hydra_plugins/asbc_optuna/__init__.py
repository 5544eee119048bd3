"""``hydra/sweeper=optuna``: a Hydra sweeper that lets Optuna choose the values to try.

Hydra accepts plugins only from the namespace package `hydra_plugins`, so this one lives outside `asbc`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

log = logging.getLogger("asbc")

RESULTS = "optimization_results.yaml"


class OptunaSweeper(Sweeper):
    """Maximise or minimise the float that the task returns, by Optuna's ask-and-tell interface.

    Parameters
    ----------
    direction : {"maximize", "minimize"}
    n_trials : int
        Number of runs.
    n_jobs : int
        Number of runs that the launcher gets at once. Optuna learns from them when all have finished.
    seed : int or None
        Seed of Optuna's TPE sampler.
    storage : str or None
        Optuna storage, such as ``sqlite:///study.db``. A study with the same name continues there.
    study_name : str or None
    params : mapping of str to str, or None
        What to vary, in Hydra's sweep syntax: ``interval(0.3, 2.5)``, ``tag(log, interval(0.01, 1))``,
        ``range(10, 60, 10)``, ``choice(a, b)``. The command line adds to it and takes precedence.
    """

    def __init__(
        self,
        direction: str,
        n_trials: int,
        n_jobs: int,
        seed: int | None,
        storage: str | None,
        study_name: str | None,
        params: Mapping[str, str] | None,
    ):
        self.direction, self.n_trials, self.n_jobs, self.seed = direction, n_trials, n_jobs, seed
        self.storage, self.study_name, self.params = storage, study_name, dict(params or {})
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run the trials, write the best one to `optimization_results.yaml`, and return the results of all jobs."""
        try:
            import optuna
        except ModuleNotFoundError:
            raise SystemExit('asbc: hydra/sweeper=optuna needs optuna: pip install "asbc[optuna]"') from None
        assert self.config is not None and self.launcher is not None and self.hydra_context is not None
        if self.config.get("optimized_metric", "") is None:
            raise SystemExit(
                "asbc: hydra/sweeper=optuna needs to know what to optimise: optimized_metric=loo/nnk_sigma"
            )
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        fixed, searched = self._split(arguments)
        if not searched:
            raise SystemExit("asbc: hydra/sweeper=optuna has nothing to vary; give a range: 'gamma=interval(0.5,2)'")
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        study = optuna.create_study(
            direction=self.direction,
            sampler=optuna.samplers.TPESampler(seed=self.seed),
            storage=self.storage,
            study_name=self.study_name,
            load_if_exists=True,
        )
        returns: list[JobReturn] = []
        while len(returns) < self.n_trials:
            trials = [study.ask(searched) for _ in range(min(self.n_jobs, self.n_trials - len(returns)))]
            batch = [[*fixed, *(f"{key}={value}" for key, value in trial.params.items())] for trial in trials]
            self.validate_batch_is_legal(batch)
            results = self.launcher.launch(batch, initial_job_idx=len(returns))
            for trial, result in zip(trials, results, strict=True):
                value = _value(result)
                if value is None:
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
                else:
                    study.tell(trial, value)
                    log.info("trial %d: %s = %.4f", trial.number, _settings(trial.params), value)
            returns.extend(results)
        if any(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials):
            best = {"best_params": study.best_params, "best_value": study.best_value, "trials": len(study.trials)}
            OmegaConf.save(OmegaConf.create(best), folder / RESULTS)
            log.info("best of %d trials: %s = %.4f", len(study.trials), _settings(study.best_params), study.best_value)
            log.info("written to %s", folder / RESULTS)
        for result in returns:
            _ = result.return_value  # raises if the job failed
        return returns

    def _split(self, arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
        """Return the overrides that stay as they are, and Optuna's distributions of the others."""
        assert self.hydra_context is not None
        given = [f"{key}={value}" for key, value in self.params.items()]
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        by_key = {override.get_key_element(): override for override in parser.parse_overrides([*given, *arguments])}
        fixed, searched = [], {}
        for key, override in by_key.items():
            if override.is_sweep_override():
                searched[key] = _distribution(override)
            else:
                fixed.append(f"{key}={override.get_value_element_as_str()}")
        return fixed, searched


def _distribution(override: Override) -> Any:
    """Return the Optuna distribution of a sweep in Hydra's syntax."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    value = override.value()
    if isinstance(value, IntervalSweep):
        assert value.start is not None and value.end is not None
        numbers = IntDistribution if isinstance(value.start, int) and isinstance(value.end, int) else FloatDistribution
        if "float" in value.tags:
            numbers = FloatDistribution
        return numbers(value.start, value.end, log="log" in value.tags)
    if isinstance(value, RangeSweep):
        assert value.start is not None and value.stop is not None
        if all(isinstance(number, int) for number in (value.start, value.stop, value.step)):
            return IntDistribution(int(value.start), int(value.stop) - 1, step=int(value.step))
        return FloatDistribution(value.start, value.stop, step=value.step)
    assert isinstance(value, ChoiceSweep)
    return CategoricalDistribution(list(override.sweep_string_iterator()))


def _value(result: JobReturn) -> float | None:
    """Return the number that a job returned, and None if it failed."""
    if result.status != JobStatus.COMPLETED:
        return None
    value = result.return_value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SystemExit(f"asbc: the run returned {value!r} instead of a number; set optimized_metric=METRIC/METHOD")
    return float(value) if isfinite(value) else None


def _settings(params: Mapping[str, Any]) -> str:
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in params.items()}
    return " ".join(f"{key}={value}" for key, value in shown.items())
