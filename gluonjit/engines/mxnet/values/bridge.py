"""From a batch's history to MXNet's own: for values that eager operators use under recording."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_int, c_void_p, cast
from itertools import count
from typing import Any
from weakref import WeakSet

import mxnet as mx
from mxnet import autograd
from mxnet.autograd import Function
from mxnet.base import _LIB, MXCallbackList, NDArrayHandle, c_array, c_handle_array, check_call
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.semantics import as_captured, as_shape
from gluonjit.engines.mxnet.run.results import Target, numbers_of, places_of, seed_of, source_of, tape_of
from gluonjit.engines.mxnet.values.refusals import is_entered
from gluonjit.graph import Value

_ADD = 3
"""The request for a gradient that adds to what is there; 0 is for none."""
_HELD: dict[int, Any] = {}  # callbacks, until MXNet needs them no more
_numbers = count()
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
        elif current.spec.dtype == "bool" or not is_entered(current):
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
    return source_of(origin) if origin.value is None else known[id(origin.value)]


def _joined(value: Value, tape: Any, inputs: list[NDArray]) -> NDArray:
    with as_captured(0):
        joined = _with_axes(numbers_of(value))
    if autograd.is_recording():
        tape.bridges += 1
        differentiable(joined, [_with_axes(array) for array in inputs], Bridge(value, tape).backward)
    return as_shape(joined, value.spec.shape)  # a recorded call: the gradient of a sparse operator ends in it as dense


def differentiable(
    output: NDArray, inputs: Sequence[NDArray], backward: Callable[[NDArray, bool], Sequence[NDArray]]
) -> None:
    """Lets the history of an array go on with inputs.

    `autograd.Function` of MXNet 1.9.1 is not enough: its callback ends at the first input that wants no gradient, which
    leaves uninitialized memory as the gradients of the inputs after it, and forgets inputs whose gradients add up.

    backward: gives their gradients from that of the output, and the mode of training. It is called in another thread.
    """
    number = next(_numbers)

    def go_back(_outputs: int, many: int, handles: Any, requests: Any, training: int, _: Any) -> bool:
        try:
            gradient, *gradients = [NDArray(cast(handles[k], NDArrayHandle)) for k in range(1 + many)]
            for array, found, request in zip(gradients, backward(gradient, bool(training)), requests[:many]):
                if request == _ADD:
                    array += found
                elif request:
                    array[:] = found
        except Exception:  # MXNet raises another one, which knows nothing of this
            traceback.print_exc()
            return False
        return True

    def forget(_: Any) -> bool:
        del _HELD[number]
        return True

    functions = [
        cast(kind(f), CFUNCTYPE(c_int))
        for kind, f in ((Function._bwd_functype, go_back), (Function._del_functype, forget))
    ]
    nothing = cast(c_array(c_void_p, [None] * len(functions)), POINTER(c_void_p))
    callbacks = cast(c_array(CFUNCTYPE(c_int), functions), POINTER(CFUNCTYPE(c_int)))
    _HELD[number] = context = MXCallbackList(c_int(len(functions)), callbacks, nothing)
    handles = c_int(len(inputs)), c_handle_array(inputs), c_int(1), c_handle_array([output])
    check_call(_LIB.MXCustomFunctionRecord(*handles, byref(context)))
