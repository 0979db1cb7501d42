"""Operators that look values up by index.

MXNet silently clips or wraps indices, so an index that is out of range for its own sample must never reach another
sample's rows: it is brought into range before the sample's offset is added.
"""

from __future__ import annotations

import mxnet as mx

from .elementwise import unary
from .rule import OperatorCall, Rule
from .symbols import apply
from .values import ROWS, STACK, NotBatchable, Val, convert, reshape, spread, together


def embedding(call: OperatorCall) -> list[Val]:
    """Indices of any shape into one table."""
    indices, table = call.inputs
    if not table.shared:
        raise NotBatchable("Embedding into a table that is not the same for all samples")
    return call.deliver(call.same([indices.sym, table.sym]), indices.layout, indices.poly)


def take(call: OperatorCall) -> list[Val]:
    data, indices = call.inputs
    axis = call.axis("axis", 0)
    if data.shared:
        return _take_from_shared(call, axis)
    if indices.shared:
        return _take_same_places(call, axis)
    return _take_by_sample(call, axis)


def _take_from_shared(call: OperatorCall, axis: int) -> list[Val]:
    """A look-up in one table; along a later axis the samples land in the middle and move to the front."""
    table, indices = call.inputs
    if axis == 0:
        return call.deliver(call.same([table.sym, indices.sym], axis=0), indices.layout, indices.poly)
    stacked = convert(indices, STACK)
    found = call.same([table.sym, stacked.sym], axis=axis)
    order = (axis, *range(axis), *range(axis + 1, len(call.shape) + 1))
    return call.deliver(apply("transpose", [found], {"axes": order}), STACK)


def _take_same_places(call: OperatorCall, axis: int) -> list[Val]:
    indices = call.inputs[1].sym
    return call.deliver_along(axis > 0, lambda sym, by: call.same([sym, indices], axis=axis + by))


def _take_by_sample(call: OperatorCall, axis: int) -> list[Val]:
    """Each sample looks into its own rows: its indices move by its place in the batch."""
    data, indices = call.inputs
    if axis != 0:
        raise NotBatchable(f"take along axis {axis} of each sample's own value")
    if call.attrs.text("mode", "clip") == "raise":
        raise NotBatchable("take from each sample's own value with mode raise")
    rows, stacked = convert(data, ROWS), convert(indices, STACK)
    if rows.poly:
        raise NotBatchable("take from rows of varying length")
    count = data.shape[0]
    absolute = _offset(_in_range(stacked.sym, count, call.attrs.text("mode", "clip")), count, indices.ndim)
    found = apply("take", [rows.sym, absolute], {"axis": 0, "mode": "clip"})
    return call.deliver(found, STACK)


def _in_range(indices: mx.sym.Symbol, count: int, mode: str) -> mx.sym.Symbol:
    """Whole indices within one sample, as the operator itself would bring them there."""
    whole = apply("Cast", [indices], {"dtype": "int64"})
    if mode == "wrap":
        return apply("_mod_scalar", [whole], {"scalar": count})
    return apply("clip", [whole], {"a_min": 0, "a_max": count - 1})


def _offset(indices: mx.sym.Symbol, count: int, ndim: int) -> mx.sym.Symbol:
    """Sample i's indices plus i * count."""
    starts = apply("_contrib_arange_like", [indices], {"axis": 0, "start": 0, "step": count})
    starts = apply("Cast", [starts], {"dtype": "int64"})
    return apply("broadcast_add", [indices, reshape(starts, (1,) * ndim)], {})


def batch_take(call: OperatorCall) -> list[Val]:
    """Emits `pick`: a graph of batch_take itself fails, because it has no gradient and does not say so."""
    operands = together(call.inputs, rows_exact=True)
    data, indices = operands.symbols
    picked = apply("pick", [apply("BlockGrad", [data], {}), indices], {"axis": -1, "mode": "clip"})
    return call.deliver(picked, operands.layout, operands.poly)


def gather_nd(call: OperatorCall) -> list[Val]:
    """The coordinates lie along the first axis of the indices, so the samples' axis comes second."""
    data, indices = call.inputs
    reference = call.batched[0]
    places = spread(indices, reference)
    order = (1, 0, *range(2, indices.ndim + 1))
    coordinates = apply("transpose", [places.sym], {"axes": order})
    if data.shared:
        return call.deliver(call.same([data.sym, coordinates]), STACK)
    return call.deliver(call.same([convert(data, STACK).sym, _with_sample(places, coordinates)]), STACK)


def _with_sample(places: Val, coordinates: mx.sym.Symbol) -> mx.sym.Symbol:
    """One more coordinate in front: the sample, counted along the batch, in a type that can count that far."""
    coordinates = apply("Cast", [coordinates], {"dtype": "int64"})
    one = apply("slice", [coordinates], {"begin": (0,), "end": (1,)})
    zero = apply("zeros_like", [one], {})
    samples = apply("_contrib_arange_like", [apply("Cast", [places.sym], {"dtype": "int64"})], {"axis": 0})
    samples = apply("Reshape", [samples], {"shape": (1, -1, *(1,) * (places.ndim - 1))})
    sample = apply("broadcast_add", [zero, samples], {})
    return apply("Concat", [sample, coordinates], {"dim": 0, "num_args": 2})


def ravel_multi_index(call: OperatorCall) -> list[Val]:
    """The coordinates lie along the first axis of two: all samples' columns go side by side."""
    if call.data.ndim != 2:
        raise NotBatchable("_ravel_multi_index of coordinates with more than two axes")
    columns = apply("transpose", [convert(call.data, STACK).sym], {"axes": (1, 0, 2)})
    columns = apply("Reshape", [columns], {"shape": (call.data.shape[0], -1)})
    return call.deliver(call.same([columns]), ROWS)


def unravel_index(call: OperatorCall) -> list[Val]:
    if call.data.ndim != 1 or call.data.poly:
        raise NotBatchable("_unravel_index of an array with more than one axis, or of varying length")
    columns = call.same([convert(call.data, ROWS).sym])
    columns = apply("Reshape", [columns], {"shape": (call.shape[0], -1, call.shape[1])})
    return call.deliver(apply("transpose", [columns], {"axes": (1, 0, 2)}), STACK)


RULES: dict[str, Rule] = {
    "Embedding": Rule("row-wise", embedding, notes="one table for all samples"),
    "one_hot": Rule("elementwise", unary),
    "take": Rule(
        "rewritten",
        take,
        notes=(
            "unchanged in one table; nothing runs for rows by known numbers, computed ones are offset by the "
            "sample; alone with mode raise"
        ),
    ),
    "batch_take": Rule("row-wise", batch_take, notes="pick, with its gradient blocked"),
    "_ravel_multi_index": Rule("rewritten", ravel_multi_index, notes="all samples' columns side by side"),
    "_unravel_index": Rule("rewritten", unravel_index, notes="all samples' columns side by side"),
    "gather_nd": Rule(
        "rewritten", gather_nd, notes="the sample as one more coordinate; nothing runs for rows by known numbers"
    ),
}
