"""`verify` finds faults built into the rules of operators, and says in which call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.engines.mxnet.operators.table import ROWS_OF
from gluonjit.errors import OptionError, VerifyError
from gluonjit.program.axes.row import By

pytestmark = pytest.mark.filterwarnings("ignore::gluonjit.errors.RuleWarning")


class Cell(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.inner = gluon.nn.Dense(4, in_units=4)

    def hybrid_forward(self, F: Any, x: Any, h: Any) -> Any:
        return F.relu(self.inner(x + h)) * 0.5


class Net(gluon.Block):
    """A chain of cells, then operators by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell()
        self.out = gluon.nn.Dense(2, in_units=4)

    def forward(self, x: Any, tail: Any = None) -> Any:
        h = nd.zeros((1, 4))
        for row in range(len(x)):
            h = self.cell(x[row : row + 1], h)  # the line of the cell
        h = nd.tanh(h)  # the line of the operator
        return self.out(h) if tail is None else (self.out(h), tail * h)


@pytest.fixture
def net() -> Net:
    mx.random.seed(1)  # in one of fifteen draws no unit of the cell is active in sample 0: nothing differs there then
    made = Net()
    made.initialize(init="xavier")
    return made


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Callable[[Any], Any]], None]]:
    """Build a fault into the rule of an operator."""

    def built_in(name: str, change: Callable[[Any], Any]) -> None:
        row = ROWS_OF[name]

        def lift(call: Any) -> Any:
            writer, found = call.writer, row.lift(call)
            return [val._replace(slot=writer.apply(change, [val])) for val in found]

        monkeypatch.setitem(ROWS_OF, name, By(lift, row.kind, row.said, True))
        gluonjit.clear_caches()

    yield built_in
    monkeypatch.undo()
    gluonjit.clear_caches()


def samples(*lengths: int) -> list[Any]:
    random = np.random.RandomState(0)
    return [nd.array(random.uniform(-1, 1, (length, 4))) for length in lengths]


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


def test_what_is_right_passes(net: Net) -> None:
    report = gluonjit.verify(net, samples(2, 1, 4))
    assert report.calls > report.launches > 0
    assert "_gluonjit" not in net.__dict__, "a net that was not batched is not batched afterwards"


def test_samples_of_several_arguments(net: Net) -> None:
    gluonjit.verify(net, [(x, nd.ones((1, 4))) for x in samples(2, 3)])


def test_a_loss(net: Net) -> None:
    loss = gluon.loss.L2Loss()
    gluonjit.verify(net, samples(2, 3), lambda output, sample: loss(output, sample[:1, :2]))


def test_a_wrong_operator_is_named(net: Net, plant: Any) -> None:
    plant("tanh", lambda symbol: symbol * 1.01)
    with pytest.raises(VerifyError) as caught:
        gluonjit.verify(net, samples(2, 1, 4))
    message = str(caught.value)
    assert "the first call that differs is that of tanh in sample 0 at " in message
    assert f"test_verify.py:{line_of('# the line of the operator')} in " in message


def test_a_wrong_operator_in_a_cell_is_found_in_the_cell(net: Net, plant: Any) -> None:
    plant("relu", lambda symbol: symbol * 1.01)
    with pytest.raises(VerifyError) as caught:
        gluonjit.verify(net, samples(2, 1, 4))
    assert f"that of {net.cell.name} in sample 0" in str(caught.value)
    assert f"test_verify.py:{line_of('# the line of the cell')} in " in str(caught.value)


def test_granularity_finds_the_operator_in_a_cell(net: Net, plant: Any) -> None:
    plant("relu", lambda symbol: symbol * 1.01)
    with pytest.raises(VerifyError, match=r"the first call that differs is that of relu in sample 0"):
        gluonjit.verify(net, samples(2, 1, 4), granularity="op")


def test_a_wrong_gradient_is_named(net: Net, plant: Any) -> None:
    plant("tanh", lambda symbol: symbol * 0.5 + mx.sym.BlockGrad(symbol) * 0.5)
    with pytest.raises(VerifyError) as caught:
        gluonjit.verify(net, samples(2, 1, 4))
    message = str(caught.value)
    assert "in the gradient of" in message and "comes from the backward of tanh in sample" in message
    assert f"test_verify.py:{line_of('# the line of the operator')} in " in message


def test_tolerance(net: Net, plant: Any) -> None:
    plant("tanh", lambda symbol: symbol * 1.001)
    gluonjit.verify(net, samples(2, 1, 4), rtol=0.01)
    with pytest.raises(VerifyError):
        gluonjit.verify(net, samples(2, 1, 4))


class Attention(gluon.Block):
    """What the bias of the scores adds, a softmax takes away again: its gradient is rounding around 0."""

    def __init__(self) -> None:
        super().__init__()
        self.states = gluon.nn.Dense(16, in_units=4, activation="tanh", flatten=False)
        self.scores = gluon.nn.Dense(1, in_units=16)
        self.out = gluon.nn.Dense(3, in_units=16)

    def forward(self, x: Any) -> Any:
        states = self.states(x)
        return self.out(nd.dot(nd.softmax(self.scores(states), axis=0).T, states))


def test_a_gradient_that_cancels_is_no_difference() -> None:
    net = Attention()
    net.initialize(init="xavier")
    for seed in range(3):
        given = [nd.array(np.random.RandomState(seed).normal(size=(length, 4))) for length in (5, 3, 8, 6)]
        assert gluonjit.verify(net, given).launches > 0


class Small(gluon.Block):
    """The gradients of a layer are about a hundredth of those of another."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = gluon.nn.Dense(4, in_units=4), gluon.nn.Dense(4, in_units=4)

    def forward(self, x: Any) -> Any:
        return self.large(x) + nd.tanh(self.small(x)) * 0.01


def test_a_wrong_gradient_that_is_small_is_found(plant: Any) -> None:
    net = Small()
    net.initialize(init="xavier")
    gluonjit.verify(net, samples(2, 1, 4))
    plant("tanh", lambda symbol: symbol * 1.001 - mx.sym.BlockGrad(symbol) * 0.001)
    with pytest.raises(VerifyError, match=r"in the gradient of .*_(weight|bias): .* comes from the backward of tanh"):
        gluonjit.verify(net, samples(2, 1, 4))


def test_nothing_of_the_net_is_changed(net: Net) -> None:
    net.hybridize(dynamic_batch=True, sharing=False)
    cell = net.__dict__["_gluonjit"]
    weight = net.out.weight
    weight.grad()[:] = 7
    inputs = samples(2, 3)
    inputs[0].attach_grad()
    inputs[0].grad[:] = 5
    gluonjit.verify(net, inputs)
    assert net.__dict__["_gluonjit"] is cell
    gluonjit.verify(net, inputs, max_nodes=3)
    assert net.__dict__["_gluonjit"].options == cell.options
    assert (weight.grad().asnumpy() == 7).all() and (inputs[0].grad.asnumpy() == 5).all()


def test_bad_input(net: Net) -> None:
    with pytest.raises(ValueError, match="no samples"):
        gluonjit.verify(net, [])
    with pytest.raises(TypeError, match=r"verify\(\): samples must be a list of them, not int"):
        gluonjit.verify(net, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"add_n\(\): arrays must be a list of them, not float"):
        gluonjit.add_n(3.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the first argument must be a model"):
        gluonjit.verify(lambda x: x, samples(1))
    with pytest.raises(OptionError, match="unknown option 'sharring'"):
        gluonjit.verify(net, samples(1), sharring=True)


def test_programs_of_the_numpy_interface(plant: Any) -> None:
    class Head(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.dense = gluon.nn.Dense(4, in_units=4)

        def forward(self, x: Any) -> Any:
            return mx.np.tanh(self.dense(x)).sum()

    mx.npx.set_np()
    try:
        head = Head()
        head.initialize()
        inputs = [mx.np.array(x.asnumpy()) for x in samples(2, 1, 4)]
        gluonjit.verify(head, inputs)
        plant("_npi_tanh", lambda symbol: symbol * 1.01)
        with pytest.raises(VerifyError, match="the first call that differs is that of _npi_tanh in sample 0"):
            gluonjit.verify(head, inputs)
        plant("_npi_tanh", mx.sym.BlockGrad)
        with pytest.raises(VerifyError, match="from the backward of _npi_tanh in sample 2"):
            gluonjit.verify(head, inputs, rtol=0.05)
    finally:
        mx.npx.reset_np()


class Recurrent(gluon.Block):
    """Calls a recurrent cell of MXNet's as its author does, who unrolls nothing and resets nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = gluon.rnn.GRUCell(3, input_size=2)

    def forward(self, x: Any) -> Any:
        states = [nd.zeros((1, 3))]
        for row in range(len(x)):
            out, states = self.cell(x[row : row + 1], states)
        return out


def test_what_recurrent_cells_count_for_names_is_no_state() -> None:
    net = Recurrent()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    gluonjit.verify(net, [nd.ones((length, 2)) for length in (2, 3, 2)])


class Nested(gluon.Block):
    """A tree of tuples, (array, children), in one argument."""

    def __init__(self) -> None:
        super().__init__()
        self.child = gluon.nn.Dense(4, in_units=4)

    def forward(self, tree: Any) -> Any:
        return nd.tanh(tree[0] + sum(self.child(self.forward(t)) for t in tree[1]))


def test_a_tuple_may_be_one_sample_or_the_arguments_of_a_call() -> None:
    net, layer, x = Nested(), gluon.nn.Dense(2, in_units=4), nd.ones((1, 4))
    net.initialize()
    layer.initialize()
    assert gluonjit.verify(net, [(x, [(x, []), (2 * x, [])]), (3 * x, [])]).nodes > 0
    assert gluonjit.verify(layer, [(x,), x]).nodes > 0


class Pools(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.stem = gluon.nn.HybridSequential()
        self.stem.add(gluon.nn.Conv2D(3, 3, padding=1, in_channels=2), gluon.nn.MaxPool2D(2))
        self.stem.add(gluon.nn.Dropout(0.5))

    def forward(self, x: Any) -> Any:
        return nd.Pooling(self.stem(x), kernel=(2, 2), stride=(2, 2), pool_type="max")


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_max_pooling_recorded_outside_of_training_has_the_gradients_of_training(granularity: str) -> None:
    """Which MXNet itself gets wrong."""
    net = Pools()
    net.initialize()
    inputs = [nd.array(np.random.randn(1, 2, size, 8)) for size in (8, 12, 8)]
    net.stem[2]._rate = 0.0  # so that training changes nothing
    with autograd.record(train_mode=True):
        total = sum(net(x).square().sum() for x in inputs)
    total.backward()
    wanted = net.stem[0].weight.grad().asnumpy()
    net.hybridize(dynamic_batch=True, granularity=granularity)
    with autograd.record(train_mode=False):
        total = gluonjit.add_n([net(x).square().sum() for x in inputs])
    total.backward()
    np.testing.assert_allclose(net.stem[0].weight.grad().asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    gluonjit.verify(net, inputs)
