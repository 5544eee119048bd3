import functools

import torch
from torchvision.transforms import v2

from asbc.embeddings.datamodule import stable_text, without_addresses
from tests.commands import run


def by(amount):
    return lambda image: image * amount


def plain(image):
    return image + 1


class Brighter:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, image):
        return image * self.amount


def test_what_differs_is_told_apart():
    several = [
        plain,
        by(1),
        by(2),
        v2.Lambda(lambda image: image + 1),
        v2.Lambda(lambda image: image + 2),
        v2.Lambda(lambda image: image - 1),
        v2.Lambda(lambda image: image.sum()),
        v2.Lambda(lambda image: image.mean()),
        v2.Compose([v2.Lambda(by(1)), v2.Resize(8)]),
        v2.Compose([v2.Lambda(by(2)), v2.Resize(8)]),
        v2.Compose([v2.Lambda(by(2)), v2.Resize(9)]),
        functools.partial(plain),
        Brighter(1),
        Brighter(2),
        Brighter(1).__call__,
        v2.Normalize((0.1,), (1,)),
        v2.Normalize((0.2,), (1,)),
        Brighter(torch.zeros(3)),
        Brighter(torch.ones(3)),
    ]
    assert len({stable_text(one) for one in several}) == len(several)
    assert stable_text(by(2)) == stable_text(by(2)) and stable_text(Brighter(1)) == stable_text(Brighter(1))


def test_a_class_counts_by_its_code():
    def made(body):
        space = {"__name__": "mine"}
        exec(f"class T:\n    def __call__(self, x):\n        return {body}", space)
        return space["T"]()

    assert stable_text(made("x + 1")) == stable_text(made("x + 1")) != stable_text(made("x + 2"))


def test_a_global_that_is_read_counts():
    def made(value):
        space = {"__name__": "mine", "K": value}
        exec("def f(x):\n    return x * K", space)
        return space["f"]

    assert stable_text(made(1)) == stable_text(made(1)) != stable_text(made(2))


def said_of_many():
    """A description that would differ between processes, if it told addresses or the order of a set."""
    loop = Brighter(1)
    loop.amount = loop
    pick = lambda image: image if image in {"a", "b", "c"} else None  # noqa: E731
    return stable_text([v2.Compose([v2.Lambda(plain), v2.RandomCrop(3)]), by({"x", "y", "z"}), loop, pick, print])


def say():
    print({"x", "y", "z"}, {"a", "b", "c"})
    print(said_of_many())


def test_another_process_says_the_same():
    # The order of a set of strings follows from the process's hash seed, which is another one there.
    done = run("tests.embeddings.test_stable_text:say", [])
    order, said = done.stdout.splitlines()
    assert order != f"{ {'x', 'y', 'z'} } { {'a', 'b', 'c'} }", done.stderr
    assert said == said_of_many() and "0x" not in said


def test_addresses_go():
    assert without_addresses("<function f at 0x7f00Ab> at 3") == "<function f> at 3"
