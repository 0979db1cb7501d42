"""MXNet's own functions, as they were before this package wrapped them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from mxnet import autograd, gluon
from mxnet.base import _LIB, MXNetError, NDArrayHandle, c_handle_array, c_str_array, check_call
from mxnet.gluon.rnn import rnn_layer
from mxnet.ndarray import NDArray, register, utils
from mxnet.ndarray.numpy import _api_internal
from mxnet.ndarray.sparse import _ndarray_cls
from mxnet.numpy import ndarray

from gluonjit.graph.modes import is_recorded, is_training, mode_of

Attrs = tuple[tuple[str, str], ...]
"""Attributes of an operator as `original_invoke` takes them, by name."""

original_invoke = register._imperative_invoke
original_call = gluon.Block.__call__
original_call_recurrent = rnn_layer._RNNLayer.__call__
original_get_index = NDArray._get_index_nd
original_reshape = NDArray.reshape
original_getitem = NDArray.__getitem__
original_setitem = NDArray.__setitem__
original_array = utils._array
original_numpy_setitem = ndarray.__setitem__
original_zeros = _api_internal.zeros
original_tensordot = _api_internal.tensordot
original_set_recording = autograd.set_recording
original_set_training = autograd.set_training
original_mark_variables = autograd.mark_variables
original_backward = autograd.backward
original_array_backward = NDArray.backward
original_grad = autograd.grad
original_zero_grad = gluon.ParameterDict.zero_grad
original_export = gluon.HybridBlock.export


def slice_rows(array: NDArray, begin: int, end: int) -> NDArray:
    """Rows [begin, end) of an array: a view, recorded when recording."""
    handle = NDArrayHandle()
    check_call(_LIB.MXNDArraySlice(array.handle, ctypes.c_uint32(begin), ctypes.c_uint32(end), ctypes.byref(handle)))
    return NDArray(handle)


@cache
def operator_handle(name: str) -> int:
    """The registry's address of an operator; ValueError if there is none of this name."""
    handle = ctypes.c_void_p()
    try:
        check_call(_LIB.NNGetOpHandle(name.encode(), ctypes.byref(handle)))
    except MXNetError as error:
        raise ValueError(f"MXNet has no operator {name!r}") from error
    return int(handle.value or 0)


def call_operator(is_np: bool, name: str, *arrays: Any, **attrs: Any) -> Any:
    """Calls an operator of mx.np, or else of mx.nd, by its registered name as programs do: it is captured as theirs."""
    return register._imperative_invoke(
        operator_handle(name), [*arrays], [*attrs], [*attrs.values()], None, is_np, False
    )


# In inference oneDNN lays their weights out anew where they lie. Of a view that is the memory of the whole arena.
_LAYING_OUT = {operator_handle(name) for name in ("Convolution", "Deconvolution", "FullyConnected")}
_COPY = operator_handle("_copy")
COPIES: list[tuple[NDArray, NDArray]] = []
"""Weights of recorded operators, each with the copy that was laid out in its place."""


def invoke_original(handle: int, arrays: Any, keys: Any, vals: Any, out: Any, is_np: bool, as_list: bool) -> Any:
    """Calls an operator of the program as MXNet does, on results that are views of what their batch has computed."""
    if handle in _LAYING_OUT and len(arrays) > 1 and hasattr(arrays[1], "_v") and not autograd.is_training():
        arrays = [arrays[0], original_invoke(_COPY, [arrays[1]], [], [], None, is_np, False), *arrays[2:]]
    return original_invoke(handle, arrays, keys, vals, out, is_np, as_list)


def run_operator(handle: int, arrays: Sequence[Any], attrs: Attrs) -> list[NDArray]:
    """Results of an operator, with MXNet's semantics of shapes as they are now.

    The same as `original_invoke`, whose `ctypes.cast` leaves a cycle for Python's collector with every result.
    """
    if handle in _LAYING_OUT and not autograd.is_training():
        (copy,) = run_operator(_COPY, arrays[1:2], ())
        if autograd.is_recording():
            COPIES.append((arrays[1], copy))
        arrays = [arrays[0], copy, *arrays[2:]]
    count, results, stypes = ctypes.c_int(0), ctypes.POINTER(NDArrayHandle)(), ctypes.POINTER(ctypes.c_int)()
    check_call(
        _LIB.MXImperativeInvokeEx(
            ctypes.c_void_p(handle),
            ctypes.c_int(len(arrays)),
            c_handle_array(arrays),
            ctypes.byref(count),
            ctypes.byref(results),
            ctypes.c_int(len(attrs)),
            c_str_array([key for key, _ in attrs]),
            c_str_array([value for _, value in attrs]),
            ctypes.byref(stypes),
        )
    )
    return [_ndarray_cls(NDArrayHandle(results[k]), stype=stypes[k]) for k in range(count.value)]


def set_mode(mode: int) -> None:
    """Sets it."""
    original_set_recording(is_recorded(mode))
    original_set_training(is_training(mode))


def current_mode() -> int:
    """The mode of this thread, as MXNet has it."""
    return mode_of(autograd.is_recording(), autograd.is_training())
