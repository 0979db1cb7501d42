"""Cells wider, and of more operators, than 16 bits count: they run in C, with eager's values and gradients."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.compiled import ROWS
from gluonjit.rows import ways
from gluonjit.rows.assembly import MOST_COLUMNS, CallingConvention, compiled
from gluonjit.rows.program import NODE, Builder, NotFusable

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")

WIDE = [8_193, 12_000, 40_000]
LENGTHS = (1, 2, 3)


class TorchGates(torch.nn.Module):
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


class MXNetCell(gluon.HybridBlock):
    """The same cell in Gluon."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        with self.name_scope():
            self.gates = gluon.nn.Dense(4 * hidden, in_units=2)

    def hybrid_forward(self, F: Any, step: Any, state: Any) -> Any:
        one, two, three, four = F.split(self.gates(step), num_outputs=4, axis=1)
        state = F.sigmoid(one) * F.tanh(two) + F.sigmoid(three) * state
        return F.sigmoid(four) * F.tanh(state)


class MXNetGates(gluon.Block):
    """The cell along a list."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        with self.name_scope():
            self.cell = MXNetCell(hidden)

    def forward(self, steps: list[Any]) -> Any:
        state = nd.zeros((1, self.hidden))
        for step in steps:
            state = self.cell(step, state)
        return state


def assert_alike(found: list[Any], wanted: list[Any]) -> None:
    for actual, expected in zip(found, wanted):
        assert actual.shape == expected.shape
        assert np.abs(actual - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1e-6)


def in_torch(net: Any, samples: list[Any]) -> list[Any]:
    net.zero_grad()
    results = [net(sample) for sample in samples]
    sum((result * result).sum() for result in results).backward()
    return [one.detach().numpy().copy() for one in [*results, *[each.grad for each in net.parameters()]]]


def in_mxnet(net: Any, samples: list[Any]) -> list[Any]:
    with autograd.record():
        results = [net(sample) for sample in samples]
        total = gluonjit.add_n([(result * result).sum() for result in results])
    total.backward()
    return [one.asnumpy() for one in [*results, *[each.grad() for each in net.collect_params().values()]]]


@pytest.mark.parametrize("hidden", WIDE)
def test_wide_gates_in_pytorch_run_in_c(hidden: int) -> None:
    torch.manual_seed(0)
    net = TorchGates(hidden)
    samples = [[torch.randn(1, 2) for _ in range(length)] for length in LENGTHS]
    wanted = in_torch(net, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = in_torch(net, samples)
    assert gluonjit.explain().fused > 0
    assert_alike(found, wanted)


@pytest.mark.parametrize("hidden", WIDE)
def test_wide_gates_in_mxnet_run_in_c(hidden: int) -> None:
    mx.random.seed(0)
    net = MXNetGates(hidden)
    net.initialize(mx.init.Xavier())
    samples = [[nd.random.normal(shape=(1, 2)) for _ in range(length)] for length in LENGTHS]
    wanted = in_mxnet(net, samples)
    net.hybridize(dynamic_batch=True)
    found = in_mxnet(net, samples)
    assert gluonjit.explain().fused >= max(LENGTHS)
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
    wanted = in_torch(net, samples)
    gluonjit.hybridize(net, dynamic_batch=True)
    found = in_torch(net, samples)
    assert gluonjit.explain().fused > 0
    assert len(made[0].code) > 2**15
    assert_alike(found, wanted)


def test_columns_and_registers_have_31_bits_each() -> None:
    way = CallingConvention(frozenset([0]), frozenset([0]), frozenset([0]), frozenset([0]))
    builder = Builder()
    wide = builder.operand(NODE, MOST_COLUMNS)
    program = builder.finish([builder.emit("COPY", wide.part(MOST_COLUMNS - 1, MOST_COLUMNS))])
    made = compiled(program, way, ROWS.OPS)
    assert (MOST_COLUMNS - 1) << 32 in made.forward.code[:, 2]
    builder = Builder()
    wide = builder.operand(NODE, MOST_COLUMNS + 1)
    program = builder.finish([builder.emit("COPY", wide.part(0, 1))])
    with pytest.raises(NotFusable, match="rows of more than 2147483647 numbers"):
        compiled(program, way, ROWS.OPS)
