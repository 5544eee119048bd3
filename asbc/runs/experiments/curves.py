"""Figures 3 and 4 of the paper: accuracy against samples and against labels per class."""

from asbc.runs.record import Claim, Experiment, Figure, Table

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
