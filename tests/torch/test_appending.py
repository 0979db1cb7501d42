"""Results appended to what a program begins with, an empty tensor, and results selected by a known mask."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.torch_support import assert_close, gradients

Work = Callable[[Any, list[Any]], Any]
"""Of a layer and the rows of a sample, each (1, 3)."""


def appended(begin: Callable[[], Any], axis: int = 0, join: Any = torch.cat) -> Work:
    def work(net: Any, rows: list[Any]) -> Any:
        found = begin()
        for row in rows:
            h = torch.tanh(net(row))
            found = join((found, h if axis or found.dim() == 2 else h[0]), axis)
        return found * 2

    return work


BATCHED: dict[str, Work] = {
    "numbers": appended(lambda: torch.zeros([0])),
    "an empty list": appended(lambda: torch.tensor([])),
    "rows": appended(lambda: torch.empty(0, 3)),
    "columns": appended(lambda: torch.zeros(1, 0), 1),
    "by another name": appended(lambda: torch.zeros(0), join=torch.concat),
    "from behind": lambda net, rows: torch.cat([torch.zeros(2, 0), *[net(row)[0, :2, None] for row in rows]], -1),
    "by a name": lambda net, rows: torch.cat([torch.zeros(0), *[net(row)[0] for row in rows]], dim=0),
    "one": lambda net, rows: torch.cat([torch.zeros(0), net(rows[0])[0]]) * 2,
    "a mask": lambda net, rows: net(rows[0]).masked_select(torch.tensor([[True, False, True]])).mean(),
    "a mask by a function": lambda net, rows: torch.masked_select(net(rows[0]), torch.tensor([[True] * 3])).mean(),
    "a mask of columns": lambda net, rows: net(rows[0]).masked_select(torch.tensor([False, False, True])).mean(),
}
ALONE: dict[str, Work] = {
    "another dtype": appended(lambda: torch.zeros(0, dtype=torch.float64)),
    "nothing else": lambda net, rows: torch.cat([torch.zeros(0), net(rows[0])[0][:0]]).sum() + net(rows[0]).sum(),
    "a mask that is computed": lambda net, rows: net(rows[0]).masked_select(net(rows[0]) > 0).sum(),
    "a mask of more rows": lambda net, rows: net(rows[0]).masked_select(torch.tensor([[True], [False]])).sum(),
}


class Net(nn.Module):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.work = work

    def forward(self, rows: Any) -> Any:
        """Return a number."""
        return self.work(self.first, list(rows.split(1))).sum()


@pytest.mark.parametrize("name", [*BATCHED, *ALONE])
def test_what_begins_empty_is_as_eagerly(name: str) -> None:
    torch.manual_seed(0)
    eager = Net({**BATCHED, **ALONE}[name])
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell", scheduler="depth")
    for _ in range(2):
        samples = [torch.randn(1 + k % 3, 3) for k in range(6)]
        expected, found = [sum((k + 1) * one(rows) for k, rows in enumerate(samples)) for one in (eager, net)]
        expected.backward()
        found.backward()
        assert_close(found, expected, "the sum of all results")
        assert found.dtype is expected.dtype
        for weight, gradient in gradients(eager).items():
            assert_close(gradients(net)[weight], gradient, weight)
        if name in BATCHED:
            report = gluonjit.explain()
            assert report.flushes == 1 and not report.unbatched, report.unbatched


def test_an_empty_tensor_that_does_not_fit_is_refused_as_by_pytorch() -> None:
    eager = Net(appended(lambda: torch.zeros(0, 4), 0))
    for net in (eager, gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")):
        with pytest.raises(RuntimeError, match="Sizes of tensors must match"), gluonjit.batching():
            net(torch.randn(2, 3)).item()
