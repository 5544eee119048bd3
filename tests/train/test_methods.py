"""Each method's loss is the formula of its paper, worked out here in plain NumPy on fixed inputs."""

import numpy as np
import pytest
import torch

from asbc.train import BYOL, DINO, BarlowTwins, MoCoV2, Recipe, SimCLR, VICReg

from .small import flat_backbone

VIEWS = [torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]


def made(kind, **kwargs):
    torch.manual_seed(3)
    return kind(backbone=flat_backbone(), features=12, recipe=Recipe(), **kwargs)


def numbers(*networks):
    """What networks, one after the other, make of the two views."""
    found = []
    for view in VIEWS:
        with torch.no_grad():
            for network in networks:
                view = network(view)
        found.append(view.double().numpy())
    return found


def unit(z):
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def log_softmax(logits):
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def loss_of(method):
    return float(method.loss(VIEWS).detach())


def test_simclr():
    method = made(SimCLR, hidden=10, out=5, temperature=0.3)
    z = unit(np.concatenate(numbers(method.backbone, method.projector)))
    logits = z @ z.T / 0.3
    np.fill_diagonal(logits, -np.inf)
    partner = (np.arange(12) + 6) % 12
    assert loss_of(method) == pytest.approx(-log_softmax(logits)[np.arange(12), partner].mean(), rel=1e-5)


def test_mocov2_before_and_after_its_queues_fill():
    method = made(MoCoV2, hidden=10, out=5, temperature=0.3, queue=8)
    with torch.no_grad():
        method.momentum_backbone[1].weight.add_(0.1)  # the follower is another network
    queues = [unit(c.memory_bank.bank.double().numpy()) for c in method.criteria]
    queries = [unit(z) for z in numbers(method.backbone, method.projector)]
    keys = [unit(z) for z in numbers(method.momentum_backbone, method.momentum_projector)]

    def expected():
        parts = []
        for q, k, queue in ((queries[0], keys[1], queues[0]), (queries[1], keys[0], queues[1])):
            logits = np.concatenate([(q * k).sum(axis=1, keepdims=True), q @ queue.T], axis=1) / 0.3
            parts.append(-log_softmax(logits)[:, 0].mean())
        return np.mean(parts)

    assert loss_of(method) == pytest.approx(expected(), rel=1e-5)
    queues[0][:6], queues[1][:6] = keys[1], keys[0]  # the oldest go, and each direction has a queue of its own
    assert loss_of(method) == pytest.approx(expected(), rel=1e-5)


def test_byol():
    method = made(BYOL, hidden=10, out=5)
    method.train()
    guesses = numbers(method.backbone, method.projector, method.predictor)
    targets = numbers(method.momentum_backbone, method.momentum_projector)
    cosines = [(unit(guesses[i]) * unit(targets[1 - i])).sum(axis=1).mean() for i in (0, 1)]
    assert loss_of(method) == pytest.approx(sum(2 - 2 * c for c in cosines), rel=1e-5)


def test_barlow():
    method = made(BarlowTwins, hidden=10, out=5, redundancy=0.02, scale=0.5)
    first, second = numbers(method.backbone, method.projector)
    first, second = ((z - z.mean(axis=0)) / np.sqrt(z.var(axis=0) + 1e-5) for z in (first, second))
    correlation = first.T @ second / 6
    off = correlation - np.diag(np.diag(correlation))
    expected = 0.5 * (((np.diag(correlation) - 1) ** 2).sum() + 0.02 * (off**2).sum())
    assert loss_of(method) == pytest.approx(expected, rel=1e-5)


def test_vicreg():
    method = made(VICReg, hidden=10, out=5, invariance=20.0, variance=30.0, covariance=2.0)
    z = numbers(method.backbone, method.projector)
    variance = sum(np.maximum(0, 1 - np.sqrt(part.var(axis=0, ddof=1) + 1e-4)).mean() for part in z)
    covariances = [np.cov(part.T) for part in z]
    covariance = sum(((c - np.diag(np.diag(c))) ** 2).sum() / 5 for c in covariances)
    expected = 20 * ((z[0] - z[1]) ** 2).mean() + 30 * variance + 2 * covariance
    assert loss_of(method) == pytest.approx(expected, rel=1e-5)


def test_dino_and_its_centre():
    method = made(DINO, hidden=10, out=5, prototypes=7, warmup_teacher_epochs=0, teacher_temperature=0.05)
    with torch.no_grad():
        method.momentum_backbone[1].weight.add_(0.1)
    student = numbers(method.backbone, method.head)
    teacher = numbers(method.momentum_backbone, method.momentum_head)

    def expected(center):
        wanted = [np.exp(log_softmax((t - center) / 0.05)) for t in teacher]
        said = [log_softmax(s / 0.1) for s in student]
        return -np.mean([(wanted[i] * said[1 - i]).sum(axis=1).mean() for i in (0, 1)])

    assert loss_of(method) == pytest.approx(expected(np.zeros(7)), rel=1e-5)
    center = 0.1 * np.concatenate(teacher).mean(axis=0)
    assert loss_of(method) == pytest.approx(expected(center), rel=1e-5)


def test_dino_shows_local_views_to_the_student_only():
    method = made(DINO, hidden=10, out=5, prototypes=7, warmup_teacher_epochs=0, teacher_temperature=0.05)
    local = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(3))
    seen = []
    method.momentum_backbone.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    with torch.no_grad():
        said = [log_softmax(method.head(method.backbone(view)).double().numpy() / 0.1) for view in [*VIEWS, local]]
    wanted = [np.exp(log_softmax(t / 0.05)) for t in numbers(method.momentum_backbone, method.momentum_head)]
    pairs = [(i, j) for i in (0, 1) for j in (0, 1, 2) if i != j]
    expected = -np.mean([(wanted[i] * said[j]).sum(axis=1).mean() for i, j in pairs])
    seen.clear()
    assert float(method.loss([*VIEWS, local]).detach()) == pytest.approx(expected, rel=1e-5)
    assert len(seen) == 2 and seen[0] is VIEWS[0] and seen[1] is VIEWS[1]


@pytest.mark.parametrize("kind", [MoCoV2, BYOL, DINO])
def test_no_gradient_reaches_the_follower(kind):
    method = made(kind, hidden=10, out=5)
    followers = {id(p) for _, follower in method.pairs() for p in follower.parameters()}
    method.loss(VIEWS).backward()
    assert all((p.grad is None) == (id(p) in followers) for p in method.parameters() if id(p) in followers)
    assert not any(p.requires_grad for p in method.parameters() if id(p) in followers)


def test_lars_adapts_the_rate_of_weights_only_and_never_above_it():
    weight, bias = torch.nn.Parameter(torch.full((2, 2), 3.0)), torch.nn.Parameter(torch.ones(2))
    optimizer = Recipe("lars", lr=0.4, weight_decay=0.1, momentum=0.0).build([weight, bias], images=128)
    weight.grad, bias.grad = torch.full((2, 2), 0.5), torch.full((2,), 0.5)
    optimizer.step()
    lr = 0.4 * 128 / 256
    trust = min(0.02 * 6 / (1 + 6 * 0.1) / lr, 1)  # norms: 6 of the weights, 1 of their gradient
    np.testing.assert_allclose(weight.detach(), 3 - lr * trust * (0.5 + 0.1 * 3), rtol=1e-5)
    np.testing.assert_allclose(bias.detach(), 1 - lr * 0.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"optimizer": "adam"}, "optimizer must be 'lars', 'sgd' or 'adamw'"),
        ({"lr": 0.0}, "lr must be a pos"),
    ],
)
def test_a_wrong_recipe(wrong, said):
    with pytest.raises(ValueError, match=said):
        Recipe(**wrong)


def test_a_momentum_that_would_diverge_is_refused():
    with pytest.raises(ValueError, match="momentum <= final_momentum"):
        made(BYOL, momentum=0.9, final_momentum=0.5)
