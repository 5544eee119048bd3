"""The search as a step of a pipeline, before scikit-learn's own estimators."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN
from sklearn.manifold import TSNE, Isomap
from sklearn.neighbors import KNeighborsTransformer
from sklearn.pipeline import make_pipeline

import asbc


@pytest.fixture(scope="module")
def X(clouds):
    return clouds[0]


@pytest.mark.parametrize(
    "estimator",
    [
        DBSCAN(eps=1.5, metric="precomputed"),
        Isomap(n_neighbors=15, metric="precomputed"),
        TSNE(perplexity=6, init="random", metric="precomputed", random_state=0, max_iter=250),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_before_estimators_with_a_precomputed_metric(X, estimator):
    ours = make_pipeline(asbc.NeighborsTransformer(k=20, metric="euclidean"), estimator)
    theirs = make_pipeline(KNeighborsTransformer(mode="distance", n_neighbors=20), estimator)
    name = "fit_predict" if hasattr(estimator, "fit_predict") else "fit_transform"
    found, wanted = getattr(ours, name)(X), getattr(theirs, name)(X)
    assert found.shape == wanted.shape and np.isfinite(found).all()
    if name == "fit_predict":
        assert (found == wanted).all()


def test_the_same_matrix_as_scikit_learns(X):
    ours = asbc.NeighborsTransformer(k=10, metric="euclidean").fit(X)
    theirs = KNeighborsTransformer(mode="distance", n_neighbors=10).fit(X)
    for found, wanted in (
        (ours.fit_transform(X), theirs.fit_transform(X)),
        (ours.transform(X[:7]), theirs.transform(X[:7])),
    ):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(np.sort(found.data), np.sort(wanted.data), atol=1e-6)


def test_bad_metric(X):
    with pytest.raises(ValueError, match="metric must be 'cosine' or 'euclidean'; got 'l1'"):
        asbc.NeighborsTransformer(metric="l1").fit(X)
