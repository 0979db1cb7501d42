"""Calls that are loops, captured whole: one node for each shape, with the values and gradients of the eager program."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import assert_near

import gluonjit
from gluonjit.engines.torch import kinds, unrolling
from gluonjit.hybrid.capture.outermost import shape_of

C = 5


class Loop(nn.Module):
    """Applies a layer as often as its argument has rows."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.Linear(2 * C, C), nn.Linear(C, 3)

    def forward(self, x: Any) -> Any:
        state = x[0]
        for row in x[1:]:
            state = torch.tanh(self.cell(torch.cat([state, row])))
        return self.out(state)


class Pyramid(nn.Module):
    """Joins neighbours until one is left, and fills a mask on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Linear(2 * C, C)

    def forward(self, x: Any) -> Any:
        level, seen = x, torch.zeros(len(x))
        while len(level) > 1:
            seen[len(level) - 1] = 1.0
            level = torch.relu(self.join(torch.cat([level[:-1], level[1:]], 1)))
        return level[0] + seen.sum()


class Deciding(Loop):
    """Stops where a value says so: no node, whole or not."""

    def forward(self, x: Any) -> Any:
        state = x[0]
        for row in x[1:]:
            state = torch.tanh(self.cell(torch.cat([state, row])))
            if state.sum() > 0:
                break
        return self.out(state)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets loops be captured whole, as a pace would."""
    for module in (kinds, unrolling):
        monkeypatch.setattr(module, "captures_whole", lambda: True)


def _compare(eager: nn.Module, net: nn.Module, samples: list[Any]) -> Any:
    expected = [eager(sample) for sample in samples]
    found = [net(sample) for sample in samples]
    for model, results in ((eager, expected), (net, found)):
        model.zero_grad()
        sum((result**2).sum() for result in results).backward()
    report = gluonjit.explain()
    for one, other in zip(found, expected):
        assert_near(one, other)
    for one, other in zip(net.parameters(), eager.parameters()):
        assert_near(one.grad, other.grad)
    with torch.no_grad():
        for one, other in zip([net(sample) for sample in samples], [eager(sample) for sample in samples]):
            assert_near(one, other)
    return report


def _both(make: type[nn.Module]) -> tuple[nn.Module, nn.Module]:
    eager = make()
    net = copy.deepcopy(eager)
    gluonjit.hybridize(net, dynamic_batch=True)
    return eager, net


@pytest.mark.parametrize("make", [Loop, Pyramid])
def test_a_node_for_each_shape(make: type[nn.Module], whole: None) -> None:
    eager, net = _both(make)
    for _ in range(2):
        report = _compare(eager, net, [torch.randn(length, C) for length in (3, 4, 3, 5, 4, 3)])
        kind = report.kinds[make.__name__]
        assert (kind.nodes, kind.launches) == (6, 3)


def test_iterations_and_whole_loops_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = _both(Loop)
    launches = []
    for way in (False, True, False, True):
        for module in (kinds, unrolling):
            monkeypatch.setattr(module, "captures_whole", lambda way=way: way)
        report = _compare(eager, net, [torch.randn(length, C) for length in (3, 4, 3, 5)])
        launches.append("Loop" in report.kinds)
    assert launches == [False, True, False, True]


def test_a_loop_that_decides_by_values_is_no_node(whole: None) -> None:
    eager, net = _both(Deciding)
    report = _compare(eager, net, [torch.randn(length, C) for length in (3, 4, 3)])
    assert "Deciding" not in report.kinds


def test_shapes_of_calls() -> None:
    def look(arg: Any) -> Any:
        return (arg.shape, arg.dtype) if isinstance(arg, torch.Tensor) else None

    x, y = torch.zeros(2, 3), torch.zeros(3, 3)
    assert shape_of((x, 2, [y, None]), look) == shape_of((x + 1, 2, [y, None]), look)
    different = [(y, 2, [y, None]), (x, 3, [y, None]), (x, 2, (y, None)), (x.long(), 2, [y, None]), (x, 2, [y])]
    assert all(shape_of(args, look) != shape_of((x, 2, [y, None]), look) for args in different)
    assert shape_of((x, object()), look) is None and shape_of(([x] * 100,), look) is None
