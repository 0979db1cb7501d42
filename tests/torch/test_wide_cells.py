"""Cells wider, and of more operators, than 16 bits count: they run in C, with eager's values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from wide_support import LENGTHS, WIDE, assert_alike

import gluonjit
from gluonjit.compiled import ROWS
from gluonjit.rows import ways
from gluonjit.rows.assembly import compiled

pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")


class Gates(torch.nn.Module):
    """Four gates of one product, and a state that goes from step to step."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates = torch.nn.Linear(2, 4 * hidden)

    def forward(self, steps: list[Any]) -> Any:
        state = torch.zeros(1, self.hidden)
        for step in steps:
            one, two, three, four = self.gates(step).chunk(4, dim=1)
            state = torch.sigmoid(one) * torch.tanh(two) + torch.sigmoid(three) * state
            state = torch.sigmoid(four) * torch.tanh(state)
        return state


def learned(net: Any, samples: list[Any]) -> list[Any]:
    net.zero_grad()
    results = [net(sample) for sample in samples]
    sum((result * result).sum() for result in results).backward()
    return [one.detach().numpy().copy() for one in [*results, *[each.grad for each in net.parameters()]]]


@pytest.mark.parametrize("hidden", WIDE)
def test_wide_gates_run_in_c(hidden: int) -> None:
    torch.manual_seed(0)
    net = Gates(hidden)
    samples = [[torch.randn(1, 2) for _ in range(length)] for length in LENGTHS]
    wanted = learned(net, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = learned(net, samples)
    assert gluonjit.explain().fused > 0
    assert_alike(found, wanted)


class Deep(torch.nn.Module):
    """A cell of many operators, each of which is four instructions."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count, self.first = count, torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for _ in range(self.count // 4):
            x = torch.nn.functional.leaky_relu(x, 0.9999)
        return x


def test_a_cell_of_very_many_operators_runs_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(ways, "compiled", lambda program, *rest: made.append(program) or compiled(program, *rest))
    torch.manual_seed(0)
    net = Deep(33_000)
    samples = [torch.randn(1, 2) for _ in range(3)]
    wanted = learned(net, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = learned(net, samples)
    assert gluonjit.explain().fused > 0
    assert len(made[0].code) > 2**15
    assert_alike(found, wanted)
