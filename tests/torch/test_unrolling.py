"""Calls that are loops, captured whole: one node for each shape, with the values and gradients of the eager program."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import assert_near

import gluonjit
from gluonjit.engines.torch.tracing import cell, kinds
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
    for module in (kinds, cell):
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
        for module in (kinds, cell):
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


class Chart(nn.Module):
    """Keeps what it computes in nested lists and a dictionary of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(C, 1)

    def forward(self, x: Any) -> Any:
        n = len(x)
        single = self.score(x).squeeze(1)
        self.inside = [[single[i] if i == j else None for j in range(n)] for i in range(n)]
        for width in range(1, n):
            for i in range(n - width):
                splits = [self.inside[i][k] + self.inside[k + 1][i + width] for k in range(i, i + width)]
                self.inside[i][i + width] = torch.stack(splits).logsumexp(0)
        self.best = {"last": self.inside[0][n - 1], "length": n}
        return self.inside[0][n - 1]


def test_charts_that_are_attributes(whole: None) -> None:
    eager, net = _both(Chart)
    samples = [torch.randn(length, C) for length in (3, 4, 3, 5)]
    report = _compare(eager, net, samples)
    assert (report.kinds["Chart"].nodes, report.kinds["Chart"].launches) == (4, 3)
    for sample in samples:
        eager(sample), net(sample)
        assert net.best["length"] == eager.best["length"] == len(sample)
        assert_near(net.best["last"], eager.best["last"])
        for row, wanted in zip(net.inside, eager.inside):
            for one, other in zip(row, wanted):
                assert (one is None) == (other is None)
                if other is not None:
                    assert_near(one, other)


def test_one_list_as_two_attributes_stays_one(whole: None) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(C, 2)

        def forward(self, x: Any) -> Any:
            self.seen = self.kept = [self.out(x).sum()]
            return self.seen[0] * 2

    eager, net = _both(Twice)
    report = _compare(eager, net, [torch.randn(3, C) for _ in range(3)])
    assert "Twice" not in report.kinds
    net(torch.randn(3, C))
    assert net.seen is net.kept


def test_places_that_are_computed() -> None:
    """Lengths less one are no places of zeros, on which traces run."""

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(C, 2)

        def forward(self, x: Any, mask: Any) -> Any:
            last = mask.long().sum(1, keepdim=True) - 1
            found = self.out(x).gather(1, last.unsqueeze(2).expand(-1, -1, 2))
            return found.squeeze(1) + x[torch.arange(len(x)), last[:, 0]][:, :2]

    eager, net = _both(Last)
    samples = [(torch.randn(2, 4, C), torch.arange(4) < torch.tensor([[k + 1], [3]])) for k in range(4)]
    for _ in range(2):
        expected, found = ([model(*sample) for sample in samples] for model in (eager, net))
        for model, results in ((eager, expected), (net, found)):
            model.zero_grad()
            sum(result.sum() for result in results).backward()
        report = gluonjit.explain()
        for one, other in zip(found, expected):
            assert_near(one, other)
        for one, other in zip(net.parameters(), eager.parameters()):
            assert_near(one.grad, other.grad)
        assert (report.kinds["Last"].nodes, report.kinds["Last"].launches) == (4, 1)
