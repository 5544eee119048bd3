"""Graphs on disk: what is read is what was written, and incomplete or foreign files are refused."""

import json
import os
import shutil

import numpy as np
import pytest
from scipy import sparse

import asbc
from asbc.export import to_edge_list, to_networkx, to_pyg, write_npz, write_parquet
from asbc.outofcore import build_graph
from asbc.storage import DamagedFileError, write_json


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(3).normal(size=(300, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def pristine(X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    np.save(folder / "x.npy", X)
    build_graph(folder / "x.npy", folder / "built", asbc.GraphBuilder(k_cand=12), search="exact", block=100)
    return folder / "built"


@pytest.fixture
def built(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "built")


def test_the_graph_is_lazy_and_works_like_any_other(X, built):
    graph = asbc.load_graph(built)
    wanted = asbc.GraphBuilder(k_cand=12).fit_transform(X)
    for name in ("indptr", "indices", "data"):
        array = getattr(graph, name)
        assert isinstance(array.base, np.memmap) and not array.flags.writeable
        assert array.dtype == (np.float64 if name == "data" else np.int32)
        assert (array == getattr(wanted, name)).all()
    vector = np.arange(300.0)
    np.testing.assert_array_equal(graph @ vector, wanted @ vector)
    assert (graph[7:20] != wanted[7:20]).nnz == 0
    assert abs(graph - graph.T).nnz == 0


def test_nodes_and_rows(X, built):
    builder = asbc.GraphBuilder(k_cand=12).fit(X)
    nodes = asbc.load_nodes(built)
    assert set(nodes) == {"sigma", "effective_rank", "slope", "objective", "at_edge", "dimension"}
    assert (nodes["dimension"] == builder.dimension_).all()
    for name in set(nodes) - {"dimension"}:
        assert (nodes[name] == getattr(builder.bandwidth_, name)).all()
    neighbors, weights = asbc.load_rows(built)
    assert (neighbors.indices == builder.neighbors_.indices).all()
    assert (neighbors.distances == builder.neighbors_.distances).all()
    assert (weights == builder.weights_).all()


def test_files_that_are_incomplete_or_missing(built):
    for content in (b"", (built / "graph/data.npy").read_bytes()[:-5]):
        (built / "graph/data.npy").write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"data\.npy: not a readable \.npy file, or an incomplete one"):
            asbc.load_graph(built)
    (built / "graph/data.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"data\.npy: no such file"):
        asbc.load_graph(built)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "<f4"}, "has dtype float64, expected float32"),
        ({"shape": [7]}, r"has shape \(\d+,\), expected \(7,\)"),
        ({"dtype": "foo"}, r"manifest\.json: damaged \(the entry of graph/data\.npy is .*'foo'"),
        ({"dtype": [1]}, r"manifest\.json: damaged \(the entry of graph/data\.npy"),
        ({"dtype": None}, r"manifest\.json: damaged \(the entry of graph/data\.npy"),
        ({"shape": None}, r"manifest\.json: damaged \(the entry of graph/data\.npy"),
        ({"shape": ["x"]}, r"manifest\.json: damaged \(the entry of graph/data\.npy"),
    ],
)
def test_a_manifest_that_describes_another_file(built, change, message):
    manifest = json.loads((built / "manifest.json").read_text())
    manifest["files"]["graph/data.npy"].update(change)
    write_json(built / "manifest.json", manifest)
    with pytest.raises(DamagedFileError, match=message):
        asbc.load_graph(built)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": "x"}, "'n' must be a whole number, .*; got 'x'"),
        ({"n": None}, "'n' must be a whole number"),
        ({"files": []}, "'files' an object"),
        ({"files": {"graph/indptr.npy": 5}}, r"the entry of graph/indptr\.npy is 5"),
        ({"files": {}}, r"the entry of graph/indptr\.npy is None"),
    ],
)
def test_a_manifest_of_other_kinds_of_values(built, change, message):
    write_json(built / "manifest.json", json.loads((built / "manifest.json").read_text()) | change)
    with pytest.raises(DamagedFileError, match=rf"manifest\.json: .*{message}"):
        asbc.load_graph(built)


def test_a_damaged_manifest_and_other_folders(built, tmp_path):
    text = (built / "manifest.json").read_text()
    (built / "manifest.json").write_text(text[: len(text) // 2])
    with pytest.raises(DamagedFileError, match="damaged"):
        asbc.load_graph(built)
    (built / "manifest.json").write_text(text.replace('"format": 1', '"format": 99'))
    with pytest.raises(DamagedFileError, match=r"manifest\.json: damaged \(its checksum differs"):
        asbc.load_graph(built)
    write_json(built / "manifest.json", json.loads(text) | {"format": 99})
    with pytest.raises(DamagedFileError, match="format 99; this version of asbc reads 1"):
        asbc.load_graph(built)
    (built / "manifest.json").unlink()
    with pytest.raises(DamagedFileError, match="not finished"):
        asbc.load_graph(built)
    with pytest.raises(FileNotFoundError, match="not a folder that asbc-build wrote"):
        asbc.load_graph(tmp_path)


# --- exporters ---


def rebuilt(sources, targets, weights, n):
    return sparse.csr_array((weights, (sources, targets)), shape=(n, n))


def test_edge_list(built):
    graph = asbc.load_graph(built)
    sources, targets, weights = to_edge_list(graph)
    assert sources.dtype == targets.dtype == np.int64
    assert (rebuilt(sources, targets, weights, 300) != graph).nnz == 0


def test_pyg(built, X):
    pytest.importorskip("torch_geometric")
    graph = asbc.load_graph(built)
    data = to_pyg(graph, x=X, y=np.arange(300) % 3)
    assert data.validate() and data.num_nodes == 300 and data.x.shape == (300, 6) and data.y.shape == (300,)
    assert data.is_undirected()
    back = rebuilt(*data.edge_index.numpy(), data.edge_weight.numpy(), 300)
    assert abs(back - graph).max() < 1e-7
    with pytest.raises(ValueError, match="y must have 300 rows, one per node; got 4"):
        to_pyg(graph, y=[1, 2, 3, 4])


def test_networkx(built):
    networkx = pytest.importorskip("networkx")
    graph = asbc.load_graph(built)
    exported = to_networkx(graph)
    assert type(exported) is networkx.Graph
    assert (networkx.to_scipy_sparse_array(exported, nodelist=range(300)) != graph).nnz == 0
    directed = sparse.csr_array(sparse.triu(graph))
    assert type(to_networkx(directed)) is networkx.DiGraph


def test_parquet_and_npz(built, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    monkeypatch.setattr("asbc.export.ROWS_PER_GROUP", 77)
    graph = asbc.load_graph(built)
    write_parquet(graph, tmp_path / "edges.parquet")
    table = pq.read_table(tmp_path / "edges.parquet")
    assert table.column_names == ["source", "target", "weight"]
    columns = [table[name].to_numpy() for name in table.column_names]
    assert (rebuilt(*columns, 300) != graph).nnz == 0
    write_npz(graph, tmp_path / "graph.npz")
    assert (sparse.load_npz(tmp_path / "graph.npz") != graph).nnz == 0


def test_only_sparse_matrices_are_exported():
    with pytest.raises(TypeError, match="graph must be a scipy sparse matrix"):
        to_edge_list(np.eye(3))


# --- folders of strangers ---


def rename_in_manifest(built, old, new):
    manifest = json.loads((built / "manifest.json").read_text())
    manifest["files"] = {new if name == old else name: entry for name, entry in manifest["files"].items()}
    write_json(built / "manifest.json", manifest)


@pytest.mark.parametrize("name", ["nodes/../../secret.npy", "nodes/../nodes/sigma.npy", "nodes/..\\..\\secret.npy"])
def test_names_that_leave_the_folder_are_refused(built, name):
    (built / "nodes" / "sigma.npy").rename(built.parent / "secret.npy")
    rename_in_manifest(built, "nodes/sigma.npy", name)
    with pytest.raises(DamagedFileError, match="points outside the folder"):
        asbc.load_nodes(built)


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", ["graph", "graph/data.npy", "manifest.json"])
def test_links_out_of_the_folder_are_refused(built, name, verify):
    (built / name).rename(built.parent / "elsewhere")
    (built / name).symlink_to(built.parent / "elsewhere")
    with pytest.raises(DamagedFileError, match="a link that leads outside the folder"):
        asbc.load_graph(built, verify=verify)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["graph/data.npy", "manifest.json"])
@pytest.mark.timeout(60)
def test_a_pipe_does_not_block(built, name):
    (built / name).unlink()
    os.mkfifo(built / name)
    with pytest.raises((DamagedFileError, FileNotFoundError), match=r"not a regular file|no manifest|not finished"):
        asbc.load_graph(built)
