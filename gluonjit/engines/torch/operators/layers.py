"""Rules of convolutions, of batch norm in training, of attention and of products of three tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, prod
from typing import Any

import torch

from gluonjit.program.axes.along import Reduce
from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.samples import Last, Samples
from gluonjit.program.axes.values import PREFIX, Labels, Operand, Vals, Values, is_sized


class Convolution(Samples):
    """A convolution: a few small pictures by PyTorch's own kernel."""

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator, or the kernel."""
        if not _is_plain(call):
            return call.again(vals)
        return [call.writer.apply(_convolved, vals, tuple(call.attrs["stride"]), tuple(call.attrs["padding"]))]


_SMALL, _SMALL_POINTS = 6_144, 32_768
"""Elements of images, and where kernels are points: with fewer oneDNN takes longer to begin than to compute."""


def _is_plain(call: Application) -> bool:
    """True if a convolution is one of pictures, forward, in one group, of neighbouring points."""
    attrs = call.attrs
    spread = tuple(attrs["dilation"]) != (1, 1) or attrs["transposed"] or attrs["groups"] != 1
    return bool(call.val("weight").rank == 4 and not spread)


def _convolved(images: Any, weight: Any, *rest: Any) -> Any:
    """Convolves pictures: a few small ones by PyTorch's own kernel, as PyTorch does a single one.

    Of images or weights that lie otherwise than row by row that kernel gives another weight's gradient, or none.
    """
    *bias, stride, padding = rest
    own = bias[0] if bias else None
    most = _SMALL if weight.shape[2:].numel() > 1 else _SMALL_POINTS
    small = images.numel() <= most and images.device.type == "cpu" and torch.get_num_threads() == 1
    if small and images.dtype is torch.float32 and not torch.is_autocast_enabled("cpu"):
        rows = images.contiguous()
        if _lies_in_rows(rows) and _lies_in_rows(weight):
            return torch.ops.aten._slow_conv2d_forward(rows, weight, weight.shape[2:], own, stride, padding)
    return torch.convolution(images, weight, own, stride, padding, (1, 1), False, (0, 0), 1)


def _lies_in_rows(pictures: Any) -> bool:
    """True if pictures lie row by row; their other strides say so too, where PyTorch goes by these."""
    _, channels, height, width = pictures.shape
    return bool(pictures.stride() == (channels * height * width, height * width, width, 1))


class Pooling(Samples):
    """The largest number or the mean of windows; of all that there is where its size differs by node.

    whole: the row of the operator that gives that, and its name.
    """

    whole: tuple[Row, str]

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        val, attrs = call.vals[0], call.attrs
        if not call.writer.sized or not is_sized((val.shape, *attrs.values())):
            return super().lift(call)
        if len(call.outs) > 1 and call.writer.used[1]:
            raise call.refuse("its places are used")
        points = val.shape[-len(attrs.get("kernel_size") or attrs["output_size"]) :]
        whole = self._whole(call, points)
        if whole:
            each, name = self.whole
            given = {"self": attrs["self"], "dim": whole, "keepdim": True}
            return each.lift(call.on(name, given, call.vals, call.outs[:1])) * len(call.outs)
        means = self.whole[1] == "mean.dim" and (
            attrs.get("ceil_mode") or attrs.get("divisor_override") or not attrs.get("count_include_pad", True)
        )
        if "output_size" in attrs or means:
            raise call.refuse("windows of several sizes")
        return super().lift(call)

    def _whole(self, call: Application, points: tuple[Any, ...]) -> tuple[int, ...]:
        """The dimensions, from the end, along which there is one window of all; none if others are cut."""
        attrs, sizes = call.attrs, call.shape[-len(points) :]
        if any(attrs.get("padding") or ()) or set(attrs.get("dilation") or ()) - {1} or attrs.get("divisor_override"):
            return ()
        kernels = attrs.get("kernel_size") or [point if size == 1 else 1 for size, point in zip(sizes, points)]
        each = list(zip(kernels, points, sizes, range(-len(points), 0)))
        if any((kernel, size) not in ((point, 1), (1, point)) for kernel, point, size, _ in each):
            return ()
        return tuple(dim for kernel, point, _, dim in each if kernel == point)


class Margins(Last):
    """Entries of one number put before and after those there are."""

    def lift(self, call: Application) -> Vals:
        """Writes down the call; after those of any length as many as the result has more."""
        val, pad, writer = call.vals[0], call.attrs["pad"], call.writer
        along = [axis for axis, size in enumerate(val.shape) if is_sized(size) and any(_margins(pad, val.rank, axis))]
        if not along:
            return super().lift(call)
        if val.packed or not all(map(isfinite, [call.get("value", 0)])):
            raise call.mixed_rows
        whole = writer.filled(val, along, call.get("value", 0))
        margins = [(_margins(pad, val.rank, axis), axis) for axis in reversed(range(val.rank))]
        if any(is_sized(before) or (is_sized(after) and axis not in along) for (before, after), axis in margins):
            raise call.refuse("of numbers that differ")
        given = tuple((before, val.shape[axis], call.shape[axis]) for (before, _), axis in margins)
        return [Values(writer.emit("pad", [whole], given, call.get("value", 0)), *call.outs[0], 1, call.shape)]


def _margins(pad: Sequence[Any], rank: int, axis: int) -> tuple[Any, Any]:
    """The entries that are put before and after those of an axis."""
    place = 2 * (rank - 1 - axis)
    return (pad[place], pad[place + 1]) if place < len(pad) else (0, 0)


class Moments(Reduce):
    """Variances, deviations and means; of any number of entries by what differs from the first one.

    So equal entries have no variance, not even by rounding.
    """

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        val = call.vals[0]
        axes = self.axes(call) or tuple(range(val.rank))
        if not is_sized(tuple(val.shape[axis] for axis in axes)):
            return super().lift(call)
        if val.packed:
            raise call.mixed_rows
        correction = call.get("correction", 1)
        operands = [call.writer.stack(val), *_without(call, val, axes)]
        return call.applied(_moments, operands, call.name, axes, correction, bool(call.get("keepdim", False)))


def _without(call: Application, val: Values, axes: Sequence[int]) -> Vals:
    """The number of entries along these axes, and where padding is, for each of them that has any."""
    writer, places = call.writer, [axis for axis in axes if is_sized(val.shape[axis])]
    count = writer.need("counts", prod([val.shape[axis] for axis in axes]), val.dtype)
    return [count, *[writer.need("hole", val.shape[axis], axis, val.rank - axis - 1) for axis in places]]


def _centered(rows: Any, count: Any, holes: Sequence[Any], axes: Sequence[int]) -> tuple[Any, Any, Any]:
    """The entries less their mean, nothing in padding; variances times the count, and means."""
    dims = [axis + 1 for axis in axes]
    count = _beside(count, rows)
    first = rows.detach()[tuple(slice(0, 1) if dim in dims else slice(None) for dim in range(rows.dim()))]
    apart = _emptied(rows - first, holes)
    mean = apart.sum(dims, True) / count
    centered = _emptied(apart - mean, holes)
    return centered, centered.square().sum(dims, True), first + mean


def _beside(count: Any, rows: Any) -> Any:
    """A number of each node, with as many axes as rows of nodes."""
    return count.view(-1, *[1] * (rows.dim() - 1))


def _emptied(rows: Any, holes: Sequence[Any]) -> Any:
    for hole in holes:
        rows = rows.masked_fill(hole, 0)
    return rows


def _moments(rows: Any, count: Any, *rest: Any) -> Any:
    *holes, name, axes, correction, keep = rest
    _, squares, mean = _centered(rows, count, holes, axes)
    variance = squares / (_beside(count, rows) - correction)
    if not keep:
        shape = [size for axis, size in enumerate(rows.shape) if axis - 1 not in axes]
        variance, mean = variance.reshape(shape), mean.reshape(shape)
    if name != "std.correction":
        return (variance, mean) if name == "var_mean.correction" else variance
    there = variance > 0  # at zero PyTorch says that the derivative is none
    return torch.where(there, torch.where(there, variance, 1.0).sqrt(), variance)


_FIXED = Samples(fill=PREFIX)


def normalized(call: Application) -> Vals:
    """native_batch_norm: in training each sample with statistics of its own."""
    if not call.get("training", False):
        return _FIXED.lift(call)
    given = call.val("input")
    own = [call.val(name) for name in ("weight", "bias")]
    if any(val is not None and not val.shared for val in own):
        raise call.refuse("weights differ by sample")
    axes = [axis for axis in range(given.rank) if axis != 1]
    if given.packed or is_sized(given.shape[1]):
        raise call.mixed_rows
    vals = call.stacked(given) + [val for val in own if val is not None]
    if is_sized(given.shape):
        needs = _without(call, given, axes)
        static = (tuple(val is not None for val in own), call.attrs["eps"], tuple(axes))
        return call.applied(_by_own_length, [vals[0], *needs, *vals[1:]], *static)
    return call.applied(_each_by_itself, vals, tuple(val is not None for val in own), call.attrs["eps"])


def _by_own_length(rows: Any, count: Any, *rest: Any) -> tuple[Any, Any, Any]:
    """The same of samples with padding."""
    *given, named, eps, axes = rest
    own = given[len(given) - sum(named) :]
    holes = given[: len(given) - sum(named)]
    centered, squares, mean = _centered(rows, count, holes, axes)
    deviation = (squares / _beside(count, rows) + eps).rsqrt()
    weight, bias = [own.pop(0).view(-1, *[1] * (rows.dim() - 3)) if has else None for has in named]
    found = centered * (deviation if weight is None else deviation * weight)
    if bias is not None:
        found = found + bias
    return found, mean.flatten(1), deviation.flatten(1)


def _each_by_itself(rows: Any, *rest: Any) -> tuple[Any, Any, Any]:
    """Normalizes (nodes, n, C, ...) as (n, nodes * C, ...); returns that, means and inverse deviations."""
    *own, named, eps = rest
    count, _, channels, *_ = rows.shape
    given = rows.transpose(0, 1).flatten(1, 2)
    if given.dim() > 3:  # in which an axis of 1 may look like one of channels, last: gradients are wrong then
        given = given.flatten(2)
    weight, bias = [own.pop(0).repeat(count) if has else None for has in named]
    found, mean, deviation = torch.native_batch_norm(given, weight, bias, None, None, True, 0.0, eps)
    return (
        found.reshape(rows.shape[1], *rows.shape[:1], *rows.shape[2:]).transpose(0, 1),
        mean.reshape(count, channels),
        deviation.reshape(count, channels),
    )


def trilinear(call: Application) -> Vals:
    """_trilinear, as bilinear layers call it: of three tensors that are aligned by new axes and summed over some."""
    vals, expands = [call.val(f"i{k}") for k in (1, 2, 3)], [tuple(call.attrs[f"expand{k}"]) for k in (1, 2, 3)]
    rank = vals[0].rank + len(expands[0])
    placed = []
    for val, new in zip(vals, expands):
        sizes = iter(val.shape)
        shape = tuple(1 if axis in new else next(sizes) for axis in range(rank))
        if val.shared:
            placed.append(call.writer.put("shape", val, (1, *shape)))
        else:
            placed.append(call.writer.form(val, 1, shape))
    return call.applied(_sum_of_products, placed, tuple(axis + 1 for axis in call.attrs["sumdim"]))


def _sum_of_products(first: Any, second: Any, third: Any, dims: Any) -> Any:
    return (first * second * third).sum(dims)


def attention(call: Application) -> Vals:
    """Attention as one operator: (b, heads, n, k) by (b, heads, m, k), with a mask or without."""
    rows = call.val("query").shape[0]
    if call.writer.sized:
        call = _without_padding(call)
    placed = []
    for name, place in call.attrs.items():
        if name not in ("query", "key", "value", "attn_mask") or place is None:
            continue
        val = call.vals[place]
        if val.shared and name == "attn_mask" and (val.rank < 4 or val.shape[0] == 1):
            placed.append(val)
        elif val.rank == 4 and val.shape[0] == rows:
            placed.append(call.writer.folded(call.writer.spread(val), 1))
        else:  # a mask that a sample has for all of its rows, or heads
            rest = ((1,) * (4 - val.rank) + val.shape)[1:]
            slot = call.writer.emit("each row", call.stacked(val), rows, rest)
            placed.append(Values(slot, (rows, *rest), val.dtype, rows, rest))
    return call.made(call.again(placed), 1)


def _without_padding(call: Application) -> Application:
    """Attention that looks at no padding: by its mask, or by one of its own. Raises NotBatchable."""
    writer, (query, key) = call.writer, [call.val(name).shape for name in ("query", "key")]
    mask = call.val("attn_mask")
    if call.get("dropout_p", 0.0) or is_sized((*query[:2], query[3], *key[:2], key[3])):
        raise call.mixed_rows
    if not is_sized(key[2]) or (call.get("is_causal") and key[2] == query[2] and mask is None):
        return call
    if call.get("is_causal"):
        raise call.refuse("of several lengths")
    if mask is None:
        bar = writer.need("bar", key[2], 2, call.vals[0].dtype)
        bar = writer.put("widen", bar, (1, query[2], key[2]))
        shape = (1, query[2], key[2])
        mask = bar._replace(shape=shape, dtype=call.vals[0].dtype, lead=1, rest=shape)
        return call.on(call.name, {**call.attrs, "attn_mask": Operand(len(call.vals))}, [*call.vals, mask], call.outs)
    if mask.shape[-1] != key[2]:
        raise call.refuse("a mask that is broadcast")
    vals = list(call.vals)
    vals[call.attrs["attn_mask"]] = writer.filled(mask, [mask.rank - 1], -inf)
    return call.on(call.name, call.attrs, vals, call.outs)


def of_diagonal(call: Application) -> Vals:
    """diagonal: of two dimensions of a node's value."""
    (val,) = call.vals
    first, second = (call.get(name, k) % val.rank for k, name in enumerate(("dim1", "dim2")))
    return call.made(call.again(call.stacked(val), {"dim1": first + 1, "dim2": second + 1}))


CHECKING = {"linalg_inv_ex.default", "linalg_cholesky_ex.default", "_linalg_solve_ex.default"}
"""Operators of linear algebra that say whether they have failed, and raise an error if they are asked to."""
MATRICES = CHECKING | {
    f"{name}.default"
    for name in "_linalg_det _linalg_slogdet _linalg_eigh _linalg_svd linalg_qr linalg_matrix_exp "
    "linalg_solve_triangular cholesky_inverse cholesky_solve linalg_eig".split()
}
"""Operators of linear algebra."""
