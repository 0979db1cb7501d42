"""Operators of PyTorch that sum over rows, losses above all, are one kind whatever the number of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_support import assert_same

import gluonjit

LENGTHS = (1, 2, 3, 2, 5)


@pytest.fixture(autouse=True)
def fresh() -> None:
    gluonjit.clear_caches()
    torch.manual_seed(0)


def tagged() -> list[Any]:
    return [(torch.randn(length, 4), torch.randint(0, 3, (length,))) for length in LENGTHS]


@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 1.0, 2.0])], ids=["", "weights"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_of_rows_is_one_launch(reduction: str, weight: Any) -> None:
    def loss(net: Any, sample: Any) -> Any:
        x, target = sample
        return functional.cross_entropy(net(x), target, weight, reduction=reduction)

    report = assert_same(nn.Linear(4, 3), tagged(), loss)
    assert report.kinds["cross_entropy"] == (5, 5, 1)
    assert not report.by_number.keys() & {"cross_entropy"}


def test_calls_that_differ_in_more_than_their_rows_run_apart() -> None:
    def loss(net: Any, sample: Any) -> Any:
        x, target = sample
        scores = net(x)
        return functional.cross_entropy(scores, target) + functional.cross_entropy(scores, target, reduction="sum")

    assert assert_same(nn.Linear(4, 3), tagged(), loss).kinds["cross_entropy"] == (10, 10, 2)


def test_rows_that_are_ignored_count_neither_as_losses_nor_in_their_mean() -> None:
    samples = [(x, torch.cat([torch.tensor([1]), target[1:]])) for x, target in tagged()]
    samples = [(x, torch.where(torch.arange(len(target)) == 1, -100, target)) for x, target in samples]
    report = assert_same(nn.Linear(4, 3), samples, lambda net, pair: functional.cross_entropy(net(pair[0]), pair[1]))
    assert report.kinds["cross_entropy"].launches == 1


def test_a_loss_that_is_a_module_is_one_launch_too() -> None:
    criterion = nn.CrossEntropyLoss()
    report = assert_same(nn.Linear(4, 3), tagged(), lambda net, pair: criterion(net(pair[0]), pair[1]))
    assert report.kinds["CrossEntropyLoss"] == (5, 5, 1)


def test_sums_over_rows_are_one_launch() -> None:
    rows = [x for x, _ in tagged()]
    report = assert_same(nn.Linear(4, 3), rows, lambda net, x: net(x).tanh().sum(0))
    assert report.kinds["sum"] == (10, 10, 2), "one of rows, one of what they give"
    report = assert_same(nn.Linear(4, 3), rows, lambda net, x: net(x).tanh().sum())
    assert report.kinds["sum"] == (10, 10, 2)
    report = assert_same(nn.Linear(4, 3), rows, lambda net, x: net(x).tanh().sum(0), without=("arity",))
    assert report.kinds["sum"] == (10, 10, 1 + len(set(LENGTHS)))


def test_layers_of_any_rows_are_not_said_to_run_apart() -> None:
    report = assert_same(nn.Linear(4, 3), [x for x, _ in tagged()], lambda net, x: net(x).sum())
    assert report.kinds["Linear"].launches == 1 and not report.by_number
