"""Ways of asking for gradients, each against the per-sample program."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, nd
from support import assert_close, assert_same, gradients, rows
from training_support import SAMPLES, SIZE, Rows, Whole, assert_gradients, eager, rows_net, square, zero

import gluonjit
from gluonjit.errors import BackwardWarning


@pytest.fixture
def net() -> Iterator[Rows]:
    with rows_net() as made:
        yield made


def add_with_sum(losses: list[Any]) -> Any:
    return sum(losses)


def add_in_place_order(losses: list[Any]) -> Any:
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total


ADDERS = {
    "sum": add_with_sum,
    "chain": add_in_place_order,
    "add_n": gluonjit.add_n,
    "nd.add_n": lambda losses: nd.add_n(*losses),
    "concat": lambda losses: nd.concat(*losses, dim=0).sum(),
    "stack": lambda losses: nd.stack(*losses).sum(),
    "mean": lambda losses: nd.stack(*losses).mean() * len(losses),
}


@pytest.mark.parametrize("adder", ADDERS)
def test_any_way_of_adding_up(net: Any, adder: str) -> None:
    expected = eager(net)
    with autograd.record():
        total = ADDERS[adder]([square(net, sample) for sample in SAMPLES])
    total.backward()
    assert_gradients(net, expected)
    report = gluonjit.explain()
    assert report.flushes == 1
    assert (
        report.launches <= 4 * 3 + 4 + 2
    )  # steps of the chain, the output, square, sums, the total and what is done to it


def test_backward_of_a_list(net: Any) -> None:
    expected = eager(net)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    with warnings.catch_warnings():
        warnings.simplefilter("error", BackwardWarning)
        autograd.backward(losses)
    assert_gradients(net, expected)
    assert gluonjit.explain().flushes == 1


def test_backward_of_a_list_with_head_gradients(net: Any) -> None:
    net.hybridize(dynamic_batch=False)
    heads = [nd.array([float(k)]) for k in range(len(SAMPLES))]
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    autograd.backward(losses, heads)
    expected = gradients(net)
    net.hybridize(dynamic_batch=True)
    zero(net)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    autograd.backward(losses, heads)
    assert_gradients(net, expected)


@pytest.mark.parametrize("request_", ["write", "add"])
def test_backward_one_by_one(net: Any, request_: str) -> None:
    """Captured first, then differentiated one by one: as eager, with a warning that names the cheap way."""
    net.collect_params().setattr("grad_req", request_)
    results = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        zero(net)
        with autograd.record():
            losses = [square(net, sample) for sample in SAMPLES]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for loss in losses:
                loss.backward()
        assert any("add_n" in str(w.message) and w.category is BackwardWarning for w in caught) == dynamic
        results.append(gradients(net))
    assert_gradients(net, results[0])


def test_capture_and_backward_one_sample_at_a_time(net: Any) -> None:
    net.collect_params().setattr("grad_req", "add")
    expected = eager(net)
    with pytest.warns(BackwardWarning, match="one at a time"):
        for sample in SAMPLES:
            with autograd.record():
                loss = square(net, sample)
            loss.backward()
    assert_gradients(net, expected)


def test_second_backward_raises_as_eager(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    losses[0].backward()
    with pytest.raises(mx.base.MXNetError):
        losses[0].backward()


@pytest.mark.parametrize("batched", [False, True])
def test_backward_of_what_learns_nothing_raises_as_eager(net: Any, batched: bool) -> None:
    net.collect_params().setattr("grad_req", "null")
    net.hybridize(dynamic_batch=batched)
    with autograd.record():
        total = sum(square(net, sample) for sample in SAMPLES)
    with pytest.raises(mx.base.MXNetError, match="Cannot differentiate"):
        total.backward()


def test_retain_graph(net: Any) -> None:
    expected = eager(net)
    with autograd.record():
        total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
    total.backward(retain_graph=True)
    zero(net)
    total.backward()
    assert_gradients(net, expected)


def test_null_gradient(net: Any) -> None:
    expected = eager(net)
    net.cell.collect_params().setattr("grad_req", "null")
    with autograd.record():
        total = gluonjit.add_n([square(net, sample) for sample in SAMPLES])
    total.backward()
    assert_gradients(net, expected)


def test_gradient_of_an_input(net: Any) -> None:
    x = rows(3, SIZE)
    x.attach_grad()
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = square(net, x) + square(net, SAMPLES[0]) + square(net, x)
        total.backward()
        found.append(x.grad.asnumpy().copy())
    assert_close(found[1], found[0], "gradient of the input")


def test_autograd_grad(net: Any) -> None:
    x = rows(2, SIZE)
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        x.attach_grad()
        with autograd.record():
            loss = square(net, x)
        found.append(autograd.grad(loss, [x])[0].asnumpy())
    assert_close(found[1], found[0], "gradient")


def test_flush_after_record_has_closed_keeps_history(net: Any) -> None:
    expected = eager(net)
    with autograd.record():
        losses = [square(net, sample) for sample in SAMPLES]
    assert not autograd.is_recording()
    values = [loss.asscalar() for loss in losses]  # runs the batch outside of record
    assert all(value > 0 for value in values)
    autograd.backward(losses)
    assert_gradients(net, expected)


def test_pause_and_detach(net: Any) -> None:
    def loss(net: Any, sample: Any) -> Any:
        with autograd.pause():
            constant = net(sample)
        return ((net(sample) - constant * 2) ** 2).sum() + (net(sample).detach() * net(sample)).sum()

    net.hybridize(dynamic_batch=True)
    assert_same(net, SAMPLES, loss)


@pytest.mark.parametrize("profile", [False, True])
def test_eager_operators_go_on_from_a_batch(net: Any, profile: bool) -> None:
    """A value used by what cannot be captured under recording is differentiated all the same.

    MXNet calls back from threads of its own, where nothing may wait for it.
    """

    class Double(autograd.Function):
        def forward(self, x: Any) -> Any:
            return x * 2

        def backward(self, gradient: Any) -> Any:
            return gradient * 2

    def loss(net: Any, sample: Any) -> Any:
        return (Double()(net(sample)) ** 2).sum()

    assert_same(net, SAMPLES[:4], loss, profile=profile)


def test_gradients_go_through_several_flushes(net: Any) -> None:
    """Values read in the middle and used on, under recording: as in truncated time, one backward for all."""

    def loss(net: Any, sample: Any) -> Any:
        h = net.cell(sample[0:1])
        h.wait_to_read()
        h = net.cell(h + sample[0:1])
        h.wait_to_read()
        return (net.out(h) ** 2).sum()

    report = assert_same(Whole(net, loss), SAMPLES, lambda whole, sample: whole(sample))
    assert report.flushes > len(SAMPLES)


def test_values_of_six_axes(net: Any) -> None:
    """Gradients pass through parts of values of more axes than MXNet's slices go backward through."""

    def loss(net: Any, sample: Any) -> Any:
        pixels = net.cell(sample[0:1]).reshape((1, 1, 1, 1, 1, -1))
        return nd.transpose(pixels, axes=(0, 1, 4, 2, 5, 3)).square().sum() + pixels.sum()

    assert_same(net, SAMPLES, loss, granularity="op")
