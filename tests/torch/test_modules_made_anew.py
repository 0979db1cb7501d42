"""Modules that a program makes anew for each call, such as losses: those without weights are one kind."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.engines.torch import dynamic
from gluonjit.engines.torch.capture import cells, outlining
from tests.common.torch_support import assert_close, gradients

Make = Callable[[], Any]


def trained(make: Make, dynamic: bool) -> tuple[list[Any], list[Any]]:
    """The losses of three minibatches and the gradients of each; and the reports of a batched model."""
    torch.manual_seed(0)
    net = nn.Linear(4, 3)
    if dynamic:
        gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", scheduler="depth")
    found: list[Any] = []
    reports = []
    for seed in range(3):
        draw = torch.Generator().manual_seed(seed)
        net.zero_grad()
        losses = []
        for _ in range(12):
            x, y = torch.randn(2, 4, generator=draw), torch.randint(0, 3, (2,), generator=draw)
            losses.append(make()(net(x), y))
        sum(losses).backward()
        found += [torch.stack([loss.detach() for loss in losses]), *gradients(net).values()]
        if dynamic:
            reports.append(gluonjit.explain())
    return found, reports


@pytest.mark.parametrize("make", [nn.CrossEntropyLoss, nn.NLLLoss, lambda: nn.CrossEntropyLoss(reduction="sum")])
def test_losses_made_for_each_sample_run_together(make: Make) -> None:
    expected, _ = trained(make, False)
    actual, reports = trained(make, True)
    for one, other in zip(actual, expected):
        assert_close(one, other, "a loss or a gradient")
    kinds = {name: kind for name, kind in reports[-1].kinds.items() if name.endswith("Loss")}
    assert [(kind.nodes, kind.launches) for kind in kinds.values()] == [(12, 1)]
    assert reports[1].cache["misses"] == reports[2].cache["misses"] == 0, "nothing is traced for them"


def test_losses_with_weights_of_their_own_are_told_apart() -> None:
    def weighed() -> Any:
        made.append(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 1.0 + len(made) % 3])))
        return made[-1]

    made: list[Any] = []
    expected, _ = trained(weighed, False)
    made.clear()
    actual, _ = trained(weighed, True)
    for one, other in zip(actual, expected):
        assert_close(one, other, "a loss or a gradient")


def test_a_loss_that_gets_weights_later_is_another() -> None:
    torch.manual_seed(0)
    net = gluonjit.hybridize(nn.Linear(4, 3), dynamic_batch=True, granularity="cell")
    loss, x, y = nn.CrossEntropyLoss(), torch.randn(2, 4), torch.tensor([0, 2])
    first = float(loss(net(x), y))
    loss.weight = torch.tensor([1.0, 0.0, 5.0])
    second = float(loss(net(x), y))
    gluonjit.hybridize(net, dynamic_batch=False)
    assert second == pytest.approx(float(loss(net(x), y)), rel=1e-5)
    loss.weight = None
    assert first == pytest.approx(float(loss(net(x), y)), rel=1e-5)


class Counting(nn.Module):
    """A part that counts its calls, and is captured as what its statements compute."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.counts, self.calls = counts, 0

    def forward(self, x: Any) -> Any:
        """Return (4,)."""
        if self.counts:
            self.calls += 1
        return torch.tanh(self.second(torch.relu(self.first(x)))) * x


class Repeating(nn.Module):
    """Calls its part once for each row, in a loop over Python's numbers."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.part = Counting(counts)

    def forward(self, rows: Any) -> Any:
        """Return a number."""
        h = torch.zeros(4)
        for row in rows:
            h = self.part(h + row)
        return h.sum()


def test_a_counter_of_calls_does_not_make_them_looked_up_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a module counts only for cells that depend on it."""
    if FAST is None:
        pytest.skip("calls are looked up in Python where nothing is compiled")
    slow: dict[bool, int] = {}
    for counts in (False, True):
        torch.manual_seed(0)
        eager = Repeating(counts)
        net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell", scheduler="depth")
        passed: list[Any] = []

        def counted(*args: Any, capture: Any = cells.capture, passed: list[Any] = passed) -> Any:
            passed.append(args[0])
            return capture(*args)

        for step in range(12):
            samples = [torch.randn(2 + k % 3, 4) for k in range(6)]
            expected = torch.stack([eager(rows) for rows in samples])
            with monkeypatch.context() as patched:
                if step == 11:
                    for module in (cells, dynamic, outlining):
                        patched.setattr(module, "capture", counted)
                assert_close(torch.stack([net(rows) for rows in samples]), expected, "results")
        assert net.part.calls == eager.part.calls == (12 * 18 if counts else 0)
        slow[counts] = len(passed)
    assert slow[True] <= slow[False] + 6, "one look for each sample at most"
