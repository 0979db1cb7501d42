"""Operators that look values up by index.

MXNet silently clips or wraps indices, so an index that is out of range for its own sample must never reach another
sample's rows: it is brought into range before the sample's offset is added.
"""

from __future__ import annotations

from math import prod

import mxnet as mx

from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.engines.mxnet.operators.binding import reshape
from gluonjit.program.axes.along import Along, Reduce
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.samples import Last, Pick
from gluonjit.program.axes.values import Size, Vals, is_sized

_TABLE = Pick()
_SAME_PLACES = Along("axis", 0, params=1)
PICK = Reduce("axis", -1, keep="keepdims", code="PICK")


def one_hot(call: Application) -> Vals:
    """A row of classes for each number."""
    (val,), depth = call.vals, call.attrs["depth"]
    if depth.__class__ is Size and call.writer.padded:  # the longest one's
        return call.lying([call.writer.longest(call.name, call.attrs, [val])], val.lead, (*val.rest, depth))
    return call.lying(call.again([val]), val.lead, (*val.rest, depth))


def take(call: Application) -> Vals:
    """Entries of a table that all nodes share, the same ones of each, or its own of each."""
    data, index = call.vals
    axis = call.get("axis", 0) % data.rank
    if data.shared and not axis:
        return _TABLE.lift(call)
    if data.shared:  # the nodes land in the middle, and move to the front
        order = (axis, *range(axis), *range(axis + 1, len(call.shape) + 1))
        (found,) = call.made(call.again([data, call.writer.stack(index)]))
        return [call.writer.put("permute", found, order)]
    if index.shared:
        if index.rank != 1:
            index = call.writer.put("shape", index, (-1,))._replace(shape=(prod(index.shape),))
        outs = [((*data.shape[:axis], *index.shape, *data.shape[axis + 1 :]), data.dtype)]
        (found,) = _SAME_PLACES.lift(call.on(call.name, call.attrs, [data, index], outs))
        return [found._replace(shape=call.shape)]
    mode = call.get("mode", "clip")
    if axis or mode == "raise":
        raise call.refuse(f"along axis {axis} of each sample's own value, with mode {mode}")
    rows = call.writer.folded(data, 1)
    if rows.packed:
        raise call.refuse("of rows of varying length")
    return call.applied(_own_rows, [rows, call.writer.stack(index)], data.shape[0], mode, index.rank)


def _own_rows(rows: mx.sym.Symbol, index: mx.sym.Symbol, count: int, mode: str, rank: int) -> mx.sym.Symbol:
    """Each node's indices among its own rows, moved by its place in the batch."""
    whole = apply("Cast", [index], {"dtype": "int64"})
    if mode == "wrap":
        whole = apply("_mod_scalar", [whole], {"scalar": count})
    else:
        whole = apply("clip", [whole], {"a_min": 0, "a_max": count - 1})
    starts = apply("_contrib_arange_like", [whole], {"axis": 0, "start": 0, "step": count})
    starts = reshape(apply("Cast", [starts], {"dtype": "int64"}), (-1, *(1,) * rank))
    places = apply("broadcast_add", [whole, starts], {})
    return apply("take", [rows, places], {"axis": 0, "mode": "clip"})


def batch_take(call: Application) -> Vals:
    """Writes down `pick`: a graph of batch_take itself fails, because it has no gradient and does not say so."""
    data, index = call.vals
    data = call.writer.result("BlockGrad", {}, [data])
    return PICK.lift(call.on("pick", {"axis": -1, "mode": "clip"}, [data, index], call.outs))


def gather_nd(call: Application) -> Vals:
    """The coordinates lie along the first axis of the indices, so the nodes' axis comes second."""
    data, index = call.vals
    (places,) = call.stacked(index)
    if not data.shared:
        data = call.writer.stack(data)
    return call.applied(_gathered, [data, places], index.rank, data.shared)


def _gathered(data: mx.sym.Symbol, places: mx.sym.Symbol, rank: int, shared: bool) -> mx.sym.Symbol:
    """One more coordinate in front, if data differ: the node, in a type that can count that far."""
    coordinates = apply("transpose", [places], {"axes": (1, 0, *range(2, rank + 1))})
    if not shared:
        coordinates = apply("Cast", [coordinates], {"dtype": "int64"})
        one = apply("slice", [coordinates], {"begin": (0,), "end": (1,)})
        nodes = apply("_contrib_arange_like", [apply("Cast", [places], {"dtype": "int64"})], {"axis": 0})
        nodes = reshape(nodes, (1, -1, *(1,) * (rank - 1)))
        node = apply("broadcast_add", [apply("zeros_like", [one], {}), nodes], {})
        coordinates = apply("Concat", [node, coordinates], {"dim": 0, "num_args": 2})
    return apply("gather_nd", [data, coordinates], {})


def ravel_multi_index(call: Application) -> Vals:
    """The coordinates lie along the first axis of two: all nodes' columns go side by side."""
    (val,) = call.vals
    if val.rank != 2:
        raise call.refuse("coordinates with more than two axes")
    columns = call.writer.put("permute", call.writer.stack(val), (1, 0, 2))
    return call.made(call.again([call.writer.put("shape", columns, (val.shape[0], -1))]), 1)


def unravel_index(call: Application) -> Vals:
    """Turns all nodes' numbers into coordinates, which lie along the first axis of two."""
    (val,) = call.vals
    if val.rank != 1:
        raise call.refuse("an array with more than one axis")
    (found,) = call.made(call.again([call.writer.folded(val, 1)]))
    apart = call.writer.put("shape", found, (call.shape[0], -1, call.shape[1]))
    return [call.writer.put("permute", apart, (1, 0, 2))]


def multinomial(call: Application) -> Vals:
    """Draws by the probabilities along the last axis."""
    if call.get("get_prob"):
        raise call.refuse("with get_prob")
    return Last(1, number=not call.get("shape")).lift(call)


def constant(call: Application) -> Vals:
    """arange_like, shape_array and size_array: the numbers of a shape that is known, the same for all nodes."""
    if any(val.packed for val in call.vals) and not call.writer.sized:
        raise call.refuse("rows of varying length")
    if is_sized(call.shape):
        if call.name != "_contrib_arange_like" or len(call.shape) > 1 or {"start", "step", "repeat"} & {*call.attrs}:
            raise call.refuse("of numbers that differ")
        attrs = {"start": 0, "stop": call.shape[0], "dtype": call.outs[0][1], "ctx": call.writer.device}
        return call.lying([call.writer.longest("_arange", attrs, [])], None, call.shape)
    if call.name == "_contrib_arange_like":
        count, repeat = prod(call.shape), int(call.get("repeat", 1))
        start, step = float(call.get("start", 0.0)), float(call.get("step", 1.0))
        steps = -(-count // repeat)
        limits = {"start": start, "stop": start + step * (steps - 0.5), "step": step}
        numbers = apply("_arange", [], {**limits, "repeat": repeat, "dtype": call.outs[0][1]})
        if steps * repeat != count:
            numbers = apply("slice_axis", [numbers], {"axis": 0, "begin": 0, "end": count})
        found = reshape(numbers, call.shape)
    else:
        shape = call.vals[0].shape
        sizes = shape if call.name == "shape_array" else (prod(shape),)
        attrs = {"shape": (1,), "dtype": call.outs[0][1]}
        each = [apply("_full", [], {**attrs, "value": size}) for size in sizes]
        found = apply("Concat", each, {"dim": 0, "num_args": len(each)})
    (slot,) = call.writer.add(lambda: found, [], call.name)
    return call.lying([slot], None, call.shape)
