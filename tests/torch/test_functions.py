"""Functions of PyTorch, captured one by one or as cells, give the same values and gradients as eagerly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import cat, nn, softmax, stack
from torch.nn import functional as F
from torch.nn.functional import cross_entropy, embedding, one_hot, pad
from torch_support import assert_same

from tests.torch.test_rules import ROW, ROWS, TWO, VECTOR, leaves


class Sample:
    """Two tensors; no plain argument, so that what is called with one is a program."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.tensors = (torch.randn(shape), torch.randn(shape))


class Calling(nn.Module):
    """Calls a function on what a layer has made, in a cell or outside of any."""

    def __init__(self, function: Any, as_cell: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.function = Cell(function) if as_cell else function

    def forward(self, sample: Sample) -> Any:
        a, b = sample.tensors
        results = leaves(list(map(unpacked, [self.function(self.first(a), self.second(b))])))
        floats = [weighted(result) for result in results if result.is_floating_point()]
        return sum(floats) if floats else self.first(a).sum()


class Cell(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: Any, b: Any) -> Any:
        return self.function(a, b)


def weighted(result: Any) -> Any:
    weights = torch.arange(1, result.numel() + 1, dtype=result.dtype).sin().reshape(result.shape)
    return (result * weights).sum()


def unpacked(result: Any) -> Any:
    return list(result) if isinstance(result, tuple) else result


@pytest.mark.parametrize("as_cell", [False, True], ids=["functions", "cell"])
@pytest.mark.parametrize("shape", [VECTOR, ROW, ROWS], ids=["vector", "row", "rows"])
@pytest.mark.parametrize("name", TWO)
def test_values_and_gradients_are_the_same(name: str, shape: tuple[int, ...], as_cell: bool) -> None:
    torch.manual_seed(0)
    net = Calling(TWO[name], as_cell)
    report = assert_same(net, [Sample(shape) for _ in range(4)], lambda net, sample: net(sample), 1e-4)
    assert not report.alone
    assert report.flushes == 1 or (name == "written in place" and not as_cell)


NAMED: dict[str, Any] = {
    "one_hot": (
        lambda a, b: one_hot(a.argmax(-1), num_classes=4).float() * b,
        lambda a, b: F.one_hot(a.argmax(-1), num_classes=4).float() * b,
    ),
    "several": (
        lambda a, b: softmax(cat((pad(a, (0, 4)), stack((a, b)).flatten(1)[:, :8])), -1),
        lambda a, b: torch.softmax(torch.cat((F.pad(a, (0, 4)), torch.stack((a, b)).flatten(1)[:, :8])), -1),
    ),
    "by indices": (
        lambda a, b: cross_entropy(embedding(b.argmax(-1), a.t()[:, :1].expand(4, 4)), b.argmax(-1)),
        lambda a, b: F.cross_entropy(F.embedding(b.argmax(-1), a.t()[:, :1].expand(4, 4)), b.argmax(-1)),
    ),
}
"""The same functions by names of the program's own, and by those of PyTorch."""


@pytest.mark.parametrize("as_cell", [False, True], ids=["functions", "cell"])
@pytest.mark.parametrize("name", NAMED)
def test_functions_by_names_of_the_programs_own_are_the_same(name: str, as_cell: bool) -> None:
    launches = []
    for function in NAMED[name]:
        torch.manual_seed(0)
        net = Calling(function, as_cell)
        samples = [Sample(ROWS) for _ in range(4)]
        launches.append(assert_same(net, samples, lambda net, sample: net(sample), 1e-4).launches)
    assert launches[0] == launches[1]


def test_functions_that_ask_inside_of_others_whether_arguments_are_lazy_are_the_same() -> None:
    def consecutive(a: Any, b: Any) -> Any:
        kept, _, counts = torch.unique_consecutive((a > 0).long(), return_inverse=True, return_counts=True)
        return [a * kept.sum(), *torch.meshgrid(a.flatten(), counts.to(b.dtype), indexing="ij")]

    torch.manual_seed(0)
    samples = [Sample(shape) for shape in (ROW, ROWS)]
    for as_cell in (False, True):
        assert_same(Calling(consecutive, as_cell), samples, lambda net, sample: net(sample))
