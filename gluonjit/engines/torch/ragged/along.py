"""Operators that work along a length, of padded values: entries in place of padding that change nothing there.

Zeros in a sum, -inf in a maximum or a softmax. Of windows along a length those are left out that begin in padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import inf, isfinite, nan, prod
from typing import Any

import torch

from gluonjit.engines.torch.arrays import dtype_named
from gluonjit.engines.torch.operators import losses
from gluonjit.engines.torch.operators.binding import operator_named
from gluonjit.engines.torch.ragged.padded import COUNT, PaddedTrace
from gluonjit.engines.torch.ragged.windows import LARGEST, are_alike, margins_of
from gluonjit.program.arguments import counted
from gluonjit.program.axes.values import Shape
from gluonjit.program.trace import NotBatchable, Operand, TraceOp, placed

_FILLS: dict[str, Any] = {
    **dict.fromkeys(("sum.dim_IntList", "sum.default", "mean.dim", "mean.default", "linalg_vector_norm.default"), 0.0),
    **dict.fromkeys(("amax.default", "max.dim", "max.default", "argmax.default", "logsumexp.default"), -inf),
    **dict.fromkeys(("amin.default", "min.dim", "min.default", "argmin.default"), inf),
    "kthvalue.default": nan,
    **dict.fromkeys(("any.dim", "any.default"), False),
    **dict.fromkeys(("all.dim", "all.default"), True),
    **dict.fromkeys(("prod.dim_int", "prod.default"), 1.0),
}
"""Entries that change nothing in what is computed along a length; in order NaN comes behind infinity."""
_RUNNING = ("cumsum", "cummax", "cummin", "logcumsumexp")
"""Operators whose results depend on entries before them alone."""


def _neutral(padded: PaddedTrace, place: int, ragged: Mapping[int, int], axes: Set[int], value: Any) -> int:
    """A value with this entry in place of padding along some axes; along others zeros, if it may be infinite there."""
    if place in padded.wild:
        place = padded.filled(place, {axis: length for axis, length in ragged.items() if axis not in axes}, 0.0)
    return padded.filled(place, {axis: length for axis, length in ragged.items() if axis in axes}, value)


def reduced(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    if op.name not in _FILLS:
        raise NotBatchable(f"{op.name}: not beside padding")
    args, ragged = dict(op.attrs), padded.ragged(op.inputs[0])
    rank = len(padded.shape(op.inputs[0]))
    dims = args.get("dim", -1 if op.name == "kthvalue.default" else None)
    listed = range(rank) if dims is None or dims == () else dims if isinstance(dims, tuple) else (dims,)
    places = {counted(rank, dim) for dim in listed}
    along = {axis: length for axis, length in ragged.items() if axis in places}
    if op.name.startswith("arg") and dims is None and set(ragged) - {0}:
        raise NotBatchable(f"{op.name}: places among all entries")
    if args.get("dtype") is not None and along:
        raise NotBatchable(f"{op.name}: into another dtype")
    source = _neutral(padded, given[0], ragged, places, _FILLS[op.name])
    if not op.name.startswith("mean.") or not along:
        return padded.again(op, [source])
    name, kept = ("sum.default", ()) if op.name == "mean.default" else ("sum.dim_IntList", ("dim", "keepdim"))
    attrs = tuple([(name, value) for name, value in op.attrs if name in ("self", *kept)])
    (found,) = padded.emit(name, [source], attrs, padded.outputs(op))
    return (_divided(padded, op, found, places, along),)


def _divided(padded: PaddedTrace, op: TraceOp, found: int, places: Set[int], along: Mapping[int, int]) -> int:
    """A sum over some axes as a mean."""
    shaped = padded.outputs(op)[0]
    for length in along.values():
        count = padded.need(COUNT, length, shaped[1])
        attrs = (("self", Operand(0)), ("other", Operand(1)))
        (found,) = padded.emit("div.Tensor", [found, count], attrs, [shaped])
    rest = prod([size for axis, size in enumerate(padded.shape(op.inputs[0])) if axis in places and axis not in along])
    if rest != 1:
        (found,) = padded.emit("div.Scalar", [found], (("self", Operand(0)), ("other", float(rest))), [shaped])
    return found


def kept(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Operators whose results have the entries of an axis, or some of them.

    Softmax gives zeros for rows of padding, as those could be of -inf alone; what is sorted ends in them.
    """
    name, args, ragged = op.name.split(".")[0], dict(op.attrs), padded.ragged(op.inputs[0])
    if name in _RUNNING:
        return padded.again(op, given)
    dim = counted(len(padded.shape(op.inputs[0])), args.get("dim", -1))
    along = {axis: length for axis, length in ragged.items() if axis == dim}
    if name == "cumprod":
        return padded.again(op, [_neutral(padded, given[0], ragged, {dim}, 1.0)])
    if name == "topk" and padded.form.is_used(op.outputs[1]):
        raise NotBatchable(f"{op.name}: which of equal entries is chosen depends on how many there are")
    if name in ("sort", "topk"):
        last = -inf if args.get("largest", True) and args.get("descending", name == "topk") else nan
        made = padded.again(op, [_neutral(padded, given[0], ragged, {dim}, last)])
        return (padded.filled(made[0], along, 0.0), *made[1:]) if name == "sort" else made
    if name not in ("_softmax", "_log_softmax"):
        raise NotBatchable(f"{op.name}: not beside padding")
    (found,) = padded.again(op, [_neutral(padded, given[0], ragged, {dim}, -inf)])
    if name == "_log_softmax":
        found = padded.filled(found, along, 0.0)
    else:
        padded.held[found] = frozenset(along)
    return (found,)


def _is_whole(padded: PaddedTrace, op: TraceOp) -> bool:
    """Tells whether pooling is over all that there is along each axis whose size differs."""
    args, ragged = dict(op.attrs), padded.ragged(op.inputs[0])
    rank, sizes = len(padded.shape(op.inputs[0])), args.get("kernel_size") or args["output_size"]
    places = {axis: len(sizes) + axis - rank for axis in ragged}
    if (
        min(places.values(), default=-1) < 0
        or any(args.get("padding") or ())
        or any(size != 1 for size in args.get("dilation") or ())
    ):
        return False
    if "output_size" in args:
        return not padded.form.differing(op) and all(sizes[place] == 1 for place in places.values())
    kernels = [padded.form.numbers.get((op.outputs[0], "kernel_size", place)) for place in places.values()]
    return kernels == list(ragged.values())


def lost(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Losses: elementwise, then summed or averaged."""
    ragged, whole = padded.ragged(op.inputs[0]), padded.shape(op.inputs[0])
    reduction = dict(op.attrs).get("reduction", losses.MEAN)
    if any(padded.shape(position) != whole for position in op.inputs[1:2]):
        raise NotBatchable(f"{op.name}: of several shapes")
    if op.name == "binary_cross_entropy.default":  # which refuses what is no probability
        given = [padded.filled(place, padded.ragged(at), 0.5) for place, at in zip(given, op.inputs)]
    attrs = (*[(name, value) for name, value in op.attrs if name != "reduction"], ("reduction", losses.NONE))
    (found,) = padded.emit(op.name, given, attrs, [(whole, padded.outputs(op)[0][1])])
    if reduction == losses.NONE:
        return (found,)
    found = padded.filled(found, ragged, 0.0)
    (found,) = padded.emit("sum.default", [found], (("self", Operand(0)),), padded.outputs(op))
    return (found if reduction == losses.SUM else _divided(padded, op, found, {*range(len(whole))}, ragged),)


def pooled(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """The largest, or the mean, of a whole length; or of windows along it."""
    args, ragged, largest = dict(op.attrs), padded.ragged(op.inputs[0]), op.name in LARGEST
    rank = len(padded.shape(op.inputs[0]))
    points = range(rank - len(args.get("kernel_size") or args["output_size"]), rank)
    if not ragged and not padded.form.differing(op):
        return padded.again(op, given)
    if largest and padded.form.is_used(op.outputs[1]):
        raise NotBatchable(f"{op.name}: its places are used")
    if not _is_whole(padded, op):
        if "output_size" in args or padded.form.differing(op) or not (largest or are_alike(args, True)):
            raise NotBatchable(f"{op.name}: windows of several sizes")
        found, *places = _fitted(padded, op, [_neutral(padded, given[0], ragged, {*points}, -inf if largest else 0.0)])
        return (padded.filled(found, padded.ragged(op.outputs[0]), 0.0) if largest else found, *places)
    if largest:
        source = padded.filled(given[0], ragged, -inf)
        if "output_size" in args:
            return padded.again(op, [source])
        kernel = list(args["kernel_size"])
        for axis in ragged:
            kernel[axis - rank] = padded.shape(op.inputs[0])[axis]
        return padded.again(op, [source], kernel_size=tuple(kernel), stride=tuple(kernel))
    if any(padded.shape(op.outputs[0])[axis] != 1 for axis in points) or args.get("divisor_override"):
        raise NotBatchable(f"{op.name}: not of a whole length")
    attrs = (("self", Operand(0)), ("dim", tuple(points)), ("keepdim", True))
    (found,) = padded.emit("sum.dim_IntList", [padded.filled(given[0], ragged, 0.0)], attrs, padded.outputs(op))
    return (_divided(padded, op, found, {*points}, ragged),)


def convolved(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Zeros are what a convolution takes beyond the edge."""
    ragged = padded.ragged(op.inputs[0])
    if 1 in ragged or any(map(padded.form.axes, op.inputs[1:])):
        raise NotBatchable(f"{op.name}: of several numbers of channels")
    along = {axis: length for axis, length in ragged.items() if axis > 1}
    return _fitted(padded, op, [padded.filled(given[0], along, 0.0), *given[1:]])


def extended(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Entries of one number before and after those there are: after them as many as the result has more."""
    args, ragged = dict(op.attrs), padded.ragged(op.inputs[0])
    value = args.get("value", 0)
    if not isfinite(value):
        raise NotBatchable(f"{op.name}: of what is infinite")
    before, after = padded.shape(op.inputs[0]), padded.shape(op.outputs[0])
    margins = margins_of(args["pad"], len(before))
    if any(leaf[2] % 2 == 0 for leaf in padded.form.numbers if leaf[:2] == (op.outputs[0], "pad")):
        raise NotBatchable(f"{op.name}: of numbers that differ")  # before what there is
    along = {axis: length for axis, length in ragged.items() if any(margins[axis])}
    pad: list[int] = []
    for axis in reversed(range(len(before))):
        pad += [margins[axis][0], after[axis] - before[axis] - margins[axis][0]]
    return padded.again(op, [padded.filled(given[0], along, value)], pad=tuple(pad))


def _fitted(padded: PaddedTrace, op: TraceOp, given: Sequence[int]) -> tuple[int, ...]:
    """Writes an operator of windows, whose results may have more entries than the longest node, or fewer."""
    wanted = padded.outputs(op)
    shapes = _shapes(padded, op, given)
    made = padded.emit(op.name, given, op.attrs, [(shape, dtype) for shape, (_, dtype) in zip(shapes, wanted)])
    return tuple([_cut(padded, place, shape) for place, (shape, _) in zip(made, wanted)])


def _shapes(padded: PaddedTrace, op: TraceOp, given: Sequence[int]) -> list[Shape]:
    """The shapes of the results of an operator on values of these shapes. Raises NotBatchable."""
    tensors = []
    for place in given:
        shape, dtype = padded.trace.shapes[place]
        tensors.append(torch.empty(shape, dtype=dtype_named(dtype), device="meta"))
    args = {name: placed(value, tensors) for name, value in op.attrs}
    try:
        found = operator_named(op.name)(**args)
    except (RuntimeError, NotImplementedError) as error:
        raise NotBatchable(f"{op.name}: {error}") from error
    return [tuple(result.shape) for result in (found if isinstance(found, tuple) else (found,))]


def _cut(padded: PaddedTrace, place: int, wanted: Shape) -> int:
    """A value with as many entries as are wanted: without its last ones, or with zeros behind them."""
    shape, dtype = padded.trace.shapes[place]
    for axis, (size, most) in enumerate(zip(shape, wanted)):
        if size > most:
            shape = (*shape[:axis], most, *shape[axis + 1 :])
            beginning = (("self", Operand(0)), ("dim", axis), ("start", 0), ("end", most))
            (place,) = padded.emit("slice.Tensor", [place], beginning, [(shape, dtype)])
    if shape != wanted:
        pad = [size for have, want in zip(reversed(shape), reversed(wanted)) for size in (0, want - have)]
        attrs = (("self", Operand(0)), ("pad", tuple(pad)))
        (place,) = padded.emit("constant_pad_nd.default", [place], attrs, [(wanted, dtype)])
    return place
