"""Functions of the program that methods call: those that only compute are a part of the cells made of the methods."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch

import gluonjit
from gluonjit.engines.torch.capture.outlining import _Torch
from gluonjit.hybrid.capture.outlining.known import helper_weight
from tests.torch import test_outlining as programs

LOG: list[Any] = []
FACTOR = 2.0


def log_sum_exp(x: Any) -> Any:
    """As tutorials have it."""
    most, _ = torch.max(x, 0)
    shifted = x - most.view(1).expand(x.size(0))
    return most.view(-1) + torch.log(torch.sum(torch.exp(shifted)))


def scaled(x: Any, by: float = 0.5, bias: Any = None) -> Any:
    if bias is not None:
        return torch.tanh(x * by + bias)
    return torch.tanh(x) * by * FACTOR


def nested(x: Any) -> Any:
    return scaled(log_sum_exp(x), bias=x)


def noted(x: Any) -> Any:
    LOG.append(tuple(x.shape))
    return torch.tanh(x)


def in_place(x: Any) -> Any:
    x += 1
    return torch.tanh(x)


def into(x: Any) -> Any:
    y = torch.tanh(x) * 1
    y[0] = 1.0
    return y


def looping(x: Any) -> Any:
    for _ in range(2):
        x = torch.tanh(x)
    return x


def recursive(x: Any, n: int) -> Any:
    return torch.tanh(x) if n == 0 else recursive(torch.tanh(x), n - 1)


def reading(x: Any) -> Any:
    return torch.tanh(x) * x.sum().item()


def drawing(x: Any) -> Any:
    return torch.dropout(x, 0.0, True) + torch.tanh(x)


def several(*xs: Any) -> Any:
    return torch.stack(xs).sum(0)


def of_net(net: Any, x: Any) -> Any:
    return torch.tanh(net.a(x)) * 2


def of_numbers(n: int) -> int:
    return n + 1


HELPERS: dict[Callable[..., Any], bool] = {
    log_sum_exp: True, scaled: True, nested: True, noted: False, in_place: False, into: False, looping: False,
    recursive: False, reading: False, drawing: False, several: False, of_net: False, of_numbers: False,
    len: False, torch.tanh: False, programs.Net: False,
}  # fmt: skip


@pytest.mark.parametrize("helper", HELPERS, ids=lambda helper: helper.__name__)
def test_functions_that_only_compute_are_told_from_others(helper: Any) -> None:
    assert (helper_weight(helper, _Torch()) > 0) == HELPERS[helper]


class Helped(programs.Net):
    """Calls helpers between its statements, in the order of which it writes its log."""

    def forward(self, s: Any) -> Any:
        x = self.a(s.x)
        total = nested(x) + scaled(x, bias=log_sum_exp(x).expand(programs.SIZE))
        for k in range(s.k):
            self.log.append(k)
            total = scaled(total + self.b(x), 0.25 * (k % 2 + 1))
        y = into(noted(total)) + looping(x) + recursive(x, 2) + several(x, total) + of_net(self, s.x)
        return (y + in_place(total * 1) + scaled(y)).sum() * of_numbers(2)


def assert_runs_alike(eager: Any, net: Any, given: list[Any], training: bool) -> list[Any]:
    """Values, gradients, effects, and what was noted, in the same order; returns the latter."""
    runs = []
    for one in (eager, net):
        LOG.clear()
        runs.append((programs.run(one, given, training), list(LOG)))
    (expected, before), (found, after) = runs
    for value, other in zip([*expected[0], *expected[1]], [*found[0], *found[1]]):
        programs.assert_same(value, other)
    assert found[2:4] == expected[2:4] and before == after
    return after


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
def test_programs_with_helpers_are_as_eagerly(training: bool) -> None:
    eager, net = programs.both(Helped)
    for seed in range(3):
        assert_runs_alike(eager, net, programs.samples(seed=seed), training)


class Scored(programs.Net):
    def forward(self, s: Any) -> Any:
        h = self.a(s.x)
        return scaled(log_sum_exp(h * 2)).sum()


def test_a_helper_is_a_part_of_its_callers_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    net = programs.both(Scored)[1]
    report = programs.calls(net, programs.samples())
    found = [found for name, found in report.outlined.items() if name.startswith("Scored.forward")]
    assert len(found) == 1 and "operators in one cell" in found[0]
    assert report.calls == 6, "one for each sample"


def test_a_helper_that_is_replaced_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it prints or notes is noted in the program's order."""
    eager, net = programs.both(Scored)
    given = programs.samples()
    programs.run(net, given, True)
    monkeypatch.setitem(globals(), "scaled", noted)
    assert assert_runs_alike(eager, net, given, True) == [(1,)] * 6
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    monkeypatch.setitem(globals(), "scaled", scaled)
    assert_runs_alike(eager, net, given, True)


def test_helpers_are_verified() -> None:
    torch.manual_seed(0)
    gluonjit.verify(copy.deepcopy(Helped()), programs.samples())
