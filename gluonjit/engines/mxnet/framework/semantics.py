"""MXNet's flags, all of which belong to the thread: recording and training, and those of its two array semantics.

Classic semantics, and that of `mx.npx.set_np()`, which allows arrays without axes or elements. Captured calls run under
the flags that they were captured under, whatever these are by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_bool, c_int, c_int64
from functools import partial
from typing import Any

from mxnet.base import _LIB, NDArrayHandle, check_call
from mxnet.ndarray import NDArray
from mxnet.numpy import ndarray
from mxnet.util import is_np_array, is_np_shape

from gluonjit.engines.mxnet.framework.originals import original_set_training, slice_rows
from gluonjit.graph.modes import is_recorded, is_training
from gluonjit.graph.recorder import Uncaptured
from gluonjit.graph.values import Spec
from gluonjit.hybrid.run.state import LOCAL


@contextmanager
def in_training(wanted: bool) -> Iterator[None]:
    """Computes as in training, if wanted.

    Max pooling gives the same then, but its gradients are wrong where MXNet has recorded it outside of training.
    """
    before = original_set_training(True) if wanted else None
    try:
        yield
    finally:
        if wanted:
            original_set_training(before)


POOLING = {"Pooling"}
_BEFORE = byref(c_int())
_SET_RECORDING = tuple([partial(_LIB.MXAutogradSetIsRecording, c_int(flag), _BEFORE) for flag in (0, 1)])
_SET_TRAINING = tuple([partial(_LIB.MXAutogradSetIsTraining, c_int(flag), _BEFORE) for flag in (0, 1)])


class as_captured(Uncaptured):
    """A region for `with` that runs under the flags under which something was captured, and captures nothing.

    A class, as `contextmanager` takes as long as the calls of MXNet's.
    """

    __slots__ = ("_mode",)

    def __init__(self, mode: int) -> None:
        self.local = LOCAL
        self._mode = mode

    def ways(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Returns what sets the flags, and what sets them as they are."""
        recording, training = c_bool(), c_bool()
        _LIB.MXAutogradIsRecording(byref(recording))
        _LIB.MXAutogradIsTraining(byref(training))
        return (
            (_SET_RECORDING[is_recorded(self._mode)], _SET_TRAINING[is_training(self._mode)]),
            (_SET_RECORDING[recording.value], _SET_TRAINING[training.value]),
        )


SHAPES = 1  # `()` and zeros are shapes, not unknown ones
ARRAYS = 2  # Gluon's blocks call the operators of mx.np and mx.npx


def note_semantics() -> None:
    """Lets the thread's state know which semantics hold, after they may have changed."""
    LOCAL.state.numpy = SHAPES * bool(is_np_shape()) + ARRAYS * bool(is_np_array())


@contextmanager
def shapes(numpy: bool) -> Iterator[None]:
    """Runs with numpy's or with classic shapes. Where they hold already this costs nothing."""
    state = LOCAL.state
    before = state.numpy
    if bool(before & SHAPES) == numpy:
        yield
        return
    _set_shapes(numpy)
    state.numpy = before ^ SHAPES
    try:
        yield
    finally:
        _set_shapes(not numpy)
        state.numpy = before


def _set_shapes(numpy: bool) -> None:
    """Stands in for mxnet.util.set_np_shape, which refuses while arrays are numpy's."""
    check_call(_LIB.MXSetIsNumpyShape(c_int(numpy), byref(c_int())))


def is_numpy(array: Any) -> bool:
    """True if an array is one of mx.np."""
    return isinstance(array, ndarray)


def classic(array: NDArray) -> NDArray:
    """The same array as an mx.nd one, with its history."""
    return array.as_nd_ndarray() if isinstance(array, ndarray) else array


def as_shape(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """A classic array's elements in another shape, which may be that of a scalar."""
    if shape:  # as array.reshape does, in a third of the time
        handle = NDArrayHandle()
        sizes = (c_int64 * len(shape))(*shape)
        check_call(_LIB.MXNDArrayReshape64(array.handle, len(shape), sizes, False, byref(handle)))
        return NDArray(handle, array.writable)
    with shapes(True):
        return array.reshape(())


def learned_rows(array: NDArray, begin: int, end: int) -> NDArray:
    """Rows [begin, end) of a classic array that learns: MXNet goes backward through slices of up to five axes only."""
    shape = array.shape
    if len(shape) <= 5:
        return slice_rows(array, begin, end)
    return as_shape(slice_rows(as_shape(array, (shape[0], -1)), begin, end), (end - begin, *shape[1:]))


def piece(chunk: NDArray, spec: Spec, row: int) -> NDArray:
    """The array of this spec that begins at a row of a chunk, a view."""
    rows = (slice_rows if len(spec.shape) < 5 else learned_rows)(chunk, row, row + spec.rows)
    return rows if spec.mode == "rows" else as_shape(rows, spec.shape)
