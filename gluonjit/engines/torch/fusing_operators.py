"""The instructions of an ATen operator in a fused program (see `gluonjit.rows`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from gluonjit.rows.program import COMMUTATIVE, Builder, NotFusable, View, Weight

Shape = tuple[int, ...]


class RowMatrix(NamedTuple):
    """A tensor of each node or child, as one row; with `lead` its first dimension is rows, of any number."""

    view: View
    shape: Shape
    lead: bool = False

    @property
    def inner(self) -> Shape:
        """The dimensions within a row."""
        return self.shape[1:] if self.lead else self.shape


class IntegerColumn(NamedTuple):
    """An integer of each node, which instructions take as a column of floats; operand: where it comes from."""

    view: View
    shape: Shape
    operand: int


class Const(NamedTuple):
    """A constant tensor of one or two dimensions; with `turned` it is the transpose of what lies in memory."""

    weight: Weight
    shape: Shape
    turned: bool = False


Anything = Any  # one of these
Args = Mapping[str, Any]
Rule = Callable[[Builder, Args, Sequence[Shape]], Any]


def rows_in(value: Anything) -> RowMatrix:
    """Return a value as rows. Raises NotFusable for any other."""
    if not isinstance(value, RowMatrix):
        raise NotFusable(f"{type(value).__name__} where rows are needed")
    return value


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _unary(op: str) -> Rule:
    def emit(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
        a = rows_in(args["self"])
        return a._replace(view=builder.emit(op, a.view))

    return emit


def _binary(op: str) -> Rule:
    def emit(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
        a, b = args["self"], args["other"]
        if args.get("alpha", 1) != 1 or args.get("rounding_mode") is not None:
            raise NotFusable(f"{op} with alpha or rounding")
        number = _number(b)
        if number is not None:
            a = rows_in(a)
            return a._replace(view=builder.with_number(op, a.view, number))
        return two(builder, op, a, b, shapes[0])

    return emit


def two(builder: Builder, op: str, a: Anything, b: Anything, shape: Shape) -> Anything:
    """Two operands elementwise; the second may be a constant row, or a column."""
    if isinstance(a, Const) and op in COMMUTATIVE:
        a, b = b, a
    a = rows_in(a)
    if isinstance(b, Const):
        if b.turned or (len(a.inner) > 1 and prod(a.inner[:-1]) != 1):
            raise NotFusable(f"{op} of rows of {a.inner} and a constant")
        return _as_wide(a, builder.with_row(op, a.view, b.weight), shape)
    b = rows_in(b)
    if a.lead != b.lead or (a.lead and a.shape[0] != b.shape[0]):
        raise NotFusable(f"{op} of one row and of several")
    if _plain(a.inner) != _plain(b.inner) and 1 not in (a.view.width, b.view.width):
        raise NotFusable(f"{op} of rows of {a.inner} and of {b.inner}")
    return _as_wide(b if a.view.width < b.view.width else a, builder.combined(op, a.view, b.view), shape)


def _as_wide(a: RowMatrix, view: View, shape: Shape) -> RowMatrix:
    """Check that the result of an operator is as wide as its shape says: (2, 1) and (1, 2) make (2, 2)."""
    found = a._replace(view=view, shape=shape)
    if prod(found.inner) != view.width or (a.lead and shape[:1] != a.shape[:1]):
        raise NotFusable(f"rows of {a.inner} are broadcast to {shape}")
    return found


def _plain(shape: Shape) -> Shape:
    """A shape without dimensions of 1."""
    return tuple([size for size in shape if size != 1])


def _reversed_sub(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a, number = rows_in(args["self"]), _number(args["other"])
    if number is None or args.get("alpha", 1) != 1:
        raise NotFusable("rsub")
    return a._replace(view=builder.with_number("RSUB", a.view, number))


def _power(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a, number = rows_in(args["self"]), _number(args["exponent"])
    if number != 2.0:
        raise NotFusable("a power other than 2")
    return a._replace(view=builder.emit("SQUARE", a.view))


def _silu(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a = rows_in(args["self"])
    return a._replace(view=builder.emit("MUL", a.view, builder.emit("SIGMOID", a.view)))


def _softplus(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    if args.get("beta", 1) != 1 or args.get("threshold", 20) != 20:
        raise NotFusable("a softplus with another beta")
    return _unary("SOFTRELU")(builder, args, shapes)


def _rsqrt(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a = rows_in(args["self"])
    return a._replace(view=builder.emit("RECIPROCAL", builder.emit("SQRT", a.view)))


def _clamp(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a = rows_in(args["self"])
    for op, limit in (("MAXS", args.get("min")), ("MINS", args.get("max"))):
        if limit is not None:
            a = a._replace(view=builder.emit(op, a.view, number=float(limit)))
    return a


def _transposed(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a = args["self"]
    if isinstance(a, Const) and len(a.shape) == 2:
        return a._replace(shape=a.shape[::-1], turned=not a.turned)
    raise NotFusable("a transpose of rows")


def _product(builder: Builder, a: Anything, matrix: Anything, bias: Anything, shape: Shape) -> Anything:
    """Rows times (in, out), plus a row."""
    a = rows_in(a)
    if not isinstance(matrix, Const) or len(matrix.shape) != 2 or a.inner[-1:] != (prod(a.inner),):
        raise NotFusable("a product of rows with rows")
    if a.view.width != matrix.shape[0] or (bias is not None and not _is_row(bias, matrix.shape[1])):
        raise NotFusable("a product with a constant of another size")
    row = None if bias is None else bias.weight
    return RowMatrix(builder.linear(a.view, matrix.weight, row, turned=not matrix.turned), shape, a.lead)


def _is_row(value: Anything, width: int) -> bool:
    return isinstance(value, Const) and value.weight.rows == 1 and value.weight.columns == width and not value.turned


def _mm(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    return _product(builder, args["self"], args["mat2"], None, shapes[0])


def _addmm(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    if args.get("beta", 1) != 1 or args.get("alpha", 1) != 1:
        raise NotFusable("addmm with factors")
    return _product(builder, args["mat1"], args["mat2"], args["self"], shapes[0])


def _linear(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    weight = args["weight"]
    if not isinstance(weight, Const) or len(weight.shape) != 2:
        raise NotFusable("a product of rows with rows")
    turned = weight._replace(shape=weight.shape[::-1], turned=not weight.turned)
    return _product(builder, args["input"], turned, args.get("bias"), shapes[0])


def _reshaped(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
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


def _split(builder: Builder, args: Args, shapes: Sequence[Shape]) -> list[Anything]:
    a, dim = rows_in(args["self"]), args.get("dim", 0)
    found, begin = [], 0
    for shape in shapes:
        found.append(_cut(a, dim, begin, begin + shape[dim], shape))
        begin += shape[dim]
    return found


def _unbind(builder: Builder, args: Args, shapes: Sequence[Shape]) -> list[Anything]:
    a, dim = rows_in(args["self"]), args.get("dim", 0)
    return [_cut(a, dim, number, number + 1, shape) for number, shape in enumerate(shapes)]


def _slice(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a, dim = rows_in(args["self"]), args.get("dim", 0)
    begin, end, step = slice(args.get("start"), args.get("end"), args.get("step", 1)).indices(a.shape[dim])
    if step != 1 or end <= begin:
        raise NotFusable("a slice with steps")
    if begin == 0 and end == a.shape[dim]:
        return a._replace(shape=shapes[0])
    return _cut(a, dim, begin, end, shapes[0])


def _select(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a, dim, index = rows_in(args["self"]), args["dim"], args["index"]
    begin = index + a.shape[dim] if index < 0 else index
    return _cut(a, dim, begin, begin + 1, shapes[0])


def _cat(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    parts, dim = [rows_in(part) for part in args["tensors"]], args.get("dim", 0)
    dim = dim + len(shapes[0]) if dim < 0 else dim
    lead = parts[0].lead
    if any(part.lead != lead for part in parts) or (lead and dim == 0) or prod(shapes[0][int(lead) : dim]) != 1:
        raise NotFusable("a concatenation of rows")
    return RowMatrix(builder.concat([part.view for part in parts]), shapes[0], lead)


def _total(mean: bool) -> Rule:
    """sum or mean of a row."""

    def emit(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
        a, dims = rows_in(args["self"]), args.get("dim") or ()
        listed = {dim % len(a.shape) for dim in dims} if a.shape else set()
        over = listed or set(range(len(a.shape)))
        kept = [size for dim, size in enumerate(a.shape) if dim not in over and not (a.lead and dim == 0)]
        if (a.lead and 0 in over) or prod(kept) != 1 or args.get("dtype") is not None:
            raise NotFusable("a sum over rows")
        return RowMatrix(builder.total(a.view, mean), shapes[0], a.lead)

    return emit


def _softmax(op: str) -> Rule:
    def emit(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
        a = rows_in(args["self"])
        if not a.shape or a.shape[args["dim"]] != a.view.width or (a.lead and args["dim"] in (0, -len(a.shape))):
            raise NotFusable("a softmax across rows")
        return a._replace(view=builder.emit(op, a.view))

    return emit


def _picked(a: Anything, number: Anything, builder: Builder) -> View:
    """The entry of a row that an integer says."""
    a = rows_in(a)
    if a.lead or not isinstance(number, IntegerColumn) or a.shape[-1:] != (prod(a.shape),):
        raise NotFusable("entries of several rows")
    return builder.pick(a.view, number.view, number.operand)


def _index_select(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a = rows_in(args["self"])
    if len(a.shape) != 1:
        raise NotFusable("rows by number")
    return RowMatrix(_picked(a, args["index"], builder), shapes[0])


def _nll_loss(builder: Builder, args: Args, shapes: Sequence[Shape]) -> list[Anything]:
    """The loss of one row, which its mean and its sum are, too; not the weight that it is divided by."""
    if args.get("weight") is not None:
        raise NotFusable("a loss with weights")
    picked = _picked(args["self"], args["target"], builder)
    return [RowMatrix(builder.emit("NEG", picked), shapes[0]), None]


def _loss(entries: Callable[[Builder, Args, View, View], View]) -> Rule:
    """A loss of each entry, and their mean (1, which is not told) or sum (2), or all of them (0)."""

    def emit(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
        a, b = rows_in(args["self"]), rows_in(args["target"])
        reduction = args.get("reduction", 1)
        if a.shape != b.shape or a.lead != b.lead or (a.lead and reduction):
            raise NotFusable("a loss over rows")
        view = entries(builder, args, a.view, b.view)
        return RowMatrix(builder.total(view, reduction == 1) if reduction else view, shapes[0], a.lead)

    return emit


def _squared_error(builder: Builder, args: Args, a: View, b: View) -> View:
    return builder.emit("SQUARE", builder.emit("SUB", a, b))


def _linear_from(limit: str, scaled: bool) -> Callable[[Builder, Args, View, View], View]:
    """The square of a difference up to a limit, and linear from there on: of the smaller of both, m, and the rest."""

    def entries(builder: Builder, args: Args, a: View, b: View) -> View:
        at = float(args.get(limit, 1.0))
        if at <= 0.0:
            raise NotFusable(f"{limit} of {at}")
        apart = builder.emit("ABS", builder.emit("SUB", a, b))
        near = builder.emit("MINS", apart, number=at)
        square = builder.with_number("MUL", builder.emit("SQUARE", near), 0.5 / at if scaled else 0.5)
        rest = builder.emit("SUB", apart, near)
        return builder.emit("ADD", square, rest if scaled else builder.with_number("MUL", rest, at))

    return entries


def _log_likelihood(builder: Builder, args: Args, a: View, b: View) -> View:
    """(1 - b) a + log(1 + exp(-a)), the loss of a number before the sigmoid."""
    if args.get("weight") is not None or args.get("pos_weight") is not None:
        raise NotFusable("a loss with weights")
    rest = builder.emit("MUL", builder.with_number("RSUB", b, 1.0), a)
    return builder.emit("ADD", rest, builder.emit("SOFTRELU", builder.emit("NEG", a)))


def _log_sigmoid(builder: Builder, args: Args, shapes: Sequence[Shape]) -> list[Anything]:
    a = rows_in(args["self"])
    view = builder.emit("NEG", builder.emit("SOFTRELU", builder.emit("NEG", a.view)))
    return [a._replace(view=view), None]


def _leaky(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    """Two terms, the second with the slope at 0."""
    a = rows_in(args["self"])
    below = builder.with_number("MUL", builder.emit("MINS", a.view), float(args.get("negative_slope", 0.01)))
    return a._replace(view=builder.emit("ADD", builder.emit("RELU", a.view), below))


def _dot(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a, b = rows_in(args["self"]), rows_in(args["tensor"])
    return RowMatrix(builder.total(builder.emit("MUL", a.view, b.view), False), shapes[0])


def _logsumexp(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
    a = rows_in(args["self"])
    dims = {dim % max(len(a.shape), 1) for dim in args["dim"]}
    kept = prod([size for dim, size in enumerate(a.shape) if dim not in dims])
    if a.lead or not a.shape or kept != 1:
        raise NotFusable("a sum over rows")
    return RowMatrix(builder.emit("LOGSUMEXP", a.view, width=1), shapes[0])


def _layer_norm(builder: Builder, args: Args, shapes: Sequence[Shape]) -> list[Anything]:
    """A row less its mean, over its deviation; not the two themselves."""
    a, weight, bias = rows_in(args["input"]), args.get("weight"), args.get("bias")
    if a.inner[-1:] != (a.view.width,) or tuple(args["normalized_shape"]) != a.inner[-1:]:
        raise NotFusable("a norm of several rows")
    if not all(row is None or _is_row(row, a.view.width) for row in (weight, bias)):
        raise NotFusable("a norm with factors that are no constant row")
    centred = builder.combined("SUB", a.view, builder.total(a.view, True))
    variance = builder.total(builder.emit("SQUARE", centred), True)
    deviation = builder.emit("SQRT", builder.with_number("ADD", variance, float(args["eps"])))
    view = builder.combined("DIV", centred, deviation)
    for op, row in (("MUL", weight), ("ADD", bias)):
        view = view if row is None else builder.with_row(op, view, row.weight)
    return [a._replace(view=view), None, None]


def _like(number: float) -> Rule:
    def emit(builder: Builder, args: Args, shapes: Sequence[Shape]) -> Anything:
        a = rows_in(args["self"])
        if args.get("dtype") is not None:
            raise NotFusable("numbers of another type")
        return a._replace(view=builder.filled(a.view, number))

    return emit


_UNARY = {
    "SIGMOID": ("sigmoid.default",),
    "TANH": ("tanh.default",),
    "RELU": ("relu.default",),
    "EXP": ("exp.default",),
    "LOG": ("log.default",),
    "SQRT": ("sqrt.default",),
    "ABS": ("abs.default",),
    "NEG": ("neg.default",),
    "RECIPROCAL": ("reciprocal.default",),
}
_BINARY = {
    "ADD": ("add.Tensor", "add.Scalar"),
    "SUB": ("sub.Tensor", "sub.Scalar"),
    "MUL": ("mul.Tensor", "mul.Scalar"),
    "DIV": ("div.Tensor", "div.Scalar"),
    "XLOGY": ("xlogy.Tensor",),
}
_SAME = "view _unsafe_view reshape unsqueeze squeeze clone contiguous detach_copy alias".split()

OPERATORS: dict[str, Rule] = {
    **{name: _unary(op) for op, names in _UNARY.items() for name in names},
    **{name: _binary(op) for op, names in _BINARY.items() for name in names},
    **{f"{name}.default": _reshaped for name in _SAME},
    "squeeze.dim": _reshaped,
    "squeeze.dims": _reshaped,
    "rsub.Scalar": _reversed_sub,
    "pow.Tensor_Scalar": _power,
    "silu.default": _silu,
    "softplus.default": _softplus,
    "rsqrt.default": _rsqrt,
    "clamp.default": _clamp,
    "clamp_min.default": _clamp,
    "clamp_max.default": _clamp,
    "t.default": _transposed,
    "mm.default": _mm,
    "addmm.default": _addmm,
    "linear.default": _linear,
    "split.Tensor": _split,
    "split_with_sizes.default": _split,
    "unsafe_split.Tensor": _split,
    "unbind.int": _unbind,
    "slice.Tensor": _slice,
    "select.int": _select,
    "cat.default": _cat,
    "stack.default": _cat,
    "sum.default": _total(False),
    "sum.dim_IntList": _total(False),
    "mean.default": _total(True),
    "mean.dim": _total(True),
    "index_select.default": _index_select,
    "nll_loss_forward.default": _nll_loss,
    "mse_loss.default": _loss(_squared_error),
    "smooth_l1_loss.default": _loss(_linear_from("beta", True)),
    "huber_loss.default": _loss(_linear_from("delta", False)),
    "binary_cross_entropy_with_logits.default": _loss(_log_likelihood),
    "log_sigmoid_forward.default": _log_sigmoid,
    "leaky_relu.default": _leaky,
    "dot.default": _dot,
    "logsumexp.default": _logsumexp,
    "native_layer_norm.default": _layer_norm,
    "zeros_like.default": _like(0.0),
    "ones_like.default": _like(1.0),
    "_log_softmax.default": _softmax("LOGSOFTMAX"),
    "_softmax.default": _softmax("SOFTMAX"),
}
"""By operator of ATen: instructions for rows; what else they may be told raises NotFusable."""
