"""Gathers and scatters by integers, which index a sample's own elements."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.engines.torch.rules.shapes import along, axis, rest_of
from gluonjit.engines.torch.rules.values import ANY, NotBatchable, OperatorCall, Shape, Val


def picked(call: OperatorCall) -> list[Val]:
    """index_select with an index shared by all nodes, with one per node, or from a shared table."""
    val, index = call["self"], call["index"]
    dim = axis(val.rank, call["dim"])
    if index.shared:
        placed, back = along(call, val, dim)
        rest = rest_of(placed, val.shape, call.shape, back)
        return call.results({"self": placed, "dim": back}, placed.lead, rest)
    if val.shared and not dim:
        return call.emitted(_entries, [val, call.stack(index)], call.shape)
    return call.emitted(_each_picks, [call.spread(val), call.stack(index)], dim + 1)


def _each_picks(values: Any, index: Any, dim: int) -> Any:
    """index_select of each node, along a dimension after that of the nodes."""
    nodes, size = values.shape[0], values.shape[dim]
    front = values.movedim(dim, 1)
    flat = front.reshape(nodes * size, *front.shape[2:])
    found = flat.index_select(0, of_all(index.reshape(nodes, -1), size).flatten())
    return found.reshape(nodes, -1, *front.shape[2:]).movedim(1, dim)


def of_all(index: Any, size: int, low: int = 0) -> Any:
    """Places along a dimension of `size` of each node, as places among those of all nodes. Raises IndexError."""
    outside = (index < low) | (index >= size)
    if index.device.type != "cpu":
        torch._assert_async(~outside.any())
    elif outside.any():
        raise IndexError(f"index {int(index[outside][0])} is out of range of a dimension of size {size}")
    own = torch.arange(len(index), device=index.device) * size
    return index.remainder(size) + own.view(-1, *[1] * (index.dim() - 1))


def _entries(table: Any, index: Any, shape: Shape) -> Any:
    return table.index_select(0, index.flatten()).reshape(-1, *shape)


def gathered(call: OperatorCall) -> list[Val]:
    """gather; for any number of rows, of an index with as many."""
    val, index = call["self"], call["index"]
    dim = axis(val.rank, call["dim"])
    if val.lead == index.lead == ANY and dim and val.shape[0] == index.shape[0]:
        placed = {"self": call.form(val, ANY, val.shape[1:]), "index": call.form(index, ANY, index.shape[1:])}
        return call.results({**placed, "dim": dim}, ANY, call.shape[1:])
    changes = {"self": call.spread(val), "index": call.spread(call["index"]), "dim": dim + 1}
    return call.rerun(changes)


def embedded(call: OperatorCall) -> list[Val]:
    """embedding: entries of a table that is the same for all nodes."""
    weight, indices = call["weight"], call["indices"]
    if not weight.shared:
        raise NotBatchable(f"{call.name}: a separate table for each sample")
    if call.get("scale_grad_by_freq"):
        raise NotBatchable(f"{call.name}: gradients are divided by the frequency of a word in each call")
    slot = call.again({"weight": weight, "indices": indices})
    return [call.result(slot, indices.lead, (*indices.rest, weight.shape[1]))]


def classified(call: OperatorCall) -> list[Val]:
    """one_hot: a row of classes for each number, which PyTorch refuses where there is no such class."""
    val = call["self"]
    return call.results({"self": val}, val.lead, (*val.rest, call["num_classes"]))


def indexed(call: OperatorCall) -> list[Val]:
    """Indexing by integer tensors, along some dimensions."""
    val, axes, arrays = _indices(call)
    if val.shared and axes == list(range(len(axes))) and _alike(arrays):
        first = arrays[0]
        slot = call.emit(_taken, [val, *arrays])
        return [call.result(slot, first.lead, (*first.rest, *val.shape[len(axes) :]))]
    static = (tuple(axes), val.rank)
    return call.emitted(_each_indexed, [call.spread(val), *map(call.spread, arrays)], *static)


def _indices(call: OperatorCall) -> tuple[Val, list[int], list[Val]]:
    """Finds what is indexed, along which dimensions, and by what."""
    val: Val = call["self"]
    axes = [k for k, index in enumerate(call["indices"]) if index is not None]
    arrays = [index for index in call["indices"] if index is not None]
    if any(index.dtype in ("bool", "uint8") for index in arrays):
        raise NotBatchable(f"{call.name}: by a boolean mask, on which the number of results depends")
    return val, axes, arrays


def _alike(arrays: list[Val]) -> bool:
    first = arrays[0]
    return all((index.lead, index.rest, index.shape) == (first.lead, first.rest, first.shape) for index in arrays)


def _taken(table: Any, *arrays: Any) -> Any:
    return table[arrays]


def _of_each(arrays: Any) -> tuple[Any, ...]:
    """Indices of each node's own elements: the number of the node first."""
    rank = max(index.dim() for index in arrays)
    aligned = [index.reshape(len(index), *[1] * (rank - index.dim()), *index.shape[1:]) for index in arrays]
    nodes = len(arrays[0])
    return torch.arange(nodes, device=arrays[0].device).view(nodes, *[1] * (rank - 1)), *aligned


def _each_indexed(values: Any, *given: Any) -> Any:
    *arrays, axes, rank = given
    front = values.movedim([k + 1 for k in axes], list(range(1, len(axes) + 1)))
    found = front[_of_each(arrays)]
    if axes[0] and axes[-1] - axes[0] == len(axes) - 1:  # side by side: the new dimensions are where those were
        new = found.dim() - 1 - (rank - len(axes))
        found = found.movedim(list(range(1, new + 1)), list(range(axes[0] + 1, axes[0] + new + 1)))
    return found


def put(call: OperatorCall) -> list[Val]:
    """index_put along the first dimensions."""
    val, axes, arrays = _indices(call)
    if axes != list(range(len(axes))):
        raise NotBatchable(f"{call.name}: not along the first dimensions")
    placed = [call.spread(item) for item in (val, call["values"], *arrays)]
    shape = torch.broadcast_shapes(*[index.shape for index in arrays])
    static = (len(shape) + val.rank - len(axes), bool(call.get("accumulate", False)))
    return call.emitted(_each_put, placed, *static)


def _each_put(values: Any, new: Any, *given: Any) -> Any:
    *arrays, rank, accumulate = given
    aligned = new.reshape(len(new), *[1] * (rank + 1 - new.dim()), *new.shape[1:])
    return values.index_put(_of_each(arrays), aligned, accumulate)


def added(call: OperatorCall) -> list[Val]:
    """index_add and index_copy: slices of one tensor into those of another, along a dimension."""
    val, source = call["self"], call["source"]
    if not val.shape or not source.shape or len(source.shape) != val.rank:
        raise NotBatchable(f"{call.name}: on scalars")
    dim = axis(val.rank, call["dim"])
    placed = [call.spread(item) for item in (val, call["index"], source)]
    name = call.name.partition(".")[0]
    return call.emitted(_each_added, placed, name, dim + 1, call.get("alpha", 1))


def _each_added(values: Any, index: Any, source: Any, name: str, dim: int, alpha: Any) -> Any:
    nodes, size = values.shape[0], values.shape[dim]
    front = values.movedim(dim, 1)
    flat, new = front.flatten(0, 1), source.movedim(dim, 1).flatten(0, 1)
    places = of_all(index.reshape(nodes, -1), size).flatten()
    done = flat.index_add(0, places, new, alpha=alpha) if name == "index_add" else flat.index_copy(0, places, new)
    return done.view(front.shape).movedim(1, dim)


def scattered(call: OperatorCall) -> list[Val]:
    """scatter, scatter_add and scatter_reduce."""
    val = call["self"]
    if not val.shape or not call["index"].shape:
        raise NotBatchable(f"{call.name}: on scalars")
    changes: dict[str, Any] = {"dim": axis(val.rank, call["dim"]) + 1}
    for name in ("self", "index", "src"):
        if isinstance(call.get(name), Val):
            changes[name] = call.spread(call[name])
    return call.rerun(changes)


def bagged(call: OperatorCall) -> list[Val]:
    """_embedding_bag: rows of a table that all nodes share, in bags that begin at offsets of each node's own."""
    table, indices, offsets = call["weight"], call["indices"], call["offsets"]
    factors = call.get("per_sample_weights")
    if not table.shared or len(indices.shape) != 1 or call.get("include_last_offset", False):
        raise NotBatchable(f"{call.name}: a table for each sample, or bags that end at offsets")
    if call.get("scale_grad_by_freq", False) or not indices.shape[0]:
        raise NotBatchable(f"{call.name}: gradients are divided by frequencies in each call, or nothing is taken")
    operands = [table, call.spread(indices), call.spread(offsets)]
    if factors is not None:
        operands.append(call.spread(factors))
    static = [call.get("mode", 0), call.get("sparse", False)]
    slots = call.emit(_bags, operands, *static, call.get("padding_idx", -1), outputs=4)
    found, *rest = slots
    bags, width = offsets.shape[0], table.shape[1]
    others = [Val(slot, *call.outputs[number], None, call.outputs[number][0]) for number, slot in enumerate(rest, 1)]
    return [call.result(found, bags, (width,)), *others]  # of which the others are for a backward pass of its own


def _bags(table: Any, indices: Any, offsets: Any, *rest: Any) -> Any:
    *factors, mode, sparse, padding = rest
    if offsets.device.type == "cpu" and bool(offsets[:, 0].any()):  # PyTorch looks at the first node's alone
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence has to start from position 0.")
    begins = torch.arange(0, indices.numel(), indices.shape[1], device=offsets.device)[: len(offsets), None]
    given = (indices.flatten(), (offsets + begins).flatten(), False, mode, sparse)
    return torch.ops.aten._embedding_bag(table, *given, factors[0].flatten() if factors else None, False, padding)
