"""What needs no computing: slices along axis 0, stacks and concatenations along axis 0 are lists of rows.

Each function takes values of one graph and gives a value of it, or None where the result is not made of whole
rows of its operands; then the operator is captured as a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from gluonjit.engines.mxnet.rules import Attributes
from gluonjit.graph import Rows, Spec, Value, intern_spec


class Copied:
    """What the value of an operator that need not run refers to: its rows are the operand's, its memory is its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Shape = tuple[int, ...]
Reference = Callable[[Sequence[Value], Attributes, Shape], Optional[Value]]


def _same_rows(value: Value, spec: Spec, rows: Rows) -> Value:
    return Value(rows, value.depth, spec, value.graph, value.taped, value)


def row(value: Value, index: int, scalar: Shape = (1,)) -> Value | None:
    """`x[index]`; `scalar` is the shape of a single number. Raises IndexError where there is no such row."""
    spec = value.spec
    if spec.mode != "rows":
        return None
    if not -spec.rows <= index < spec.rows:
        raise IndexError(f"index {index} is out of bounds for axis 0 with size {spec.rows}")
    index %= spec.rows
    rows = value.rows[index] if isinstance(value.rows, tuple) else value.rows + index
    rest = spec.row_shape
    if rest:
        target = spec.one_row()
    else:
        target = intern_spec(scalar, spec.dtype, spec.device, "rows" if scalar == (1,) else "stack")
    if value.depth:
        return _same_rows(value, target, rows)
    singles = value.graph.single_rows
    place = ~rows if rest else (rows, scalar)
    found: Value | None = singles.get(place)
    if found is None:
        found = singles[place] = _same_rows(value, target, rows)
    return found


def quick_row(value: Value, key: Any) -> Value | None:
    """`x[key]` for a whole number; None leaves the case to `indexed`."""
    return row(value, key) if key.__class__ is int else None


def row_range(value: Value, begin: int, end: int) -> Value | None:
    """`x[begin:end]` for 0 <= begin < end <= len(x)."""
    spec = value.spec
    if spec.mode != "rows" or not 0 <= begin < end <= spec.rows:
        return None
    rows: Rows
    if isinstance(value.rows, tuple):
        rows = value.rows[begin:end] if end - begin > 1 else value.rows[begin]
    else:
        rows = value.rows + begin
    return _same_rows(value, spec.with_rows(end - begin), rows)


def quick_slice(value: Value, key: slice) -> Value | None:
    """`x[begin:end]` for whole numbers in range; None leaves the case to `indexed`."""
    spec = value.spec
    begin, end = key.start, key.stop
    if begin.__class__ is not int or end.__class__ is not int or key.step is not None:
        return None
    if spec.mode != "rows" or not 0 <= begin < end <= spec.rows:
        return None
    rows = value.rows
    count = end - begin
    if count > 1:
        chosen = rows[begin:end] if isinstance(rows, tuple) else rows + begin
        return Value(chosen, value.depth, spec.with_rows(count), value.graph, value.taped, value)
    row = rows[begin] if rows.__class__ is tuple else rows + begin  # type: ignore[operator]
    if value.depth:  # a node's result: who holds a slice of it keeps it alive, a cache must not
        return Value(row, value.depth, spec.with_rows(1), value.graph, value.taped, value)
    singles = value.graph.single_rows
    found: Value | None = singles.get(row)
    if found is None:
        found = singles[row] = Value(row, value.depth, spec.with_rows(1), value.graph, value.taped, value)
    return found


def indexed(value: Value, key: Any, scalar: Shape = (1,)) -> Value | None:
    """`x[key]` for an integer, or a slice of step 1, along axis 0."""
    if isinstance(key, tuple) and key and all(part == slice(None) for part in key[1:] if isinstance(part, slice)):
        if any(not isinstance(part, slice) for part in key[1:]):
            return None
        key = key[0]
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return row(value, int(key), scalar)
    if isinstance(key, slice) and value.spec.mode == "rows":
        begin, end, step = key.indices(value.spec.rows)
        return row_range(value, begin, end) if step == 1 else None
    return None


def _reshaped(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    """A change of shape that only adds or drops the axis of a single row."""
    (value,) = values
    spec = value.spec
    if shape == spec.shape:
        return _same_rows(value, spec, value.rows)
    if spec.mode == "stack" and shape == (1, *spec.shape):
        return _same_rows(value, intern_spec(shape, spec.dtype, spec.device, "rows"), value.rows)
    if spec.mode == "rows" and spec.rows == 1 and shape == spec.row_shape:
        return _same_rows(value, intern_spec(shape, spec.dtype, spec.device, "stack"), value.rows)
    return None


def _slice_axis(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    (value,) = values
    if attrs.integer("axis", 0) != 0:
        return None
    begin = attrs.integer("begin", 0)
    begin += value.spec.rows if begin < 0 else 0
    return row_range(value, begin, begin + shape[0])


def _joined(values: Sequence[Value], shape: Shape, mode: str) -> Value | None:
    first = values[0].spec
    for value in values:
        spec = value.spec
        if (spec.mode, spec.row_shape, spec.dtype, spec.device) != (
            mode,
            first.row_shape,
            first.dtype,
            first.device,
        ):
            return None
    rows = tuple([number for value in values for number in value.row_list()])
    return Value(
        rows,
        max([value.depth for value in values]),
        intern_spec(shape, first.dtype, first.device, "rows"),
        values[0].graph,
        any([value.taped for value in values]),
        tuple(values),
    )


def _concat(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    return _joined(values, shape, "rows") if attrs.integer("dim", 1) == 0 else None


def _stack(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    return _joined(values, shape, "stack") if attrs.integer("axis", 0) == 0 else None


def _same(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    return _same_rows(values[0], values[0].spec, values[0].rows)


def _plus_nothing(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    """`0 + x`, with which the built-in `sum` begins."""
    return _same(values, attrs, shape) if attrs.number("scalar", 1.0) == 0.0 else None


def _float_plus_nothing(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    """As `_plus_nothing`; whole numbers would become floats."""
    return _plus_nothing(values, attrs, shape) if values[0].spec.dtype.startswith("float") else None


def _numpy_joined(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    return _joined(values, shape, "rows") if attrs.optional_integer("axis", 0) == 0 else None


REFERENCES: Mapping[str, Reference] = {
    "Reshape": _reshaped,
    "expand_dims": _reshaped,
    "squeeze": _reshaped,
    "Flatten": _reshaped,
    "slice_axis": _slice_axis,
    "Concat": _concat,
    "stack": _stack,
    "_copy": _same,
    "_plus_scalar": _plus_nothing,
    "_np_reshape": _reshaped,
    "_npx_reshape": _reshaped,
    "_np_squeeze": _reshaped,
    "_npi_concatenate": _numpy_joined,
    "_npi_stack": _stack,
    "_np_copy": _same,
    "_npi_add_scalar": _float_plus_nothing,
}
