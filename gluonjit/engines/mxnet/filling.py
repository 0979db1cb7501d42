"""Zeros for existing arrays, and arrays of zeros."""

from __future__ import annotations

from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import empty, host_view
from gluonjit.engines.mxnet.operators.symbols import operator_handle
from gluonjit.engines.mxnet.originals import original_invoke

_zeros_like = operator_handle("zeros_like")


def fill_zero(array: NDArray) -> None:
    """Lets an array hold zeros, in less time than `array[:] = 0`, which looks at its shape first."""
    original_invoke(_zeros_like, [array], [], [], array, False, False)


def zeros(shape: tuple[int, ...], context: Any, dtype: Any) -> NDArray:
    """An array of zeros; where it is in the host's memory, MXNet's engine has nothing to do."""
    array = empty(shape, context, dtype)
    view = host_view(array)
    if view is None:
        fill_zero(array)
    else:
        view[...] = 0
    return array
