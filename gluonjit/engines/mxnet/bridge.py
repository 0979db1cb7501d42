"""From a batch's history to MXNet's own: for values that eager operators use under recording."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import mxnet as mx
from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import FLOATS
from gluonjit.engines.mxnet.results import numbers_of, seed_of, spent, tape_of
from gluonjit.engines.mxnet.semantics import as_shape, classic
from gluonjit.engines.mxnet.session import as_captured
from gluonjit.engines.mxnet.tape import Tape
from gluonjit.graph import Value

_living: WeakSet[Bridge] = WeakSet()


class Bridge(autograd.Function):  # type: ignore[misc]
    """A value as a function of everything its batch learns from. Its backward is that of the whole batch."""

    def __init__(self, value: Value, tape: Tape) -> None:
        super().__init__()
        self._value = value
        self._tape = tape
        _living.add(self)

    def forward(self, *inputs: NDArray) -> NDArray:
        """The value's numbers; they have been computed already."""
        return _with_axes(numbers_of(self._value))

    def backward(self, gradient: NDArray) -> Any:
        """Gradients of the inputs, in their order."""
        targets = self._tape.gradients(seed_of(self._value, gradient), True, True)
        gradients = [_with_axes(target.gradient) for target in targets]
        return gradients[0] if len(gradients) == 1 else gradients


def finish() -> bool:
    """Wait for MXNet to have gone back through bridges, which it does in threads of its own; whether there are any.

    There they read weights. If the program wrote to one before (by the step of an optimizer), they would wait for it,
    and it for the gradient.
    """
    if _living:
        mx.nd.waitall()
        return True
    return False


def _with_axes(array: NDArray) -> NDArray:
    """MXNet calls backward in a thread of its own, where classic semantics hold and scalars are unknown."""
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
        elif tape is None or spent(current, tape) or current.spec.dtype not in FLOATS:
            known[id(current)] = _plain(current)
        else:
            origins = tape.origins()
            missing = [origin for _, origin in origins if origin is not None and id(origin) not in known]
            if missing:
                pending += missing
            else:
                inputs = [classic(array) if origin is None else known[id(origin)] for array, origin in origins]
                known[id(current)] = _joined(current, tape, inputs) if inputs else _plain(current)
    return known[id(value)]


def _joined(value: Value, tape: Tape, inputs: list[NDArray]) -> NDArray:
    tape.bridges += 1
    joined: NDArray = Bridge(value, tape)(*[_with_axes(array) for array in inputs])
    return joined if value.spec.shape else as_shape(joined, ())


def _plain(value: Value) -> NDArray:
    with as_captured(0):
        return numbers_of(value)
