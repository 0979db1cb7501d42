"""References, which need no computation: rows of a value, and values made of whole rows, as row numbers.

Each function takes values of one graph and returns a value of it, or None if the result does not consist of whole rows
of its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from gluonjit.graph.entries import entries_value, rows_of
from gluonjit.graph.joining import Copied, same_rows
from gluonjit.graph.recorder import Value
from gluonjit.graph.slices import one_row
from gluonjit.graph.values import Rows, Spec, intern_spec, mode_of

Shape = tuple[int, ...]


def keys_of(path: Any) -> list[Any]:
    """The keys that lead to a view, the first one first. `path` is a key, or (the path before, the last key)."""
    keys = []
    while path.__class__ is tuple:
        path, last = path
        keys.append(last)
    return [path, *reversed(keys)]


def follow(array: Any, path: Any) -> Any:
    """The view of an array that keys lead to: integers, slices, or what gives a view `of` an array."""
    for key in keys_of(path):
        array = array[key] if key.__class__ is int or key.__class__ is slice else key.of(array)
    return array


def row(value: Value, index: int, scalar: Shape = (1,)) -> Value | None:
    """`x[index]`; `scalar` is the shape of a single number. Raises IndexError if there is no such row."""
    spec = value.spec
    if spec.mode != "rows":
        return _part(value, index) if spec.mode != "stack" else None
    if not -spec.rows <= index < spec.rows:
        raise IndexError(f"index {index} is out of bounds for axis 0 with size {spec.rows}")
    index %= spec.rows
    rows = value.rows[index] if isinstance(value.rows, tuple) else value.rows + index
    rest = spec.row_shape
    if rest:
        target = spec.one_row()
    else:
        target = intern_spec(scalar, spec.dtype, spec.device, "rows" if scalar == (1,) else "stack")
    return one_row(value, rows, target, ~rows if rest else (rows, scalar))  # type: ignore[no-any-return]


def _part(value: Value, index: int) -> Value:
    """`x[index]` where more axes than the first are counted as rows."""
    spec = value.spec
    size, shape = spec.shape[0], spec.shape[1:]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis 0 with size {size}")
    mode = mode_of(len(shape) - len(spec.row_shape))
    found = intern_spec(shape, spec.dtype, spec.device, mode)
    begin = index % size * found.rows
    rows = value.rows[begin : begin + found.rows] if isinstance(value.rows, tuple) else value.rows + begin
    return same_rows(value, found, rows[0] if isinstance(rows, tuple) and found.rows == 1 else rows)


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
    return same_rows(value, spec.with_rows(end - begin), rows)


def indexed(value: Value, key: Any, scalar: Shape = (1,)) -> Value | None:
    """`x[key]` for an integer, or a slice of step 1, along axis 0."""
    if isinstance(key, tuple) and value.spec.mode not in ("rows", "stack") and all(type(part) is int for part in key):
        found: Value | None = value
        for part in key:
            found = None if found is None else row(found, part, scalar)
        return found
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


def reshaped(value: Value, shape: Shape) -> Value | None:
    """A change of shape that only adds or drops the axis of a single row, or leaves rows of several axes whole."""
    spec = value.spec
    if shape == spec.shape:
        return same_rows(value, spec, value.rows)
    if spec.mode not in ("stack", "rows"):
        axes = len(shape) - len(spec.row_shape)
        if axes > 0 and shape[axes:] == spec.row_shape and prod(shape[:axes]) == spec.rows:
            return same_rows(value, intern_spec(shape, spec.dtype, spec.device, mode_of(axes)), value.rows)
        return None
    if spec.mode == "stack" and shape == (1, *spec.shape):
        return same_rows(value, intern_spec(shape, spec.dtype, spec.device, "rows"), value.rows)
    if spec.mode == "rows" and spec.rows == 1 and shape == spec.row_shape:
        return same_rows(value, intern_spec(shape, spec.dtype, spec.device, "stack"), value.rows)
    return None


def chosen(key: Any, rows: int) -> list[int]:
    """The numbers of rows that an integer or a slice chooses of this many; none for other keys."""
    if key.__class__ is tuple and len(key) == 1:
        key = key[0]
    if key.__class__ is slice and all(
        part is None or part.__class__ is int for part in (key.start, key.stop, key.step)
    ):
        return list(range(*key.indices(rows)))
    return [key + rows if key < 0 else key] if key.__class__ is int else []


def placed(base: Value, numbers: Sequence[int], source: Value) -> Value | None:
    """Replaces rows of `base` at these distinct numbers by those of `source`, in order."""
    spec = base.spec
    if spec.mode == "stack" or source.spec is not spec.with_rows(len(numbers)) or len(set(numbers)) < len(numbers):
        return None
    if not 0 <= min(numbers) <= max(numbers) < spec.rows:
        return None
    listed = base.row_list()
    for number, place in zip(numbers, source.row_list()):
        listed[number] = place
    rows = tuple(listed)
    base.graph.copies.append(rows)
    depth = max(base.depth, source.depth)
    found = rows if len(rows) > 1 else rows[0]
    return Value(found, depth, spec, base.graph, base.taped or source.taped, (base, source))


def table_rows(
    graph: Any, table: Any, row: Spec, numbers: Sequence[float], taped: bool = False, base: Any = None
) -> Value:
    """Entries of a table, each of which looks like `row`: equal ones are equal rows."""
    found = graph.entries(table, row)
    return entries_value(graph, rows_of(graph, found, numbers), row, taped, base)  # type: ignore[no-any-return]


def leaves_out(value: Value) -> bool:
    """True if a reference has no row of some recorded part of what it refers to.

    Nothing would go back to that part, where an operator gives it zeros.
    """
    rows = set(value.row_list())
    values = (part for part in parts_of(value) if isinstance(part, Value))
    return any(part.taped and part.depth and rows.isdisjoint(part.row_list()) for part in values)


def parts_of(value: Value) -> Iterator[Any]:
    """Everything that a value refers to, directly or not: values, and what engines have for arrays."""
    pending: list[Any] = [value.base]
    while pending:
        part = pending.pop()
        if part.__class__ is tuple:
            pending += part
            continue
        part = part.value if part.__class__ is Copied else part
        yield part
        if isinstance(part, Value):
            pending.append(part.base)
