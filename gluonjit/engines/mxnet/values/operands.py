"""Arrays as operands of the open batch: lazy ones by their value, others as leaves; and numbers of Python as operands.

Numbers are operands of operators that keep differing (`h * dt`), and of entries. Few numbers of an operator are
constants, each with a kind of its own; further ones are operands of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.context import Context
from mxnet.ndarray import NDArray, array

from gluonjit.engines.mxnet.framework.arrays import spec_of
from gluonjit.engines.mxnet.framework.originals import Attrs, operator_handle, original_invoke, slice_rows
from gluonjit.engines.mxnet.framework.semantics import as_captured, as_shape, classic
from gluonjit.engines.mxnet.framework.shared import SHARED
from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.engines.mxnet.operators.table import work_of
from gluonjit.engines.mxnet.run.program import Batched
from gluonjit.engines.mxnet.run.results import Imported, has_history, is_learned_integer, numbers_of, spent, tape_of
from gluonjit.engines.mxnet.values import references
from gluonjit.engines.mxnet.values.aliases import Owned, is_stale, renew
from gluonjit.engines.mxnet.values.lookups import host_number, host_rows
from gluonjit.engines.mxnet.values.recorder import Recorder
from gluonjit.graph import Kind, Output, Record, Spec, Value
from gluonjit.graph.modes import RECORDING, is_recorded
from gluonjit.hybrid.capture.capturing import captured, room_of
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.places import FEW_NUMBERS, vary
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED, settle
from gluonjit.program.trace import NeedsValue, TraceBuilder

_NAMED = ("maximum", "minimum", "power")  # alike in all interfaces
_SIGNS = {"plus": "add", "minus": "sub", "mul": "mul", "div": "div", **{name: name for name in _NAMED}}
_NUMPY_SIGNS = {name: name for name in ("add", "subtract", "multiply", "true_divide", *_NAMED)}
_OF_ARRAYS: dict[str, tuple[str, bool]] = {
    f"{begin}{reverse}{sign}_scalar": (f"{target}{name}", bool(reverse))
    for begin, signs, target in (("_", _SIGNS, "broadcast_"), ("_npi_", _NUMPY_SIGNS, "_npi_"))
    for sign, name in signs.items()
    for reverse in ("", "r")
}
"""By an operator of a number: that which gives the same for an array of it, and whether the number comes first."""


def with_operand(
    batch: Batch, name: str, arrays: Sequence[Any], attrs: Attrs, wrap: Callable[[Value], Any]
) -> tuple[int, list[Any]] | None:
    """An operator of arrays, its handle and its operands, for one of a number that keeps differing; None for others.

    wrap: makes a lazy array of a value.
    """
    target = _OF_ARRAYS.get(name)
    value = getattr(arrays[0], "_v", None)
    if target is None or value is None:
        return None
    spec, number = value.spec, dict(attrs)["scalar"]
    if spec.dtype != "float32" or not float(number):  # `0 + x`, with which `sum` begins, is no node
        return None  # and as float64 MXNet's own reading of a text may differ from Python's in the last bit
    if not vary(None, (name, len(spec.shape)), number, batch, FEW_NUMBERS):
        return None
    operand = wrap(host_number(batch, float(number), spec))
    other, reverse = target
    return operator_handle(other), [operand, arrays[0]] if reverse else [arrays[0], operand]


@lru_cache(maxsize=256)
def array_of(number: str, shape: tuple[int, ...], dtype: str, context: Context) -> NDArray:
    """An array of this shape filled with a number, given as text: 0.0 and -0.0 are equal."""
    with UNCAPTURED, as_captured(0), np.errstate(over="ignore"):
        return array(np.full(shape, float(number)).astype(dtype), ctx=context, dtype=dtype)


def clear_numbers() -> None:
    """Forgets arrays of numbers."""
    array_of.cache_clear()


_INTEGERS = {"int32", "int64", "int8", "uint8"}


class Empty(Exception):
    """An array without elements, which is no operand of a batch."""


def owned(value: Value, array: NDArray) -> Value:
    """Returns this value for an array with its own memory."""
    return Value(value.rows, value.depth, value.spec, value.graph, value.taped, Owned(array))


def value_of(batch: Batch, array: Any) -> Value:
    """The value of an array in the batch's graph."""
    value: Value | None = getattr(array, "_v", None)
    if value is None:
        return leaf(batch, array)
    if value.graph is batch.graph:
        return value
    if is_stale(array):
        renew(array)
        value = array._v
    batch.carried.add(batch.sample - 1)
    if array._c is not None and (value.base.__class__ is Owned or not value.taped):
        return leaf(batch, array._c)
    if seen_through(array):  # a view, which may have been written to
        return leaf(batch, array._c)
    return imported(batch, value)


def seen_through(array: Any, write: bool = False) -> bool:
    """Makes a slice of an array from before the batch the view that it is in MXNet: nothing runs for it.

    What an operator gave is a copy: no help to who wants to `write`, and once the batch has run as it was then.
    """
    value = array._v
    source, root, copied = value.base, value, False
    while isinstance(source, (Value, references.Copied)):
        if isinstance(source, references.Copied):
            source, copied = source.value, True
        elif source.graph is not value.graph:  # a result of an earlier batch, whose rows have other numbers
            return False
        else:
            root, source = source, source.base
    if isinstance(source, Owned):
        source = source.array
    waiting = value.graph is not None and isinstance(value.graph.owner, Batch)
    if value.depth or (copied and (write or not waiting)) or not isinstance(source, NDArray):
        return False
    rows = value.row_list()
    listed = root.row_list()
    begin = listed.index(rows[0])
    if listed[begin : begin + len(rows)] != rows:
        return False
    view = slice_rows(classic(source), begin, begin + len(rows)) if root.spec.mode == "rows" else classic(source)
    if view.shape != value.spec.shape:
        view = as_shape(view, value.spec.shape)
    array._c = array._in_kind(view.copy() if copied else view)
    if write or not value.taped or LOCAL.state.mode & RECORDING:  # else the view has no history, but the value has
        array._v = owned(value, array._c)
    return True


def leaf(batch: Batch, array: NDArray) -> Value:
    """A concrete array: equal when it is the same object, or for one-dimensional integers the same number."""
    known = batch.imports.get(id(array))
    taped = is_recorded(LOCAL.state.mode)
    if known is not None and (known[1].taped or not taped or _is_numbers(known[1].spec, array, taped)):
        return known[1]
    spec = spec_of(array)
    if not spec.bytes:
        raise Empty()
    if array.__class__ in SHARED and spec.bytes <= batch.options.copy_inputs and not has_history(array):
        return _copied(batch, array, spec)
    if _is_numbers(spec, array, taped):
        value = host_rows(batch, array, spec.dtype, spec.device)
    else:
        key = id(array) if known is None else ("recorded", id(array))  # after a use without recording
        value = Value(batch.graph.add_leaf(key, array, spec, taped).base, 0, spec, batch.graph, taped, array)
    batch.imports[id(array)] = (array, value)
    return value


def _is_numbers(spec: Spec, array: NDArray, taped: bool) -> bool:
    """True if an array counts by its numbers, as indices do: no gradient is to reach it."""
    return spec.dtype in _INTEGERS and len(spec.shape) == 1 and not (taped and is_learned_integer(array))


def computed(batch: Batch, value: Value, spec: Spec) -> Value:
    """Returns one node's result: the same numbers in rows as `spec` has them, which has the value's shape."""
    key = ("layout", value.spec, spec, LOCAL.state.mode)
    record = batch.records.get(key)
    if record is None:
        kind = _kind(value.spec, spec)
        record = batch.records[key] = Record(kind, LOCAL.state.mode, room_of(kind, batch.options))
    return captured(batch, record, [value])[0]


@lru_cache(maxsize=4096)
def _kind(before: Spec, after: Spec) -> Kind:
    rows = apply("Reshape", [mx.sym.var("group0")], {"shape": (-1, *after.row_shape)})
    builder = TraceBuilder([before])
    attrs = (("shape", str(after.shape)),)
    trace = builder.finish(builder.op("Reshape", attrs, [0], [(after.shape, after.dtype)]))
    outputs, work = (Output(after, 0),), work_of(trace, 1)
    program = Batched([rows], ["group0"], [])
    return Kind("Reshape", (before,), outputs, after.rows, program, operator=True, work=work, call=trace)


def is_plain(value: Value) -> bool:
    """True if a value is an array of the program that gets no gradient.

    None reaches what was captured without recording: MXNet takes long to say that an array has no history.
    """
    array = _source(value)
    return isinstance(array, NDArray) and not (value.depth or (value.taped and has_history(classic(array))))


def _source(value: Value) -> Any:
    """The array that a value is, if it is one of the program's."""
    return value.base.array if isinstance(value.base, Owned) else value.base


def laid(batch: Batch, value: Value, spec: Spec) -> Value:
    """A value as one of this spec, which has its shape; computed if it is no plain array."""
    if value.spec is spec:
        return value
    if not is_plain(value):
        return computed(batch, value, spec)
    array = _source(value)
    return Value(batch.graph.add_leaf((spec.mode, id(array)), array, spec).base, 0, spec, batch.graph, False, array)


def _copied(batch: Batch, array: NDArray, spec: Spec) -> Value:
    """Returns a leaf with the current numbers of an array that may be written to: leaves of equal numbers are equal."""
    if _is_numbers(spec, array, False):
        return host_rows(batch, array, spec.dtype, spec.device)
    key = ("shared", spec, array.asnumpy().tobytes())
    known = batch.graph.leaves.get(key)
    if known is None:
        with as_captured(0):
            copy = array.copy()
        copy.wait_to_read()
        known = batch.graph.add_leaf(key, copy, spec, is_recorded(LOCAL.state.mode))
    return Value(known.base, 0, spec, batch.graph, is_recorded(LOCAL.state.mode), known.payload)


def made_from_nothing(batch: Batch, key: Any) -> Any:
    """The batch's array that this operator without operands gives."""
    array = batch.created.get(key)
    if array is None:
        handle, attrs, is_np, _ = key
        array = batch.created[key] = original_invoke(handle, [], *unzipped(attrs), None, is_np, False)
    return array


def unzipped(attrs: Attrs) -> tuple[list[str], list[str]]:
    """Keys and values of an operator's attributes."""
    return [key for key, _ in attrs], [value for _, value in attrs]


def imported(batch: Batch, value: Value) -> Value:
    """A value of another graph; its batch runs first if it has not."""
    if isinstance(value.graph, Recorder):
        raise NeedsValue()
    known = batch.imports.get(id(value))
    if known is not None:
        return known[1]
    settle(value)
    if isinstance(value.rows, tuple):
        parts = [_one_row(value, row) for row in value.rows]
    else:
        parts = [value]
    tape = tape_of(value)
    taped = tape is not None and not spent(value, tape)  # what backward went through is a constant from then on
    rows = [_leaf_of(batch, part, tape if taped else None) for part in parts]
    new = Value(rows[0] if len(rows) == 1 else tuple(rows), 0, value.spec, batch.graph, taped, value)
    batch.imports[id(value)] = (value, new)
    return new


def _one_row(value: Value, row: int) -> Value:
    return Value(row, 0, value.spec.with_rows(1), value.graph, value.taped, value)


def _leaf_of(batch: Batch, value: Value, tape: Any) -> int:
    """The first row of an earlier flush's result as a leaf; gradients go back to its history `tape`, if any."""
    key = ("result", tape, id(value.result) if value.result is not None else (id(value.graph), value.rows, value.spec))
    known = batch.graph.leaves.get(key)
    if known is not None:
        return known.base
    with as_captured(0):
        payload = Imported(numbers_of(value), value, tape)
    return batch.graph.add_leaf(key, payload, value.spec, tape is not None).base
