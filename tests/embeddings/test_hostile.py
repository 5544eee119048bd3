"""Files that somebody else made: no code in them runs, no size in them is believed, and the error is one line."""

import io
import json
import os
import resource
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from asbc.embeddings import Files, read_checkpoint
from asbc.embeddings.store import Entry, read_entry
from asbc.storage import DamagedFileError, folder_lock, read_json, write_json
from tests.commands import call

from .small import checkpoint_of, new_args, write_checkpoint


class Payload:
    def __init__(self, witness):
        self.witness = witness

    def __reduce__(self):
        return os.system, (f"touch {self.witness}",)


@pytest.fixture
def limited():
    """Fail to allocate beyond 40 GB of addresses, so that a size that is believed does not take the machine down."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (40 * 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def own_args(**changes):
    settings = {"padding": 2, "image_size": 32, "mean": [0.5] * 3, "std": [0.2] * 3}
    return {**new_args(), "asbc": {**settings, **changes}}


@pytest.mark.parametrize(
    "args",
    [
        new_args(width_per_group=10**7),
        new_args(groups=10**9),
        new_args(norm_layer="os.system"),
        new_args("vit_tiny", mlp_ratio=1e12),
        new_args("vit_tiny", img_size=10**7),
        new_args("vit_tiny", weight_init="os.system"),
        {**new_args(), "backbone": {"name": {"a": 1}}},
        {**new_args(), "data": {"dataset": ["cifar100"]}},
        {**new_args(), "data": 7},
        {"backbone": None, "data": {"dataset": "cifar100"}},
        own_args(image_size=10**9),
        own_args(image_size="32"),
        own_args(padding=10**9),
        own_args(mean=[0.5]),
        own_args(std=[0.0, 1.0, 1.0]),
        own_args(std=[float("nan")] * 3),
        own_args(mean="abc"),
    ],
    ids=lambda args: str(args)[-60:],
)
def test_hostile_args(resnet, tmp_path, limited, args):
    write_checkpoint(tmp_path, checkpoint_of(resnet[1]), args)
    with pytest.raises((ValueError, TypeError)) as refused:
        read_checkpoint(tmp_path)
    said = str(refused.value)
    assert ("args.json" in said or ".ckpt" in said) and "\n" not in said and len(said) < 1000, said


@pytest.mark.parametrize("width", [10**9, 4096, "os.system"])
def test_sizes_in_args_are_not_believed(resnet, tmp_path, limited, width):
    write_checkpoint(tmp_path, checkpoint_of(resnet[1]), new_args(width=width))
    assert read_checkpoint(tmp_path).weights_hash() == read_checkpoint(resnet[0]).weights_hash()


def test_args_of_any_size_and_depth(resnet, tmp_path):
    write_checkpoint(tmp_path, checkpoint_of(resnet[1]), new_args())
    good = (tmp_path / "args.json").read_bytes()
    contents = [b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b" " * 2_000_000 + good, b"[" * 10, b"\xff\xfe", b"", b"[]"]
    for content in contents:
        (tmp_path / "args.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"args\.json: damaged, or not an args\.json") as refused:
            read_checkpoint(tmp_path)
        assert "\n" not in str(refused.value) and len(str(refused.value)) < 500


def test_a_checkpoint_that_runs_code_through_the_command(resnet, tmp_path):
    """In every place of the file: beside the weights, as a weight, as a key, in the old format of torch."""
    state = checkpoint_of(resnet[1])["state_dict"]
    for number, content in enumerate(
        (
            {"state_dict": state, "hyper_parameters": Payload(tmp_path / "ran")},
            {"state_dict": {**state, "backbone.conv1.weight": Payload(tmp_path / "ran")}},
            Payload(tmp_path / "ran"),
        )
    ):
        for old in (False, True):
            file = tmp_path / f"{number}{old}.ckpt"
            torch.save(content, file, _use_new_zipfile_serialization=not old)
            words = ["embedding=encoder", f"embedding.path={file}", "embedding.padding=2", "embedding.download=false"]
            env = {**os.environ, "ASBC_CACHE": str(tmp_path / "cache")}
            done = call("asbc.embeddings.command", words, cwd=tmp_path, env=env)
            assert done.returncode == 1 and "refused, reading it would call" in done.stderr, done.stderr
            assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def test_hostile_args_through_the_command(resnet, tmp_path, limited):
    write_checkpoint(tmp_path, checkpoint_of(resnet[1]), new_args())
    good = (tmp_path / "args.json").read_bytes()
    (tmp_path / "stranger_mod.py").write_text("raise SystemExit('imported')\n")
    target = json.dumps({**new_args(), "_target_": "stranger_mod.Rule", "data": {"_target_": "stranger_mod.Rule"}})
    contents = [b'{"a":' * 50_000, b" " * 2_000_000 + good, b"", b"[]", b"\xff", good[:-20], target.encode()]
    contents += [json.dumps(args).encode() for args in (new_args(groups=10**9), own_args(image_size=10**9))]
    env = {**os.environ, "ASBC_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    words = ["embedding=encoder", f"embedding.path={tmp_path}", "embedding.download=false"]
    for content in contents:
        (tmp_path / "args.json").write_bytes(content)
        done = call("asbc.embeddings.command", words, cwd=tmp_path, env=env)
        assert done.returncode == 1 and "args.json" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1 and len(done.stderr) < 1000
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["args.json", "a.ckpt"])
def test_a_pipe_in_place_of_a_checkpoint_does_not_block_the_command(resnet, tmp_path, name):
    write_checkpoint(tmp_path, checkpoint_of(resnet[1]), new_args())
    old = tmp_path / name if name == "args.json" else next(tmp_path.glob("*.ckpt"))
    old.unlink()
    os.mkfifo(old)
    words = ["embedding=encoder", f"embedding.path={tmp_path}", "embedding.download=false"]
    env = {**os.environ, "ASBC_CACHE": str(tmp_path / "cache")}
    done = call("asbc.embeddings.command", words, cwd=tmp_path, env=env)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert str(old) in done.stderr or str(tmp_path) in done.stderr


def test_weights_that_declare_more_than_the_file_holds(resnet, tmp_path, limited):
    state = checkpoint_of(resnet[1])["state_dict"]
    state["backbone.conv1.weight"] = torch.zeros(()).expand(64, 3, 3, 3)
    torch.save({"state_dict": state}, tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=r"a\.ckpt.*conv1\.weight declares more numbers than the file holds"):
        read_checkpoint(tmp_path / "a.ckpt")
    patches = torch.zeros(()).expand(1, 10**12 + 1, 192)
    vit = {
        "cls_token": torch.zeros(1, 1, 192),
        "pos_embed": patches,
        "patch_embed.proj.weight": torch.zeros(192, 3, 4, 4),
    }
    torch.save(vit, tmp_path / "b.ckpt")
    with pytest.raises(ValueError, match=r"b\.ckpt") as refused:
        read_checkpoint(tmp_path / "b.ckpt")
    assert "\n" not in str(refused.value)


def test_an_archive_that_unpacks_to_far_more(resnet, tmp_path):
    content = io.BytesIO()
    torch.save(checkpoint_of(resnet[1]), content)
    with zipfile.ZipFile(content) as good, zipfile.ZipFile(tmp_path / "bomb.ckpt", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in good.namelist():
            packed.writestr(name, good.read(name))
    with pytest.raises(ValueError, match=r"bomb\.ckpt: damaged, .*archive is compressed"):
        read_checkpoint(tmp_path / "bomb.ckpt")


@pytest.fixture
def entry(tmp_path):
    entry = Entry("entry", tmp_path)
    entry.write(np.arange(5), np.arange(15.0).reshape(5, 3), np.arange(5))
    entry.publish(5, {"encoder": "e", "dataset": "d"})
    return entry.folder


@pytest.mark.parametrize(
    "change",
    [
        {"shape": []},
        {"shape": "ab"},
        {"shape": [5, -3]},
        {"shape": [10**18, 3]},
        {"shape": None},
        {"dtype": "object"},
        {"dtype": "os.system"},
        {"dtype": 5},
        {"checksums": {}},
        {"checksums": None},
        {"checksums": ["vectors.npy"]},
        {"checksums": {"vectors.npy": "0"}},
    ],
    ids=str,
)
def test_a_manifest_with_a_valid_checksum_and_wrong_contents(entry, change):
    write_json(entry / "manifest.json", {**read_json(entry / "manifest.json"), **change})
    for read in (read_entry, lambda folder: Files(str(folder)).load()):
        with pytest.raises(DamagedFileError) as refused:
            read(entry)
        assert str(entry) in str(refused.value) and "\n" not in str(refused.value)


def test_links_and_pipes_in_an_entry(entry, tmp_path):
    content = (entry / "vectors.npy").read_bytes()
    (tmp_path / "elsewhere.npy").write_bytes(content)
    (entry / "vectors.npy").unlink()
    (entry / "vectors.npy").symlink_to(tmp_path / "elsewhere.npy")
    with pytest.raises(DamagedFileError, match="a link that leads outside the folder"):
        read_entry(entry)
    (entry / "vectors.npy").unlink()
    os.mkfifo(entry / "vectors.npy")
    with pytest.raises(DamagedFileError, match="not a regular file"):
        read_entry(entry)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to become two other users")
def test_two_users_share_a_cache():
    """A lock file that one user created could only be read by the other, whose jobs all failed."""
    cache = Path(tempfile.mkdtemp(prefix="asbc-shared-"))
    (cache / "embeddings").mkdir()
    for folder in (cache, cache / "embeddings"):
        folder.chmod(0o777)
    try:
        for turn, user in enumerate((12_001, 12_002, 12_001)):
            if (child := os.fork()) == 0:
                code = 1
                try:
                    os.umask(0o022)
                    os.setgid(user)
                    os.setuid(user)
                    with folder_lock(cache, ".key.lock", timeout=5):
                        entry = Entry(str(turn), cache)
                        entry.write(np.arange(2), np.full((2, 3), turn), None)
                        entry.publish(2, {"encoder": "e", "dataset": "d"})
                    found = [read_entry(Entry(str(number), cache).folder).vectors[0, 0] for number in range(turn + 1)]
                    code = int(found != list(range(turn + 1)))
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, f"user {user}"
    finally:
        shutil.rmtree(cache)
