"""MXNet operators that need no computation: slices, stacks and concatenations along axis 0 are lists of rows.

Each function takes values of one graph and returns a value of it, or None if the result does not consist of whole rows
of its operands; then the operator is captured as a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Optional

from gluonjit.engines.mxnet.framework.symbols import Attributes
from gluonjit.graph import Value
from gluonjit.graph.joining import Copied, joined, same_rows
from gluonjit.graph.references import Shape, indexed, reshaped, row, row_range

__all__ = ["REFERENCES", "Copied", "indexed", "row", "row_range"]

Reference = Callable[[Sequence[Value], Attributes, Shape], Optional[Value]]


def _slice_axis(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    (value,) = values
    if attrs.get("axis", 0) != 0:
        return None
    begin = attrs.get("begin", 0)
    begin += value.spec.rows if begin < 0 else 0
    return row_range(value, begin, begin + shape[0])


def _joiner(mode: str, name: str, otherwise: int = 0) -> Reference:
    def join(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
        return joined(values, mode) if attrs.get(name, otherwise) == 0 else None

    return join


def _same(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    return same_rows(values[0], values[0].spec, values[0].rows)


def _plus_nothing(values: Sequence[Value], attrs: Attributes, shape: Shape) -> Value | None:
    """`0 + x`, with which the built-in `sum` begins."""
    return _same(values, attrs, shape) if float(attrs.get("scalar", 1.0)) == 0.0 else None


REFERENCES: Mapping[str, Reference] = {
    **dict.fromkeys(
        "Reshape expand_dims squeeze Flatten _np_reshape _npx_reshape _np_squeeze".split(),
        lambda values, attrs, shape: reshaped(values[0], shape),
    ),
    "slice_axis": _slice_axis,
    "Concat": _joiner("rows", "dim", 1),
    "stack": _joiner("stack", "axis"),
    "_copy": _same,
    "_plus_scalar": _plus_nothing,
    "_npi_concatenate": _joiner("rows", "axis"),
    "_npi_stack": _joiner("stack", "axis"),
    "_np_copy": _same,
    # Integers would become floats.
    "_npi_add_scalar": lambda values, *of: _plus_nothing(values, *of) if values[0].spec.dtype[0] == "f" else None,
}
