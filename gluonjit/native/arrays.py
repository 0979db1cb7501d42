# cython: language_level=3, nonecheck=True, initializedcheck=False, binding=False
"""Shapes, types and contents of MXNet's arrays, by its C interface, whose addresses `configure` was given."""

from __future__ import annotations

import cython
from cython import Py_ssize_t, cfunc

__all__ = ["address", "look", "numbers"]


@cfunc
def _handle(array) -> cython.p_void:
    """The address of an array of the program's own, or NULL where it has none."""
    if mxnet.Cell is None or (type(array) is not mxnet.Array and type(array) is not mxnet.ndarray):
        return cython.NULL
    value = getattr(read_slot(array, mxnet.handle_at), "value", None)
    return cython.cast(cython.p_void, cython.cast(cython.size_t, value)) if type(value) is int else cython.NULL


def look(array):
    """Returns the shape and codes of dtype, type of device and its number, or None where Python has to look."""
    handle: cython.p_void = _handle(array)
    axes: cython.int = -1
    code: cython.int = 0
    device: cython.int = 0
    number: cython.int = 0
    sizes: Sizes = cython.NULL
    if handle == cython.NULL:
        return None
    if cython.cast(GetShape, mxnet.get_shape)(handle, cython.address(axes), cython.address(sizes)) != 0 or axes < 0:
        return None
    shape = tuple([sizes[k] for k in range(axes)])
    if cython.cast(GetCode, mxnet.get_dtype)(handle, cython.address(code)) != 0:
        return None
    if cython.cast(GetContext, mxnet.get_context)(handle, cython.address(device), cython.address(number)) != 0:
        return None
    return shape, code, device, number


def address(array):
    """Returns the address of an array's numbers when it is computed; None where Python has to ask.

    -1 where MXNet says what is wrong: it does so once.
    """
    handle: cython.p_void = _handle(array)
    data: cython.p_void = cython.NULL
    failed: cython.bint
    if handle == cython.NULL:
        return None
    with cython.nogil:
        failed = cython.cast(Wait, mxnet.wait)(handle) != 0
        failed = failed or cython.cast(GetData, mxnet.get_data)(handle, cython.address(data)) != 0
    if failed:
        return -1
    return None if data == cython.NULL else cython.cast(cython.size_t, data)


@cfunc
def _whole(found: cython.double) -> cython.longlong:
    """A number of an index array as Python takes it, cut to a whole one; -1 where it is none that a table has."""
    return cython.cast(cython.longlong, found) if -1.0 < found < 9e15 else -1


@cfunc
def _listed(data: cython.p_void, code: cython.int, count: Py_ssize_t) -> list:
    """The numbers of an index array."""
    if code == FLOAT32:
        return [_whole(cython.cast(cython.p_float, data)[k]) for k in range(count)]
    if code == FLOAT64:
        return [_whole(cython.cast(cython.p_double, data)[k]) for k in range(count)]
    if code == INT64:
        return [cython.cast(cython.pointer(int64_t), data)[k] for k in range(count)]
    if code == INT32:
        return [cython.cast(cython.pointer(int32_t), data)[k] for k in range(count)]
    if code == INT8:
        return [cython.cast(cython.pointer(int8_t), data)[k] for k in range(count)]
    return [cython.cast(cython.pointer(uint8_t), data)[k] for k in range(count)]


def numbers(array):
    """Returns the whole numbers of an array of one axis, -1 where out of range; None where Python has to look."""
    handle: cython.p_void = _handle(array)
    axes: cython.int = -1
    code: cython.int = FLOAT16
    failed: cython.bint
    sizes: Sizes = cython.NULL
    if handle == cython.NULL:
        return None
    if cython.cast(GetShape, mxnet.get_shape)(handle, cython.address(axes), cython.address(sizes)) != 0 or axes != 1:
        return None
    count: Py_ssize_t = sizes[0]
    if count < 1 or cython.cast(GetCode, mxnet.get_dtype)(handle, cython.address(code)) != 0:
        return None
    if code == FLOAT16 or not 0 <= code <= INT64:
        return None
    room: bytearray = bytearray(8 * count)
    data: cython.p_char = room
    with cython.nogil:  # it waits until the array is computed
        failed = cython.cast(CopyOut, mxnet.copy_out)(handle, data, count) != 0
    return None if failed else _listed(data, code, count)
