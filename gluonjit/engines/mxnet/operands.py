"""Arrays as operands of the open batch: lazy ones by their value, others as leaves."""

from __future__ import annotations

from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import spec_of
from gluonjit.engines.mxnet.lookups import host_rows
from gluonjit.engines.mxnet.results import numbers_of, settle, spent, tape_of
from gluonjit.engines.mxnet.session import Imported, as_captured
from gluonjit.engines.mxnet.tape import Tape
from gluonjit.engines.mxnet.trace import NeedsValue, Trace
from gluonjit.graph import Value
from gluonjit.hybrid import LOCAL, Batch

_INTEGERS = {"int32", "int64", "int8", "uint8"}


class Owned:
    """What the value of an array with memory of its own refers to: that array, of which slices are views."""

    __slots__ = ("array",)

    def __init__(self, array: NDArray) -> None:
        self.array = array


class Empty(Exception):
    """An array without elements, which is no operand of a batch."""


def value_of(batch: Batch, array: Any) -> Value:
    """The value of an array in the batch's graph."""
    value: Value | None = getattr(array, "_v", None)
    if value is None:
        return leaf(batch, array)
    if value.graph is batch.graph:
        return value
    if array._c is not None and (value.base.__class__ is Owned or not value.taped):
        return leaf(batch, array._c)
    return imported(batch, value)


def leaf(batch: Batch, array: NDArray) -> Value:
    """A concrete array: equal when it is the same object, or for one-dimensional integers the same number."""
    known = batch.imports.get(id(array))
    if known is not None:
        return known[1]
    spec = spec_of(array)
    if not spec.bytes:
        raise Empty()
    if spec.dtype in _INTEGERS and len(spec.shape) == 1:
        value = host_rows(batch, array, spec.dtype, spec.device)
    else:
        taped = LOCAL.state.mode >= 2
        value = Value(batch.graph.add_leaf(id(array), array, spec, taped).base, 0, spec, batch.graph, taped, array)
    batch.imports[id(array)] = (array, value)
    return value


def imported(batch: Batch, value: Value) -> Value:
    """A value of another graph; its batch runs first if it has not."""
    if isinstance(value.graph, Trace):
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


def _leaf_of(batch: Batch, value: Value, tape: Tape | None) -> int:
    """The first row of an earlier flush's result as a leaf; gradients go back to its history `tape`, if any."""
    key = ("result", tape, id(value.result) if value.result is not None else (id(value.graph), value.rows, value.spec))
    known = batch.graph.leaves.get(key)
    if known is not None:
        return known.base
    with as_captured(0):
        payload = Imported(numbers_of(value), value, tape)
    return batch.graph.add_leaf(key, payload, value.spec, tape is not None).base
