"""Inputs whose memory numpy, or another library, writes to after calls have captured them (MXNet)."""

from __future__ import annotations

from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

import gluonjit

SIZE = 4


class Copies:
    """Stands for a buffer of which each call takes a copy."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer


def taken(x: Any) -> Any:
    return nd.array(x.buffer, dtype=x.buffer.dtype) if isinstance(x, Copies) else x


class Cells(gluon.Block):
    """A cell, an operator outside of it, and a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Dense(3, in_units=SIZE)

    def forward(self, x: Any) -> Any:
        x = taken(x)
        return self.layer(x[1:3]) + x[0:2, 0:1]


class Words(gluon.Block):
    """A look-up."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 3)

    def forward(self, x: Any) -> Any:
        return self.words(taken(x))


def shared(buffer: Any) -> Any:
    """An NDArray of this memory, which numpy may go on writing to."""
    return nd.from_numpy(buffer[:], zero_copy=True)


def through_dlpack(buffer: Any) -> Any:
    return nd.from_dlpack(nd.to_dlpack_for_write(shared(buffer)))


def numbers(made: type[gluon.Block], give: Callable[[Any], Any], recording: bool, **options: Any) -> Any:
    """Results and gradients, of samples that are written one after the other into one buffer."""
    mx.random.seed(0)
    net = made()
    net.initialize(mx.init.Uniform(0.5))
    if options:
        net.hybridize(dynamic_batch=True, **options)
    words = made is Words
    buffer = np.zeros(3, dtype="int32") if words else np.zeros((3, SIZE), dtype="float32")
    view = give(buffer)
    results = []
    with autograd.record() if recording else autograd.pause():
        for number in range(4):
            buffer[:] = np.arange(3) + number if words else np.arange(3 * SIZE).reshape(3, SIZE) * (number + 1)
            results.append(net(view))
            if not options:
                results[-1].wait_to_read()
        buffer[:] = 0
        total = gluonjit.add_n([result.sum() * (k + 1) for k, result in enumerate(results)])
    if recording and (options or words):  # eagerly, MXNet goes back with what is in the buffer by then
        total.backward()
        weight = next(iter(net.collect_params().values()))
        return [result.asnumpy().tolist() for result in results], weight.grad().asnumpy().tolist()
    return [result.asnumpy().tolist() for result in results], None


@pytest.mark.parametrize("made", [Cells, Words])
@pytest.mark.parametrize("give", [shared, through_dlpack])
@pytest.mark.parametrize("recording", [False, True])
def test_a_buffer_that_is_filled_again(made: Any, give: Any, recording: bool) -> None:
    expected, _ = numbers(made, give, recording)
    found, gradient = numbers(made, give, recording, sharing=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    if recording:
        _, other = numbers(made, Copies, recording, sharing=True)
        np.testing.assert_allclose(gradient, other, rtol=1e-5)


def test_the_size_up_to_which_inputs_are_copied_is_an_option() -> None:
    """A larger one is read when the batch runs: this is what the option is for."""
    found, _ = numbers(Cells, shared, False, copy_inputs=8)
    assert found[0] == found[-1], "all of them as the buffer was at the end"
    expected, _ = numbers(Cells, shared, False)
    found, _ = numbers(Cells, shared, False, copy_inputs=3 * SIZE * 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_arrays_of_shared_memory_look_as_they_did() -> None:
    array = shared(np.ones((2, 3), dtype="float32"))
    assert isinstance(array, nd.NDArray) and type(array).__name__ == "NDArray" and "NDArray 2x3" in repr(array)
    assert isinstance(array + 1, nd.NDArray) and isinstance(array[0:1], nd.NDArray)
    assert type(nd.from_numpy(np.ones(2), zero_copy=False)) is nd.NDArray


def test_a_write_through_mxnet_is_right_whatever_the_size() -> None:
    for size in (8, 65536):
        expected, found = [], []
        for results, options in ((expected, {}), (found, {"copy_inputs": size})):
            mx.random.seed(0)
            net = Cells()
            net.initialize(mx.init.Uniform(0.5))
            if options:
                net.hybridize(dynamic_batch=True, **options)
            view = shared(np.ones((3, SIZE), dtype="float32"))
            first = net(view)
            view[:] = 2
            results += [first.asnumpy().tolist(), net(view).asnumpy().tolist()]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
