"""Rules of gathers and scatters by integers, which index a sample's own elements, and of losses of classes."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.operators.moving import sums
from gluonjit.program.axes.along import Along, Indexed
from gluonjit.program.axes.row import RATIO, Application, RowPooling
from gluonjit.program.axes.row import SUM as SUM_UP
from gluonjit.program.axes.samples import Pick
from gluonjit.program.axes.values import Vals, Values, is_sized

_SAME_OF_ALL = Along("dim", params=1)
_OF_TABLE = Pick()


def picked(call: Application) -> Vals:
    """index_select with an index shared by all nodes, with one per node, or from a shared table."""
    val, index = call.val("self"), call.val("index")
    dim = call.attrs["dim"] % max(val.rank, 1)
    if val.packed and is_sized(val.shape[dim]) and call.writer.sized:
        return _picked_rows(call, val, index, dim, False)
    if index.shared:
        return _SAME_OF_ALL.lift(call)
    if val.shared and not dim and index.rank:
        call.vals = [val, index if is_sized(index.shape) else call.writer.folded(index, 1)]
        return _OF_TABLE.lift(call)
    return call.applied(_each_picks, call.stacked(val, index), dim + 1)


def _picked_rows(call: Application, val: Values, index: Values, dim: int, signed: bool) -> Vals:
    """Rows of those of each node, of which there are any number; `signed` indices may count from the end."""
    size, rest = val.shape[dim], val.shape[dim + 1 :]
    if prod([*val.shape[:dim], 1]) != 1 or not is_sized(size) or index.rank != 1 or not call.writer.sized:
        raise call.mixed_rows
    places = _places(call, index, size, signed)
    return call.lying([call.writer.emit("pick", [call.writer.form(val, size, rest), places])], places.lead, rest)


def _places(call: Application, index: Values, size: Any, signed: bool = False) -> Values:
    """Indices into so many rows of each node, as indices into the rows of all."""
    writer, rows = call.writer, call.writer.rows_of(index, 1)
    needs = [writer.need("owners", rows.lead), writer.need("begins", size), writer.need("sizes", size)]
    return rows._replace(slot=writer.emit("among", [rows, *needs], signed), dtype="int64")


class IndexedRows(Indexed):
    """gather and scatters, along the first axis where that is of any size."""

    def lift(self, call: Application) -> Vals:
        """Writes down the call; by places among the rows of all nodes."""
        vals = call.vals
        (axis,) = self.axes(call) or (None,)
        if axis or call.writer.padded or not all(val.rank for val in vals) or not any(map(_of_any_size, vals)):
            return super().lift(call)
        index, *source = [vals[place] for key in ("index", "src") if (place := call.attrs.get(key)) is not None]
        if any(is_sized(val.shape[1:]) for val in vals) or any(val.shape != index.shape for val in source):
            raise call.mixed_rows
        return _by_places(call, call.attrs["index"])


def _of_any_size(val: Values) -> bool:
    return is_sized(val.shape[:1])


def _by_places(call: Application, at: int, signed: bool = False) -> Vals:
    """The operator on the rows of all nodes, by places among these, instead of by the operand `at`."""
    rows = [call.writer.rows_of(val, 1) for val in call.vals]
    rows[at] = _places(call, call.vals[at], call.vals[0].shape[0], signed)
    return call.lying(call.again(rows), call.shape[0], call.shape[1:])


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


def classified(call: Application) -> Vals:
    """one_hot: a row of classes for each number, which PyTorch refuses where there is no such class."""
    (val,) = call.vals
    return call.lying(call.again([val]), val.lead, (*val.rest, call.attrs["num_classes"]))


def indexed(call: Application) -> Vals:
    """Indexing by integer tensors, along some dimensions."""
    val, axes, arrays = _indices(call)
    if val.packed and len(axes) == 1 and call.writer.sized:
        return _picked_rows(call, val, arrays[0], axes[0], True)
    if (
        val.shared
        and axes == list(range(len(axes)))
        and len({(each.lead, each.rest, each.shape) for each in arrays}) == 1
    ):
        first = arrays[0]
        slot = call.writer.apply(_taken, [val, *arrays])
        return call.lying([slot], first.lead, (*first.rest, *val.shape[len(axes) :]))
    if any(each.packed for each in call.vals):
        raise call.mixed_rows
    return call.applied(_each_indexed, call.stacked(val, *arrays), tuple(axes), val.rank)


def _indices(call: Application) -> tuple[Values, list[int], Vals]:
    """Finds what is indexed, along which dimensions, and by what."""
    given = call.attrs["indices"]
    axes = [k for k, index in enumerate(given) if index is not None]
    arrays = [call.vals[index] for index in given if index is not None]
    if any(index.dtype in ("bool", "uint8") for index in arrays):
        raise call.refuse("by a boolean mask, on which the number of results depends")
    return call.val("self"), axes, arrays


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


def put(call: Application) -> Vals:
    """index_put along the first dimensions."""
    val, axes, arrays = _indices(call)
    if any(each.packed or each.padded for each in call.vals):
        new = call.val("values")
        if (
            axes != [0]
            or arrays[0].rank != 1
            or not is_sized(val.shape[:1])
            or (*arrays[0].shape, *val.shape[1:]) != new.shape
        ):
            raise call.mixed_rows
        return _by_places(call, call.attrs["indices"][0], True)
    if axes != list(range(len(axes))):
        raise call.refuse("not along the first dimensions")
    shape = torch.broadcast_shapes(*[index.shape for index in arrays])
    static = (len(shape) + val.rank - len(axes), bool(call.get("accumulate", False)))
    return call.applied(_each_put, call.stacked(val, call.val("values"), *arrays), *static)


def _each_put(values: Any, new: Any, *given: Any) -> Any:
    *arrays, rank, accumulate = given
    aligned = new.reshape(len(new), *[1] * (rank + 1 - new.dim()), *new.shape[1:])
    return values.index_put(_of_each(arrays), aligned, accumulate)


def added(call: Application) -> Vals:
    """index_add and index_copy: slices of one tensor into those of another, along a dimension."""
    val, index, source = call.val("self"), call.val("index"), call.val("source")
    if not val.rank or not source.rank or source.rank != val.rank:
        raise call.refuse("on scalars")
    if any(each.packed for each in call.vals):
        if call.attrs["dim"] or not is_sized(val.shape[:1]) or index.rank != 1:
            raise call.mixed_rows
        return _by_places(call, call.attrs["index"])
    dim, name = call.attrs["dim"] % val.rank, call.name.partition(".")[0]
    return call.applied(_each_added, call.stacked(val, index, source), name, dim + 1, call.get("alpha", 1))


def _each_added(values: Any, index: Any, source: Any, name: str, dim: int, alpha: Any) -> Any:
    nodes, size = values.shape[0], values.shape[dim]
    front = values.movedim(dim, 1)
    flat, new = front.flatten(0, 1), source.movedim(dim, 1).flatten(0, 1)
    places = of_all(index.reshape(nodes, -1), size).flatten()
    done = flat.index_add(0, places, new, alpha=alpha) if name == "index_add" else flat.index_copy(0, places, new)
    return done.view(front.shape).movedim(1, dim)


def bagged(call: Application) -> Vals:
    """_embedding_bag: rows of a table that all nodes share, in bags that begin at offsets of each node's own."""
    table, indices, offsets = call.val("weight"), call.val("indices"), call.val("offsets")
    factors = call.val("per_sample_weights")
    if not table.shared or indices.rank != 1 or call.get("include_last_offset", False):
        raise call.refuse("a table for each sample, or bags that end at offsets")
    if not indices.shape[0]:
        raise call.refuse("nothing is taken")
    operands = [table, *call.stacked(indices, offsets, *([] if factors is None else [factors]))]
    static = [call.get("mode", 0), call.get("sparse", False), call.get("padding_idx", -1)]
    found, *rest = call.writer.apply(_bags, operands, *static, outputs=4)
    others = [Values(slot, *out, None, out[0]) for slot, out in zip(rest, call.outs[1:])]
    return [Values(found, *call.outs[0], offsets.shape[0], (table.shape[1],)), *others]  # which a backward pass takes


def _bags(table: Any, indices: Any, offsets: Any, *rest: Any) -> Any:
    *factors, mode, sparse, padding = rest
    if offsets.device.type == "cpu" and bool(offsets[:, 0].any()):  # PyTorch looks at the first node's alone
        raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence has to start from position 0.")
    begins = torch.arange(0, indices.numel(), indices.shape[1], device=offsets.device)[: len(offsets), None]
    given = (indices.flatten(), (offsets + begins).flatten(), False, mode, sparse)
    return torch.ops.aten._embedding_bag(table, *given, factors[0].flatten() if factors else None, False, padding)


NONE, MEAN, SUM = 0, 1, 2


def nll(call: Application) -> list[Values]:
    """nll_loss_forward: of one vector and a class, or of rows with a class each."""
    scores, target, weight = call.val("self"), call.val("target"), call.val("weight")
    if scores.shared or target.shared or scores.rank > 2:
        raise call.refuse("unsupported operands")
    if scores.packed and not call.writer.sized:
        raise call.mixed_rows
    writer, rows = call.writer, prod(scores.shape[:-1])
    vals = [writer.form(scores, rows, scores.shape[-1:]), writer.form(target, rows, ())]
    if weight is not None:
        if scores.packed and not weight.shared:
            raise call.refuse("weights differ by sample")
        vals.append(weight if weight.shared else writer.stack(weight))
    segments = [writer.need(what, rows) for what in ("owners", "begins")] if scores.packed else []
    static = (0 if segments else rows, call.attrs["reduction"], call.attrs["ignore_index"])
    loss, total = writer.apply(_nll, [*vals, *segments], *static, outputs=2)
    return [Values(loss, *call.outs[0], rows if call.shape else 1, ()), Values(total, *call.outs[1], 1, ())]


def nll_of_row(call: Application, scores: Any, target: Any, *weight: Any) -> Any:
    """The loss of one row, which its mean and its sum are, too; not the weight that it is divided by."""
    if weight or call.get("ignore_index", -100) >= 0:
        raise call.refuse("with weights, or a class that does not count")
    return -scores.pick(target)


def pooled(call: Application) -> RowPooling | None:
    """Losses of rows with a class each: one by one, their sum, or that by the sum of the weights."""
    if not call.val("self").packed or not call.val("target").packed:
        return None
    reduction, dtype = call.attrs["reduction"], call.outs[0][1]
    outs = [(() if reduction else (1,), dtype), ((), dtype)]
    hows = {NONE: "", MEAN: RATIO, SUM: SUM_UP}
    return RowPooling(outs, [hows[reduction], SUM_UP], {"reduction": SUM} if reduction else {})


def smoothed(call: Application, a: Any, b: Any) -> Any:
    """The square of a difference up to a limit, and linear from there on."""
    limit = float(call.get("beta", call.get("delta", 1.0)))
    if limit <= 0.0:
        raise call.refuse(f"a limit of {limit}")
    apart = (a - b).do("ABS")
    near = apart.limited(None, limit)
    found = near.do("SQUARE") * (0.5 / limit) + (apart - near)
    return found * limit if call.name == "huber_loss.default" else found


def _nll(scores: Any, target: Any, *rest: Any) -> tuple[Any, Any]:
    """Losses of all nodes, and the weights that they are averaged by."""
    *given, rows, reduction, ignored = rest
    segments = () if rows else given[-2:]
    weight = given[0] if len(given) > len(segments) else None
    counted = target != ignored
    picked = torch.where(counted, target, torch.zeros_like(target))
    each = -scores.gather(1, picked[:, None]).squeeze(1)
    weights = counted.to(scores.dtype) if weight is None else _weight_of(weight, picked, rows) * counted
    each = torch.where(counted, each * weights if weight is not None else each, torch.zeros_like(each))
    totals = sums(weights, *segments) if segments else weights.view(-1, rows).sum(1)
    if reduction == NONE:
        return each, totals
    summed = sums(each, *segments) if segments else each.view(-1, rows).sum(1)
    return (summed, totals) if reduction == SUM else (summed / totals, totals)


def _weight_of(weight: Any, classes: Any, rows: int) -> Any:
    """The weight of each row's class; where nodes bring weights of their own these are (nodes, classes)."""
    if weight.dim() == 1:
        return weight[classes]
    return weight.repeat_interleave(rows, 0).gather(1, classes[:, None]).squeeze(1)
