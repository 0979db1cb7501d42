"""PyTorch's operators as programs use them: each in a module for one sample, against the program without batching.

The cases are those of the rules; here a module calls the operator, so that capture, tracing and backward take part.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
from torch_rule_cases import CASES, Case
from torch_rule_runs import arguments, draw, run_one, with_tensors
from torch_support import assert_near

import gluonjit

SAMPLES = 3
MOST = 4  # cases of one operator, from all of them


class Net(torch.nn.Module):
    """One call of an operator; what is the same for all samples it has as parameters and buffers."""

    def __init__(self, test: Case, sample: list[Any]) -> None:
        super().__init__()
        self.test = test
        for number, (arg, tensor) in enumerate(zip(arguments(test), sample)):
            if arg.shared and arg.learnt and test.grad and tensor.is_floating_point():
                self.register_parameter(f"shared{number}", torch.nn.Parameter(tensor.detach().clone()))
            elif arg.shared:
                self.register_buffer(f"shared{number}", tensor.detach().clone())

    def forward(self, *tensors: Any) -> Any:
        own = iter(tensors)
        args = arguments(self.test)
        given = [getattr(self, f"shared{number}") if arg.shared else next(own) for number, arg in enumerate(args)]
        if self.test.op == "index.Tensor":  # as programs write it: PyTorch looks into no list that has None
            tensor, *indices = with_tensors(self.test, given, list).values()
            return tensor[tuple(slice(None) if index is None else index for index in indices[0])]
        found = run_one(self.test, given)[: self.test.compared]
        return found[0] if len(found) == 1 else tuple(found)


def by_operator() -> list[list[Case]]:
    """Some cases of each operator that runs for all samples at once, among them the first and the last."""
    found: dict[str, list[Case]] = {}
    for test in CASES:
        if not test.alone and not test.drawn:
            found.setdefault(test.op, []).append(test)
    return [[*tests[: -1 : max(1, len(tests) // MOST)], tests[-1]] for tests in found.values()]


def outcome(net: Net, samples: list[list[Any]], graded: list[bool] | None = None) -> tuple[list[Any], list[Any]]:
    """All results, and the gradients of samples and parameters; of those that are `graded`, or need one."""
    args = arguments(net.test)
    inputs = [
        [
            tensor.detach().clone().requires_grad_(arg.learnt and net.test.grad and tensor.is_floating_point())
            for arg, tensor in zip(args, sample)
            if not arg.shared
        ]
        for sample in samples
    ]
    results = [net(*given) for given in inputs]
    flat = [one for result in results for one in (result if isinstance(result, tuple) else (result,))]
    learnt = [tensor for given in inputs for tensor in given if tensor.requires_grad]
    through = graded or [one.requires_grad for one in flat]
    terms = [(one * (k + 1)).sum() for k, (one, wanted) in enumerate(zip(flat, through)) if wanted]
    gradients: list[Any] = []
    if terms:
        sum(terms).backward()
        gradients = [tensor.grad for tensor in [*learnt, *net.parameters()]]
    return flat, gradients


@pytest.mark.parametrize("cases", by_operator(), ids=lambda cases: cases[0].op)
def test_in_a_module(cases: list[Case]) -> None:
    for test in cases:
        close = partial(assert_near, atol=1e-5, equal_nan=True, msg=f"{test}: {{}}".format)
        samples = draw(test, SAMPLES)
        eager = Net(test, samples[0])
        net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")
        expected, wanted = outcome(eager, samples)
        with gluonjit.batching(granularity="cell") as batch:
            actual, found = outcome(net, samples, [one.requires_grad for one in expected])
            actual = [one + 0 if one.dtype is not torch.bool else one & True for one in actual]
        assert not batch.report.alone and not batch.report.unbatched, (test, batch.report.alone, batch.report.unbatched)
        assert len(actual) == len(expected) and len(found) == len(wanted)
        for value, other in zip(actual, expected):
            close(value, other, rtol=1e-5)
        for value, other in zip(found, wanted):
            assert (value is None) == (other is None), test
            if other is not None:
                dense = [one.to_dense() if one.is_sparse else one for one in (value, other)]
                close(*dense, rtol=1e-4)
