"""Known numbers: existing arrays, such as inputs and views of them, read without running anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from mxnet.ndarray import NDArray
from mxnet.ndarray.sparse import BaseSparseNDArray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.shared import SHARED
from gluonjit.engines.mxnet.values.aliases import in_memory, is_stale, renew
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL

_FAR = 2**31


def known(item: Any) -> NDArray | None:
    """Returns the array behind an operand if nothing must run for it; None if it is pending, or no dense array."""
    if not isinstance(item, NDArray) or isinstance(item, BaseSparseNDArray):
        return None
    if getattr(item, "_v", None) is None:
        return item
    if LOCAL.state.trace is not None:
        return None
    if item._b is not None and is_stale(item):
        renew(item)
    found: NDArray | None = item._c
    return in_memory(item) if found is None else found


def whole_numbers(batch: Batch, item: Any) -> Any:
    """The numbers of a known operand of one axis or two, as MXNet reads an index: cut off towards zero.

    An array of int64; None if the operand waits, has no elements, or holds what is no number of 32 bits.
    """
    array = known(item)
    if array is None:
        return None
    key = "numbers", id(array)
    entry = batch.tables.get(key)
    if entry is None:
        numbers = _whole(array)
        if numbers is None:
            return None
        entry = array, numbers
        if _is_kept(item, array):
            batch.tables[key] = entry  # a write to it is noticed
    root = item if getattr(item, "_b", None) is None else item._b
    if len(root.shape) > 1 or np.dtype(root.dtype).kind == "f":  # else words, as of a look-up, which a key tells apart
        refuse("it picks rows by numbers of an array that is not a look-up's")
    return entry[1]


def _is_kept(item: Any, array: NDArray) -> bool:
    """True if the array of an operand is the one that the program has, to which writes are noticed."""
    return array.__class__ not in SHARED and (item is array or item._c is array)


def _whole(array: NDArray) -> Any:
    listed = FAST and FAST.numbers(array)  # of one axis, in a twentieth of the time
    if listed and 0 <= min(listed) and max(listed) < _FAR:
        return np.array(listed, dtype=np.int64)
    if array.ndim not in (1, 2) or not array.size:
        return None
    numbers = array.asnumpy()
    if numbers.dtype.kind not in "fiu" or not (np.abs(numbers) < _FAR).all():  # not where one is not a number either
        return None
    return numbers.astype(np.int64)
