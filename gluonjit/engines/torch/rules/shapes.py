"""Changes of shape: views, slices, and joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gluonjit.engines.torch.rules.values import ANY, NotBatchable, OperatorCall, Shape, Val


def viewed(call: OperatorCall) -> list[Val]:
    """The same elements in the same order: nothing has to run."""
    (val,) = call.vals()
    shape, dtype = call.outputs[0]
    if dtype != val.dtype:
        raise NotBatchable(f"{call.name}: a view with another dtype")
    if val.lead == ANY and (not shape or shape[0] != val.shape[0]):
        raise NotBatchable(f"{call.name}: it mixes the rows of a sample")
    return [Val(val.slot, shape, val.dtype, val.lead, val.rest)]


_BY_CHANNELS = (torch.channels_last, torch.channels_last_3d)


def moved(call: OperatorCall) -> list[Val]:
    """Clone, detach, contiguous and casts: in any layout."""
    (val,) = call.vals()
    change: dict[str, Any] = {"self": val}
    if call.get("memory_format") in _BY_CHANNELS:  # of a sample's own axes; here these lie row by row in any case
        change["memory_format"] = torch.contiguous_format
    return call.results(change, val.lead, val.rest)


def axis(rank: int, dim: int) -> int:
    """A dimension counted from the front."""
    if not rank:
        raise NotBatchable("along a dimension of a tensor that has none")
    return dim + rank if dim < 0 else dim


def order_of(name: str, args: Mapping[str, Any], rank: int) -> list[int]:
    """The axes of what t, transpose or permute is given, in the order of its result's."""
    order = list(range(rank))
    if name == "permute.default":
        return [axis(rank, dim) for dim in args["dims"]]
    if rank >= 2:
        first, second = (0, 1) if name == "t.default" else (axis(rank, args["dim0"]), axis(rank, args["dim1"]))
        order[first], order[second] = order[second], order[first]
    return order


def permuted(call: OperatorCall) -> list[Val]:
    """t, transpose and permute."""
    val = call["self"]
    order = order_of(call.name, call.args, val.rank)
    if val.lead == ANY:
        if order[:1] != [0]:
            raise NotBatchable(f"{call.name}: it mixes the rows of a sample")
        val = call.form(val, ANY, val.shape[1:])
        return [call.result(call.emit(permute, [val], tuple(order)), ANY, call.shape[1:])]
    found = call.emit(permute, [call.stack(val)], (0, *[dim + 1 for dim in order]))
    return [call.stacked(found)]


def permute(tensor: Any, order: tuple[int, ...]) -> Any:
    return tensor.permute(order)


def expanded(call: OperatorCall) -> list[Val]:
    """Broadcasts to a shape."""
    val, shape = call["self"], call.shape
    if shape == val.shape:
        return [val]
    if val.lead == ANY:
        raise NotBatchable(f"{call.name}: it mixes the rows of a sample")
    aligned = call.aligned(val, len(shape))
    return call.emitted(expand, [aligned], shape)


def expand(tensor: Any, shape: Shape) -> Any:
    return tensor.expand(-1, *shape)


def along(call: OperatorCall, val: Val, dim: int) -> tuple[Val, int]:
    """The value in a form in which a dimension of it is one of the tensor's, and that one, counted from the end."""
    back = val.rank - axis(val.rank, dim)
    return call.ending(val, back), -back


def paired(call: OperatorCall) -> list[Val]:
    """view_as_complex and view_as_real: a last dimension of two numbers, or none."""
    placed = call.stack(call["self"])
    (slot,) = (
        call.writer.emit(_as_complex, [placed.slot], "complex")
        if "complex" in call.name
        else (call.again({"self": placed}),)
    )
    return [call.stacked(slot)]


def _as_complex(pairs: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(pairs.contiguous())


def cut(call: OperatorCall) -> list[Val]:
    """slice and select: along one dimension."""
    val = call["self"]
    placed, back = along(call, val, call.get("dim", 0))
    rest = rest_of(placed, val.shape, call.shape, back)
    return call.results({"self": placed, "dim": back}, placed.lead, rest)


def cut_list(call: OperatorCall) -> list[Val]:
    """split, chunk and unbind."""
    val = call["self"]
    placed, back = along(call, val, call.get("dim", 0))
    pieces = len(call.outputs)
    if pieces == 1:
        if "unbind" in call.name:
            found = call.emit(_only, [placed], back)
            return [call.result(found, placed.lead, rest_of(placed, val.shape, call.shape, back))]
        return [Val(placed.slot, val.shape, val.dtype, placed.lead, placed.rest)]
    slots = call.again({"self": placed, "dim": back}, pieces)
    return [
        call.result(slot, placed.lead, rest_of(placed, val.shape, call.outputs[k][0], back), k)
        for k, slot in enumerate(slots)
    ]


def _only(tensor: Any, dim: int) -> Any:
    return tensor.select(dim, 0)


def rest_of(placed: Val, before: Shape, after: Shape, back: int) -> Shape:
    """The rows' shape when along that dimension the shape of a node's value has become `after`."""
    kept = len(placed.rest) + back
    where = len(before) + back
    if len(after) < len(before):
        return (*placed.rest[:kept], *placed.rest[kept + 1 :])
    return (*placed.rest[:kept], after[where], *placed.rest[kept + 1 :])


def concatenated(call: OperatorCall) -> list[Val]:
    """cat along a dimension."""
    if len({val.dtype for val in call["tensors"]}) > 1:
        raise NotBatchable(f"{call.name}: operands of different dtypes")
    vals = [val for val in call["tensors"] if val.shape != (0,)]
    if not vals:
        raise NotBatchable(f"{call.name}: its operands are empty")
    shape = call.shape
    dim = axis(len(shape), call.get("dim", 0))
    back = len(shape) - dim
    placed = [val if val.shared else call.ending(val, back) for val in vals]
    forms = {(val.lead, val.rest[: len(val.rest) - back]) for val in placed}
    if any(val.shared for val in vals) or len(forms) > 1:
        placed = [call.spread(val) for val in vals]
    first = placed[0]
    rest = (*first.rest[: len(first.rest) - back], *shape[dim:])
    return call.results({"tensors": tuple(placed), "dim": -back}, first.lead, rest)


def stacked(call: OperatorCall) -> list[Val]:
    """stack along a new dimension."""
    vals = call["tensors"]
    if len({val.dtype for val in vals}) > 1:
        raise NotBatchable(f"{call.name}: operands of different dtypes")
    shape = call.shape
    dim = axis(len(shape), call.get("dim", 0))
    placed = [call.spread(val) for val in vals]
    return call.rerun({"tensors": tuple(placed), "dim": dim + 1})


def repeated(call: OperatorCall) -> list[Val]:
    """repeat."""
    val, repeats = call["self"], tuple(call["repeats"])
    aligned = call.aligned(val, len(repeats))
    return call.emitted(_repeat, [aligned], repeats)


def _repeat(tensor: Any, repeats: Shape) -> Any:
    return tensor.repeat(1, *repeats)


def flipped(call: OperatorCall) -> list[Val]:
    """flip and roll: along several dimensions."""
    val = call["self"]
    dims = tuple([axis(val.rank, dim) + 1 for dim in call["dims"]])
    if not dims:
        raise NotBatchable(f"{call.name}: along no dimension")
    return call.rerun({"self": call.stack(val), "dims": dims})


def of_diagonal(call: OperatorCall) -> list[Val]:
    """diagonal: of two dimensions of a node's value."""
    val = call["self"]
    first, second = (axis(val.rank, call.get(name, k)) for k, name in enumerate(("dim1", "dim2")))
    changes = {"self": call.stack(val), "offset": call.get("offset", 0), "dim1": first + 1, "dim2": second + 1}
    return call.rerun(changes)


def diagonal(call: OperatorCall) -> list[Val]:
    """tril and triu: of the last two dimensions of a node's value."""
    val = call["self"]
    placed = call.ending(val, 2)
    return call.results({"self": placed}, placed.lead, placed.rest)
