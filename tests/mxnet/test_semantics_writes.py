"""What is captured reads arrays as they were at its call, however they are written to before it runs."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import Recurrent, assert_close, gradients, rows

import gluonjit
from gluonjit.engines.mxnet.values import replacing

SIZE = 4


def plain_cell() -> tuple[gluon.Block, gluon.Block]:
    cell = nn.Dense(3, in_units=SIZE)
    return cell, cell


def block_with_cell() -> tuple[gluon.Block, gluon.Block]:
    net = Recurrent(SIZE)
    return net, net.cell


def set_view(cell: Any, x: Any) -> None:
    cell.weight.data()[0:2][:] = 0.5


def set_reshaped(cell: Any, x: Any) -> None:
    cell.weight.data().reshape((-1,))[:] = 0.5


def add_in_place(cell: Any, x: Any) -> None:
    weight = cell.weight.data()
    weight += 1


def update(cell: Any, x: Any) -> None:
    weight = cell.weight.data()
    nd.sgd_update(weight, nd.ones_like(weight), out=weight, lr=0.3)


def load(cell: Any, x: Any, path: str) -> None:
    cell.save_parameters(path)
    nd.save(path, {name: value * 2 for name, value in nd.load(path).items()})
    cell.load_parameters(path)


def reset_ctx(cell: Any, x: Any) -> None:
    cell.collect_params().reset_ctx(mx.cpu(0))
    cell.weight.set_data(cell.weight.data() * 2)


def set_whole(cell: Any, x: Any) -> None:
    x[:] = 3


def set_row_view(cell: Any, x: Any) -> None:
    x[0:1][:] = 3


def add_to_input(cell: Any, x: Any) -> None:
    x += 1


WRITES: dict[str, Callable[..., None]] = {
    "param.data()[:] =": lambda cell, x: cell.weight.data().__setitem__(slice(None), 0.5),
    "a view of param.data()": set_view,
    "param.data() reshaped": set_reshaped,
    "param.data() +=": add_in_place,
    "set_data": lambda cell, x: cell.weight.set_data(nd.ones_like(cell.weight.data())),
    "initialize(force_reinit)": lambda cell, x: cell.initialize(mx.init.One(), force_reinit=True),
    "reset_ctx": reset_ctx,
    "sgd_update(out=)": update,
    "load_parameters": load,
    "x[:] =": set_whole,
    "a view of x": set_row_view,
    "x +=": add_to_input,
    "out=x": lambda cell, x: nd.elemwise_add(x, x, out=x),
    "copyto(x)": lambda cell, x: nd.ones(x.shape).copyto(x),
    "random into x": lambda cell, x: nd.random.uniform(0, 1, shape=x.shape, out=x),
}


@pytest.mark.parametrize("scope", [False, True])
@pytest.mark.parametrize("make", [plain_cell, block_with_cell])
@pytest.mark.parametrize("write", WRITES)
def test_neither_stale_nor_future_values(write: str, make: Any, scope: bool, tmp_path: Any) -> None:
    net, cell = make()
    net.initialize(mx.init.Uniform(0.7))
    x = rows(2, SIZE)
    expected = net(x).asnumpy().copy()
    more = (str(tmp_path / "file"),) if write == "load_parameters" else ()
    net.hybridize(dynamic_batch=True)
    if scope:
        with gluonjit.batching():
            before = net(x)
            WRITES[write](cell, x, *more)
            after = net(x)
    else:
        before = net(x)
        WRITES[write](cell, x, *more)
        after = net(x)
    assert_close(before.asnumpy(), expected, "what was captured before the write")
    actual = after.asnumpy()
    net.hybridize(dynamic_batch=False)
    assert_close(actual, net(x).asnumpy(), "what was captured after the write")
    assert np.abs(actual - expected).max() > 1e-4


def test_an_array_whose_view_was_captured() -> None:
    """A buffer that is filled anew for each minibatch while samples are views of it."""
    net = nn.Dense(3, in_units=SIZE)
    net.initialize(mx.init.Uniform(0.7))
    buffer = rows(6, SIZE)
    expected = net(buffer[2:4]).asnumpy().copy()
    net.hybridize(dynamic_batch=True)
    value = net(buffer[2:4])
    buffer[:] = 7
    assert_close(value.asnumpy(), expected, "value")


def test_a_write_in_an_inner_scope() -> None:
    net = nn.Dense(3, in_units=SIZE)
    net.initialize(mx.init.Uniform(0.7))
    x = rows(2, SIZE)
    expected = net(x).asnumpy().copy()
    with gluonjit.batching():
        value = net(x)
        with gluonjit.batching():
            x[:] = 9
    assert_close(value.asnumpy(), expected, "value")


def test_addresses_are_of_computed_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """MXNet allocates an array that is being computed again for who asks for its address, and may lose its numbers."""
    net = nn.Dense(3, in_units=SIZE)
    net.initialize(mx.init.Uniform(0.7))
    net.hybridize(dynamic_batch=True)
    waited: set[int] = set()
    wait, address = nd.NDArray.wait_to_read, replacing.address_of
    asked = []

    def wait_to_read(array: Any) -> None:
        wait(array)
        waited.add(id(array))

    def of_computed(array: Any) -> int:
        asked.append(id(array) in waited)
        return address(array)

    monkeypatch.setattr(nd.NDArray, "wait_to_read", wait_to_read)
    monkeypatch.setattr(replacing, "address_of", of_computed)
    x, other = rows(2, SIZE) * 2, rows(2, SIZE) * 3
    with gluonjit.batching():
        kept = net(x)
        other[:] = 1
    assert len(asked) >= 2 and all(asked)
    net.hybridize(dynamic_batch=False)
    assert_close(kept.asnumpy(), net(x).asnumpy(), "value")


def test_writes_to_other_arrays_run_nothing() -> None:
    net = nn.Dense(3, in_units=SIZE)
    net.initialize()
    other = nd.zeros((5, SIZE))
    with gluonjit.batching() as batch:
        values = [net(rows(2, SIZE, seed=k)) for k in range(5)]
        other[2] = 1
        other += 1
        nd.array([1, 2, 3])
        assert batch.report.flushes == 0
    assert len(values) == 5 and batch.report.flushes == 1


@pytest.mark.parametrize("make", [plain_cell, block_with_cell])
def test_cast(make: Any) -> None:
    net, _ = make()
    net.initialize(mx.init.Uniform(0.7))
    net.hybridize(dynamic_batch=True)
    x = rows(2, SIZE)
    before = net(x)
    net.cast("float64")
    after = net(x.astype("float64"))
    assert before.dtype == np.float32 and after.dtype == np.float64
    assert_close(after.asnumpy(), before.asnumpy(), "value in double precision", 1e-5)


@pytest.mark.parametrize("write", [lambda e: e.initialize(mx.init.One(), force_reinit=True), lambda e: set_ones(e)])
def test_look_ups(write: Any) -> None:
    embed = nn.Embedding(5, 3)
    embed.initialize()
    tokens = nd.array([1, 2])
    expected = embed(tokens).asnumpy().copy()
    embed.hybridize(dynamic_batch=True)
    before = embed(tokens)
    write(embed)
    after = embed(tokens)
    assert_close(before.asnumpy(), expected, "before")
    assert_close(after.asnumpy(), np.ones((2, 3)), "after")


def set_ones(embed: Any) -> None:
    embed.weight.data()[:] = 1


def test_index_arrays() -> None:
    embed = nn.Embedding(5, 3)
    embed.initialize()
    table = embed.weight.data().asnumpy()
    embed.hybridize(dynamic_batch=True)
    for _ in range(2):  # the second time the look-up is known
        tokens = nd.array([1, 2])
        before = embed(tokens)
        tokens[:] = 0
        after = embed(tokens)
        assert_close(before.asnumpy(), table[[1, 2]], "before")
        assert_close(after.asnumpy(), table[[0, 0]], "after")


def test_zero_grad_of_a_captured_gradient() -> None:
    net = nn.Dense(3, in_units=SIZE)
    net.initialize()
    with autograd.record():
        loss = net(rows(2, SIZE)).sum()
    loss.backward()
    gradient = net.weight.grad().asnumpy().copy()
    net.hybridize(dynamic_batch=True)
    value = net(rows(2, SIZE)).sum() * 0 + net.weight.grad()[0:1, 0:1].reshape((1,))
    net.collect_params().zero_grad()
    assert_close(value.asnumpy(), gradient[0, 0:1], "what was captured before zero_grad")


def test_grad_req_between_minibatches() -> None:
    found = []
    for dynamic in (False, True):
        mx.random.seed(0)
        net = nn.Sequential()
        net.add(Recurrent(SIZE), nn.Dense(2, in_units=SIZE))
        net.initialize(mx.init.One())
        net.hybridize(dynamic_batch=dynamic)
        kept: list[Any] = []
        for request in ("write", "null", "add", "add", "write"):
            net[0].collect_params().setattr("grad_req", request)
            with autograd.record():
                total = gluonjit.add_n([net(rows(k + 1, SIZE, seed=k)).sum() for k in range(3)])
            total.backward()
            kept += list(gradients(net).values())
        found.append(kept)
    for number, (actual, expected) in enumerate(zip(found[1], found[0])):
        assert_close(actual, expected, f"gradient {number}")


def test_what_was_looked_at_for_a_write_is_let_go_of_with_its_batch() -> None:
    net, other = nn.Dense(3, in_units=SIZE), nd.zeros((2, SIZE))
    net.initialize()
    net.hybridize(dynamic_batch=True)
    result = net(rows(2, SIZE))
    graph = weakref.ref(result._v.graph)
    other[:] = 1  # asks what the open batch has read
    assert result.asnumpy().shape == (2, 3)
    gc.collect()
    assert graph() is None


def test_a_weight_written_between_two_backward_passes() -> None:
    """Each pass reads a layer's weights as they are then."""
    found = []
    for dynamic in (False, True):
        net = Recurrent(SIZE)
        net.initialize(mx.init.One())
        net.hybridize(dynamic_batch=dynamic)
        x = nd.array(rows(3, SIZE).asnumpy() * 0.1)
        x.attach_grad()
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward(retain_graph=True)
        parts = [x.grad.asnumpy()]
        for parameter in net.collect_params().values():
            parameter.data()[:] = 0.5
        loss.backward()
        found.append([*parts, x.grad.asnumpy()])
    for wanted, numbers in zip(*found):
        assert_close(numbers, wanted, "x")
