"""Phases, and branches of unequal length that join, in PyTorch: values, gradients and launches by each scheduler."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from phased import PHASED, Phased

import gluonjit


@gluonjit.cell
def first(a: Any, b: Any) -> Any:
    return torch.tanh(a * b + 0.3)


@gluonjit.cell
def second(a: Any, b: Any) -> Any:
    return torch.sigmoid(a * 0.5 - b)


@gluonjit.cell
def third(a: Any, b: Any) -> Any:
    return torch.tanh(a * b - a)


def run(program: Phased, learned: bool) -> tuple[list[Any], list[torch.Tensor]]:
    """Run all samples; return the results and the inputs."""
    inputs = [torch.full((1, 4), 0.1 * (number + 1), requires_grad=learned) for number in range(4)]
    return [program.run((first, second, third), inputs, sample) for sample in program.samples], inputs


def trained(program: Phased) -> list[torch.Tensor]:
    """Return the results of all samples, and the gradients of their sum."""
    results, inputs = run(program, True)
    sum(result.sum() for result in results).backward()
    return [*[result.detach() for result in results], *[one.grad for one in inputs if one.grad is not None]]


@pytest.mark.parametrize("name", PHASED)
@pytest.mark.parametrize("scheduler", ["depth", "bound", "beam"])
def test_branches_and_phases_line_up(name: str, scheduler: str) -> None:
    program = PHASED[name]
    expected = trained(program)
    with gluonjit.batching(granularity="cell", scheduler=scheduler):
        found = trained(program)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)
    with torch.no_grad(), gluonjit.batching(granularity="cell", scheduler=scheduler, sharing=False) as batch:
        kept, _ = run(program, False)
    assert len(kept) == len(program.samples)
    assert batch.report.launches == (program.depth if scheduler == "depth" else program.bound)
    assert batch.report.lower_bound == program.least and program.bound <= program.padded
