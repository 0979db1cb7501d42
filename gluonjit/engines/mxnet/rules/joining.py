"""Operators that join or split values: concat, stack, split, slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

import mxnet as mx

from .rule import OperatorCall, Rule, rules_of
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Val, convert, together


def concat(call: OperatorCall) -> list[Val]:
    return joined(call, call.inputs, call.axis("dim", 1))


def joining(dtype: str) -> tuple[str, str]:
    """The operator that joins arrays of this dtype, and what it calls the axis: Concat knows no truth values."""
    return ("_npi_concatenate", "axis") if dtype == "bool" else ("Concat", "dim")


def joined(call: OperatorCall, values: Sequence[Val], axis: int) -> list[Val]:
    """Off axis 0 on rows; along axis 0 the samples' axis comes first and nothing of another gets in."""
    operands = together(values, rows_exact=axis > 0)
    name, dim = joining(values[0].dtype)
    shifted = axis if operands.layout == ROWS else axis + 1
    result = apply(name, operands.symbols, {dim: shifted, "num_args": len(values)})
    return call.deliver(result, operands.layout, operands.poly)


def stack(call: OperatorCall) -> list[Val]:
    axis = call.axis("axis", 0, 1)
    operands = together(call.inputs, rows_exact=axis > 0)
    return call.deliver_of(operands, axis=axis if operands.layout == ROWS else axis + 1)


def split(call: OperatorCall) -> list[Val]:
    """SliceChannel (axis 1 unless said) and split_v2 (axis 0 unless said)."""
    axis = call.axis("axis", 1 if call.name == "SliceChannel" else 0)
    return call.deliver_along(axis > 0, lambda sym, by: call.same([sym], axis=axis + by))


Ends = Sequence[Optional[int]]


def takes_all(length: int, poly: bool, begin: int | None, end: int | None, step: int | None) -> bool:
    """Tells whether begin:end:step is the whole axis; for a varying length only if no number says where it ends."""
    if step not in (None, 1) or begin not in (None, 0):
        return False
    return end is None or (not poly and end >= length)


def slice_(call: OperatorCall) -> list[Val]:
    """begin:end:step on the leading axes; rows if axis 0 is taken whole."""
    begin, end = call.attrs.entries("begin") or (), call.attrs.entries("end") or ()
    step: Ends = call.attrs.entries("step") or (None,) * len(begin)
    if not len(begin) == len(end) == len(step):
        raise NotBatchable(f"{call.name}: begin, end and step of different lengths")
    return sliced(call, begin, end, step)


def sliced(call: OperatorCall, begin: Ends, end: Ends, step: Ends) -> list[Val]:
    """Emits `slice` on the first input; further inputs do not matter."""
    data = call.data
    if data.rows and (not begin or takes_all(data.shape[0], data.poly, begin[0], end[0], step[0])):
        ends = {"begin": (None, *begin[1:]), "end": (None, *end[1:]), "step": (None, *step[1:])}
        return call.deliver(_slice(data, ends), ROWS, data.poly)
    if data.poly:
        raise NotBatchable(f"{call.name} along axis 0 of rows of varying length")
    stacked = data if data.shared else convert(data, STACK)
    first = () if data.shared else (None,)
    ends = {"begin": (*first, *begin), "end": (*first, *end), "step": (*first, *step)}
    return call.deliver(_slice(stacked, ends), stacked.layout)


def _slice(data: Val, ends: Mapping[str, Ends]) -> mx.sym.Symbol:
    return apply("slice", [data.sym], ends)


def slice_axis(call: OperatorCall) -> list[Val]:
    data = call.data
    axis = call.axis("axis", 0)
    begin, end = call.attrs.integer("begin", 0), call.attrs.optional_integer("end", None)
    if axis == 0 and data.rows and takes_all(data.shape[0], data.poly, begin, end, None):
        return call.deliver(data.sym, ROWS, data.poly)
    return call.deliver_along(axis > 0, lambda sym, by: call.same([sym], axis=axis + by))


def slice_like(call: OperatorCall) -> list[Val]:
    """Cuts to the known shape of the other value."""
    if call.poly:
        raise NotBatchable("slice_like with rows of varying length")
    size = len(call.shape)
    whole = [call.shape[axis] == call.data.shape[axis] for axis in range(size)]
    end = tuple(None if same else length for same, length in zip(whole, call.shape))
    return sliced(call, tuple(None if same else 0 for same in whole), end, (None,) * size)


def parameters(call: OperatorCall) -> list[Val]:
    """Joins weights, the same for all samples, which the table does once; anything else is not known to it."""
    raise NotBatchable(f"{call.name}: parameters that are not the same for all samples")


RULES: dict[str, Rule] = {
    "_rnn_param_concat": Rule("axis", parameters, notes="once for all samples"),
    "Concat": Rule("axis", concat, notes="rows unless along axis 0; shared operands are repeated"),
    **rules_of("stack _npi_stack", stack, "axis", "rows unless along axis 0; shared operands are repeated"),
    **rules_of("SliceChannel _split_v2", split, "axis", "rows unless along axis 0"),
    "slice": Rule("axis", slice_, notes="rows if axis 0 is taken whole"),
    "slice_axis": Rule("axis", slice_axis, notes="rows unless along axis 0"),
    "slice_like": Rule("rewritten", slice_like, notes="slice to the known shape"),
}
