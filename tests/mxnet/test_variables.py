"""Arrays that a sample makes variables: whole numbers, buffers of gradients, and einsum along a diagonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from support import assert_close

WHOLE: dict[str, Callable[[Any], Any]] = {
    "square": lambda n: n * n,
    "reshape": lambda n: n.reshape((1, -1)).reshape((-1,)),
    "concat": lambda n: nd.concat(n, n, dim=0)[1:4],
    "slice": lambda n: n[1:3] * 2,
    "entry": lambda n: n[1] * 2,
    "stack": lambda n: nd.stack(n[0:2], n[1:3]),
    "expand": lambda n: n.expand_dims(0),
    "all": lambda n: n * n + n.reshape((1, -1)).reshape((-1,)) + nd.concat(n, n, dim=0)[1:4],
}


class Net(gluon.Block):
    def __init__(self, body: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Any) -> Any:
        return self.body(x)


def same(body: Callable[[Any], Any], samples: list[Any], **options: Any) -> None:
    found = []
    for dynamic in (False, True):
        net = Net(body)
        net.hybridize(dynamic_batch=dynamic, **(options if dynamic else {}))
        results = [net(sample.copy()) for sample in samples for _ in range(2)]
        found.append([[array.asnumpy() for array in arrays] for arrays in results])
    for batched, eager in zip(found[1], found[0]):
        for one, other in zip(batched, eager):
            assert one.dtype == other.dtype
            assert_close(one, other, "a result or a gradient")


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "float32"])
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("given", [False, True], ids=["made", "given"])
def test_gradients_of_whole_numbers(name: str, dtype: str, given: bool) -> None:
    def body(x: Any) -> Any:
        n = x if given else nd.array([1, 2, 3], dtype=dtype)
        n.attach_grad()
        with autograd.record():
            y = WHOLE[name](n)
        y.backward()
        return n.grad, y, x * 2

    same(body, [nd.array([1, 2, k], dtype=dtype) for k in range(3)], granularity="op")


def test_indices_that_were_used_with_a_weight_stay_numbers() -> None:
    from gluonjit.engines.mxnet.run.results import has_history, is_learned

    indices, weight = nd.array([0, 1], dtype="int32"), nd.ones((3, 2))
    weight.attach_grad()
    with autograd.record():
        nd.Embedding(indices, weight, input_dim=3, output_dim=2)
    assert has_history(indices) and not is_learned(indices)


@pytest.mark.parametrize("marks", [False, True], ids=["attach_grad", "mark_variables"])
@pytest.mark.parametrize("numpy", [False, True], ids=["nd", "np"])
def test_what_was_recorded_before_an_array_is_a_variable_gives_it_no_gradient(marks: bool, numpy: bool) -> None:
    def body(x: Any) -> Any:
        with autograd.record():
            before = x * 2
            if marks:
                autograd.mark_variables([x], [x.zeros_like() if not numpy else mx.np.zeros_like(x)])
            else:
                x.attach_grad()
            y = x * before
        y.backward()
        return x.grad, y

    samples = [nd.array([[1.0, 2 + k]]) for k in range(3)]
    same(body, [sample.as_np_ndarray() if numpy else sample for sample in samples], granularity="op")


def test_a_variable_that_others_have_read_does_not_run_what_is_no_gradient_of_it() -> None:
    """Only under recording: without it what waits may go on to wait."""

    def body(x: Any) -> Any:
        h = x * 2
        x.attach_grad()
        return h, x + 1

    same(body, [nd.ones((1, 2)) * k for k in range(3)], granularity="op")


LETTERS = {
    "ii": [(3, 3)],
    "ii->i": [(3, 3)],
    "iij->ij": [(3, 3, 2)],
    "iji->j": [(3, 2, 3)],
    "iii->i": [(3, 3, 3)],
    "ii,i->i": [(3, 3), (3,)],
    "ij,jj->i": [(2, 3), (3, 3)],
    "...ii->...i": [(2, 3, 3)],
    "...ii": [(2, 3, 3)],
    "ii,jj": [(2, 2), (3, 3)],
    "ijk,ij->k": [(2, 3, 4), (2, 3)],
    "...j,j": [(2, 3), (3,)],
}


@pytest.mark.parametrize("letters", LETTERS)
@pytest.mark.parametrize("granularity", ["op", "cell"])
def test_gradients_beside_a_diagonal_are_zeros(letters: str, granularity: str) -> None:
    """Also of what a sample has computed, for which MXNet itself leaves them unwritten."""
    shapes = LETTERS[letters]
    draw = np.random.RandomState(0)
    numbers = [[draw.randn(*shape).astype("float32") for shape in shapes] for _ in range(3)]
    with mx.util.np_shape(True), mx.util.np_array(True):

        def run(net: Any, scale: Any) -> list[Any]:
            samples = [[mx.np.array(part) for part in sample] for sample in numbers]
            for sample in samples:
                for array in sample:
                    array.attach_grad()
            with autograd.record():
                total = sum((net([scale(array) for array in sample]) ** 2).sum() for sample in samples)
            total.backward()
            return [array.grad.asnumpy() for sample in samples for array in sample]

        net = Net(lambda arrays: mx.np.einsum(letters, *arrays))
        wanted = run(net, lambda array: array)
        for array in wanted:
            array *= 2
        net.hybridize(dynamic_batch=True, granularity=granularity)
        scaled = Net(lambda arrays: mx.np.einsum(letters, arrays[0] * 1, *arrays[1:]))
        scaled.hybridize(dynamic_batch=True, granularity=granularity)
        for made in (net, scaled):
            for found, other in zip(run(made, lambda array: array), wanted):
                assert_close(found * 2, other, letters)
