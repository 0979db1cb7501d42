"""Instructions of ATen operators that reshape rows, cut them or join them; see `fusing_operators`."""

from __future__ import annotations

from math import prod

from gluonjit.engines.torch.fusing_values import (
    Anything,
    Args,
    Const,
    IntegerColumn,
    RowMatrix,
    Rule,
    Shape,
    Shapes,
    rows_in,
)
from gluonjit.rows.program import Builder, NotFusable


def _transposed(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    a = args["self"]
    if isinstance(a, Const) and len(a.shape) == 2:
        return a._replace(shape=a.shape[::-1], turned=not a.turned)
    raise NotFusable("a transpose of rows")


def _reshaped(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    """The same numbers in the same order, in another shape."""
    a, shape = args["self"], shapes[0]
    if isinstance(a, IntegerColumn):
        return a._replace(shape=shape)
    if (
        isinstance(a, Const)
        and not a.turned
        and len(shape) in (1, 2)
        and a.weight.rows == 1
        and shape[-1] == prod(shape)
    ):
        return a._replace(shape=shape)
    a = rows_in(a)
    if prod(shape) != prod(a.shape) or (a.lead and (not shape or shape[0] != a.shape[0])):
        raise NotFusable("a view with other rows")
    return a._replace(shape=shape)


def _cut(a: RowMatrix, dim: int, begin: int, end: int, shape: Shape) -> RowMatrix:
    """Part of a dimension, where that is columns which lie together."""
    dim = dim + len(a.shape) if dim < 0 else dim
    if (a.lead and dim == 0) or prod(a.shape[int(a.lead) : dim]) != 1:
        raise NotFusable("a part of rows that is not contiguous")
    each = prod(a.shape[dim + 1 :])
    return a._replace(view=a.view.part(begin * each, end * each), shape=shape)


def _split(builder: Builder, args: Args, shapes: Shapes) -> list[Anything]:
    a, dim = rows_in(args["self"]), args.get("dim", 0)
    found, begin = [], 0
    for shape in shapes:
        found.append(_cut(a, dim, begin, begin + shape[dim], shape))
        begin += shape[dim]
    return found


def _unbind(builder: Builder, args: Args, shapes: Shapes) -> list[Anything]:
    a, dim = rows_in(args["self"]), args.get("dim", 0)
    return [_cut(a, dim, number, number + 1, shape) for number, shape in enumerate(shapes)]


def _slice(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    a, dim = rows_in(args["self"]), args.get("dim", 0)
    begin, end, step = slice(args.get("start"), args.get("end"), args.get("step", 1)).indices(a.shape[dim])
    if step != 1 or end <= begin:
        raise NotFusable("a slice with steps")
    if begin == 0 and end == a.shape[dim]:
        return a._replace(shape=shapes[0])
    return _cut(a, dim, begin, end, shapes[0])


def _select(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    a, dim, index = rows_in(args["self"]), args["dim"], args["index"]
    begin = index + a.shape[dim] if index < 0 else index
    return _cut(a, dim, begin, begin + 1, shapes[0])


def _cat(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    parts, dim = [rows_in(part) for part in args["tensors"]], args.get("dim", 0)
    dim = dim + len(shapes[0]) if dim < 0 else dim
    lead = parts[0].lead
    if any(part.lead != lead for part in parts) or (lead and dim == 0) or prod(shapes[0][int(lead) : dim]) != 1:
        raise NotFusable("a concatenation of rows")
    return RowMatrix(builder.concat([part.view for part in parts]), shapes[0], lead)


_SAME = "view _unsafe_view reshape unsqueeze squeeze clone contiguous detach_copy alias".split()

SHAPES: dict[str, Rule] = {
    **{f"{name}.default": _reshaped for name in _SAME},
    "squeeze.dim": _reshaped,
    "squeeze.dims": _reshaped,
    "t.default": _transposed,
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
    "unsafe_split.Tensor": _split,
    "unbind.int": _unbind,
    "slice.Tensor": _slice,
    "select.int": _select,
    "cat.default": _cat,
    "stack.default": _cat,
}
