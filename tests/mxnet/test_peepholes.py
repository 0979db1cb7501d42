"""Peepholes give the same numbers by other operators, and leave alone what they would change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from support import assert_same, flat, rows

import gluonjit
from gluonjit.engines.mxnet.lazy import wrap
from gluonjit.engines.mxnet.peepholes import PEEPHOLES, improved
from gluonjit.engines.mxnet.trace import Recorder, tracing
from gluonjit.graph import intern_spec
from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.options import SWITCHES

SIZE = 4
NAMES = ("activations", "splits")
Function = Callable[..., Any]


def operators(
    function: Function, *shapes: tuple[int, ...], without: Sequence[str] = (), training: bool = True, **options: Any
) -> list[str]:
    """Names of the operators that run for a function of arrays."""
    dtype, device = options.get("dtype", "float32"), options.get("device", "cpu(0)")
    specs = [intern_spec(shape, dtype, device, "rows") for shape in shapes]
    trace = Recorder(specs, training)
    with autograd.pause(train_mode=training), tracing(trace):
        result = function(*[wrap(trace.placeholder(position, spec)) for position, spec in enumerate(specs)])
    results = [array._v.rows for array in flat([result])]
    return [op.name for op in improved(trace, results, without).ops]


ROW = (1, 2 * SIZE)


def test_every_peephole_has_a_switch() -> None:
    assert tuple(row.name for row in PEEPHOLES) == NAMES and set(NAMES) <= set(SWITCHES)


# --- activations ---


def test_sigmoid_and_tanh_run_as_activations() -> None:
    def gate(x: Any, y: Any) -> Any:
        return nd.sigmoid(x) * nd.tanh(y)

    assert operators(gate, ROW, ROW) == ["Activation", "Activation", "broadcast_mul"]
    assert operators(gate, ROW, ROW, without=("activations",)) == ["sigmoid", "tanh", "broadcast_mul"]


def test_activations_of_other_types_and_devices_and_relu_stay() -> None:
    assert operators(nd.tanh, ROW, dtype="float64") == ["tanh"]
    assert operators(nd.tanh, ROW, device="gpu(0)") == ["tanh"]
    assert operators(nd.relu, ROW) == ["relu"]  # Activation makes 0 of a NaN


def test_a_sigmoid_whose_smallest_numbers_matter_stays() -> None:
    assert operators(nd.sigmoid, ROW) == ["sigmoid"]
    assert operators(lambda x: nd.log(nd.sigmoid(x)), ROW) == ["sigmoid", "log"]
    assert operators(lambda x, y: x / nd.sigmoid(y), ROW, ROW) == ["sigmoid", "broadcast_div"]


@pytest.mark.parametrize("kind", ["sigmoid", "tanh"])
def test_activations_agree_at_the_ends_of_the_numbers(kind: str) -> None:
    numbers = [-np.inf, -1e38, -100.0, -86.0, -20.0, -1.0, -1e-8, -0.0, 0.0, 1e-30, 1e-3, 5.0, 89.0, 1e38, np.inf]
    found = {}
    for name, run in (
        ("plain", getattr(nd, kind)),
        ("activation", lambda data: nd.Activation(data, act_type=kind)),
    ):
        x = nd.array([[*numbers, np.nan]])
        x.attach_grad()
        with autograd.record():
            y = run(x)
        y.backward()
        found[name] = np.stack([y.asnumpy()[0], x.grad.asnumpy()[0]])
    np.testing.assert_allclose(found["activation"], found["plain"], rtol=1e-4, atol=1e-30, equal_nan=True)
    assert np.isnan(found["activation"][:, -1]).all()


# --- splits ---


def halves(x: Any) -> Any:
    left, right = nd.split(x, num_outputs=2, axis=1)
    return left * right


def slices(x: Any) -> Any:
    left = nd.slice_axis(x, axis=1, begin=0, end=SIZE)
    return left * nd.slice_axis(x, axis=-1, begin=SIZE, end=None)


def test_splits_are_slices_in_inference_and_blocks_in_training() -> None:
    assert operators(halves, ROW, training=False) == ["slice_axis", "slice_axis", "broadcast_mul"]
    assert operators(halves, ROW, training=True) == ["Reshape", "SliceChannel", "broadcast_mul"]
    assert operators(halves, ROW, without=("splits",)) == ["SliceChannel", "broadcast_mul"]


def test_slices_that_cut_all_into_equal_parts_are_blocks_in_training() -> None:
    assert operators(slices, ROW, training=True) == ["Reshape", "SliceChannel", "broadcast_mul"]
    assert operators(slices, ROW, training=False) == ["slice_axis", "slice_axis", "broadcast_mul"]


@pytest.mark.parametrize(
    "ends",
    [[(0, 3), (3, 8)], [(0, 4), (2, 6)], [(0, 4)], [(0, 4), (0, 4)], [(0, 2), (4, 6)], [(2, 4), (4, 6), (6, 8)]],
    ids=str,
)
def test_slices_that_are_no_equal_parts_stay(ends: list[tuple[int, int]]) -> None:
    def cut(x: Any) -> Any:
        return [nd.slice_axis(x, axis=1, begin=begin, end=end) for begin, end in ends]

    assert operators(cut, ROW) == ["slice_axis"] * len(ends)


def test_splits_along_other_axes_stay() -> None:
    assert operators(lambda x: list(nd.split(x, num_outputs=2, axis=0)), (2, SIZE)) == ["SliceChannel"]
    assert operators(lambda x: list(nd.split(x, num_outputs=2, axis=1)), (1, 2, SIZE)) == ["SliceChannel"]
    assert operators(lambda x: list(nd.split(x, num_outputs=8, axis=1, squeeze_axis=True)), ROW) == ["SliceChannel"]


# --- all of them, in models ---


class Gates(gluon.HybridBlock):
    """A cell in which all peepholes have something to do."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(3 * SIZE, SIZE))
            self.u = self.params.get("u", shape=(3 * SIZE, SIZE))

    def hybrid_forward(self, F: Any, x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
        from_x = F.FullyConnected(x, w, no_bias=True, num_hidden=3 * SIZE)
        from_h = F.FullyConnected(h, u, no_bias=True, num_hidden=3 * SIZE)
        a, b, d = (F.slice_axis(from_x, axis=1, begin=k * SIZE, end=(k + 1) * SIZE) for k in range(3))
        e, f, g = F.split(from_h, num_outputs=3, axis=1)
        c = F.elemwise_add(F.sigmoid(a + e + c) * F.tanh(b + f), c)
        return F.sigmoid(d + g) * F.tanh(c), c


class Chain(gluon.Block):
    """A cell along the rows of a sample, so many at a time."""

    def __init__(self, cell: gluon.Block, states: int = 2) -> None:
        super().__init__()
        self.cell, self.states = cell, states

    def forward(self, x: Any) -> Any:
        states = [x[0:1] * (k + 1) for k in range(self.states)]
        for k in range(x.shape[0]):
            out = self.cell(x[k : k + 1], *states)
            states = list(out[: self.states])
        return states[0]


class Stepped(gluon.Block):
    """A cell of Gluon's own, which takes its states as a list."""

    def __init__(self, cell: gluon.HybridBlock) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        states = [x[0:1] for _ in self.cell.state_info()]
        for k in range(x.shape[0]):
            out, states = self.cell(x[k : k + 1], states)
        return out


def loss(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


MODELS: dict[str, Callable[[], gluon.Block]] = {
    "gates": lambda: Chain(Gates()),
    "lstm": lambda: Stepped(gluon.rnn.LSTMCell(SIZE, input_size=SIZE)),
    "gru": lambda: Stepped(gluon.rnn.GRUCell(SIZE, input_size=SIZE)),
}


@pytest.mark.parametrize(
    "without, granularity", [*[((name,), "cell") for name in NAMES], *product([(), NAMES], ["cell", "op"])], ids=str
)
@pytest.mark.parametrize("model", MODELS)
def test_models_agree_with_the_program_without_batching(model: str, without: tuple[str, ...], granularity: str) -> None:
    net = MODELS[model]()
    net.initialize(mx.init.Uniform(0.7))
    samples = [rows(length, SIZE, seed=length) for length in (3, 1, 4, 4, 2)]
    assert_same(net, samples, loss, without=without, granularity=granularity)
    net.hybridize(dynamic_batch=True, without=without, granularity=granularity)
    batched = [value.asnumpy() for value in [net(sample) for sample in samples]]
    net.hybridize(dynamic_batch=False)
    for value, sample in zip(batched, samples):
        np.testing.assert_allclose(value, net(sample).asnumpy(), rtol=1e-5, atol=1e-6)


def test_kinds_made_with_and_without_do_not_meet() -> None:
    net = Chain(Gates())
    net.initialize(mx.init.Uniform(0.7))
    counts = []
    for without in ((), ("splits",), ()):
        net.hybridize(dynamic_batch=True)
        with gluonjit.batching(without=without, granularity="cell"):
            result = net(rows(2, SIZE))
            batch = LOCAL.state.batch
            assert batch is not None
            kinds = [record.kind for record in batch.records.values()]
            counts.append([kind.work.ops for kind in kinds if kind.name.startswith("gates") and ":" not in kind.name])
            assert result.shape == (1, SIZE)
    assert len(counts[0]) == 1 and counts[0] == counts[2] != counts[1]
