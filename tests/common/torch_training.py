"""Models and comparisons with eager execution for tests of training in PyTorch."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch_support import TreeModel, assert_close, gradients, make_trees

import gluonjit

TREES = make_trees(6)


VECTORS = torch.arange(24.0).reshape(6, 4).sin()


class Layers(nn.Module):
    """Two layers on one vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x).tanh())


class Turns(nn.Module):
    """A sample of plain Python: each of its layers is a node."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, sample: tuple[Any, int]) -> Any:
        x, turns = sample
        for _ in range(turns):
            x = self.first(x).tanh()
        return self.last(x)


def turns() -> list[tuple[Any, int]]:
    return [(x, number) for number, x in enumerate(VECTORS)]


def assert_equal(actual: Any, expected: Any, what: str, tolerance: float) -> None:
    """Nested tensors and plain values are equal, tensors to rounding."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor), f"{what} is {actual!r}"
        assert actual.dtype is expected.dtype, what
        assert_close(actual.detach().clone(), expected.detach(), what, tolerance)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), what
        for key in expected:
            assert_equal(actual[key], expected[key], f"{what}[{key!r}]", tolerance)
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), what
        for number, (one, other) in enumerate(zip(actual, expected)):
            assert_equal(one, other, f"{what}[{number}]", tolerance)
    else:
        assert actual == expected, what


def assert_alike(run: Callable[[Any], Any], make: Any = TreeModel, tolerance: float = 1e-5, **options: Any) -> Any:
    """What `run(net)` gives batched is what it gives eagerly; returns the report of the batched run."""
    found = []
    for batched in (False, True):
        torch.manual_seed(0)
        net = make()
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, **options)
        found.append(run(net))
    assert_equal(found[1], found[0], "result", tolerance)
    return gluonjit.explain()


def losses(net: Any, samples: Any = TREES) -> list[Any]:
    return [net(sample).logsumexp(-1) for sample in samples]


def learned(net: Any, samples: Any = TREES) -> dict[str, Any]:
    """The gradients of a minibatch."""
    sum(losses(net, samples)).backward()
    return gradients(net)


def weights(net: Any) -> dict[str, Any]:
    return {name: parameter.detach().clone() for name, parameter in net.named_parameters()}


class Words(nn.Module):
    """A sum over words, in a table with these options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embed, self.last = nn.Embedding(7, 4, **options), nn.Linear(4, 4)

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        return sum(self.last(rows[k]).tanh() for k in range(len(words)))


SENTENCES = [torch.tensor(words) for words in ([1, 2, 2], [3, 3], [4, 5, 6, 2])]
