"""The table beside other libraries: every line has its time and recall, and what was measured is kept at once."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SCRIPT = EXPERIMENTS / "benchmark_peers.py"
MODULES = (
    "benchmark",
    "benchmark_peers",
    "benchmark_scale",
    "block_memory",
    "make_mixture",
    "peers_lines",
    "peers_table",
)
IVF = [f"faiss IVF {target}" for target in (".90", ".95", ".98", ".99")]


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(EXPERIMENTS)
    import benchmark_peers

    yield benchmark_peers
    for name in MODULES:
        sys.modules.pop(name, None)


def names(peers, n, pattern=""):
    return [line.name for line in peers.contestants(n, pattern)]


def test_who_takes_part_depends_on_the_size(peers):
    usual, large = names(peers, 100_000), names(peers, 1_000_000)
    assert usual == list(peers.LINES)
    assert names(peers, 3_000, "asbc|IVF") == ["asbc exact", "asbc NNK-sigma"]
    assert names(peers, 1_000_000, "HNSW") == ["faiss HNSW .98"]
    assert names(peers, 1_000_000, "IVF") == IVF
    assert not {"asbc exact", "faiss flat", "scikit-learn brute", "bare product of all pairs"} & set(large)
    # Whole graphs, and all that the others are compared with, take part at every size.
    assert all(peers.LINES[name].against in (None, *large) for name in large)
    assert [name for name in usual if peers.LINES[name].group == "graph"] == large[-4:]


def test_where_there_is_one_round_all_is_compiled_before_it(peers):
    sizes = (3_000, 100_000, 1_000_000)
    assert [peers.usual_rounds(n) for n in sizes] == [5, 5, 1]
    assert [peers.rows_to_warm_up(n) for n in sizes] == [3_000, 3_000, 50_000]


def test_vectors_made_some_rows_at_a_time_are_those_made_at_once(peers):
    from peers_lines import around

    centers = np.random.default_rng(0).normal(size=(5, 8))
    made = [around(centers, 0.5, 100, np.random.default_rng(1), rows=rows) for rows in (7, 100)]
    assert np.array_equal(*made)
    assert np.linalg.norm(made[0], axis=1) == pytest.approx(1, abs=1e-6)


def test_one_process_builds_an_index_once_and_searches_it_at_every_recall(peers, tmp_path):
    peers.write_vectors(tmp_path, 1500, 16, "text-like")
    one = peers.Contestant(IVF, tmp_path)
    one.wait()
    first, second = one.run(), one.run()
    one.close()
    assert list(first) == list(second) == IVF
    breadths = [first[name]["settings"]["breadth"] for name in IVF]
    assert breadths == sorted(breadths) and breadths[0] < breadths[-1]
    assert breadths == [second[name]["settings"]["breadth"] for name in IVF]
    for answers in (first, second):
        assert len({answers[name]["settings"]["build_seconds"] for name in IVF}) == 1
        for name in IVF:
            assert answers[name]["seconds"] > answers[name]["settings"]["build_seconds"] > 0
            assert answers[name]["cpu"] > 0
            assert answers[name]["recall"] >= float(name.split()[-1])


def test_a_search_that_serves_two_recalls_is_made_once(peers, tmp_path, monkeypatch):
    peers.write_vectors(tmp_path, 1500, 16, "text-like")
    X, sample, exact = (np.load(tmp_path / f"{name}.npy") for name in ("vectors", "sample", "exact"))
    built = []

    def index(X, kind):
        built.append(Counting(len(X)))
        return built[-1]

    class Counting:
        """Finds everything from a breadth of 3 on, and nothing before."""

        def __init__(self, n):
            self.n, self.nprobe, self.searches = n, 0, []

        def search(self, queries, k):
            if len(queries) == self.n:
                self.searches.append(self.nprobe)
            found = np.full((len(queries), k), -1)
            rows = sample if len(queries) == self.n else slice(None)
            found[rows, : peers.K] = exact if self.nprobe >= 3 else -1
            return None, found

    monkeypatch.setattr(peers, "faiss_index", index)
    run = peers.one_index(X, "ivf", [0.9, 0.99], sample, exact)
    answers = run() + run()
    assert [answer["settings"]["breadth"] for answer in answers] == [3] * 4
    assert [answer["recall"] for answer in answers] == [1.0] * 4
    assert [one.searches for one in built] == [[3], [3]]


def test_json_holds_every_line_with_the_rounds_that_it_has(peers, tmp_path, monkeypatch):
    """After each run, though the next one may never end."""
    file = tmp_path / "peers.json"
    old = {"n": 1200, "d": 8, "data": "clusters", "group": "search", "recall": 1.0, "against": None, "settings": {}}
    old |= {"seconds": [1.0], "cpu": [1.0], "load": 0.0}
    file.write_text(json.dumps({"cores": 2, "lines": [old | {"name": "asbc exact"}, old | {"name": "faiss flat"}]}))
    options = [
        "--sizes",
        "1200",
        "--columns",
        "8",
        "--data",
        "clusters",
        "--lines",
        "asbc exact|product",
        "--rounds",
        "2",
    ]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options, "--json", str(file), "--output", str(tmp_path)])
    written = []

    def write(path, text):
        written.append({line["name"]: line for line in json.loads(text)["lines"]})
        path.write_text(text)

    monkeypatch.setattr(peers, "write_whole", write)
    peers.main()
    product = "bare product of all pairs"
    assert len(written) == 4  # two processes, two rounds
    for number, lines in enumerate(written, 1):
        assert list(lines) == [product, "asbc exact", "faiss flat"]
        assert lines["faiss flat"]["seconds"] == [1.0]
        assert len(lines[product]["seconds"]) == (number + 1) // 2
        assert len(lines[product].get("seconds_ratio", [])) == number // 2
    last = json.loads(file.read_text())["lines"]
    assert [len(line["seconds"]) for line in last] == [2, 2, 1]
    line = last[0]
    assert line["seconds_ratio"] == pytest.approx(np.divide(line["seconds"], last[1]["seconds"]))
    assert last[1]["recall"] == 1.0 and line["recall"] is None


def test_lines_of_a_run_take_the_place_of_earlier_ones(peers):
    def line(n, data, name, mark):
        return {"n": n, "d": 8, "data": data, "name": name, "mark": mark}

    before = [line(10, "clusters", "faiss flat", 1), line(10, "text-like", "asbc NNK-sigma", 1)]
    now = [line(10, "text-like", "faiss HNSW .99", 2), line(10, "clusters", "faiss flat", 2)]
    found = [(x["data"], x["name"], x["mark"]) for x in peers.merged(before, now)]
    assert found == [
        ("text-like", "faiss HNSW .99", 2),
        ("text-like", "asbc NNK-sigma", 1),
        ("clusters", "faiss flat", 2),
    ]


def test_table_and_plot_are_made_from_the_json(peers, tmp_path, monkeypatch):
    import peers_table

    lines = []
    for data in peers.VECTORS:
        for name in ("asbc lists .98", "faiss IVF .98", "asbc NNK-sigma"):
            spent = {"seconds": 2.0, "cpu": 4.0, "recall": 0.981, "settings": {}}
            answers = {"asbc lists .98": [spent], "asbc NNK-sigma": [spent | {"recall": None}]}
            answers["faiss IVF .98"] = [spent | {"seconds": 3.0}]
            lines.append(peers.table_line(peers.LINES[name], answers, n=10**6, d=384, data=data))
    file, page = tmp_path / "peers.json", tmp_path / "page.md"
    file.write_text(json.dumps({"cores": 2, "lines": lines}))
    page.write_text("before\n{}\nold\n{}\nafter\n".format(*peers_table.MARKS))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--docs", str(page), "--json", str(file)])
    peers.main()
    text = page.read_text()
    assert text.startswith("before") and text.endswith("after\n") and "old" not in text
    told = "| search: faiss IVF .98 | 3 | 4 | 0.981 | asbc lists .98 | 1.50 [1.50, 1.50] | 1.00 [1.00, 1.00] |"
    assert f"| 1,000,000 x 384 | clusters {told}" in text
    assert text.count("graph: asbc NNK-sigma") == 2
    for name in ("recall.png", "speed.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_benchmark_leaves_no_process_behind(tmp_path, number):
    command = [sys.executable, str(SCRIPT), "--sizes", "1500", "--columns", "8", "--rounds", "1000000"]
    command += ["--lines", "product|flat", "--json", str(tmp_path / "peers.json"), "--output", str(tmp_path)]
    folder = tmp_path / "temporary"
    folder.mkdir()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)})
    told = [process.stderr.readline() for _ in range(4)]
    process.send_signal(number)
    # Its processes write their errors where it does: the end is read when the last of them is gone.
    process.communicate(timeout=60)
    assert [line.split(": ")[1].split(",")[0] for line in told] == 2 * ["bare product of all pairs", "faiss flat"]
    if number == signal.SIGTERM:
        assert not list(folder.iterdir())


def test_a_process_ends_in_the_middle_of_a_run_when_nobody_waits_for_it(tmp_path):
    code = "import benchmark_peers, time; benchmark_peers.requests(); print('runs', flush=True); time.sleep(100_000)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(EXPERIMENTS)},
    )
    assert process.stdout.readline() == "runs\n"
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()


@pytest.mark.parametrize("name", ["NNK by dropping (PyNNK's algorithm)", "GraphLearning weightmatrix.knn"])
def test_peers_without_a_search_are_given_neighbours_as_our_graph_finds_them(peers, monkeypatch, name):
    import benchmark_scale

    import asbc

    search, seen = asbc.search_neighbors, []

    def searched(X, k, **options):
        seen.append((k, options))
        return search(X, k, **options)

    monkeypatch.setattr(asbc, "search_neighbors", searched)
    graph = benchmark_scale.PEERS[name](peers.VECTORS["clusters"](300, 8))
    assert graph.shape == (300, 300) and graph.nnz
    assert seen == [(peers.K, {"search": asbc.GraphBuilder().search})]
