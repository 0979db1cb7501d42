"""Operators that gather or scatter rows by known numbers: references to rows, so that nothing runs.

An edge list gives each sample different numbers of nodes and edges. As a node of a fixed shape each such operator would
be traced for each pair of sizes, and mostly run for each sample by itself. The remaining cases are captured as
operators with the numbers as operands: one kind for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
from mxnet.ndarray import NDArray, array
from mxnet.ndarray.sparse import BaseSparseNDArray

from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.framework.arrays import context_of
from gluonjit.engines.mxnet.framework.originals import call_operator, operator_handle
from gluonjit.engines.mxnet.framework.shared import SHARED
from gluonjit.engines.mxnet.framework.symbols import Attributes, listed, read
from gluonjit.engines.mxnet.run.one_by_one import as_decided
from gluonjit.engines.mxnet.values.aliases import in_memory, is_stale, renew
from gluonjit.engines.mxnet.values.lookups import host_numbers
from gluonjit.engines.mxnet.values.operands import Empty, leaf, made_from_nothing, value_of
from gluonjit.engines.mxnet.values.recorder import Recorder
from gluonjit.graph import Spec, Value
from gluonjit.graph.joining import Copied
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.references import leaves_out, placed
from gluonjit.graph.slices import picked
from gluonjit.hybrid.capture.reuse.cache import refuse
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED

_EVERYTHING = slice(None)


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


class Gathering(NamedTuple):
    """A call of an operator. `wrapped` makes a lazy array of a value."""

    batch: Batch
    arrays: Sequence[Any]
    attrs: Attributes
    wrapped: Callable[[Value], Any]

    def numbers(self, position: int, axes: int) -> Any:
        """Returns the numbers of an int64 operand with this many axes; None if they are not known."""
        found = whole_numbers(self.batch, self.arrays[position])
        return found if found is not None and found.ndim == axes else None

    def operator(self, name: str, *operands: Value, **attrs: Any) -> Value:
        """The result of another operator, captured."""
        return call_operator(False, name, *map(self.wrapped, operands), **attrs)._v  # type: ignore[no-any-return]


Way = Callable[[Gathering], Optional[Value]]


def by_numbers(
    batch: Batch, name: str, arrays: Sequence[Any], attrs: Any, wrapped: Callable[[Value], Any]
) -> Value | None:
    """Returns an operator's result by known numbers; None if it must be captured unchanged."""
    way = _WAYS.get(name)
    return None if way is None else way(Gathering(batch, arrays, read(attrs), wrapped))


def rows_at(item: Any, key: Any) -> Value | None:
    """`x[key]` of a captured array by an array of numbers of whole rows; None where it is another case."""
    value, state = item._v, LOCAL.state
    parts = key if isinstance(key, tuple) else (key,)
    if isinstance(value.graph, Recorder) or state.batch is None or not all(map(_is_all, parts[1:])):
        return None
    if not parts or len(parts) > len(value.spec.shape) or not _is_numbers(parts[0]):
        return None
    value = _data(state.batch, item)
    numbers = None if value is None else _listed(state.batch, parts[0])
    if value is None or numbers is None or not _within(numbers, value.spec.rows):
        return None  # MXNet's operator tells what is wrong
    return _picked(value, numbers)


def rows_where(item: Any, mask: Any) -> Value | None:
    """`x[mask]` of a captured array by truth values of its rows; None where it is another case."""
    value, state = item._v, LOCAL.state
    if isinstance(value.graph, Recorder) or state.batch is None or not isinstance(mask, (NDArray, np.ndarray)):
        return None
    value = _data(state.batch, item)
    return None if value is None else _where(value, mask)


def _where(value: Value, mask: Any) -> Value | None:
    """The rows of a value where a mask holds, if it is known and holds anywhere."""
    array = known(as_decided(mask)) if isinstance(mask, NDArray) else mask
    if array is None or array.shape != (value.spec.rows,):
        return None
    refuse("it picks rows by a mask")
    numbers = np.flatnonzero(array.asnumpy() if isinstance(array, NDArray) else array)
    return _picked(value, numbers) if len(numbers) else None


def coordinates(item: Any, key: Any) -> NDArray | None:
    """The index array of `x[rows, columns]` where both are known, as many, and all axes; None in other cases."""
    state = LOCAL.state
    if isinstance(item._v.graph, Recorder) or state.batch is None or not isinstance(key, tuple):
        return None
    if len(key) != 2 or len(item._v.spec.shape) != 2 or not all(map(_is_numbers, key)):
        return None
    listed = [_listed(state.batch, part) for part in key]
    if any(numbers is None for numbers in listed) or len(listed[0]) != len(listed[1]):
        return None
    with UNCAPTURED:
        return array(np.stack(listed), ctx=context_of(item._v.spec.device), dtype="int32")


def _is_all(part: Any) -> bool:
    return part is Ellipsis or (part.__class__ is slice and part == _EVERYTHING)


def _is_numbers(part: Any) -> bool:
    return isinstance(part, (NDArray, np.ndarray)) or (part.__class__ is list and all(type(n) is int for n in part))


def _listed(batch: Batch, part: Any) -> Any:
    """The numbers of an index along one axis, an array of int64; None where they are not known."""
    if isinstance(part, NDArray):
        numbers = whole_numbers(batch, part) if np.dtype(part.dtype).kind != "b" else None
    else:
        numbers = np.asarray(part)
        numbers = numbers.astype(np.int64) if numbers.size and numbers.dtype.kind in "iu" else None
    return numbers if numbers is not None and numbers.ndim == 1 else None


def _within(numbers: Any, size: int) -> bool:
    return bool(-size <= numbers.min() and numbers.max() < size)


def _picked(value: Value, numbers: Any) -> Value | None:
    """Rows of a value by numbers within it. They are a copy: what is written to it shows in nothing else."""
    found = picked(value, numbers.tolist())
    if found is None:
        return None
    found.base = Copied(value)
    return None if leaves_out(found) else found


def _data(batch: Batch, item: Any) -> Value | None:
    """The value of an operand whose rows may be referred to; None where it has none, or no history is to go on."""
    try:
        value = value_of(batch, item)
    except Empty:
        return None
    learns = value.taped or (isinstance(value.base, NDArray) and value.base.grad is not None)
    return value if value.spec.mode == "rows" and (is_recorded(LOCAL.state.mode) or not learns) else None


def _matrix(batch: Batch, item: Any) -> Value | None:
    """The value of an operand of rows of one axis; None of another."""
    try:
        value = value_of(batch, item)
    except Empty:
        return None
    return value if value.spec.mode == "rows" and len(value.spec.shape) == 2 else None


def _take(call: Gathering) -> Value | None:
    """`take(x, numbers)` along axis 0."""
    value = _data(call.batch, call.arrays[0])
    if value is None or call.attrs.get("axis", 0) not in (0, -len(value.spec.shape)):
        return None
    numbers, count = call.numbers(1, 1), value.spec.rows
    if numbers is None:
        return None
    mode = call.attrs.get("mode", "clip")
    if mode == "raise" and (numbers.min() < 0 or numbers.max() >= count):
        return None
    return _picked(value, _brought_in(numbers, count, mode))


def _brought_in(numbers: Any, size: int, mode: str) -> Any:
    """Numbers within a size, as MXNet's mode brings them there."""
    return numbers % size if mode == "wrap" else np.minimum(np.maximum(numbers, 0), size - 1)


def _gather_nd(call: Gathering) -> Value | None:
    """Rows by their numbers, or of each of these rows an entry by another number."""
    value = _data(call.batch, call.arrays[0])
    numbers = None if value is None else call.numbers(1, 2)
    if value is None or numbers is None or not _within(numbers[0], value.spec.rows):
        return None
    rest = value.spec.row_shape
    if len(numbers) == 2 and (len(rest) != 1 or not _within(numbers[1], rest[0])):
        return None
    if len(numbers) > 2:
        return None
    found = _picked(value, numbers[0])
    if found is not None and len(numbers) == 2:
        return _entries(call, found, (numbers[1] % rest[0]).tolist())
    return found


def _boolean_mask(call: Gathering) -> Value | None:
    """Rows where a mask holds."""
    value = _data(call.batch, call.arrays[0])
    return None if value is None or call.attrs.get("axis", 0) else _where(value, call.arrays[1])


def _entries(call: Gathering, rows: Value, numbers: list[int], keepdims: bool = False) -> Value:
    """Takes one entry of each row, by the row's number; all are in range."""
    index = host_numbers(call.batch, numbers, "int32", rows.spec.device)
    return call.operator("pick", rows, index, axis=1, keepdims=keepdims)


def _pick(call: Gathering) -> Value | None:
    """`pick(x, numbers)` by known numbers, as whole ones: operands of the host's, of any number."""
    value = _matrix(call.batch, call.arrays[0])
    numbers = None if value is None or call.attrs.get("axis", -1) not in (1, -1) else call.numbers(1, 1)
    if value is None or numbers is None or len(numbers) != value.spec.rows:
        return None
    numbers = _brought_in(numbers, value.spec.shape[1], call.attrs.get("mode", "clip"))
    return _entries(call, value, numbers.tolist(), call.attrs.get("keepdims", False))


def _scatter_nd(call: Gathering) -> Value | None:
    """Rows put into zeros. Of two at one place MXNet does not say which stays."""
    source = _data(call.batch, call.arrays[0])
    numbers = None if source is None else call.numbers(1, 2)
    shape = listed(call.attrs.get("shape"))
    if source is None or numbers is None or len(numbers) != 1:
        return None
    if len(shape) != len(source.spec.shape) or shape[1:] != source.spec.row_shape:
        return None
    zero = _zero_row(call.batch, source.spec)
    base = picked(zero, [0] * shape[0])
    return None if base is None else placed(base, numbers[0].tolist(), source)


def _zero_row(batch: Batch, spec: Spec) -> Value:
    """One row of zeros like these, which the batch has once."""
    like = ("shape", str((1, *spec.row_shape))), ("ctx", spec.device), ("dtype", spec.dtype)
    return leaf(batch, made_from_nothing(batch, (operator_handle("_zeros"), like, False, LOCAL.state.numpy)))


def _index_copy(call: Gathering) -> Value | None:
    """`index_copy(x, numbers, y)`: rows of `x`, some of which are those of `y`."""
    base, source = [_data(call.batch, call.arrays[position]) for position in (0, 2)]
    numbers = None if base is None or source is None else call.numbers(1, 1)
    if base is None or source is None or numbers is None:
        return None
    return placed(base, numbers.tolist(), source)


def _mean(call: Gathering) -> Value | None:
    """The mean of any number of rows: their sum, by a number that is an operand."""
    batch, attrs = call.batch, call.attrs
    axis = listed(attrs.get("axis"))
    if "arity" in batch.options.without or axis not in ((0,), (-2,)) or attrs.get("exclude"):
        return None
    value = _matrix(batch, call.arrays[0])
    if value is None or value.spec.dtype != "float32" or attrs.get("dtype") not in (None, "float32"):
        return None
    total = call.operator("sum", value, axis=0, keepdims=bool(attrs.get("keepdims")))
    return call.operator(
        "broadcast_div", total, host_numbers(batch, [float(value.spec.rows)], "float32", value.spec.device)
    )


_WAYS: dict[str, Way] = {
    "take": _take,
    "gather_nd": _gather_nd,
    "pick": _pick,
    "scatter_nd": _scatter_nd,
    "_contrib_index_copy": _index_copy,
    "_contrib_boolean_mask": _boolean_mask,
    "_npi_boolean_mask": _boolean_mask,
    "mean": _mean,
    "_npi_mean": _mean,
}
"""Operators by the name under which MXNet registers them."""
