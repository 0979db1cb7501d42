"""Operators outside of cells, which C captures once one like them was a node, and what it leaves to Python."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy
import pytest
from mxnet import autograd, gluon, nd, np, npx
from mxnet.ndarray import register

import gluonjit
from gluonjit.compiled import FAST, WHY_NOT
from gluonjit.engines.mxnet.capture import calls, cells, ops
from gluonjit.hybrid import LOCAL

compiled = pytest.mark.skipif(FAST is None, reason=WHY_NOT)
Work = Callable[[Any, Any], Any]


class Net(gluon.Block):
    """Does something, which a test gives it, with what two layers have made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(4, in_units=3)
        self.work: Work = operator.add

    def forward(self, x: Any) -> Any:
        work = self.work
        return work(self.first(x), self.second(x))


def made() -> Net:
    mx.random.seed(2)
    numpy.random.seed(2)
    net = Net()
    net.initialize(mx.init.Uniform(1))
    net.hybridize(dynamic_batch=True)
    return net


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The operators that are captured in Python."""
    found: list[Any] = []
    original = ops.capture_op

    def capture_op(handle: int, arrays: Any, keys: Any, vals: Any, *more: Any) -> Any:
        found.append((keys, vals))
        return original(handle, arrays, keys, vals, *more)

    monkeypatch.setattr(calls, "capture_op", capture_op)
    yield found


SAMPLE = [[0.5, -1.0, 2.0]]

SIGNS: dict[str, Work] = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * 2.5": lambda x, y: x * 2.5,
    "2 - x": lambda x, y: 2 - x,
    "1 / y": lambda x, y: 1 / y,
    "x > y": operator.gt,
    "x > 0": lambda x, y: x > 0,
    "-x": lambda x, y: -x,
    "x ** 2": lambda x, y: x**2,
    "tanh": lambda x, y: nd.tanh(x),
    "sum by a tuple": lambda x, y: nd.sum(x, axis=(0, 1)),
    "sum by a number": lambda x, y: nd.sum(x, axis=1, keepdims=True),
    "concat": lambda x, y: nd.concat(x, y, dim=1),
    "split": lambda x, y: nd.split(x, num_outputs=2, axis=1)[1],
    "a list of one": lambda x, y: nd.split(x, num_outputs=1, axis=1),
    "a name as it came": lambda x, y: nd.Activation(x, act_type="".join(["soft", "relu"])),
    "a dtype": lambda x, y: x.astype("float64"),
    "a row": lambda x, y: x[0:1] * y,
}


def numbers(result: Any) -> Any:
    return result.asnumpy() if hasattr(result, "asnumpy") else result[0].asnumpy()


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("recorded", [True, False])
def test_operators_give_what_they_give_eagerly_and_ask_python_once(name: str, recorded: bool, asked: list[Any]) -> None:
    net, x = made(), nd.array(SAMPLE)
    net.work = lambda a, b: [SIGNS[name](a * k, b) for k in range(1, 5)]
    with autograd.record() if recorded else autograd.pause():
        net(x)
        before = len(asked)
        again = net(x * 2)
        if FAST is not None:
            assert before > 0 and len(asked) == before
        net.hybridize(dynamic_batch=False)
        for found, wanted in zip(again, net(x * 2)):
            numpy.testing.assert_allclose(numbers(found), numbers(wanted), rtol=1e-5, atol=1e-6)


def test_operators_of_both_interfaces_are_told_apart(asked: list[Any]) -> None:
    npx.set_np()
    try:
        net = made()
        net.work = lambda a, b: [np.tanh(a), a + b, (a.as_nd_ndarray() + b.as_nd_ndarray()).as_np_ndarray(), 2.0 * a]
        first = net(np.array(SAMPLE))
        before = len(asked)
        again = net(np.array(SAMPLE))
        assert FAST is None or len(asked) == before
        assert [type(part).__name__ for part in again] == ["LazyNumpy"] * 4
        for found, wanted in zip(again, first):
            assert found.asnumpy().tolist() == wanted.asnumpy().tolist()
    finally:
        npx.reset_np()


def test_parameters_are_operands_by_what_they_are(asked: list[Any]) -> None:
    net = made()

    def work(a: Any, b: Any) -> Any:
        weights = [(layer.weight.data(), layer.bias.data()) for layer in (net.first, net.second)]
        return [nd.FullyConnected(a[:, 0:3], *pair, num_hidden=4) for pair in weights]

    net.work = work
    first = net(nd.array(SAMPLE))
    before = len(asked)
    again = net(nd.array(SAMPLE) * 1)
    assert FAST is None or len(asked) - before < before
    assert [part.asnumpy().tolist() for part in again] == [part.asnumpy().tolist() for part in first]
    assert first[0].asnumpy().tolist() != first[1].asnumpy().tolist()


def test_attributes_that_are_equal_in_python_alone_are_two() -> None:
    net = made()
    net.work = lambda a, b: [x * scale for scale in (0.0, -0.0) for x in (a, b)] * 2
    signs = [numpy.signbit(part.asnumpy()).tolist() for part in net(nd.array(SAMPLE))]
    net.hybridize(dynamic_batch=False)
    assert signs == [numpy.signbit(part.asnumpy()).tolist() for part in net(nd.array(SAMPLE))]


@compiled
def test_attributes_that_c_does_not_know_stay_in_python(asked: list[Any]) -> None:
    net = made()
    net.work = lambda a, b: nd.clip(a, a_min=numpy.float32(-0.25), a_max=b.shape[1])
    results = [net(nd.array(SAMPLE) * k) for k in range(1, 4)]
    assert len(asked) == 3
    assert all(result.asnumpy().min() == numpy.float32(-0.25) for result in results)


@compiled
def test_python_looks_at_the_first_of_equal_references(asked: list[Any]) -> None:
    net = made()
    net.work = lambda a, b: nd.concat(a, b, dim=0)
    results = [net(nd.array(SAMPLE) * k) for k in range(1, 4)]
    assert len(asked) == 1
    assert "Concat" not in [record.kind.name for record in results[0]._v.graph.records.values()]


@compiled
def test_another_mode_and_another_batch_are_other_records(asked: list[Any]) -> None:
    net = made()
    net.work = lambda a, b: nd.Dropout(a, p=0.5) + b
    for _ in range(2):
        with autograd.record():
            net(nd.array(SAMPLE))
        assert len(asked) == 2
    still = net(nd.array(SAMPLE))
    assert len(asked) == 4
    assert still.asnumpy().tolist() == net(nd.array(SAMPLE)).asnumpy().tolist()
    assert len(asked) == 6


def test_what_has_run_is_computed_at_once_outside_of_samples(asked: list[Any]) -> None:
    net = made()
    one, other = net(nd.array(SAMPLE)), net(nd.array(SAMPLE) * 2)
    total = one + other
    assert type(total).__name__ == "LazyArray" and len(asked) == (1 if FAST is not None else 3)
    assert one.asnumpy().shape == other.asnumpy().shape
    before = len(asked)
    assert type(one + other).__name__ == "NDArray"
    assert len(asked) == before


def test_results_to_write_to_and_other_sorts_of_calls_go_the_long_way(asked: list[Any]) -> None:
    net = made()
    one, other = net(nd.array(SAMPLE)), net(nd.array(SAMPLE) * 2)
    out = nd.zeros((1, 4))
    nd.elemwise_add(one, other, out=out)
    numpy.testing.assert_allclose(out.asnumpy(), (one + other).asnumpy())
    invoke: Any = register._imperative_invoke
    assert invoke.__name__ == "invoke" and "every operator call" in invoke.__doc__
    with pytest.raises(TypeError):
        invoke(1, 2)
    with pytest.raises(AssertionError):
        nd.broadcast_add(net(nd.array(SAMPLE)), 3)


def test_interfaces_are_not_mixed() -> None:
    net = made()
    with pytest.raises(TypeError, match="numpy operator which can only accept"):
        np.tanh(nd.ones(1))
    with pytest.raises(TypeError, match="legacy operator which can only accept"):
        nd.tanh(net(nd.array(SAMPLE)).as_np_ndarray())
    with pytest.raises(TypeError, match="which can only write to"):
        nd.tanh(nd.ones((1, 4)), out=np.ones((1, 4)))


def test_equal_calls_are_counted_and_are_one_node() -> None:
    net = made()
    with gluonjit.batching() as batch:
        x = net(nd.array(SAMPLE))
        for _ in range(5):
            last = x * 2.0
        found = [(record.calls, len(record)) for record in batch.records.values() if record.kind.name == "_mul_scalar"]
    assert found == [(5, 1)]
    assert last.shape == (1, 4)


def test_many_operators_fill_a_batch_which_then_runs() -> None:
    net = made()
    net.hybridize(dynamic_batch=True, max_nodes=20)
    net.work = lambda a, b: a + b
    x = net(nd.array(SAMPLE))
    for _ in range(50):
        x = x + 1.0
    assert LOCAL.state.batch.graph.calls < 30  # type: ignore[union-attr]
    net.hybridize(dynamic_batch=False)
    numpy.testing.assert_allclose(x.asnumpy(), net(nd.array(SAMPLE)).asnumpy() + 50, rtol=1e-5)


@compiled
def test_captured_operators_let_go_of_their_values() -> None:
    net = made()
    net.work = lambda a, b: [a * 2.0, a + b, nd.tanh(b)] * 3

    def count() -> int:
        net(nd.array(SAMPLE))
        LOCAL.state.flush("the end")
        gc.collect()
        return sum(type(thing).__name__ in ("LazyArray", "Record", "Batch") for thing in gc.get_objects())

    first = [count() for _ in range(3)][-1]
    assert count() <= first


@compiled
def test_the_first_call_in_a_batch_of_a_signature_met_before_is_found_without_a_look_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = made()
    x = nd.array([[0.5, -1.0, 2.0]])
    for _ in range(2):
        expected = net(x).asnumpy()
    asked: list[Any] = []
    original = cells.new_record
    monkeypatch.setattr(cells, "new_record", lambda cell, *rest: (asked.append(cell.name), original(cell, *rest))[1])
    for _ in range(2):  # C leaves one call in a thousand to Python, and then not the next ones
        del asked[:]
        numpy.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)
        if not asked:
            break
    assert not asked
    with autograd.record():
        net(x).asnumpy()
    assert asked


REFERRING: dict[str, Work] = {
    "stack": lambda x, y: nd.stack(x[0], y[0], x[0])[1:2] * y,
    "concat": lambda x, y: nd.concat(x, y, dim=0)[0:1] * y,
    "expand_dims": lambda x, y: nd.broadcast_add(x.expand_dims(0), y),
    "squeeze": lambda x, y: nd.squeeze(x, axis=0) * y[0],
    "reshape": lambda x, y: nd.reshape(x, shape=(4,)) + nd.reshape(y, shape=(4,)),
    "copy": lambda x, y: x.copy() * y,
    "plus nothing": lambda x, y: sum([x, y]),
}


@compiled
@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("work", REFERRING)
def test_operators_that_need_no_computing_are_captured_without_python(
    work: str, recording: bool, asked: list[Any]
) -> None:
    net = made()
    net.work = REFERRING[work]
    samples = [nd.array([[0.1 * k, -1.0, 2.0]]) for k in range(4)]

    def run() -> tuple[list[Any], int]:
        with autograd.record(recording):
            found = [net(samples[0])]
            first = len(asked)
            found += [net(x) for x in samples[1:]]
            more = len(asked) - first
        if recording:
            autograd.backward(found)
        gradients = [p.grad().asnumpy() for p in net.collect_params().values()] if recording else []
        return [x.asnumpy() for x in found] + gradients, more

    run()
    batched, more = run()
    assert more == 0
    net.hybridize(dynamic_batch=False)
    for one, other in zip(batched, run()[0]):
        assert one.shape == other.shape
        numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_slice_of_one_row_is_no_other_look_of_all_rows() -> None:
    net = made()

    def work(x: Any, y: Any) -> Any:
        both = nd.concat(x, y, dim=0)
        return nd.broadcast_sub(
            nd.slice_axis(both, axis=0, begin=0, end=1), nd.slice_axis(both, axis=0, begin=0, end=2)
        )

    net.work = work
    samples = [nd.array([[0.1 * k, -1.0, 2.0]]) for k in range(4)]
    batched = [net(x).asnumpy() for x in samples]
    together = [net(x) for x in samples]
    net.hybridize(dynamic_batch=False)
    for one, other, x in zip(batched, together, samples):
        numpy.testing.assert_allclose(one, net(x).asnumpy(), rtol=1e-5, atol=1e-6)
        numpy.testing.assert_allclose(other.asnumpy(), one, rtol=1e-5, atol=1e-6)
