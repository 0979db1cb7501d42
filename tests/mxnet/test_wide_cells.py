"""Cells wider than 16 bits count: they run in C, with eager's values and gradients."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from wide_support import LENGTHS, WIDE, assert_alike

import gluonjit
from gluonjit.compiled import ROWS

pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")


class Cell(gluon.HybridBlock):
    """Four gates of one product."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        with self.name_scope():
            self.gates = gluon.nn.Dense(4 * hidden, in_units=2)

    def hybrid_forward(self, F: Any, step: Any, state: Any) -> Any:
        one, two, three, four = F.split(self.gates(step), num_outputs=4, axis=1)
        state = F.sigmoid(one) * F.tanh(two) + F.sigmoid(three) * state
        return F.sigmoid(four) * F.tanh(state)


class Gates(gluon.Block):
    """The cell along a list."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        with self.name_scope():
            self.cell = Cell(hidden)

    def forward(self, steps: list[Any]) -> Any:
        state = nd.zeros((1, self.hidden))
        for step in steps:
            state = self.cell(step, state)
        return state


def learned(net: Any, samples: list[Any]) -> list[Any]:
    with autograd.record():
        results = [net(sample) for sample in samples]
        total = gluonjit.add_n([(result * result).sum() for result in results])
    total.backward()
    return [one.asnumpy() for one in [*results, *[each.grad() for each in net.collect_params().values()]]]


@pytest.mark.parametrize("hidden", WIDE)
def test_wide_gates_learned_run_in_c(hidden: int) -> None:
    mx.random.seed(0)
    net = Gates(hidden)
    net.initialize(mx.init.Xavier())
    samples = [[nd.random.normal(shape=(1, 2)) for _ in range(length)] for length in LENGTHS]
    wanted = learned(net, samples)
    net.hybridize(dynamic_batch=True)
    found = learned(net, samples)
    assert gluonjit.explain().fused >= max(LENGTHS)
    assert_alike(found, wanted)
