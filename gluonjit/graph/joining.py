# cython: language_level=3, boundscheck=False, wraparound=False, nonecheck=True, binding=False
"""Values of whole rows, one after the other, and copies of one: what `cat`, `stack`, `0 + x` and `expand_dims` are.

In Cython's pure-Python mode, as `recorder` (`joining.pxd` has the types). Arrays of these have memory of their own,
which the graph notes.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from gluonjit import standin as cython

if not cython.compiled:
    from gluonjit.graph.recorder import Value, new_value


class Copied:
    """A reference by an operator that need not run: its rows are the operand's, its memory is its own."""

    def __init__(self, value) -> None:
        self.value = value


def joined(values, mode: object):
    """Joins values of one `mode`, a list, along axis 0; None if there are none, or one has another spec."""
    value: Value = None
    spec: Spec
    first: Spec = None
    depth: cython.Py_ssize_t = 0
    taped: cython.bint = False
    numbers: list = []
    for each in values:
        value = each
        spec = value.spec
        if first is None:
            first = spec
        if spec is not first and (spec.row_shape, spec.dtype, spec.device) != (
            first.row_shape,
            first.dtype,
            first.device,
        ):
            return None
        if spec.mode != mode:
            return None
        numbers += value.row_list()
        if value.depth > depth:
            depth = value.depth
        if value.taped:
            taped = True
    if value is None or first is None:
        return None
    rows = tuple(numbers)
    value.graph.copies.append(rows)
    return Value(rows, depth, first.with_rows(len(rows)), value.graph, taped, tuple(values))


def copied(value: Value):
    """A value of the same rows."""
    value.graph.copies.append(value.row_list())
    return same_rows(value, value.spec, value.rows)


def same_rows(value: Value, spec: Spec, rows) -> Value:
    """A value that refers to rows of another, in the same memory, and looks like `spec`."""
    return new_value(rows, value.depth, spec, value.graph, value.taped, value)


def seen_as(value: Value, spec):
    """Returns the rows of a Value as an array that looks like `spec`, with its own memory."""
    return Value(value.rows, value.depth, spec, value.graph, value.taped, Copied(value))
