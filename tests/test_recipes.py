"""docs/recipes.md is followed to the letter, each recipe against the real package."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import asbc

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "recipes.md").read_text()
START = re.search(r"```python\n(.*?)```", TEXT, re.S)[1]
RECIPES = dict(re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", TEXT, re.M | re.S))
SYMMETRIC = RECIPES["HDBSCAN, DBSCAN, Isomap, TSNE over our distances"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    X, labels = load_digits(n_class=4, return_X_y=True)
    np.save(folder / "embeddings.npy", X[:300].astype(np.float32))
    np.save(folder / "labels.npy", labels[:300])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found: dict = {}
        exec(START, found)
    return found


def follow(recipe, names, package=None):
    """The names that are there after a recipe."""
    if package:
        pytest.importorskip(package)
    found = dict(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other libraries' own
        exec(RECIPES[recipe], found)
    return found


def test_every_recipe_is_tested():
    own = Path(__file__).read_text()
    assert len(RECIPES) == 9 and all(f'"{recipe}"' in own for recipe in RECIPES)


def test_tensors_and_frames(names):
    found = follow("Tensors and data frames in", names, "torch")
    for graph in (found["from_tensor"], found["from_frame"]):
        assert abs(graph - names["A"]).max() == 0


def test_neighbours_of_others(names):
    found = follow("Neighbours that faiss, pynndescent or scikit-learn found", names)
    np.testing.assert_array_equal(found["reused"].neighbors_.indices, names["builder"].neighbors_.indices)


def test_scanpy(names):
    found = follow("scanpy", names, "scanpy")
    assert adjusted_rand_score(names["labels"], found["clusters"]) > 0.4
    assert abs(found["adata"].obsp["connectivities"] - names["A"]).max() == 0


def test_pyg(names):
    data = follow("PyTorch Geometric", names, "torch_geometric")["data"]
    assert data.validate() and data.num_edges == names["A"].nnz and data.is_undirected()


def test_networks(names):
    pytest.importorskip("networkx")
    found = follow("NetworkX and igraph", names, "igraph")
    assert found["network"].number_of_edges() == found["graph"].ecount() == names["A"].nnz / 2
    assert adjusted_rand_score(names["labels"], found["communities"].membership) > 0.4
    from scipy import sparse

    assert asbc.export.to_igraph(sparse.csr_matrix(names["A"])).ecount() == found["graph"].ecount()


def test_map(names):
    places = follow("A map, by UMAP's layout of this graph", names, "umap")["places"]
    assert places.shape == (300, 2) and np.isfinite(places).all()
    # Neighbours on the map are neighbours in the graph: most share their class.
    near = asbc.search_neighbors(places, k=5).indices
    assert (names["labels"][near] == names["labels"][:, None]).mean() > 0.9


def test_cleanlab(names):
    issues = follow("cleanlab's Datalab", names, "cleanlab")["issues"]
    assert {"is_label_issue", "is_outlier_issue", "is_near_duplicate_issue"} <= set(issues.columns)
    assert len(issues) == 300 and issues["label_score"].mean() > 0.9


def test_precomputed_distances(names):
    found = follow("HDBSCAN, DBSCAN, Isomap, TSNE over our distances", names)
    assert len(found["by_density"]) == 300 and len(np.unique(found["by_density"])) > 1
    # Nearly what HDBSCAN finds where it may see all distances.
    wanted = HDBSCAN(min_cluster_size=15, copy=True).fit_predict(asbc.normalize(names["X"]))
    assert len(np.unique(wanted)) > 2 and adjusted_rand_score(wanted, found["topics"]) > 0.9


def test_bertopic(names):
    documents = [
        f"digit {name} looks like {name}" for name in np.array(["nil", "one", "two", "three"])[names["labels"]]
    ]
    pytest.importorskip("bertopic")
    found = dict(names, documents=documents)
    exec(SYMMETRIC, found)
    assert len(follow("BERTopic", found)["found"]) == 300
