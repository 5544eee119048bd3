"""Two methods to measure, and scores by name."""

import asbc
from asbc.evaluate import Method

NNK = Method("nnk", asbc.SpectralBandwidth())
KNN = Method("uniform")


def by_metric(scores):
    return {score.metric: score for score in scores}
