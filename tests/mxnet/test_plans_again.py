"""Flushes of one structure, whose plans are kept: numbers, gradients and reports are each batch's own."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon

import gluonjit
from gluonjit.analysis.plan_cache import plan_count

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth", "sharing": True}


class Net(gluon.Block):  # type: ignore[misc]
    """A word, a layer on it and on what was before, and one more."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed, self.dense = gluon.nn.Embedding(9, 4), gluon.nn.Dense(4, in_units=4)
            self.head = gluon.nn.Dense(2, in_units=4)

    def forward(self, words: Any, state: Any) -> Any:
        """The next state, and scores."""
        state = mx.nd.tanh(self.dense(self.embed(words) + state))
        return state, self.head(state)


def run(net: Net, learn: bool) -> tuple[list[Any], list[Any], list[gluonjit.Report]]:
    """Six steps, the scores of each read before the next one."""
    state, found, learned, reports = mx.nd.zeros((1, 4)), [], [], []
    for word in (3, 1, 4, 1, 5, 8):
        with gluonjit.batching(**WAY) as batch:
            with autograd.record() if learn else autograd.pause():
                state, scores = net(mx.nd.array([word]), state.detach())
                total = scores.sum()
        if learn:
            total.backward()
            learned.append(net.dense.weight.grad().asnumpy())
        found.append(scores.asnumpy())
        reports.append(batch.report)
    return found, learned, reports


@pytest.mark.parametrize("learn", [False, True])
def test_steps_of_one_structure_have_their_own_numbers(learn: bool) -> None:
    mx.random.seed(0)
    net = Net()
    net.initialize(mx.init.Xavier())
    wanted, gradients, _ = run(net, learn)
    gluonjit.clear_caches()
    net.hybridize(dynamic_batch=True, **WAY)
    found, learned, reports = run(net, learn)
    for one, other in zip([*found, *learned], [*wanted, *gradients]):
        assert np.allclose(one, other, atol=1e-5)
    assert plan_count() >= 1
    told = [(r.calls, r.nodes, r.launches, r.fused, r.kinds, r.unfused) for r in reports]
    assert told[2:] == [told[1]] * 4
    assert all("test_plans_again.py" in row.line for row in reports[-1].steps)
