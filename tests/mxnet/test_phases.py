"""Phases, and branches of unequal length that join, on MXNet: values, gradients and launches by each scheduler."""

from __future__ import annotations

from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from phased import PHASED, Phased, check

import gluonjit


@gluonjit.cell
def first(a: Any, b: Any) -> Any:
    return mx.nd.tanh(a * b + 0.3)


@gluonjit.cell
def second(a: Any, b: Any) -> Any:
    return mx.nd.sigmoid(a * 0.5 - b)


@gluonjit.cell
def third(a: Any, b: Any) -> Any:
    return mx.nd.tanh(a * b - a)


def run(program: Phased) -> tuple[list[Any], list[Any]]:
    """Run all samples; return the results and the inputs."""
    inputs = [mx.nd.full((1, 4), 0.1 * (number + 1)) for number in range(4)]
    for one in inputs:
        one.attach_grad()
    return [program.run((first, second, third), inputs, sample) for sample in program.samples], inputs


def trained(program: Phased) -> list[np.ndarray]:
    """Return the results of all samples, and the gradients of their sum."""
    with mx.autograd.record():
        results, inputs = run(program)
        total = sum(result.sum() for result in results)
    total.backward()
    return [*[result.asnumpy() for result in results], *[one.grad.asnumpy() for one in inputs]]


@pytest.mark.parametrize("name", PHASED)
@pytest.mark.parametrize("scheduler", ["depth", "bound", "beam"])
def test_branches_and_phases_line_up(name: str, scheduler: str) -> None:
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    check(PHASED[name], scheduler, trained, lambda program: run(program)[0], close)
