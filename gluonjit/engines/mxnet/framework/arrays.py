"""Shape, dtype and device of MXNet arrays, as specs of the graph."""

from __future__ import annotations

import ctypes
from functools import cache
from math import prod
from typing import Any

import mxnet as mx
import numpy as np
import numpy.typing as npt
from mxnet.base import _LIB, NDArrayHandle, check_call
from mxnet.context import Context
from mxnet.ndarray import NDArray
from mxnet.ndarray.ndarray import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX
from mxnet.ndarray.sparse import BaseSparseNDArray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.originals import operator_handle, original_invoke
from gluonjit.graph.values import Spec, intern_spec, natural_mode
from gluonjit.rows.host_memory import view_at

VERSIONS = {"costs": "2", "mxnet": str(mx.__version__)}
"""The versions that measured costs belong to; the first number grows when what is timed changes."""
_HOST = {"cpu_shared", "cpu_pinned"}
_names: dict[tuple[int, int], str] = {}
_DTYPE_CODES = {code: np.dtype(dtype).name for code, dtype in _DTYPE_MX_TO_NP.items() if code >= 0}
_FLOAT32 = int(_DTYPE_NP_TO_MX[np.float32])
_zeros_like = operator_handle("zeros_like")
_MOST = 2**31 - 1  # numbers of an array, above which MXNet has to be asked in another way


def device_of(array: NDArray) -> str:
    """The device by name, such as "cpu(0)"; shared and pinned host memory count as the host."""
    context = array.context
    key = (context.device_typeid, context.device_id)
    name = _names.get(key)
    if name is None:
        if context.device_type in _HOST:
            context = Context("cpu", 0)
        name = _names[key] = str(context)
    return name


@cache
def context_of(device: str) -> Context:
    """The MXNet context of a device's name."""
    kind, number = device.rstrip(")").split("(")
    return Context(kind, int(number))


def room_for(spec: Spec, rows: int) -> NDArray:
    """An array, not yet filled, of this many rows like those of `spec`."""
    return empty((rows, *spec.row_shape), context_of(spec.device), spec.dtype)


def empty(shape: tuple[int, ...], context: Context, dtype: Any) -> NDArray:
    """An array that is not yet filled: as `mx.nd.empty` makes it, in a third of the time where it is of float32."""
    if np.dtype(dtype) != np.float32 or prod(shape) > _MOST:
        return mx.nd.empty(shape, ctx=context, dtype=dtype)
    handle, sizes = NDArrayHandle(), (ctypes.c_uint32 * len(shape))(*shape)
    count, kind, number = len(shape), context.device_typeid, context.device_id
    check_call(_LIB.MXNDArrayCreateEx(sizes, count, kind, number, 0, _FLOAT32, ctypes.byref(handle)))
    return NDArray(handle)


def dtype_name(array: NDArray) -> str:
    """The dtype of an array by name."""
    return np.dtype(array.dtype).name


def spec_of(array: NDArray) -> Spec:
    """The spec of a free-standing array."""
    seen = None if FAST is None else FAST.look(array)
    if seen is not None:
        shape, code, kind, number = seen
        dtype, device = _DTYPE_CODES.get(code), _names.get((kind, number))
        if dtype is not None and device is not None:
            return intern_spec(shape, dtype, device, natural_mode(shape))
    shape = array.shape
    return intern_spec(shape, dtype_name(array), device_of(array), natural_mode(shape))


def address_of(array: NDArray) -> int:
    """The address of an array's numbers, when it is computed: asked before, MXNet 1.9.1 may lose them."""
    known: int | None = None if FAST is None else FAST.address(array)
    if known is not None:
        check_call(min(known, 0))
        return known
    array.wait_to_read()
    address = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
    return address.value or 0


def host_view(array: NDArray) -> Any:
    """An array in the host's memory as one of numpy, when it is computed; None if it is elsewhere, or sparse."""
    spec = None if isinstance(array, BaseSparseNDArray) else spec_of(array)
    if spec is None or not spec.bytes or not spec.device.startswith("cpu"):
        return None
    return view_at(address_of(array), spec.bytes, spec.dtype).reshape(spec.shape)


def sent(numbers: npt.NDArray[Any], context: Context) -> NDArray:
    """Numbers of the host as an array on a device, in a fifth of the time of `mx.nd.array`."""
    array = empty(numbers.shape, context, numbers.dtype.type)
    view = host_view(array)
    if view is None:
        array[:] = numbers
    else:
        view[...] = numbers
    return array


def fill_zero(array: NDArray) -> None:
    """Lets an array hold zeros, in less time than `array[:] = 0`, which looks at its shape first."""
    original_invoke(_zeros_like, [array], [], [], array, False, False)


def zeros(shape: tuple[int, ...], context: Any, dtype: Any) -> NDArray:
    """An array of zeros; where it is in the host's memory, MXNet's engine has nothing to do."""
    array, size = empty(shape, context, dtype), prod(shape) * np.dtype(dtype).itemsize
    if not context.device_type.startswith("cpu"):
        fill_zero(array)
    elif size:
        ctypes.memset(address_of(array), 0, size)
    return array
