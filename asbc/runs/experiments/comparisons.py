"""Methods compared: the chain of the paper, rules for the bandwidth, tuning with labels, label noise, all tasks."""

from asbc.runs.record import Claim, Experiment, Figure, Table

RIVALS = ("self_tuning_nnk", "density_nnk", "log_log_nnk", "dimension_matching_nnk", "max_min_nnk")

ABLATION = Experiment(
    name="ablation",
    title="Ablation",
    question="What does each step from kNN to NNK-σ-α bring, on every task?",
    headline=("loo", "lp", "nmi", "ari"),
    needs_labels=False,
    tables=(
        Table(
            "methods",
            "ablation",
            "Ablation: the chain of methods",
            "Means over trials (LP: also over label counts). Neighbours: median number per node with a weight. "
            "Condition: median condition number of the local kernels. At edge: nodes whose bandwidth is at an end of "
            "the grid.",
            ("loo", "lp", "nmi", "ari", "edges", "row_degree_median", "components", "condition_median", "at_edge"),
        ),
        Table(
            "steps",
            "steps",
            "Ablation: what each step brings",
            "Differences in the same trials. Intervals of NMI and ARI only cover differences between trials: where "
            "trials share nodes, and most of all where each takes the whole data set, they are too narrow.",
            ("loo", "lp", "nmi", "ari"),
        ),
    ),
)

SELECTORS = Experiment(
    name="selectors",
    title="Selectors",
    question="How do rules for the bandwidth compare, with Gaussian and with NNK weights?",
    headline=("loo", "lp"),
    tables=(
        Table(
            "rules",
            "selectors",
            "Selectors: rules for the bandwidth",
            "Each rule against the spectral rule with the same weights; uniform weights, the blend and weights of "
            "other libraries against NNK-σ. Below zero: the spectral rule is better. Best first within each kind.",
            ("loo", "lp"),
        ),
    ),
    claims=(
        *(
            Claim(
                f"{task}: a bandwidth for each node beats one of the same scale for all (NNK)",
                "above",
                task.lower(),
                ("nnk_sigma", "median_spectral_nnk"),
                of_paper=False,
            )
            for task in ("LOO", "LP")
        ),
        Claim(
            "LOO: the spectral rule beats every other rule of the paper's Table 1 (NNK weights)",
            "above",
            "loo",
            ("nnk_sigma", *RIVALS),
            of_paper=False,
        ),
    ),
)

REGRET = Experiment(
    name="regret",
    title="Regret",
    question="How far is each rule, which sees no labels, from the best bandwidth that tuning with labels finds?",
    headline=("loo", "regret"),
    accepts="regret",
    figures=(
        Figure(
            "tuning",
            "regret",
            "Tuning with labels, and rules without",
            "Curves: accuracy at σ = c × the distance to the 10th neighbour, per node or with the mean over all nodes. "
            "Horizontal: rules that see no labels.",
            ("loo",),
            {"rules": ["spectral", "perplexity", "self_tuning"]},
        ),
    ),
    tables=(
        Table(
            "regret",
            "regret",
            "Regret: distance from the best bandwidth that tuning with labels finds",
            "The best bandwidth is σ = c × the distance to the 10th neighbour, per node or one for all. c is picked in "
            "each trial by the accuracy itself, which no rule without labels can do. Below zero: better than all of "
            "them.",
            ("loo", "regret"),
        ),
    ),
)

NOISE = Experiment(
    name="noise",
    title="Label noise",
    question="Who finds wrong labels: graphs, cleanlab or logistic regression?",
    headline=("noise_near", "noise_uniform"),
    suggested=False,
    figures=(
        Figure(
            "levels",
            "noise",
            "Average precision in finding wrong labels",
            "Means over trials, by the percentage of wrong labels.",
            ("noise_near", "noise_uniform", "noise_human"),
        ),
    ),
    tables=(
        Table("levels", "noise_near", "Labels moved to a near class: average precision", metrics=("noise_near",)),
        Table("levels", "noise_uniform", "Labels moved to any class: average precision", metrics=("noise_uniform",)),
        Table("levels", "noise_human", "Labels that people got wrong: average precision", metrics=("noise_human",)),
    ),
)

CHOOSING = Experiment(
    name="choosing",
    title="Choosing a graph",
    question="Which graph is best for votes, for propagation and for clusters?",
    headline=("loo", "lp", "leiden_ari", "ari"),
    suggested=False,
    figures=(
        Figure(
            "levels",
            "choosing",
            "Label propagation accuracy",
            "Means over trials; differences from kNN with paired 95% intervals.",
            ("lp",),
        ),
    ),
    tables=(
        Table("methods", "choosing", "All tasks", "Means over trials and levels.", ("loo", "lp", "leiden_ari", "ari")),
    ),
)
