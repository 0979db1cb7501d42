"""Products with zero states are left out, and nothing else changes: values, gradients, launches."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from support import assert_close, assert_same, rows

import gluonjit
from gluonjit.engines.mxnet import zeros
from gluonjit.hybrid import LOCAL

SIZE = 4
CELLS = {"lstm": gluon.rnn.LSTMCell, "gru": gluon.rnn.GRUCell, "rnn": gluon.rnn.RNNCell}


class Chain(gluon.Block):
    """A cell along the rows of a sample, from a state of zeros."""

    def __init__(self, name: str = "lstm") -> None:
        super().__init__()
        self.cell = CELLS[name](SIZE, input_size=SIZE)

    def begin(self) -> list[Any]:
        return list(self.cell.begin_state(batch_size=1))

    def forward(self, x: Any) -> Any:
        states = self.begin()
        for k in range(x.shape[0]):
            out, states = self.cell(x[k : k + 1], states)
        return out


class Ones(Chain):
    """The same from a state that is written to."""

    def begin(self) -> list[Any]:
        states = super().begin()
        for state in states:
            state[:] = 1
        return states


class Given(Chain):
    """The same from a state that gets a gradient."""

    def begin(self) -> list[Any]:
        self.first = super().begin()
        for state in self.first:
            state.attach_grad()
        return self.first


class Leaves(gluon.Block):
    """A binary tree over the rows of a sample, with states of zeros below its leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Binary()

    def forward(self, x: Any) -> Any:
        nothing = nd.zeros((1, SIZE))
        states = [self.cell(x[k : k + 1], nothing, nothing, nothing, nothing) for k in range(x.shape[0])]
        while len(states) > 1:
            (h, c), (g, d) = states[:2]
            states = [*states[2:], self.cell(nd.zeros((1, SIZE)), h, c, g, d)]
        return states[0][0]


class Binary(gluon.HybridBlock):
    """A node of a binary Tree-LSTM: word, and (h, c) of the left and the right."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w, self.u, self.v = (self.params.get(name, shape=(5 * SIZE, SIZE)) for name in "wuv")
            self.b = self.params.get("b", shape=(5 * SIZE,), init=mx.init.Constant(0.3))

    def hybrid_forward(
        self, F: Any, x: Any, h: Any, c: Any, g: Any, d: Any, w: Any, u: Any, v: Any, b: Any
    ) -> tuple[Any, Any]:
        gates = F.FullyConnected(x, w, no_bias=True, num_hidden=5 * SIZE)
        gates = gates + F.FullyConnected(h, u, no_bias=True, num_hidden=5 * SIZE)
        gates = gates + F.FullyConnected(g, v, b, num_hidden=5 * SIZE)
        i, o, u, left, right = F.split(gates, num_outputs=5, axis=1)
        c = F.sigmoid(i) * F.tanh(u) + F.sigmoid(left) * c + F.sigmoid(right) * d
        return F.sigmoid(o) * F.tanh(c), c


def loss(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


def kinds(net: gluon.Block, sample: Any, **options: Any) -> dict[int, tuple[int, int]]:
    """Of each kind of the cell its operators and how many weights it leaves out, by the row of its first result."""
    net.hybridize(dynamic_batch=True)
    with gluonjit.batching(granularity="cell", **options):
        result = net(sample)
        batch = LOCAL.state.batch
        assert batch is not None and result.shape == (1, SIZE)
        records = [record for record in batch.records.values() if record.kind.name == net.cell.name]
        return {record.bases[0]: (record.kind.work.ops, len(record.kind.program.left)) for record in records}


def made(net: gluon.Block) -> Any:
    net.initialize(mx.init.Uniform(0.7))
    return net


SAMPLES = [rows(length, SIZE, seed=length) for length in (3, 1, 4, 4, 2)]
MODELS = {"tree": Leaves, "ones": Ones, **{name: lambda name=name: Chain(name) for name in CELLS}}


def test_products_with_zeros_are_left_out_of_the_first_call_only() -> None:
    net = made(Chain("rnn"))
    first, later = kinds(net, SAMPLES[0]).values()
    # Of the product with the state only its bias is left.
    assert (first[1], later[1]) == (1, 0) and first[0] < later[0]
    plain = [*kinds(net, SAMPLES[0], without=("zeros",)).values()]
    assert plain[0] == plain[1] == later


def test_in_training_a_wide_product_with_a_bias_is_one_of_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    net = made(Chain("lstm"))
    assert all(left == 0 for _, left in _trained(net).values())
    plain = [ops for ops, _ in _trained(net).values()]
    monkeypatch.setattr(zeros, "_WIDE", 1)
    gluonjit.clear_caches()
    first, later = (ops for ops, _ in _trained(net).values())
    assert later == plain[1] and first == plain[0] + 2  # slices
    for name in ("lstm", "gru"):
        net = made(Chain(name))
        assert_same(net, SAMPLES, loss, granularity="cell")
    test_weights_that_meet_zeros_alone_get_gradients_of_zeros(frozen=True)


def _trained(net: gluon.Block) -> dict[int, tuple[int, int]]:
    with autograd.record():
        return kinds(net, SAMPLES[0])


def test_leaves_of_a_tree_lose_both_products() -> None:
    leaf, inner = kinds(made(Leaves()), SAMPLES[0]).values()
    assert (leaf[1], inner[1]) == (2, 0) and leaf[0] < inner[0] - 4


@pytest.mark.parametrize("net", [Ones, Given])
def test_states_that_were_written_to_or_have_gradients_are_no_zeros(net: type[Chain]) -> None:
    assert all(left == 0 for _, left in kinds(made(net()), SAMPLES[0]).values())


@pytest.mark.parametrize("without", [(), ("zeros",)], ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_values_and_gradients_are_those_without_batching(model: str, without: tuple[str, ...]) -> None:
    assert_same(made(MODELS[model]()), SAMPLES, loss, without=without, granularity="cell")


@pytest.mark.parametrize("model", MODELS)
def test_launches_are_as_many(model: str) -> None:
    net = made(MODELS[model]())
    launches = [
        assert_same(net, SAMPLES, loss, without=without, granularity="cell", scheduler="depth").launches
        for without in ((), ("zeros",))
    ]
    assert launches[0] == launches[1]


@pytest.mark.parametrize("frozen", [False, True])
def test_weights_that_meet_zeros_alone_get_gradients_of_zeros(frozen: bool) -> None:
    net = made(Chain("lstm"))
    if frozen:  # then nothing else is learned
        for parameter in (net.cell.i2h_weight, net.cell.i2h_bias, net.cell.h2h_bias):
            parameter.grad_req = "null"
    net.hybridize(dynamic_batch=True, granularity="cell")
    net.cell.h2h_weight.grad()[:] = 7
    with autograd.record():
        losses = [(nd.tanh(net(sample[:1])) * 2).sum() for sample in SAMPLES]
        total = gluonjit.add_n(losses)
    total.backward()
    assert (net.cell.h2h_weight.grad().asnumpy() == 0).all()
    if not frozen:
        assert np.abs(net.cell.i2h_weight.grad().asnumpy()).max() > 0


def test_gradients_are_added_where_asked_for() -> None:
    net = made(Chain("lstm"))
    found = []
    for dynamic in (False, True):
        net.collect_params().setattr("grad_req", "add")
        net.hybridize(dynamic_batch=dynamic, **({"granularity": "cell"} if dynamic else {}))
        net.cell.h2h_weight.grad()[:] = 7
        for count in (1, 3):
            with autograd.record():
                total = gluonjit.add_n([loss(net, sample[:count]) for sample in SAMPLES])
            total.backward()
        found.append(net.cell.h2h_weight.grad().asnumpy())
    assert_close(found[1], found[0], "gradient of h2h_weight")


def test_a_gradient_of_a_state_of_zeros_is_computed() -> None:
    net, found = made(Given("rnn")), []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            value = loss(net, SAMPLES[0])
        value.backward()
        found.append(net.first[0].grad.asnumpy())
    assert np.abs(found[0]).max() > 0
    assert_close(found[1], found[0], "gradient of the state")


def test_a_product_with_what_may_be_infinite_is_computed() -> None:
    class Scaled(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, h: Any) -> Any:
            return F.exp(x) * h + x

    class Net(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.cell = Scaled()

        def forward(self, x: Any) -> Any:
            return self.cell(x, nd.zeros((1, SIZE)))

    net = made(Net())
    net.hybridize(dynamic_batch=True, granularity="cell")
    values = [value.asnumpy() for value in [net(nd.full((1, SIZE), number)) for number in (1.0, 1000.0)]]
    assert (values[0] == 1).all() and np.isnan(values[1]).all()
