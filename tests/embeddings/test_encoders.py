import json
import os
import zipfile

import numpy as np
import pytest
import timm
import torch
from omegaconf import OmegaConf
from PIL import Image
from safetensors.torch import save_file
from torch.nn import functional as F

from asbc.embeddings import EncoderSource, read_checkpoint
from asbc.embeddings.download import DownloadError

from .small import Noise, checkpoint_of, cifar_resnet18, new_args, write_checkpoint

IMAGES = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def timm_model(model, path=None, cache=None, **options):
    options |= {"path": path and str(path), "cache": cache and str(cache), "dataset": Noise(3)}
    return EncoderSource("e", "timm", model=model, **options).open_encoder()


def features(model, images=IMAGES):
    with torch.inference_mode():
        return model(images).numpy()


def resnet18_by_hand(w, x):
    """ResNet-18 with solo-learn's CIFAR stem, written out: 3x3 convolution with padding 2, no max-pool."""

    def norm(name, x):
        return F.batch_norm(
            x, w[f"{name}.running_mean"], w[f"{name}.running_var"], w[f"{name}.weight"], w[f"{name}.bias"]
        )

    x = F.relu(norm("bn1", F.conv2d(x, w["conv1.weight"], padding=2)))
    for layer in range(1, 5):
        for block in range(2):
            name = f"layer{layer}.{block}"
            stride = 2 if layer > 1 and block == 0 else 1
            y = F.relu(norm(f"{name}.bn1", F.conv2d(x, w[f"{name}.conv1.weight"], stride=stride, padding=1)))
            y = norm(f"{name}.bn2", F.conv2d(y, w[f"{name}.conv2.weight"], padding=1))
            if stride == 2:
                x = norm(f"{name}.downsample.1", F.conv2d(x, w[f"{name}.downsample.0.weight"], stride=2))
            x = F.relu(x + y)
    return x.mean(dim=(2, 3))


def test_features_are_those_of_the_network_written_out(resnet):
    folder, backbone = resnet
    encoder = read_checkpoint(folder)
    by_hand = resnet18_by_hand(backbone.state_dict(), IMAGES).numpy()
    np.testing.assert_allclose(features(encoder.model), by_hand, atol=1e-5)
    assert by_hand.shape == (3, 512)
    assert encoder.image_size == (32, 32)


def test_images_are_normalised_as_solo_learn_does(resnet, rng):
    pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    ready = read_checkpoint(resnet[0]).transform(Image.fromarray(pixels)).numpy()
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.247, 0.243, 0.261])
    np.testing.assert_allclose(ready, ((pixels / 255 - mean) / std).transpose(2, 0, 1), atol=1e-6)


OLD_ARGS = [
    {"encoder": "resnet18", "dataset": "cifar10", "cifar": True, "zero_init_residual": False},
    {
        "backbone": "resnet18",
        "dataset": "cifar100",
        "backbone_args": {"cifar": True, "zero_init_residual": True},
    },
]


@pytest.mark.parametrize("args", OLD_ARGS)
@pytest.mark.parametrize("prefix", ["encoder", "backbone"])
def test_old_layouts(tmp_path, resnet, args, prefix):
    folder = write_checkpoint(tmp_path, checkpoint_of(resnet[1], prefix), args)
    np.testing.assert_array_equal(features(read_checkpoint(folder).model), features(read_checkpoint(resnet[0]).model))


def test_bare_file_is_recognised_by_its_weights(tmp_path, resnet):
    file = tmp_path / "bare.ckpt"
    torch.save(checkpoint_of(resnet[1], "encoder"), file)
    encoder = read_checkpoint(file)
    np.testing.assert_array_equal(features(encoder.model), features(read_checkpoint(resnet[0]).model))
    assert encoder.weights_hash() == read_checkpoint(resnet[0]).weights_hash()


def test_resnet50_without_the_cifar_stem(tmp_path):
    import torchvision

    torch.manual_seed(0)
    backbone = torchvision.models.resnet50(num_classes=1).eval()
    backbone.fc = torch.nn.Identity()
    folder = write_checkpoint(tmp_path, checkpoint_of(backbone), new_args("resnet50", "imagenet100"))
    for path in (folder, _alone(folder)):
        encoder = read_checkpoint(path)
        np.testing.assert_array_equal(features(encoder.model), features(backbone))
        assert encoder.transform(Image.new("RGB", (300, 280))).shape == (3, 224, 224)


@pytest.mark.parametrize(
    ("method", "heads", "parts"), [("dino", 3, ["head"]), ("mae", 12, ["decoder"]), ("mocov3", 12, ["predictor"])]
)
def test_vit(tmp_path, method, heads, parts):
    torch.manual_seed(0)
    model = timm.create_model(
        "vit_tiny_patch16_224", num_classes=0, img_size=32, patch_size=4, num_heads=heads, weight_init="jax"
    ).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)  # enough for heads to matter
    args = new_args("vit_tiny", method=method, patch_size=4, img_size=32)
    checkpoint = checkpoint_of(model)
    for part in [*parts, "momentum_projector"]:
        checkpoint["state_dict"][f"{part}.0.weight"] = torch.randn(4, 4)
    encoder = read_checkpoint(write_checkpoint(tmp_path, checkpoint, args))
    np.testing.assert_allclose(features(encoder.model), features(model), atol=1e-5)
    assert encoder.image_size == (32, 32)
    assert f"{heads} heads" in encoder.architecture
    if method == "mocov3":  # which, without args.json, could as well be BYOL with 3 heads
        with pytest.raises(ValueError, match=r"number of heads.*put args\.json next to the file"):
            read_checkpoint(_alone(tmp_path))
    else:
        alone = read_checkpoint(_alone(tmp_path))
        np.testing.assert_allclose(features(alone.model), features(model), atol=1e-5)


def _alone(folder):
    """The checkpoint without its args.json."""
    (file,) = folder.glob("*.ckpt")
    (folder / "alone").mkdir()
    os.symlink(file, folder / "alone" / file.name)
    return folder / "alone" / file.name


def test_features_equal_solo_learns_own(resnet):
    methods = pytest.importorskip("solo.methods", reason="solo-learn is not installed")

    config = {
        **new_args(),
        "method_kwargs": {"proj_hidden_dim": 64, "proj_output_dim": 512, "temperature": 0.2},
        "data": {"dataset": "cifar100", "num_classes": 100, "num_large_crops": 2, "num_small_crops": 0},
        "optimizer": {"name": "sgd", "batch_size": 8, "lr": 0.1, "weight_decay": 0, "classifier_lr": 0.1},
        "scheduler": {"name": "none"},
        "max_epochs": 1,
    }
    theirs = methods.SimCLR(OmegaConf.create(config)).eval()
    theirs.backbone.load_state_dict(resnet[1].state_dict())
    with torch.inference_mode():
        expected = theirs(IMAGES)["feats"].numpy()
    np.testing.assert_allclose(features(read_checkpoint(resnet[0]).model), expected, atol=1e-5)


# ---- bad checkpoints


def test_keys_that_do_not_match_are_counted_and_named(tmp_path, resnet):
    checkpoint = checkpoint_of(resnet[1])
    state = checkpoint["state_dict"]
    del state["backbone.layer4.1.bn2.bias"], state["backbone.bn1.weight"]
    state["backbone.extra.weight"] = torch.zeros(1)
    state["backbone.layer1.0.bn1.bias"] = torch.zeros(7)
    folder = write_checkpoint(tmp_path, checkpoint, new_args())
    with pytest.raises(ValueError, match=r"2 missing: bn1\.weight, layer4\.1\.bn2\.bias") as caught:
        read_checkpoint(folder)
    assert "1 unexpected: extra.weight" in str(caught.value)
    assert "1 of another shape: layer1.0.bn1.bias (7,) for (64,)" in str(caught.value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (new_args("resnet50"), r"args\.json: the backbone is resnet50, but the weights in .*\.ckpt are a resnet18"),
        (new_args("vit_small"), r"backbone is vit_small, but .* a resnet18"),
        (new_args(dataset="imagenet"), r"weights do not show the padding"),
        (new_args("swin_tiny"), "backbone is swin_tiny, but .* a resnet18"),
        (new_args(weights="IMAGENET1K_V1"), r"args\.json: .*resnet18 with weights is not supported"),
        (new_args(pretrained=True), r"args\.json: .*resnet18 with pretrained is not supported"),
        (new_args(color="red"), r"args\.json: .*resnet18 with color is not supported"),
        ({"hello": 1}, r"args\.json: damaged, or not an args\.json of solo-learn"),
        ([], r"args\.json: damaged, or not an args\.json of solo-learn"),
    ],
)
def test_args_of_another_architecture(tmp_path, resnet, args, message):
    (tmp_path / "args.json").write_text(json.dumps(args))
    (file,) = resnet[0].glob("*.ckpt")
    os.symlink(file, tmp_path / file.name)
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 0.5, -1])
def test_truncated(tmp_path, resnet, kept):
    (file,) = resnet[0].glob("*.ckpt")
    content = file.read_bytes()
    (tmp_path / "cut.ckpt").write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    with pytest.raises(ValueError, match=r"cut\.ckpt: damaged, or not a file of weights"):
        read_checkpoint(tmp_path / "cut.ckpt")


def test_corrupt(tmp_path, resnet):
    (file,) = resnet[0].glob("*.ckpt")
    with zipfile.ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        start = archive.getinfo(name).header_offset + 200
    content = bytearray(file.read_bytes())
    content[start : start + 200] = os.urandom(200)
    (tmp_path / "bad.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.ckpt"):
        read_checkpoint(tmp_path / "bad.ckpt")
    (tmp_path / "text.ckpt").write_text("<html>404: not found</html>")
    with pytest.raises(ValueError, match=r"text\.ckpt: damaged, or not a file of weights"):
        read_checkpoint(tmp_path / "text.ckpt")


class Payload:
    """Runs a command in the shell of whoever unpickles it."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path, resnet, zipped):
    witness = tmp_path / "witness"
    checkpoint = {**checkpoint_of(resnet[1]), "hyper_parameters": Payload(f"touch {witness}")}
    torch.save(checkpoint, tmp_path / "evil.ckpt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"evil\.ckpt: refused, .* call posix\.system.* trust_checkpoint=true"):
        read_checkpoint(tmp_path / "evil.ckpt")
    with pytest.raises(ValueError, match="refused"):
        timm_model("resnet18", tmp_path / "evil.ckpt")
    assert not witness.exists()
    # The payload is real: trusted, it runs. (And so it is the test that the way past works.)
    np.testing.assert_array_equal(
        features(read_checkpoint(tmp_path / "evil.ckpt", trust_checkpoint=True).model),
        features(read_checkpoint(resnet[0]).model),
    )
    assert witness.exists()


def test_harmless_objects_are_refused_too(tmp_path, resnet):
    torch.save({**checkpoint_of(resnet[1]), "hyper_parameters": OmegaConf.create({"a": 1})}, tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=r"refused, .* omegaconf\.dictconfig\.DictConfig"):
        read_checkpoint(tmp_path / "a.ckpt")
    read_checkpoint(tmp_path / "a.ckpt", trust_checkpoint=True)


def test_a_bit_that_flips_in_the_weights_is_found(tmp_path):
    """torch reads past the checksums that it writes."""
    torch.save({"state_dict": {"backbone.conv1.weight": torch.zeros(1000)}}, tmp_path / "a.ckpt")
    content = bytearray((tmp_path / "a.ckpt").read_bytes())
    content[content.index(bytes(400)) + 100] ^= 1
    (tmp_path / "a.ckpt").write_bytes(content)
    assert torch.load(tmp_path / "a.ckpt")["state_dict"]["backbone.conv1.weight"].any()
    with pytest.raises(ValueError, match=r"a\.ckpt: damaged, .* \(the checksum of a/data/0 differs\)"):
        read_checkpoint(tmp_path / "a.ckpt")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({3: 1, (1, 2): 2}, r"neither a ResNet nor a ViT|name the encoder with prefix"),
        ({"x" * 10**6: 1}, r"x{100}\.\.\. \(1,000,000 characters\)"),
        ({"a\nb": 1}, r"'a\\nb'"),
    ],
)
def test_odd_names_of_weights(tmp_path, names, message):
    torch.save({"state_dict": {name: torch.zeros(size) for name, size in names.items()}}, tmp_path / "odd.ckpt")
    with pytest.raises(ValueError, match=message) as refused:
        read_checkpoint(tmp_path / "odd.ckpt")
    assert "odd.ckpt" in str(refused.value) and len(str(refused.value)) < 2000 and "\n" not in str(refused.value)


def test_other_files(tmp_path, resnet):
    torch.save(torch.zeros(3), tmp_path / "tensor.ckpt")
    with pytest.raises(ValueError, match="expected a dictionary of weights, got Tensor"):
        read_checkpoint(tmp_path / "tensor.ckpt")
    torch.save({"state_dict": {"net.weight": torch.zeros(3)}}, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"name the encoder with prefix=.* none; the file has net\. \(1 weights\)"):
        read_checkpoint(tmp_path / "other.ckpt")
    torch.save({"epoch": 3, "args": {}}, tmp_path / "empty.pth")
    with pytest.raises(ValueError, match=r"holds no weights, but epoch, args"):
        read_checkpoint(tmp_path / "empty.pth")
    torch.save({"state_dict": {"backbone.stem.weight": torch.zeros(3)}}, tmp_path / "strange.ckpt")
    with pytest.raises(ValueError, match=r"neither a ResNet nor a ViT \(first weights: stem\.weight\)"):
        read_checkpoint(tmp_path / "strange.ckpt")
    with pytest.raises(ValueError, match=r"expected one \.ckpt file, got other\.ckpt, strange"):
        read_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file of weights"):
        read_checkpoint(tmp_path / "nowhere")


# ---- timm


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_timm_from_a_local_file_with_its_own_transform(tmp_path, suffix):
    torch.manual_seed(0)
    whole = timm.create_model("vit_tiny_patch16_224", pretrained=False).eval()  # with its classifier
    file = tmp_path / f"weights.{suffix}"
    save_file(whole.state_dict(), file) if suffix == "safetensors" else torch.save({"model": whole.state_dict()}, file)
    encoder = timm_model("vit_tiny_patch16_224", file)
    image = encoder.transform(Image.new("RGB", (32, 32), "teal"))[None]
    assert image.shape[-2:] == encoder.image_size == (224, 224)
    with torch.inference_mode():
        wanted = whole.forward_head(whole.forward_features(image), pre_logits=True).numpy()
    np.testing.assert_allclose(features(encoder.model, image), wanted, atol=1e-6)


def test_dino_vits16_is_what_the_paper_needs():
    model = timm.create_model("vit_small_patch16_224.dino", pretrained=False, num_classes=0)
    assert model.num_features == 384


def test_timm_errors(tmp_path):
    with pytest.raises(ValueError, match=r"does not name weights .*path=<file.*resnet18\.a1_in1k"):
        timm_model("resnet18")
    with pytest.raises(ValueError, match="model: no timm model given"):
        timm_model(None)
    with pytest.raises(ValueError, match="cannot create model='resnet_of_dreams'"):
        timm_model("resnet_of_dreams", tmp_path / "x.pth")
    with pytest.raises(FileNotFoundError, match=r"none\.pth: no such file of weights"):
        timm_model("resnet18", tmp_path / "none.pth")
    torch.save(cifar_resnet18().state_dict(), tmp_path / "cifar.pth")
    with pytest.raises(ValueError, match=r"as resnet18: .* conv1\.weight \(64, 3, 3, 3\) for \(64, 3, 7, 7\)"):
        timm_model("resnet18", tmp_path / "cifar.pth")


def test_timm_hub_out_of_reach(monkeypatch, tmp_path, pauses):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match=r"(?s)1 file is missing \(HF_HUB_OFFLINE.*path=<file>"):
        timm_model("vit_small_patch16_224.dino")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        DownloadError, match=r"(?s)(refused|no answer).*http://127\.0\.0\.1:9/some/one/resolve/main/config\.json "
    ):
        timm_model("hf-hub:some/one")
    assert sum(pauses) < 4, "the hub's own library would try for half a minute"


def folder_of(path, model, weights, name="model.safetensors", **config):
    """A folder as timm writes it for the hub."""
    path.mkdir(parents=True, exist_ok=True)
    images = {"input_size": [3, 224, 224], "classifier": "head", "num_classes": 1000}
    config = {"architecture": "vit_tiny_patch16_224", "num_features": 192, "pretrained_cfg": images, **config}
    (path / "config.json").write_text(json.dumps(config))
    if name.endswith(".safetensors"):
        save_file(weights, path / name)
    else:
        torch.save(weights, path / name)
    return f"local-dir:{path}"


@pytest.fixture(scope="module")
def whole_vit():
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", pretrained=False).eval()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_timm_local_folder(tmp_path, whole_vit, name):
    encoder = timm_model(folder_of(tmp_path, "vit", whole_vit.state_dict(), name))
    image = torch.rand(1, 3, 224, 224)
    with torch.inference_mode():
        wanted = whole_vit.forward_head(whole_vit.forward_features(image), pre_logits=True).numpy()
    np.testing.assert_allclose(features(encoder.model, image), wanted, atol=1e-5)


def test_timm_hub_repository_in_the_hubs_cache(tmp_path, whole_vit, monkeypatch):
    """In the layout of the hub's cache, from which its own library serves without a network."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--some--vit"
    folder_of(repository / "snapshots" / ("c" * 40), "vit", whole_vit.state_dict())
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c" * 40)
    image = torch.rand(1, 3, 224, 224)
    with torch.inference_mode():
        wanted = whole_vit.forward_head(whole_vit.forward_features(image), pre_logits=True).numpy()
    np.testing.assert_allclose(features(timm_model("hf-hub:some/vit").model, image), wanted, atol=1e-5)
    folder_of(
        tmp_path / "ours" / "hub" / "some" / "other", "vit", whole_vit.state_dict()
    )  # where an error says to put it
    model = timm_model("hf-hub:some/other", cache=tmp_path / "ours", download=False).model
    np.testing.assert_allclose(features(model, image), wanted, atol=1e-5)


def test_weights_that_do_not_fit_never_leave_a_random_network(tmp_path, whole_vit):
    state = whole_vit.state_dict()
    half = {key: value for key, value in state.items() if "blocks.1" not in key}
    with pytest.raises(ValueError, match=r"the weights do not fit\. \d+ missing: blocks\.1\."):
        timm_model(folder_of(tmp_path / "half", "vit", half))
    foreign = {f"other.{key}": value for key, value in state.items()}
    with pytest.raises(ValueError, match=r"\d+ missing: cls_token.*ResNets and ViTs have the prefixes 'other\."):
        timm_model(folder_of(tmp_path / "foreign", "vit", foreign))
    empty = folder_of(tmp_path / "empty", "vit", {})
    with pytest.raises(ValueError, match="holds no weights"):
        timm_model(empty)
    (tmp_path / "empty" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="no such file of weights"):
        timm_model(empty)
    weights = tmp_path / "foreign.pth"
    torch.save(foreign, weights)
    named = timm_model("vit_tiny_patch16_224", weights, prefix="other.")
    assert named.weights_hash() == timm_model(folder_of(tmp_path / "right", "vit", state)).weights_hash()


def test_a_folder_of_timm_cannot_run_code(tmp_path, whole_vit):
    name = "pytorch_model.bin"
    witness = tmp_path / "witness"
    evil = {**whole_vit.state_dict(), "extra": Payload(f"touch {witness}")}
    model = folder_of(tmp_path / "evil", "vit", evil, name)
    with pytest.raises(ValueError, match=r"refused, .* call posix\.system"):
        timm_model(model)
    assert not witness.exists()
    for arguments in ({"checkpoint_path": str(tmp_path / "evil" / name)}, {"pretrained": True}):
        model = folder_of(tmp_path / "config", "vit", whole_vit.state_dict(), model_args=arguments)
        with pytest.raises(ValueError, match="timm cannot create model='local-dir:"):
            timm_model(model)
    model = folder_of(tmp_path / "config", "vit", whole_vit.state_dict(), architecture=f"local-dir:{tmp_path / 'evil'}")
    with pytest.raises(ValueError, match="timm cannot create model='local-dir:"):
        timm_model(model)
    assert not witness.exists()


# ---- which part is the encoder


def test_prefixes(tmp_path):
    import torchvision

    nets = [torchvision.models.resnet18(num_classes=1).eval() for _ in range(2)]
    for net in nets:
        net.fc = torch.nn.Identity()
    one, two = (net.state_dict() for net in nets)
    image = torch.rand(2, 3, 64, 64)

    def save(name, **parts):
        state = {
            f"{part.replace('_', '.')}.{key}": value for part, inside in parts.items() for key, value in inside.items()
        }
        torch.save({"state_dict": state, "epoch": 1}, tmp_path / name)
        return tmp_path / name

    file = save("lightning.ckpt", backbone=one, student_backbone=two)  # the second as student.backbone
    np.testing.assert_allclose(features(read_checkpoint(file).model, image), features(nets[0], image), atol=1e-5)
    for prefix in ("student.backbone.", "student.backbone", "student."):
        other = read_checkpoint(file, prefix=prefix)
        np.testing.assert_allclose(features(other.model, image), features(nets[1], image), atol=1e-5)
    with pytest.raises(
        ValueError, match=r"no weights start with prefix='teacher\.'.*'backbone\.', 'student\.backbone\.';"
    ):
        read_checkpoint(file, prefix="teacher")
    # stable-pretraining: teacher and student inside the backbone, numbers beside them
    file = save(
        "stable.ckpt", backbone_student=one, backbone_teacher=two, backbone={"ema_coefficient": torch.zeros(())}
    )
    with pytest.raises(ValueError, match=r"encoder with prefix=.*'backbone\.student\.', 'backbone\.teacher\.'"):
        read_checkpoint(file)
    teacher = read_checkpoint(file, prefix="backbone.teacher.")
    np.testing.assert_allclose(features(teacher.model, image), features(nets[1], image), atol=1e-5)
    # side by side without a state_dict, as DINO's own code writes them
    torch.save(
        {"student": {f"module.{k}": v for k, v in one.items()}, "teacher": two, "epoch": 3}, tmp_path / "dino.pth"
    )
    with pytest.raises(ValueError, match=r"name the encoder with prefix=.*'student\.module\.', 'teacher\.'"):
        read_checkpoint(tmp_path / "dino.pth")
    teacher = read_checkpoint(tmp_path / "dino.pth", prefix="teacher")
    np.testing.assert_allclose(features(teacher.model, image), features(nets[1], image), atol=1e-5)


@pytest.mark.parametrize("name", ["resnet18", "resnet34", "vit_tiny_patch16_224"])
def test_plain_state_dicts_with_their_classifiers(tmp_path, name):
    import torchvision

    torch.manual_seed(0)
    vit = name.startswith("vit")
    net = (timm.create_model(name, pretrained=False) if vit else getattr(torchvision.models, name)()).eval()
    torch.save(net.state_dict(), tmp_path / "plain.pth")
    encoder = read_checkpoint(tmp_path / "plain.pth")
    image = torch.rand(1, 3, 224, 224)
    setattr(net, "head" if vit else "fc", torch.nn.Identity())
    np.testing.assert_allclose(features(encoder.model, image), features(net, image), atol=1e-5)
    assert encoder.image_size == (224, 224)


def test_an_encoder_of_asbc_pretrain_without_padding_takes_arrays_of_any_size(tmp_path, resnet):
    own = {"padding": 0, "image_size": 32, "mean": [0.5] * 3, "std": [0.2] * 3}
    encoder = read_checkpoint(write_checkpoint(tmp_path, checkpoint_of(resnet[1]), {**new_args(), "asbc": own}))
    assert encoder.model.conv1.padding == (0, 0)
    assert encoder.transform(np.zeros((48, 64, 3), np.uint8)).shape == (3, 32, 32)


def test_a_stem_whose_padding_the_file_does_not_show(tmp_path, resnet):
    torch.save({"state_dict": {f"backbone.{k}": v for k, v in resnet[1].state_dict().items()}}, tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=r"do not show the padding .* padding=2 \(solo-learn\)"):
        read_checkpoint(tmp_path / "a.ckpt")
    one, two = (read_checkpoint(tmp_path / "a.ckpt", padding=padding) for padding in (1, 2))
    np.testing.assert_array_equal(features(two.model), features(read_checkpoint(resnet[0]).model))
    assert np.abs(features(one.model) - features(two.model)).max() > 1e-3
    assert one.architecture != two.architecture
