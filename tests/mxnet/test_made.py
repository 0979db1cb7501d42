"""Arrays that samples make and write results into, sums that begin as arrays, and numbers that keep differing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.engines.mxnet.capture import cells
from gluonjit.errors import CaptureError
from gluonjit.hybrid.choose import pacing

SIZE = 6
LENGTHS = (3, 5, 4, 7, 3)
Body = Callable[["Net", Any], Any]


class Net(gluon.Block):
    """Layers, and a program on one sample that uses them."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body, self.numbers = body, iter(np.random.RandomState(1).rand(1000).tolist())
        with self.name_scope():
            self.step = gluon.nn.Dense(SIZE, in_units=SIZE, activation="tanh", flatten=False)
            self.out = gluon.nn.Dense(3, in_units=SIZE, flatten=False)

    def forward(self, x: Any) -> Any:
        return self.body(self, x)


@pytest.fixture(autouse=True)
def _batched() -> Iterator[None]:
    pacing.PINNED.append(True)
    yield
    pacing.PINNED.pop()


def pair(body: Body) -> tuple[Net, Net]:
    """The same net twice: eager, and batched."""
    eager, net = Net(body), Net(body)
    eager.initialize(mx.init.Xavier())
    net.initialize()
    for own, other in zip(net.collect_params().values(), eager.collect_params().values()):
        own.set_data(other.data())
    net.hybridize(dynamic_batch=True, granularity="batched", expand=("Net",))
    return eager, net


def samples(seed: int = 0) -> list[Any]:
    rng = np.random.RandomState(seed)
    return [nd.array(rng.randn(length, SIZE)) for length in LENGTHS]


def inferred(body: Body) -> Any:
    """Compares what both nets give while nothing is recorded; returns the report."""
    eager, net = pair(body)
    for seed in (0, 1, 0, 1):
        xs = samples(seed)
        with gluonjit.batching(outline=False):  # else the second has cells made from the source of `body`
            found = [net(x) for x in xs]
        values = [each.asnumpy() for each in found]
        for each, x in zip(values, xs):
            np.testing.assert_allclose(each, eager(x).asnumpy(), rtol=1e-5, atol=1e-5)
        report = gluonjit.explain()
    return report


def summed(net: Any, xs: list[Any]) -> Any:
    """The loss of a minibatch."""
    return sum(net(x).sum() for x in xs)


def trained(body: Body, minibatches: int = 2, total: Callable[[Any, list[Any]], Any] = summed) -> Any:
    """Compares losses and gradients; returns the report of the last minibatch."""
    eager, net = pair(body)
    for seed in range(minibatches):
        losses = []
        for each in (eager, net):
            with autograd.record():
                loss = total(each, samples(seed))
            loss.backward()
            losses.append(loss.asscalar())
        report = gluonjit.explain()
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        for own, other in zip(net.collect_params().values(), eager.collect_params().values()):
            np.testing.assert_allclose(own.grad().asnumpy(), other.grad().asnumpy(), rtol=1e-4, atol=1e-5)
    return report


# --- results written into arrays -------------------------------------------------------------------------------------


def rows(net: Net, x: Any) -> Any:
    out, h = nd.zeros((len(x), SIZE)), nd.zeros((1, SIZE))
    for t in range(len(x)):
        h = net.step(x[t : t + 1] + h)
        out[t] = h[0]
    return net.out(out)


def slices_and_negative_rows(net: Net, x: Any) -> Any:
    out = nd.ones((len(x), SIZE))
    out[0:2] = net.step(x[1:3])
    out[-1] = net.step(x[0:1])
    out[1] = net.step(x[2:3])
    out[0] = 0.5
    return net.out(out) + out.sum()


def rows_of_inputs_between(net: Net, x: Any) -> Any:
    out = nd.zeros((3, SIZE))
    out[0] = net.step(x[0:1])[0]
    out[1] = x[1]
    out[(2,)] = nd.ones((SIZE,))
    return net.out(out)


def entries(net: Net, x: Any) -> Any:
    out = nd.zeros((len(x),))
    for t in range(len(x)):
        out[t] = net.step(x[t : t + 1]).sum()
    return out * 2 + out.sum() + nd.softmax(out)


def single_numbers(net: Net, x: Any) -> Any:
    out = nd.zeros((len(x), 1))
    for t in range(len(x)):
        out[t] = net.step(x[t : t + 1]).sum()
    return out * 2


def rows_of_numpy_arrays(net: Net, x: Any) -> Any:
    out = mx.np.zeros((len(x), SIZE))
    for t in range(len(x)):
        out[t] = net.step(x[t : t + 1]).as_np_ndarray()[0]
    out *= 2
    return net.out(out.as_nd_ndarray())


def sums(net: Net, x: Any) -> Any:
    out = nd.zeros((1, SIZE))
    for t in range(len(x)):
        out += net.step(x[t : t + 1])
    out *= 0.5
    out -= 1
    out /= net.step(x[0:1]) + 2
    return net.out(out)


def a_copy_before(net: Net, x: Any) -> Any:
    h = net.step(x[0:1])
    before, same = h.copy(), h
    h += 1
    h[:] = h * 2
    return net.out(h) + net.out(before) * same.sum()


def all_of_it(net: Net, x: Any) -> Any:
    out = nd.zeros((1, SIZE))
    out[:] = net.step(x[0:1])
    return net.out(out)


@pytest.mark.parametrize(
    "body",
    [
        rows,
        slices_and_negative_rows,
        rows_of_inputs_between,
        single_numbers,
        entries,
        rows_of_numpy_arrays,
        sums,
        a_copy_before,
        all_of_it,
    ],
)
def test_results_are_written_into_arrays_in_one_flush(body: Body) -> None:
    report = inferred(body)
    assert report.flushes == 1 and not report.cache["misses"]


def test_rows_replaced_are_no_nodes() -> None:
    report = inferred(rows)
    assert not any("assign" in kind or "copy" in kind for kind in report.kinds)


def a_view_before(net: Net, x: Any) -> Any:
    out = nd.zeros((2, SIZE))
    out[0] = net.step(x[0:1])[0]
    view = out[0:1]
    out[0] = net.step(x[1:2])[0]
    return net.out(view) + net.out(out)


def a_view_written(net: Net, x: Any) -> Any:
    out = nd.zeros((2, SIZE))
    out[0] = net.step(x[0:1])[0]
    out[1:2][:] = net.step(x[1:2])
    return net.out(out)


def other_types_and_shapes(net: Net, x: Any) -> Any:
    out = nd.zeros((3, SIZE))
    h = net.step(x[0:1])
    out[0] = h.astype("float64")[0]
    out[0:3] = h
    out[1, 2] = h.sum()
    out[:, 0] = 3
    out += h
    return net.out(out)


def what_is_read_changes_later(net: Net, x: Any) -> Any:
    out, source = nd.zeros((2, SIZE)), nd.ones((1, SIZE))
    out[0] = net.step(x[0:1])[0]
    out[1:2] = source
    source[:] = 5
    return net.out(out) + source.sum()


@pytest.mark.parametrize("body", [a_view_before, a_view_written, other_types_and_shapes, what_is_read_changes_later])
def test_other_writes_give_what_they_give_eagerly(body: Body) -> None:
    inferred(body)


def test_an_input_written_to_after_its_row_was_taken() -> None:
    def body(net: Net, x: Any) -> Any:
        out = nd.zeros((2, SIZE))
        out[0] = net.step(x[0:1])[0]
        out[1] = x[1]
        return out

    eager, net = pair(body)
    found = []
    for each in (eager, net):
        xs = samples()
        outs = [each(x) for x in xs]
        for x in xs:
            x[:] = 7
        found.append([out.asnumpy() for out in outs])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_all_of_an_array_is_written_to_under_recording() -> None:
    assert not trained(all_of_it).cache["misses"]


def twice(net: Net, x: Any) -> Any:
    out = all_of_it(net, x)
    out[:] = net.out(x[0:1])
    return out


@pytest.mark.parametrize("body", [rows, sums, a_copy_before, twice])
def test_what_mxnet_refuses_under_recording_is_refused(body: Body) -> None:
    eager, net = pair(body)
    x = samples()[0]
    with autograd.record(), pytest.raises(mx.base.MXNetError):
        eager(x)
    with autograd.record(), pytest.raises((mx.base.MXNetError, CaptureError)):
        net(x).asnumpy()


# --- sums that begin as arrays ---------------------------------------------------------------------------------------


def test_a_sum_begins_as_an_array_outside_of_samples() -> None:
    def begun(net: Any, xs: list[Any]) -> Any:
        total = nd.zeros((1,))
        for x in xs:
            total = total + net(x)
        return total

    report = trained(lambda net, x: net.out(net.step(x)).sum(), total=begun)
    assert report.flushes == 1 and not report.cache["misses"]


def test_a_sum_in_place_is_refused_under_recording_and_runs_outside_of_it() -> None:
    eager, net = pair(lambda net, x: net.out(net.step(x)).sum())
    found = []
    for each in (eager, net):
        total = nd.zeros((1,))
        for x in samples():
            total += each(x)
        found.append(total.asscalar())
        with autograd.record(), pytest.raises(mx.base.MXNetError):
            total += each(samples()[0])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)


# --- numbers ---------------------------------------------------------------------------------------------------------


def numbers_of_its_own(net: Net, x: Any) -> Any:
    number = next(net.numbers) + 0.1
    y = net.step(x)
    for _ in range(2):
        y = (number * y + number / 3.0) / (1.5 + number * number) - number * 0.1
        y = (2.0 + number) / (y * y + 1.0) - y / number
        y = (number * 3.0 - nd.maximum(nd.minimum(y, number), -number)) ** (1.0 + number)
    return net.out(y) * number


def numbers_in_numpy(net: Net, x: Any) -> Any:
    number = next(net.numbers) + 0.1
    y = net.step(x).as_np_ndarray()
    y = (number * y + number / 3.0) / (1.5 + number * number) - number * 0.1
    y = (2.0 + number) / (y * y + 1.0) - y / number
    return (net.out(y.as_nd_ndarray()) * number).sum()


@pytest.mark.parametrize("body", [numbers_of_its_own, numbers_in_numpy])
def test_numbers_that_differ_from_call_to_call_are_operands(body: Body) -> None:
    gluonjit.clear_caches()
    report = trained(body, 8)
    assert not report.cache["misses"] and report.launches < 100
    assert inferred(body).flushes == 1


def test_a_number_as_operand_gives_exactly_what_it_gives_as_a_constant() -> None:
    gluonjit.clear_caches()
    eager, net = pair(lambda net, x: next(net.numbers) / (x * next(net.numbers) - next(net.numbers)))
    for x in 20 * samples():
        assert (net(x).asnumpy() == eager(x).asnumpy()).all()


# --- blocks that change themselves -----------------------------------------------------------------------------------


class Counting(gluon.HybridBlock):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        with self.name_scope():
            self.layer = gluon.nn.Dense(4, in_units=SIZE)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        self.calls += 1
        return self.layer(x) * min(1.0, self.calls / 4.0)


def test_a_block_that_counts_its_calls_is_not_traced_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    eager, net = Counting(), Counting()
    eager.initialize(mx.init.Xavier())
    net.initialize()
    for own, other in zip(net.collect_params().values(), eager.collect_params().values()):
        own.set_data(other.data())
    net.hybridize(dynamic_batch=True, granularity="batched")
    traced = []
    make = cells.make_kind

    def tracing(call: Any, *args: Any) -> Any:
        traced.append(call.cell.name)
        return make(call, *args)

    monkeypatch.setattr(cells, "make_kind", tracing)
    for seed in range(2):
        xs = samples(seed)
        found, expected = [[each(x) for x in xs] for each in (net, eager)]
        for own, other in zip(found, expected):
            np.testing.assert_allclose(own.asnumpy(), other.asnumpy(), rtol=1e-5, atol=1e-6)
    assert net.calls == eager.calls == 10 and traced.count(net.name) <= len(set(LENGTHS))


# --- arrays made alike -----------------------------------------------------------------------------------------------


def one_read_the_other_written(net: Net, x: Any) -> Any:
    read, written = nd.zeros_like(x), nd.zeros_like(x)
    y = net.step(read)
    written[0] = 3
    return net.out(y + net.step(written))


def one_of_equal_products_written(net: Net, x: Any) -> Any:
    read, written = x * 2, x * 2
    y = net.step(read)
    written[0] = 3
    return net.out(y + net.step(written))


@pytest.mark.parametrize("body", [one_read_the_other_written, one_of_equal_products_written])
def test_one_of_several_arrays_made_alike_is_written_to(body: Body) -> None:
    trained(body)
    inferred(body)


def one_of_equal_layers(net: Net, x: Any) -> Any:
    y, written = net.step(x), net.step(x)
    written[0] = 3
    return y + written


def test_what_has_a_history_is_refused() -> None:
    for net in pair(one_of_equal_layers):
        with autograd.record(), pytest.raises(mx.base.MXNetError):
            net(samples()[0]).asnumpy()


def test_what_was_written_while_nothing_was_recorded_has_no_history() -> None:
    def body(net: Net, x: Any) -> Any:
        with autograd.pause():
            out = nd.sin(x)
            out[:] = x
            row = nd.zeros((2, SIZE))
            row[0] = x[0]
        return net.out(out).sum() + net.out(row * 2).sum()

    eager, net = pair(body)
    net.hybridize(dynamic_batch=True, granularity="batched", max_nodes=2)  # so that inputs are met anew there
    found = []
    for each in (eager, net):
        xs = samples()
        for x in xs:
            x.attach_grad()
        with autograd.record():
            loss = sum(each(x) + each.out(x).sum() for x in xs)
        loss.backward()
        found.append([loss.asscalar(), *[x.grad.asnumpy() for x in xs]])
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


SOURCES = [
    ([3], {}),
    ((1, 2.5), {}),
    ([[1, 2], [3, 4]], {"dtype": "int32"}),
    ([0.1, 1e300], {"dtype": "float64"}),
    ([1e300, -0.0], {}),
    ([1.9, -1.9], {"dtype": np.int64}),
    ([True, False], {}),
    ([1], {"dtype": "bool"}),
    ([2.0], {"ctx": mx.cpu(1), "dtype": "float16"}),
    (np.arange(6)[::2], {}),
    (np.float64(2), {}),
    ([], {}),
    ([[1], [1, 2]], {}),
    (["a"], {}),
    ([2**40], {"dtype": "int32"}),
    ([1], {"dtype": "nothing"}),
]


@pytest.mark.parametrize("source, options", SOURCES)
def test_arrays_of_the_hosts_numbers_are_mxnets(source: Any, options: Any) -> None:
    def made(net: Net, x: Any) -> Any:
        h = net.step(x)
        try:
            found = nd.array(source, **options)
        except (TypeError, ValueError) as error:
            kept.append(type(error))
        else:
            kept.append((found.shape, found.dtype, found.context, found.asnumpy().tolist() if found.size else []))
        return h

    kept: list[Any] = []
    for net in pair(made):
        net(samples()[0]).asnumpy()
    assert kept[0] == kept[1]


def test_arrays_that_are_filled_from_the_host_have_its_numbers() -> None:
    """What calls have read before runs with the numbers that they met."""

    def body(net: Net, x: Any) -> Any:
        buffer = nd.zeros((1, SIZE)) + 1
        total = net.step(buffer)
        for number in (0.25, -0.5):
            buffer[:] = np.full((1, SIZE), number)
            total = total + net.step(buffer) * x[0:1]
        return total

    eager, net = pair(body)
    for x in samples():
        np.testing.assert_allclose(net(x).asnumpy(), eager(x).asnumpy(), rtol=1e-5, atol=1e-6)
