"""Calls of a cell that differ in numbers alone, or in small constants: they run together where no step in C is lost."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import ROWS
from tests.common.torch_support import assert_minibatch_as_eagerly

C = 6
Body = Callable[[Any, Any, int], Any]


class Cell(nn.Module):
    """Layers of a program for one state and one number."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.layer, self.tables = nn.Linear(C, C), nn.ParameterList([torch.randn(C, C) for _ in range(4)])

    def forward(self, x: Any, k: int) -> Any:
        return self.body(self, x, k)


class Model(nn.Module):
    """Several calls of a cell, one after the other, each with a number of its own."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.cell = Cell(body)

    def forward(self, x: Any, numbers: list[int]) -> Any:
        for k in numbers:
            x = self.cell(x, k)
        return x


def turned(net: Any, x: Any) -> Any:
    """Something without an instruction in C."""
    return torch.roll(torch.tanh(net.layer(x)), 1, -1)


TOGETHER: dict[str, Body] = {
    "a factor": lambda net, x, k: turned(net, x) * (0.1 * k),
    "a summand": lambda net, x, k: turned(net, x) + k,
    "a divisor": lambda net, x, k: turned(net, x) / (k + 1),
    "a power": lambda net, x, k: torch.sigmoid(turned(net, x)) ** (0.5 + k),
    "a column": lambda net, x, k: x * turned(net, x)[:, k % C].unsqueeze(1),
    "some columns": lambda net, x, k: torch.cat([turned(net, x)[:, k % 3 : k % 3 + 3], x[:, :3]], 1),
    "a bound": lambda net, x, k: turned(net, x).clamp(-0.1 * k, 0.05 * k),
    "a distance": lambda net, x, k: torch.roll(torch.tanh(net.layer(x)), k % C, -1),
    "a constant": lambda net, x, k: turned(net, x) * torch.full((1, C), 0.1 * k),
    "one of a few": lambda net, x, k: turned(net, x) * nn.functional.one_hot(torch.tensor([k % C]), C),
    "two numbers": lambda net, x, k: turned(net, x) * (0.1 * k) + 0.01 * k,
}


def samples(seed: int, count: int = 6) -> list[Any]:
    draws = torch.Generator().manual_seed(seed)
    lengths = [2 + number % 3 for number in range(count)]
    numbers = [torch.randint(0, 9, (length,), generator=draws).tolist() for length in lengths]
    return [(torch.randn(1, C, generator=draws), each) for each in numbers]


def reports(body: Body, dtype: torch.dtype = torch.float32, seeds: int = 3) -> Any:
    """The report of the last minibatch; values and gradients of each are those of the eager program."""
    torch.manual_seed(0)
    net = Model(body).to(dtype)
    own = gluonjit.hybridize(
        copy.deepcopy(net), dynamic_batch=True, granularity="cell", scheduler="depth", check="always"
    )
    found = None
    for seed in range(seeds):
        drawn = [(x.to(dtype), numbers) for x, numbers in samples(seed)]
        found = assert_minibatch_as_eagerly(net, own, drawn, lambda model, sample: model(*sample))
    return found


def launches_of_cells(report: Any) -> int:
    return report.kinds["cell"].launches


@pytest.mark.parametrize("name", TOGETHER)
def test_calls_that_differ_in_numbers_run_together(name: str) -> None:
    assert launches_of_cells(reports(TOGETHER[name])) == 4  # of the longest sample


def test_what_has_no_steps_in_c_runs_together() -> None:
    assert launches_of_cells(reports(lambda net, x, k: torch.tanh(net.layer(x)) * (0.25 * k), torch.float64)) == 4


@pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
def test_steps_in_c_stay_apart() -> None:
    report = reports(lambda net, x, k: torch.tanh(net.layer(x)) * (0.1 * k))
    assert launches_of_cells(report) > 4 and not report.unfused


def test_weights_stay_apart() -> None:
    assert launches_of_cells(reports(lambda net, x, k: turned(net, x @ net.tables[k % 4]))) > 4


def test_large_constants_stay_apart() -> None:
    def body(net: Any, x: Any, k: int) -> Any:
        return turned(net, x @ net.tables[k % 4].detach())

    assert launches_of_cells(reports(body)) > 4


def test_what_decides_by_a_number_is_another_program() -> None:
    def body(net: Any, x: Any, k: int) -> Any:
        return turned(net, x) * (0.1 * k) if k % 2 else torch.sigmoid(turned(net, x)) + k

    assert 4 < launches_of_cells(reports(body)) <= 8


def test_numbers_that_are_not_finite() -> None:
    infinite = [float("inf"), -float("inf"), 0.0, -0.0, 1.0]
    net = Model(lambda net, x, k: torch.atan(turned(net, x) / infinite[k]))
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell")
    x = torch.linspace(-1, 1, C).reshape(1, C)
    given = [[k] for k in range(5)]
    with torch.no_grad():
        for _ in range(2):
            for numbers, found in zip(given, [own(x, numbers) for numbers in given]):
                assert torch.equal(torch.signbit(found), torch.signbit(net(x, numbers)))
                torch.testing.assert_close(found[:], net(x, numbers), equal_nan=True)
