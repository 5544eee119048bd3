"""asbc's own experiments: one record each, in the order in which a report shows them."""

from asbc.runs.experiments.comparisons import ABLATION, CHOOSING, NOISE, REGRET, SELECTORS
from asbc.runs.experiments.curves import LOO, LP
from asbc.runs.experiments.geometry import ALIGNMENT, REGIMES
from asbc.runs.experiments.sweeps import GAMMA, K_CAND, N_GRID

EXPERIMENTS = {
    record.name: record
    for record in (
        REGIMES,
        ALIGNMENT,
        LOO,
        LP,
        GAMMA,
        ABLATION,
        SELECTORS,
        REGRET,
        K_CAND,
        N_GRID,
        NOISE,
        CHOOSING,
    )
}
