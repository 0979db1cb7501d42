"""Peepholes give the same numbers by other operators, and leave alone what they would change."""

from __future__ import annotations

import json
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
from gluonjit.engines.mxnet.program import DIRECT, finals_of
from gluonjit.engines.mxnet.trace import Trace, tracing
from gluonjit.graph import intern_spec
from gluonjit.hybrid import LOCAL
from gluonjit.hybrid.options import SWITCHES

SIZE = 4
NAMES = ("activations", "sums", "splits", "identities")
Function = Callable[..., Any]


def operators(
    function: Function, *shapes: tuple[int, ...], without: Sequence[str] = (), training: bool = True, **options: Any
) -> list[str]:
    """Names of the operators that run for a function of arrays."""
    dtype, device = options.get("dtype", "float32"), options.get("device", "cpu(0)")
    specs = [intern_spec(shape, dtype, device, "rows") for shape in shapes]
    trace = Trace(specs, training)
    with tracing(trace):
        result = function(*[wrap(trace.placeholder(position, spec)) for position, spec in enumerate(specs)])
    results = [array._v.rows for array in flat([result])]
    return [op.name for op in improved(trace, results, without).ops]


ROW = (1, 2 * SIZE)


def test_every_peephole_has_a_switch() -> None:
    assert {row.name for row in PEEPHOLES} | {"identities"} <= set(SWITCHES)
    assert set(NAMES) <= set(SWITCHES)


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


# --- sums ---


def test_chains_of_additions_run_as_one_sum() -> None:
    assert operators(lambda a, b, c: (a + b) + c, ROW, ROW, ROW) == ["add_n"]
    assert operators(lambda a, b, c: (a + b) + (c + a), ROW, ROW, ROW) == ["add_n"]
    plain = operators(lambda a, b, c: (a + b) + c, ROW, ROW, ROW, without=("sums",))
    assert plain == ["broadcast_add", "broadcast_add"]


def test_sums_keep_what_is_used_elsewhere() -> None:
    def used(a: Any, b: Any, c: Any) -> Any:
        inner = a + b
        return inner + c, inner * c

    def returned(a: Any, b: Any, c: Any) -> Any:
        inner = a + b
        return inner + c, inner

    def doubled(a: Any, b: Any, c: Any) -> Any:
        inner = a + b
        return inner + inner

    assert operators(used, ROW, ROW, ROW) == ["broadcast_add", "broadcast_add", "broadcast_mul"]
    assert operators(returned, ROW, ROW, ROW) == ["broadcast_add", "broadcast_add"]
    assert operators(doubled, ROW, ROW, ROW) == ["broadcast_add", "broadcast_add"]


def test_sums_that_broadcast_or_count_stay() -> None:
    assert operators(lambda a, b, c: (a + b) + c, ROW, (1, 1), ROW) == ["broadcast_add", "broadcast_add"]
    assert operators(lambda a, b, c: (a + b) + c, ROW, ROW, ROW, dtype="int32") == ["broadcast_add", "broadcast_add"]


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


# --- identities ---

_a, _b, _w = (mx.sym.var(name) for name in "abw")
_SYMBOLS = {
    "Activation": mx.sym.Activation(_a, act_type="tanh"),
    "FullyConnected": mx.sym.FullyConnected(_a, _w, num_hidden=SIZE, no_bias=True),
    "add_n": mx.sym.add_n(_a, _b, _a),
    "batch_dot": mx.sym.batch_dot(mx.sym.expand_dims(_a, axis=1), mx.sym.expand_dims(_b, axis=2)),
    "broadcast_add": mx.sym.broadcast_add(_a, _b),
    "broadcast_mul": mx.sym.broadcast_mul(_a, _b),
    "broadcast_sub": mx.sym.broadcast_sub(_a, _b),
    "elemwise_mul": _a * _b,
    "elemwise_sub": _a - _b,
    "log_softmax": mx.sym.log_softmax(_a),
    "sigmoid": mx.sym.sigmoid(_a),
    "softmax": mx.sym.softmax(_a),
    "tanh": mx.sym.tanh(_a),
}


def head_operators(symbols: Sequence[mx.sym.Symbol]) -> list[str]:
    """The operators that write the outputs of a graph."""
    graph = json.loads(mx.sym.Group(list(symbols)).tojson())
    return [graph["nodes"][head[0]]["op"] for head in graph["heads"]]


def differentiated(symbols: Sequence[mx.sym.Symbol], learned: Sequence[str], retain: bool) -> list[np.ndarray]:
    """Outputs written into rows of larger arrays, and gradients added to what is there, of one compiled graph."""
    graph = mx.sym.Group(list(symbols))
    call = mx.nd.CachedOp(graph, [("inline_limit", 0)])
    order = graph.list_inputs()
    arrays = {name: rows(SIZE, SIZE, seed=ord(name)) for name in order}
    shapes = graph.infer_shape(**{name: array.shape for name, array in arrays.items()})[1]
    outputs = [nd.zeros((9, *shape[1:]))[3 : 3 + shape[0]] for shape in shapes]
    heads = [rows(9, *shape[1:], seed=5)[2 : 2 + shape[0]] for shape in shapes]
    variables = [arrays[name] for name in order if name in learned]
    found = [nd.ones(array.shape) for array in variables]
    autograd.mark_variables(variables, found, "add")
    with autograd.record():
        call(*[arrays[name] for name in order], out=outputs)
    for again in [True, False] if retain else [False]:
        autograd.backward(outputs, heads, retain_graph=again)
    return [array.asnumpy() for array in (*outputs, *found, *heads)]


def test_every_direct_operator_is_tested() -> None:
    assert set(_SYMBOLS) == DIRECT
    for name, symbol in _SYMBOLS.items():
        assert head_operators([symbol]) == [name]


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("name", sorted(DIRECT))
def test_direct_results_and_their_gradients_are_those_by_way_of_identities(name: str, retain: bool) -> None:
    symbol = _SYMBOLS[name]
    further = mx.sym.Activation(symbol, act_type="sigmoid") * 2.0
    for symbols in ([symbol], [symbol, further]):
        inputs = mx.sym.Group(symbols).list_inputs()
        assert head_operators(finals_of(symbols, True))[0] == name
        assert set(head_operators(finals_of(symbols, False))) == {"_copy"}
        for learned in (inputs, inputs[:1], inputs[1:]):
            if learned:
                direct = differentiated(finals_of(symbols, True), learned, retain)
                copied = differentiated(finals_of(symbols, False), learned, retain)
                for one, other in zip(direct, copied):
                    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_other_results_keep_their_identities() -> None:
    twice = _a * _b
    assert head_operators(finals_of([_a + _b, twice, twice, _a], True)) == [
        "_copy",
        "elemwise_mul",
        "_copy",
        "_copy",
    ]


def test_an_addition_that_is_a_result_is_one_that_may_be_written_in_place() -> None:
    def result(a: Any, b: Any) -> Any:
        return nd.elemwise_add(a, nd.elemwise_add(a, b) * b)

    assert operators(result, ROW, ROW) == ["elemwise_add", "broadcast_mul", "broadcast_add"]
    assert operators(result, ROW, ROW, without=("identities",)) == ["elemwise_add", "broadcast_mul", "elemwise_add"]


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
    for without in ((), ("identities",), ()):
        net.hybridize(dynamic_batch=True)
        with gluonjit.batching(without=without, granularity="cell"):
            result = net(rows(2, SIZE))
            batch = LOCAL.state.batch
            assert batch is not None
            kinds = [record.kind for record in batch.records.values()]
            counts.append([kind.work.ops for kind in kinds if kind.name.startswith("gates") and ":" not in kind.name])
            assert result.shape == (1, SIZE)
    assert len(counts[0]) == 1 and counts[0] == counts[2] != counts[1]
