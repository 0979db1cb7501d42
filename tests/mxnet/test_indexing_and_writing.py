"""Indexing and writing to what programs make and are given, under recording too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from support import assert_close, assert_same, rows
from training_support import SAMPLES, Rows, Whole, rows_net

import gluonjit


@pytest.fixture
def net() -> Iterator[Rows]:
    with rows_net() as made:
        yield made


def test_lazy_array_in_place(net: Any) -> None:
    net.hybridize(dynamic_batch=True)
    first, second = net(SAMPLES[0]), net(SAMPLES[0])  # one node, two arrays
    value = first.asnumpy()
    first += 1
    first[:] = first * 2
    assert_close(first.asnumpy(), (value + 1) * 2, "written array")
    assert_close(second.asnumpy(), value, "its twin")


def test_indexing_by_arrays(net: Any) -> None:
    def loss(net: Any, sample: Any) -> Any:
        h = net.cell(sample)
        picked = h[nd.array([0, 0], dtype="int32")] + h[[0, 0]]
        return (picked * h[None, 0:1, :][0]).sum() + sample[nd.array([0], dtype="int32")].sum()

    report = assert_same(Whole(net, loss), SAMPLES, lambda whole, sample: whole(sample))
    assert report.flushes == 1


def test_truth_values_of_python_are_numbers_as_in_mxnet(net: Any) -> None:
    def loss(net: Any, sample: Any) -> Any:
        h, long = net.cell(sample), len(sample) > 2
        return h[len(sample) > 1 and -1, long] * 2 + h[long][True] * 3 + h[:, long].sum()

    assert_same(Whole(net, loss), SAMPLES, lambda whole, sample: whole(sample))


def test_arrays_made_inside_are_each_their_own(net: Any) -> None:
    """Equal new arrays are made once a batch, which writing to one of them must not show."""

    class Makes(gluon.Block):
        def forward(self, x: Any) -> Any:
            with autograd.pause():
                mark = mx.nd.zeros((1, 3))
                mark[:, 1] = x[:, 0]
                start = mx.nd.zeros((1, 3))
                start.attach_grad()
            self.starts.append(start)
            return ((x + start) * (mark + mx.nd.zeros((1, 3)))).sum()

    results = []
    for dynamic in (False, True):
        block = Makes()
        block.starts = []
        block.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            losses = [block(mx.nd.array([[k, 2.0, 3.0]])) for k in (1.0, 4.0)]
        autograd.backward(losses)
        results.append([[loss.asscalar() for loss in losses], [start.grad.asnumpy() for start in block.starts]])
    assert results[0][0] == results[1][0]
    for wanted, found in zip(results[0][1], results[1][1]):
        assert_close(found, wanted, "gradient of an array made inside")


def test_reading_and_writing_slices_of_inputs(net: Any) -> None:
    """A slice of an input is a view of it: reading it runs nothing, writing to it writes to the input."""

    class Reads(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any, tokens: Any) -> Any:
            total = 0
            for row in range(len(x)):
                if int(tokens[row].asscalar()) == 2 or x[row].asnumpy()[0] > 0.5:
                    total = total + self.net.cell(x[row : row + 1])
            if not autograd.is_recording():
                x[0:1][:] = 7
            return total

    results = []
    for dynamic in (False, True):
        samples = [(rows(4, 5, seed=k), mx.nd.array([1, 2, 2, k], dtype="int32")) for k in range(3)]
        for x, _ in samples:
            x.attach_grad()
        block = Reads()
        block.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            losses = [block(x, tokens) for x, tokens in samples]
        autograd.backward(losses)
        if dynamic:
            assert gluonjit.explain().flushes == 1, "nothing ran early"
        gradients_ = [x.grad.asnumpy() for x, _ in samples]
        plain = [block(x, tokens).asnumpy() for x, tokens in samples]
        results.append([*[loss.asnumpy() for loss in losses], *gradients_, *plain, *[x.asnumpy() for x, _ in samples]])
        assert (results[-1][-1][0] == 7).all()
    for wanted, found in zip(*results):
        assert_close(found, wanted, "result")
