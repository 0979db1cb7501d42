"""Phases, and branches of unequal length that join, in PyTorch: values, gradients and launches by each scheduler."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from phased import PHASED, Phased, check

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


@torch.no_grad()
def results(program: Phased) -> list[Any]:
    """Return the results of all samples."""
    return run(program, False)[0]


def trained(program: Phased) -> list[torch.Tensor]:
    """Return the results of all samples, and the gradients of their sum."""
    found, inputs = run(program, True)
    sum(result.sum() for result in found).backward()
    return [*[result.detach() for result in found], *[one.grad for one in inputs if one.grad is not None]]


@pytest.mark.parametrize("name", PHASED)
@pytest.mark.parametrize("scheduler", ["depth", "bound", "beam"])
def test_branches_and_phases_line_up(name: str, scheduler: str) -> None:
    check(PHASED[name], scheduler, trained, results, torch.testing.assert_close)
