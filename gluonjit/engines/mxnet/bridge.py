"""From a batch's history to MXNet's own: for values that eager operators use under recording."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import mxnet as mx
from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.function import differentiable
from gluonjit.engines.mxnet.refusals import is_entered
from gluonjit.engines.mxnet.results import Target, numbers_of, places_of, seed_of, spent, tape_of
from gluonjit.engines.mxnet.semantics import as_captured, as_shape, classic
from gluonjit.graph import Value

_living: WeakSet[Bridge] = WeakSet()


class Bridge:
    """A value as a function of all that it was computed from. Its backward is that of its batch."""

    def __init__(self, value: Value, tape: Any) -> None:
        self._value = value
        self._tape = tape
        _living.add(self)

    def backward(self, gradient: NDArray, training: bool) -> list[NDArray]:
        """Gradients of what the value was computed from, in the order of `Tape.origins`."""
        targets, _ = self._tape.gradients(seed_of(self._value, gradient), True, training)
        self._tape.statistics.write()
        return [_with_axes(target.gradient) for target in targets if target.reached]


def finish() -> bool:
    """Waits until MXNet's threads have gone back through bridges; tells whether there were any.

    There they read weights. If the program wrote to one before (by the step of an optimizer), they would wait for it,
    and it for the gradient.
    """
    if _living:
        mx.nd.waitall()
        return True
    return False


def _with_axes(array: NDArray) -> NDArray:
    """Returns an array with at least one axis: backward runs in MXNet's thread, where scalars are unknown."""
    return array if array.shape else array.reshape((1,))


def bridged(value: Value) -> NDArray:
    """The numbers of a flushed value with a history that MXNet knows.

    That history may go back through many batches, several values of each: each value is joined once, and without
    recursion.
    """
    known: dict[int, NDArray] = {}
    pending = [value]
    while pending:
        current = pending[-1]
        tape = tape_of(current)
        if id(current) in known:
            pending.pop()
        elif tape is None or spent(current, tape) or current.spec.dtype == "bool" or not is_entered(current):
            with as_captured(0):
                known[id(current)] = numbers_of(current)
        else:
            origins = tape.origins(places_of(current))
            missing = [origin.value for origin in origins if origin.value is not None and id(origin.value) not in known]
            if missing:
                pending += missing
            else:
                inputs = [_begun(origin, known) for origin in origins]
                known[id(current)] = _joined(current, tape, inputs)
    return known[id(value)]


def _begun(origin: Target, known: dict[int, NDArray]) -> NDArray:
    """The array with which MXNet's history goes on where that of a batch begins."""
    if origin.value is not None:
        return known[id(origin.value)]
    if origin.again is None:
        return classic(origin.array)
    with as_captured(2):  # backward from another sample may free the history of the rows that are there
        return origin.again()


def _joined(value: Value, tape: Any, inputs: list[NDArray]) -> NDArray:
    with as_captured(0):
        joined = _with_axes(numbers_of(value))
    if autograd.is_recording():
        if inputs:
            tape.bridges += 1
            differentiable(joined, [_with_axes(array) for array in inputs], Bridge(value, tape).backward)
        else:  # computed of what only lies in a graph: MXNet refuses some writes then
            nothing = mx.nd.zeros(1)
            nothing.attach_grad()
            differentiable(joined, [nothing], lambda gradient, training: [])
    return as_shape(joined, value.spec.shape)  # a recorded call: the gradient of a sparse operator ends in it as dense
