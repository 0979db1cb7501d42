"""Training and evaluation in turns: each keeps its traces, and evaluation has those of training where these hold."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_support import assert_near

import gluonjit
from gluonjit.engines.torch.tracing import kinds

C = 6


class Plain(nn.Module):
    """Asks nothing of its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(C, C), nn.Linear(C, 3)

    def forward(self, x: Any) -> Any:
        return self.out(torch.tanh(self.inner(x)).sum(0))


class Mixing(Plain):
    """Mixes rows, so that new lengths are derived from those that were traced."""

    def forward(self, x: Any) -> Any:
        return self.out((torch.softmax(self.inner(x) @ x.t(), -1) @ x).sum(0))


class Dropped(Plain):
    """Drops everything in training."""

    def forward(self, x: Any) -> Any:
        return self.out(F.dropout(self.inner(x), 1.0, self.training).sum(0))


class Parts(nn.Module):
    """Has a part that may be set to evaluation while the rest trains."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.drop = nn.Linear(C, C), nn.Dropout(1.0)

    def forward(self, x: Any) -> Any:
        return self.drop(self.inner(x)).sum(0) + x[0]


class Asking(Plain):
    """Does something else without gradients."""

    def forward(self, x: Any) -> Any:
        found = super().forward(x)
        return found if torch.is_grad_enabled() else 2 * found


class AskingTensors(Plain):
    """Does something else where nothing learns."""

    def forward(self, x: Any) -> Any:
        found = super().forward(x)
        return found if found.requires_grad else 2 * found


class Doubled(torch.autograd.Function):
    """Looks at what learns."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x if ctx.needs_input_grad[0] else 3 * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * grad


class WithFunction(Plain):
    """Calls an autograd.Function."""

    def forward(self, x: Any) -> Any:
        return Doubled.apply(super().forward(x))


def _samples(*lengths: int) -> list[Any]:
    return [torch.randn(length, C) for length in lengths]


def _both(make: type[nn.Module]) -> tuple[nn.Module, nn.Module]:
    eager = make()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    return eager, net


def _compare(eager: nn.Module, net: nn.Module, samples: list[Any], learning: bool) -> int:
    """Compares results, and gradients where they are recorded; returns the number of kinds that were made."""
    with torch.set_grad_enabled(learning):
        expected = [eager(sample) for sample in samples]
        found = [net(sample) for sample in samples]
        if learning:
            for each, results in ((eager, expected), (net, found)):
                each.zero_grad()
                sum(result.sum() for result in results).backward()
            for one, other in zip(net.parameters(), eager.parameters()):
                assert_near(one.grad, other.grad)
        for one, other in zip(found, expected):
            assert_near(one, other)
    return int(gluonjit.explain().cache["misses"])


@pytest.mark.parametrize("make", [Plain, Dropped, Parts])
def test_each_mode_keeps_its_traces(make: type[nn.Module]) -> None:
    eager, net = _both(make)
    made = []
    for _ in range(3):
        for training in (True, False):
            for model in (eager, net):
                model.train(training)
            made.append(_compare(eager, net, _samples(2, 3, 3, 4, 5), training))
    assert made[2:] == [0] * 4


def test_a_part_in_evaluation_counts() -> None:
    eager, net = _both(Parts)
    for _ in range(2):
        for part in (True, False):
            for model in (eager, net):
                model.train()
                model.drop.train(part)
            _compare(eager, net, _samples(2, 3), True)


def test_calls_without_gradients_are_traced_once(monkeypatch: pytest.MonkeyPatch, traced_once: None) -> None:
    eager, net = _both(Mixing)
    for learning in (True, False):
        assert _compare(eager, net, _samples(2, 3, 4, 5), learning)

    def refuse(call: Any) -> Any:
        raise AssertionError(f"{call.cell.name} is traced")

    monkeypatch.setattr(kinds, "_traced", refuse)
    for learning in (True, False):
        assert _compare(eager, net, _samples(2, 3, 4, 5), learning) == 0


@pytest.mark.parametrize("make", [Asking, AskingTensors, WithFunction])
def test_programs_that_ask_have_traces_of_both(make: type[nn.Module]) -> None:
    eager, net = _both(make)
    for learning in (True, False, True, False):
        _compare(eager, net, _samples(2, 3, 4, 5), learning)


def test_regions_without_gradients() -> None:
    class Region(Plain):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                mean = self.inner(x).mean(0)
            return super().forward(x) + mean[:3]

    eager, net = _both(Region)
    for learning in (True, False, True):
        _compare(eager, net, _samples(2, 3, 4), learning)
