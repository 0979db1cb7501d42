"""From a batch's history to MXNet's own: for values that eager operators use under recording."""

from __future__ import annotations

import threading
from typing import Any

from mxnet import autograd
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import FLOATS
from gluonjit.engines.mxnet.results import numbers_of, seed_of, tape_of
from gluonjit.engines.mxnet.semantics import as_shape, classic
from gluonjit.engines.mxnet.session import as_captured
from gluonjit.engines.mxnet.tape import Tape
from gluonjit.graph import Value

_ONE_AT_A_TIME = threading.Lock()
"""MXNet calls the backward of several functions from several threads; those of one batch use the same memory."""


class Bridge(autograd.Function):  # type: ignore[misc]
    """A value as a function of everything its batch learns from. Its backward is that of the whole batch."""

    def __init__(self, value: Value, tape: Tape) -> None:
        super().__init__()
        self._value = value
        self._tape = tape

    def forward(self, *inputs: NDArray) -> NDArray:
        """The value's numbers; they have been computed already."""
        return _with_axes(numbers_of(self._value))

    def backward(self, gradient: NDArray) -> Any:
        """Gradients of the inputs, in their order."""
        with _ONE_AT_A_TIME:
            targets = self._tape.gradients(seed_of(self._value, gradient), True, True)
            gradients = [_with_axes(target.gradient) for target in targets]
        return gradients[0] if len(gradients) == 1 else gradients


def _with_axes(array: NDArray) -> NDArray:
    """MXNet calls backward in a thread of its own, where classic semantics hold and scalars are unknown."""
    return array if array.shape else array.reshape((1,))


def bridged(value: Value, known: dict[int, NDArray] | None = None) -> NDArray:
    """The numbers of a flushed value with a history that MXNet knows.

    That history may go back through many batches, several values of each; `known` has those met on the way.
    """
    known = {} if known is None else known
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = _bridged(value, known)
    return found


def _bridged(value: Value, known: dict[int, NDArray]) -> NDArray:
    tape = tape_of(value)
    if tape is not None and not tape.freed and value.spec.dtype in FLOATS:
        inputs = [classic(array) if origin is None else bridged(origin, known) for array, origin in tape.origins()]
        if inputs:
            tape.bridges += 1
            joined: NDArray = Bridge(value, tape)(*[_with_axes(array) for array in inputs])
            return joined if value.spec.shape else as_shape(joined, ())
    with as_captured(0):
        return numbers_of(value)
