"""Against a real HTTP server on this machine that misbehaves as told."""

import errno
import hashlib
import os
import subprocess
import threading
import time

import numpy as np
import pytest

from asbc.embeddings import EncoderSource, download
from asbc.embeddings import source as published
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import CacheError, RemoteFile, file_hash

from .web import CONTENT, cut, status

SHA1 = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
QUICK = {"pause": 0.001, "timeout": 5.0}


def fetch(url, target, sha1, **options):
    download.fetch(RemoteFile(url, target, f"git:{sha1}"), **options)


def test_downloads_and_leaves_nothing_else(server, tmp_path):
    fetch(server.url, tmp_path / "deep" / "file.npy", SHA1, **QUICK)
    assert (tmp_path / "deep" / "file.npy").read_bytes() == CONTENT
    assert not list(tmp_path.rglob("*.part"))


def test_blob_hash_is_gits(tmp_path):
    (tmp_path / "file").write_bytes(b"hello\n")
    assert file_hash(tmp_path / "file", "git") == "ce013625030ba8dba906f756967f9e9ca394464a"  # known to every git user
    git = subprocess.run(["git", "hash-object", tmp_path / "file"], capture_output=True, text=True)
    assert git.returncode or git.stdout.strip() == file_hash(tmp_path / "file", "git")


def test_cut_connections_are_resumed_where_they_broke(server, tmp_path):
    server.behave = [cut(100_000), cut(50_000), cut(0)]
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-", "bytes=150000-"]


def test_more_cuts_than_patience_while_bytes_arrive(server, tmp_path):
    server.behave = [cut(20_000)] * 12
    fetch(server.url, tmp_path / "file.npy", SHA1, tries=2, **QUICK)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_a_later_process_goes_on(server, tmp_path):
    (tmp_path / "file.npy.part").write_bytes(CONTENT[:123_456])
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert server.ranges == ["bytes=123456-"]
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_a_complete_part_needs_no_byte(server, tmp_path):
    (tmp_path / "file.npy.part").write_bytes(CONTENT)
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_a_server_without_ranges(server, tmp_path):
    server.behave = [cut(1000), lambda handler: handler.answer(CONTENT, ranged=False)]
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_another_range_than_asked(server, tmp_path):
    def elsewhere(handler):
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 7-{len(CONTENT) - 1}/{len(CONTENT)}")
        handler.end_headers()
        handler.wfile.write(CONTENT[7:])

    server.behave = [cut(1000), elsewhere]
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_lengths_that_lie(server, tmp_path):
    too_long = [lambda handler: handler.answer(CONTENT, declared=len(CONTENT) + 999, ranged=False)]
    server.behave = too_long  # more than there is
    fetch(server.url, tmp_path / "long.npy", SHA1, **QUICK)
    server.behave = [lambda handler: handler.answer(CONTENT, declared=1000)]  # less: the file seems to end early
    fetch(server.url, tmp_path / "short.npy", SHA1, **QUICK)
    assert (tmp_path / "long.npy").read_bytes() == (tmp_path / "short.npy").read_bytes() == CONTENT


def test_wrong_bytes_once_and_always(server, tmp_path):
    wrong = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    server.behave = [lambda handler: handler.answer(wrong)]
    fetch(server.url, tmp_path / "once.npy", SHA1, **QUICK)
    assert (tmp_path / "once.npy").read_bytes() == CONTENT
    server.content = wrong
    with pytest.raises(DownloadError, match=f"its git hash is .*, expected {SHA1} .gave up"):
        fetch(server.url, tmp_path / "always.npy", SHA1, **QUICK)
    assert not (tmp_path / "always.npy").exists()
    assert not (tmp_path / "always.npy.part").exists()


def test_a_part_of_another_file(server, tmp_path):
    (tmp_path / "file.npy.part").write_bytes(b"x" * 1000)
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_404_is_final(server, tmp_path):
    server.behave = [status(404)] * 9
    with pytest.raises(DownloadError, match=r"file\.npy: the server answered 404 Not Found"):
        fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert len(server.ranges) == 1


def test_500_and_429_pass(server, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(download.time, "sleep", pauses.append)
    server.behave = [status(500), status(503), status(429), cut(5000), status(502)]
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert len(pauses) == 5
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_500_for_ever(server, tmp_path):
    server.behave = [status(500)] * 99
    with pytest.raises(DownloadError, match=r"the server answered 500 .*gave up"):
        fetch(server.url, tmp_path / "file.npy", SHA1, tries=4, **QUICK)
    assert len(server.ranges) == 4


def test_back_off_doubles(server, tmp_path, pauses):
    server.behave = [status(500)] * 99
    with pytest.raises(DownloadError):
        fetch(server.url, tmp_path / "file.npy", SHA1, tries=9, pause=1.0)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_silence(server, tmp_path):
    server.behave = [lambda handler: time.sleep(2)]
    fetch(server.url, tmp_path / "file.npy", SHA1, pause=0.001, timeout=0.3)
    assert (tmp_path / "file.npy").read_bytes() == CONTENT


def test_a_server_that_cuts_and_sends_wrong_ranges_is_not_asked_for_ever(server, tmp_path):
    def elsewhere(handler):
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 7-{len(CONTENT) - 1}/{len(CONTENT)}")
        handler.end_headers()

    server.behave = [cut(1000), elsewhere] * 999
    with pytest.raises(DownloadError, match="gave up"):
        fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert len(server.ranges) < 20


def test_more_than_the_size_that_is_expected(server, tmp_path):
    for spoil in (None, lambda handler: handler.without_length(CONTENT)):
        server.behave = [spoil]
        small = RemoteFile(server.url, tmp_path / "file.npy", f"git:{SHA1}", size=1000)
        with pytest.raises(DownloadError, match="larger than the 5196 bytes expected at most"):
            download.fetch(small, **QUICK)
        assert not (tmp_path / "file.npy.part").exists()


def test_no_network(tmp_path):
    with pytest.raises(DownloadError, match=r"refused|no answer"):
        fetch("http://127.0.0.1:9/file.npy", tmp_path / "file.npy", SHA1, tries=2, pause=0.001)


def test_proxies_are_those_of_the_moment(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert download.unreachable(server.url) is not None
    monkeypatch.delenv("http_proxy")
    assert download.unreachable(server.url) is None
    fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)


def test_several_at_once_download_once(server, tmp_path):
    errors = []

    def job():
        try:
            fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
        except BaseException as error:
            errors.append(error)

    jobs = [threading.Thread(target=job) for _ in range(5)]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    assert not errors
    assert len(server.ranges) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_full_disk(server, tmp_path):
    os.symlink("/dev/full", tmp_path / "file.npy.part")  # the kernel's own full disk
    with pytest.raises(CacheError, match=r"disk is full.*\(No space left on device\).*ASBC_CACHE"):
        fetch(server.url, tmp_path / "file.npy", SHA1, **QUICK)
    assert not (tmp_path / "file.npy").exists()


def test_read_only_folder(server, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "mkdir", refuse)  # permissions do not stop root; what the system call says does
    with pytest.raises(CacheError, match="Read-only file system"):
        fetch(server.url, tmp_path / "new" / "file.npy", SHA1, **QUICK)


# ---- published embeddings


@pytest.fixture
def repository(server, monkeypatch, cache, tmp_path, rng):
    """The local server as the public repository, with small files and their true hashes."""
    files = {}
    for name, array in {
        "embeddings_simclr_test.npy": rng.standard_normal((20, 8)).astype(np.float32),
        "embeddings_byol_test.npy": rng.standard_normal((20, 8)).astype(np.float32),
        "labels_test.npy": np.arange(20) % 4,
    }.items():
        np.save(tmp_path / name, array)
        files[f"data/cifar100/{name}"] = tmp_path / name
    facts = {"repository": "some/where", "commit": "c" * 40}
    facts["git_blob_sha1"] = {name: file_hash(file, "git") for name, file in files.items()}
    monkeypatch.setattr(published, "registry", lambda name: facts)
    monkeypatch.setattr(published, "HOST", server.url.rsplit("/", 1)[0])
    server.content = {f"/some/where/{'c' * 40}/{name}": file.read_bytes() for name, file in files.items()}
    return files


def test_published(repository, server, cache):
    loaded = EncoderSource("simclr").load()
    assert (loaded.name, loaded.encoder) == ("cifar100", "simclr")
    assert not loaded.vectors.flags.writeable, "memory-mapped"
    assert np.array_equal(loaded.vectors, np.load(repository["data/cifar100/embeddings_simclr_test.npy"]))
    assert np.array_equal(loaded.labels, np.arange(20) % 4)
    assert len(server.ranges) == 2
    assert EncoderSource("simclr").load().fingerprint == loaded.fingerprint
    EncoderSource("byol").load()
    assert len(server.ranges) == 3, "what is in the cache is not asked for again"
    assert EncoderSource("simclr", cache=str(cache)).load().fingerprint == loaded.fingerprint


def test_offline_says_what_to_put_where_and_that_works(repository, server, cache):
    server.behave = [status(404)]
    with pytest.raises(DownloadError) as caught:
        EncoderSource("simclr").load()
    text = str(caught.value)
    assert text.startswith("simclr on cifar100: 2 files are missing")
    assert text.count("http://127.0.0.1") == 2, "each file's address"
    assert text.count("about 20.5 MB, git:") == text.count("about 0.1 MB, git:") == 1
    assert "embedding.source=lightly" in text
    assert "embedding.source=sample works at once" in text and "not the paper's" in text
    place = next(
        line.split("put it at ")[1] for line in text.splitlines() if "simclr_test.npy" in line and "put" in line
    )
    assert published.registry("published")["git_blob_sha1"]["data/cifar100/embeddings_simclr_test.npy"] in text
    os.makedirs(os.path.dirname(place), exist_ok=True)
    content = repository["data/cifar100/embeddings_simclr_test.npy"].read_bytes()
    with open(place, "wb") as file:
        file.write(content[:-1] + b"?")
    with pytest.raises(ValueError, match=r"embeddings_simclr_test\.npy: not the published file"):
        EncoderSource("simclr").load()
    with open(place, "wb") as file:
        file.write(content)
    assert len(EncoderSource("simclr").load()) == 20


def test_offline_published_fails_within_seconds(repository, monkeypatch, pauses):
    monkeypatch.setattr(published, "HOST", "http://127.0.0.1:9")
    with pytest.raises(
        DownloadError, match=r"(?s)2 files are missing .*(refused|no answer).*embeddings_simclr.*labels_test"
    ):
        EncoderSource("simclr").load()
    assert not pauses


@pytest.mark.parametrize(
    ("encoder", "dataset", "split"),
    [("clip", "cifar100", "test"), ("simclr", "mnist", "test"), ("simclr", "cifar10", "val")],
)
def test_unknown_names_are_answered_with_the_known(encoder, dataset, split):
    with pytest.raises(ValueError, match=r"barlow, byol, .*simclr.* on cifar10 and cifar100, train and test"):
        EncoderSource(encoder, dataset=dataset, split=split).load()


def test_the_facts_hold_all_six_encoders():
    files = published.registry("published")["git_blob_sha1"]
    assert len(published.registry("published")["commit"]) == 40
    for dataset in ("cifar10", "cifar100"):
        for split in ("train", "test"):
            assert f"data/{dataset}/labels_{split}.npy" in files
            for encoder in ("simclr", "mocov2", "byol", "barlow", "vicreg", "dino"):
                assert len(files[f"data/{dataset}/embeddings_{encoder}_{split}.npy"]) == 40
