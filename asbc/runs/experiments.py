"""asbc's own experiments: one record each, `EXPERIMENTS` in the order in which a report shows them."""

from typing import Any

from asbc.runs.record import Axis, Claim, Experiment, Figure, Table

# Figures 1 and 2 of the paper: kernels from narrow to wide, and effective rank against intrinsic dimension.

REGIMES = Experiment(
    name="regimes",
    title="Regimes",
    question="How do rank, slope and condition of the local kernels change from a narrow to a wide bandwidth?",
    headline=("chosen_rank_median", "chosen_dimension_median", "chosen_scale_median"),
    needs_labels=False,
    accepts="chosen_rank_median",
    figures=(
        Figure(
            "regimes",
            "fig1_regimes",
            "Figure 1. Regimes of the bandwidth",
            "Lines are medians over the nodes, bands their quartiles, both averaged over trials. At a narrow bandwidth "
            "all neighbours are distinct (rank near their number), at a wide one they are indistinguishable (rank near "
            "1). Green: the bandwidths that the criterion chose, median and quartiles.",
            ("rank", "slope", "condition"),
        ),
    ),
    claims=(
        Claim(
            "The chosen bandwidth lies between one at which all neighbours are distinct and one at which they are "
            "indistinguishable",
            "regimes",
        ),
    ),
)

ALIGNMENT = Experiment(
    name="alignment",
    title="Alignment",
    question="Does the effective rank of the chosen kernels follow the intrinsic dimension?",
    headline=("spearman",),
    needs_labels=False,
    accepts="spearman",
    figures=(
        Figure(
            "alignment",
            "fig2_alignment",
            "Figure 2. Effective rank against intrinsic dimension",
            "First: all nodes of all trials by rank and dimension (darker: more nodes), with the least-squares fit; r "
            "was matched to dimMST. Each estimator is the target of r in turn, because agreement with the target only "
            "shows that the search works. Whiskers: 95% interval over trials. Grey: the range that the paper prints.",
            ("spearman", "rank_median", "dimension_median"),
            {"clouds": [["mst", "mst"], ["mst", "levina_bickel"]]},
        ),
    ),
    claims=(
        Claim(
            "The rank follows dimMST: Spearman 0.88–0.91",
            "at_least",
            "spearman",
            options={"target": "mst", "estimator": "mst", "value": 0.88},
        ),
        Claim(
            "The rank follows dimMST more closely than Levina–Bickel (Spearman 0.43–0.63)",
            "closer",
            "spearman",
            options={"first": ["mst", "mst"], "second": ["mst", "levina_bickel"]},
        ),
        Claim(
            "At γ = 1 the median rank is the median dimension (25.7 of 26.7 in the paper)",
            "ratio",
            "rank_median",
            options={"over": "dimension_median", "target": "mst", "estimator": "mst", "value": 1.0, "margin": 0.1},
        ),
        Claim(
            "Control: the rank is closer to dimMST than to Levina–Bickel even when matched to Levina–Bickel",
            "closer",
            "spearman",
            of_paper=False,
            options={
                "first": ["levina_bickel", "mst"],
                "second": ["levina_bickel", "levina_bickel"],
                "if_not": "The rank follows whichever estimate it is given: the agreement shows that the search works, "
                "and nothing about the data.",
            },
        ),
    ),
    paper={"spearman": {"mst": [0.88, 0.91], "levina_bickel": [0.43, 0.63]}},
)

# Figures 3 and 4 of the paper: accuracy against samples and against labels per class.

PAPER_ORDER = ("knn", "knn_sigma_alpha", "nnk_fixed", "nnk_sigma")
CAPTION = (
    "Accuracy: means over trials; small dots are the trials. Difference: gain over the baseline in the same trials, "
    "with the paired 95% interval."
)
ONE_OR_ALL = {"pair": ["nnk_sigma", "nnk_fixed"]}  # a bandwidth for each node, compared with one for all

LOO = Experiment(
    name="loo",
    title="Leave-one-out",
    question="How often do a node's neighbours vote for its class, and how does that depend on the samples per class?",
    headline=("loo", "loo_balanced"),
    accepts="loo",
    figures=(Figure("levels", "fig3_loo", "Figure 3. Leave-one-out accuracy", CAPTION, ("loo",), ONE_OR_ALL),),
    tables=(Table("levels", "loo", "LOO accuracy by samples per class", metrics=("loo",)),),
    claims=(
        Claim("LOO: kNN < kNN-σ-α < NNK-fixed < NNK-σ", "order", "loo", PAPER_ORDER),
        Claim("Neighbour search dominates the cost", "cost", methods=("nnk_sigma",)),
        Claim("LOO: kNN < kNN-σ < NNK-σ", "order", "loo", ("knn", "knn_sigma", "nnk_sigma"), of_paper=False),
    ),
)

LP = Experiment(
    name="lp",
    title="Label propagation",
    question="How accurate are labels that propagate over the graph from a few labelled nodes per class?",
    headline=("lp", "lp_balanced"),
    accepts="lp",
    figures=(Figure("levels", "fig4_lp", "Figure 4. Label propagation accuracy", CAPTION, ("lp",), ONE_OR_ALL),),
    tables=(Table("levels", "lp", "LP accuracy by labels per class", metrics=("lp",)),),
    claims=(Claim("LP: kNN < kNN-σ-α < NNK-fixed < NNK-σ", "order", "lp", PAPER_ORDER),),
)

# Table 3 of the paper, and the same for the other two settings: one value after the other.

SAME = 0.005  # accuracies within this count as the same: the standard error among 2,000 nodes is about 0.01

GAMMA = Experiment(
    name="gamma",
    title="Gamma",
    question="How much does γ matter, the multiple of the dimension that the rank is matched to?",
    headline=("loo", "rank_median", "dimension_median", "sigma_median"),
    axis=Axis("bandwidth.gamma", "γ", 1.0),
    needs_labels=False,
    accepts="loo",
    figures=(
        Figure(
            "sweep",
            "table3_gamma",
            "Effect of γ",
            "Paired 95% intervals of the difference from γ = 1. Diamonds: the paper (CIFAR-100, MoCo v2, 20 samples "
            "per class).",
            ("loo",),
            {"ratio": ["rank_median", "dimension_median"]},
        ),
    ),
    tables=(
        Table(
            "sweep",
            "gamma",
            "Table 3. Effect of γ: the rank is matched to γ × dimension",
            "Paper: CIFAR-100, MoCo v2, 20 samples per class, median dimension 26.7; other embeddings are not expected "
            "to give the same numbers.",
            ("loo", "rank_median", "dimension_median", "sigma_median"),
        ),
    ),
    claims=(
        Claim(
            "Below γ = 0.75 the bandwidth is too large, and accuracy suffers (the paper writes too small)",
            "wider_and_worse",
            "loo",
            ("nnk_sigma",),
            options={"value": 0.5, "wider": "sigma_median"},
        ),
        Claim(
            "From γ = 1 upwards accuracy hardly changes",
            "flat",
            "loo",
            ("nnk_sigma",),
            options={"margin": SAME},
        ),
    ),
    paper={
        "data": "CIFAR-100, MoCo v2, 20 samples per class",
        "method": "nnk_sigma",
        "value": [0.5, 0.75, 1.0, 1.25, 1.5, 2.0],
        "loo": [0.607, 0.607, 0.611, 0.611, 0.612, 0.611],
        "rank_median": [14.7, 21.0, 25.7, 26.1, 26.3, 26.4],
        "dimension_median": 26.7,
    },
)


def _count_sweep(axis: Axis, title: str, what: str, shown: tuple[str, ...], **more: Any) -> Experiment:
    """The record of an experiment that varies the number of something."""
    caption = f"Paired 95% intervals of the difference from {axis.label} = {axis.base}."
    drawn = tuple(metric for metric in shown if metric in ("loo", "spearman"))
    return Experiment(
        name=axis.label,
        title=title,
        question=f"How much does the number of {what} matter?",
        headline=shown,
        axis=axis,
        needs_labels=False,
        accepts="loo",
        figures=(Figure("sweep", axis.label, f"Effect of the number of {what}", caption, drawn),),
        tables=(Table("sweep", axis.label, f"Number of {what}, {axis.label}", metrics=shown),),
        **more,
    )


K_CAND = _count_sweep(Axis("k_cand", "k_cand", 30), "Candidates", "candidate neighbours", ("loo", "edges"))

N_GRID = _count_sweep(
    Axis("bandwidth.n_grid", "n_grid", 12),
    "Grid",
    "bandwidths tried per node",
    ("loo", "spearman", "rank_median", "dimension_median"),
    claims=(
        Claim(
            "Twelve grid points are enough: a finer grid does not change accuracy",
            "flat",
            "loo",
            ("nnk_sigma",),
            of_paper=False,
            options={"margin": SAME},
        ),
    ),
)

# Methods compared: the chain of the paper, rules for the bandwidth, tuning with labels, label noise, all tasks.

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

EXPERIMENTS = {
    record.name: record
    for record in (REGIMES, ALIGNMENT, LOO, LP, GAMMA, ABLATION, SELECTORS, REGRET, K_CAND, N_GRID, NOISE, CHOOSING)
}
