"""lightly's encoders, from a web server on this machine with files in the layout of its checkpoints."""

import io
import os
import re
import ssl
import subprocess
import threading

import numpy as np
import pytest
import timm
import torch
import torchvision
from torch import nn
from torchvision.transforms import v2

from asbc.embeddings import EncoderSource, download
from asbc.embeddings import source as published
from asbc.embeddings.download import DownloadError
from asbc.embeddings.source import lightly_file
from asbc.embeddings.store import RemoteFile, cache_folder

from .small import shake
from .web import CONTENT, Server, status

SIX = ("simclr", "mocov2", "byol", "barlow", "vicreg", "dino")


def lightly_encoder(name):
    return EncoderSource(name, "lightly").open_encoder()


def vit_small():
    torch.manual_seed(0)
    return timm.create_model("vit_small_patch16_224", pretrained=False).eval()


def as_lightly_writes(name, backbone):
    """The bytes of a checkpoint: the encoder under its prefix, all other parts beside it, an optimiser's state."""
    weights = backbone.state_dict()
    inner = "vit." if name == "dino_vits16" else ""
    parts = published.registry("lightly")["encoders"][name]["other_parts"]
    state = {f"backbone.{inner}{key}": value for key, value in weights.items()}
    if inner:
        state["backbone.mask_token"] = torch.zeros(1, 1, 384)
    for part in parts:
        if part.endswith("backbone"):  # of other weights, which as copies of one number take no room in the file
            state |= {f"{part}.{inner}{key}": torch.zeros(()).expand(value.shape) for key, value in weights.items()}
        else:
            state[f"{part}.layers.0.weight"] = torch.randn(4, 4)
    content = io.BytesIO()
    optimizer = [{"state": {0: {"momentum_buffer": torch.zeros(3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}]
    hyper = {"batch_size_per_device": 128, "num_classes": 1000}
    torch.save(
        {"epoch": 99, "state_dict": state, "optimizer_states": optimizer, "hyper_parameters": hyper, "loops": {}},
        content,
    )
    return content.getvalue()


@pytest.fixture(scope="session")
def resnet50():
    torch.manual_seed(0)
    net = shake(torchvision.models.resnet50(num_classes=1))
    net.fc = nn.Identity()
    return net.eval()


@pytest.fixture
def hosted(server, monkeypatch, cache):
    """The server as lightly's, with the addresses' own paths; ``contents`` takes a checkpoint of each name."""
    encoders = {}
    for name, known in published.registry("lightly")["encoders"].items():
        path = "/" + known["url"].split("/", 3)[3]
        encoders[name] = {**known, "url": server.url.removesuffix("/file.npy") + path, "path": path}
    monkeypatch.setattr(published, "registry", lambda name: {"encoders": encoders})
    server.content = {}
    return server, encoders


def give(hosted, name, content):
    server, encoders = hosted
    server.content[encoders[name]["path"]] = content


def features(model, images):
    with torch.inference_mode():
        return model(images).numpy()


def test_the_addresses_of_all_seven():
    encoders = published.registry("lightly")["encoders"]
    assert set(encoders) == {*SIX, "dino_vits16"}
    assert all(known["url"].startswith("https://") and known["url"].endswith(".ckpt") for known in encoders.values())
    assert lightly_file("simclr", "/c").path.name == "epoch=99-step=500400.ckpt"


@pytest.mark.parametrize("name", SIX)
def test_a_resnet_under_its_prefix(hosted, name, resnet50):
    give(hosted, name, as_lightly_writes(name, resnet50))
    encoder = lightly_encoder(name)
    images = torch.rand(1, 3, 64, 64)  # a ResNet takes any size, and small ones are soon done
    np.testing.assert_allclose(features(encoder.model, images), features(resnet50, images), atol=1e-5)
    assert encoder.image_size == (224, 224)


def test_the_vit_gives_its_class_token_after_the_final_norm(hosted):
    vit = vit_small()
    give(hosted, "dino_vits16", as_lightly_writes("dino_vits16", vit))
    encoder = lightly_encoder("dino_vits16")
    images = torch.rand(2, 3, 224, 224)
    with torch.inference_mode():
        token = vit.forward_features(images)[:, 0].numpy()
    np.testing.assert_allclose(features(encoder.model, images), token, atol=1e-5)
    assert token.shape == (2, 384)


@pytest.mark.parametrize("cifar", [4], indirect=True)
def test_cifar_at_224_once_downloaded_and_compared_ever_after(hosted, cifar, resnet50):
    give(hosted, "mocov2", as_lightly_writes("mocov2", resnet50))
    source = EncoderSource(
        "mocov2", "lightly", root=str(cifar[0]), trainer={"accelerator": "cpu", "enable_progress_bar": False}
    )
    loaded = source.load()
    assert loaded.vectors.shape == (4, 2048)
    prepare = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    image = torchvision.transforms.functional.to_pil_image(cifar[1][3])
    image = prepare(
        torchvision.transforms.functional.center_crop(torchvision.transforms.functional.resize(image, 256), 224)
    )
    mean, deviation = (torch.tensor(c)[:, None, None] for c in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    by_hand = features(resnet50, ((image - mean) / deviation)[None])[0]
    np.testing.assert_allclose(loaded.vectors[3], by_hand, atol=1e-4, rtol=1e-4)
    server, _ = hosted
    asked = len(server.ranges)
    assert source.load().fingerprint == loaded.fingerprint
    assert len(server.ranges) == asked, "downloaded once"
    file = lightly_file("mocov2").path
    with open(file, "r+b") as opened:
        opened.seek(1000)
        opened.write(b"??")
    with pytest.raises(ValueError, match=r"changed or damaged since its first use .*SHA-256 was \w{64}, it is \w{64}"):
        source.load()


def test_a_broken_download_goes_on_in_a_later_process(hosted, resnet50):
    content = as_lightly_writes("simclr", resnet50)
    give(hosted, "simclr", content)
    server, _ = hosted
    file = lightly_file("simclr")
    server.behave = [lambda handler: handler.answer(content, sent=100_000), *[status(500)] * 9]
    with pytest.raises(DownloadError, match="500"):
        download.fetch(file, tries=2, pause=0.001)
    assert not file.path.exists()
    server.behave, server.ranges = [], []
    assert lightly_encoder("simclr").image_size == (224, 224)
    assert server.ranges == ["bytes=100000-"]
    assert sorted(path.name.split(".")[-1] for path in file.path.parent.iterdir()) == ["ckpt", "lock", "sha256"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda handler: handler.page(b"<html>Sign in to this network</html>"), "answered with a web page"),
        (lambda handler: handler.without_length(b"PK" * 1000), "neither its length nor a hash is known"),
        (
            lambda handler: handler.answer(b"", declared=1 << 40, empty=True),
            "larger than the 8589934592 bytes",
        ),
        (status(404), "404"),
    ],
)
def test_answers_that_are_not_the_file(hosted, spoil, message):
    server, _ = hosted
    server.behave = [spoil] * 9
    file = lightly_file("simclr")
    with pytest.raises(DownloadError, match=message):
        download.fetch(file, pause=0.001)
    assert not file.path.exists()
    assert not file.path.with_name(file.path.name + ".part").exists()


def test_another_architecture_and_a_payload(hosted, resnet50):
    small = torchvision.models.resnet18(num_classes=1)
    small.fc = nn.Identity()
    give(hosted, "byol", as_lightly_writes("byol", small))
    with pytest.raises(ValueError, match="lightly's byol is a resnet50, this is a resnet18"):
        lightly_encoder("byol")
    witness = cache_folder() / "witness"

    class Payload:
        def __reduce__(self):
            return os.system, (f"touch {witness}",)

    content = io.BytesIO()
    torch.save({"state_dict": resnet50.state_dict(), "hyper_parameters": Payload()}, content)
    give(hosted, "vicreg", content.getvalue())
    with pytest.raises(ValueError, match="refused, reading it would call"):
        lightly_encoder("vicreg")
    assert not witness.exists()


def test_a_redirect_to_plain_http_is_refused(server, tmp_path, monkeypatch):
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("no openssl here to make a certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    plain = Server(CONTENT)
    threading.Thread(target=plain.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    server.behave = [status(302, Location=plain.url)]
    file = RemoteFile(server.url.replace("http:", "https:"), tmp_path / "file.npy")
    with pytest.raises(DownloadError, match=r"refused, the server redirects to unencrypted http://127"):
        download.fetch(file, pause=0.001)
    plain.shutdown()
    plain.server_close()
    assert not file.path.exists()


def test_without_a_network_one_message_names_every_file(cache, monkeypatch, pauses):
    dead = "http://127.0.0.1:9"
    known = {
        name: {**each, "url": f"{dead}/{name}.ckpt"} for name, each in published.registry("lightly")["encoders"].items()
    }
    monkeypatch.setattr(published, "registry", lambda name: {"encoders": known})
    with pytest.raises(DownloadError) as caught:
        EncoderSource("mocov2", "lightly").load()
    assert not pauses
    text = str(caught.value)
    assert text.startswith("mocov2 on cifar100: 2 files are missing")
    assert f"{dead}/mocov2.ckpt" in text and str(cache / "lightly" / "mocov2" / "mocov2.ckpt") in text
    assert re.search(r"cifar-100-python\.tar\.gz \(about 169\.0 MB, md5:\w{32}\)\n +put it at ", text)
    assert "embedding.source=published" in text and "embedding=clinc100" in text
    assert "embedding.source=sample works at once" in text and "not the paper's" in text
    with pytest.raises(ValueError, match=r"no weights of encoder='clip'; there are simclr, mocov2"):
        EncoderSource("clip", "lightly").load()
