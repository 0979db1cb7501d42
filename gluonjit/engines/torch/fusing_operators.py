"""The instructions of an ATen operator in a fused program (see `gluonjit.rows`)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from gluonjit.engines.torch.fusing_losses import LOSSES
from gluonjit.engines.torch.fusing_shapes import SHAPES
from gluonjit.engines.torch.fusing_values import Anything, Args, Const, RowMatrix, Rule, Shape, Shapes, is_row, rows_in
from gluonjit.rows.program import COMMUTATIVE, Builder, NotFusable, View


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _each(make: Callable[[Builder, View, Args], View]) -> Rule:
    """An operator on one tensor, elementwise or along its rows; `make` is given the rest of its arguments, too."""

    def emit(builder: Builder, args: Args, shapes: Shapes) -> Anything:
        a = rows_in(args["self"])
        return a._replace(view=make(builder, a.view, args))

    return emit


def _unary(op: str) -> Rule:
    return _each(lambda builder, a, args: builder.emit(op, a))


def _binary(op: str) -> Rule:
    def emit(builder: Builder, args: Args, shapes: Shapes) -> Anything:
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
    """Checks that the result of an operator is as wide as its shape says: (2, 1) and (1, 2) make (2, 2)."""
    found = a._replace(view=view, shape=shape)
    if prod(found.inner) != view.width or (a.lead and shape[:1] != a.shape[:1]):
        raise NotFusable(f"rows of {a.inner} are broadcast to {shape}")
    return found


def _plain(shape: Shape) -> Shape:
    """A shape without dimensions of 1."""
    return tuple([size for size in shape if size != 1])


def _reversed_sub(builder: Builder, a: View, args: Args) -> View:
    number = _number(args["other"])
    if number is None or args.get("alpha", 1) != 1:
        raise NotFusable("rsub")
    return builder.with_number("RSUB", a, number)


def _power(builder: Builder, a: View, args: Args) -> View:
    if _number(args["exponent"]) != 2.0:
        raise NotFusable("a power other than 2")
    return builder.emit("SQUARE", a)


def _softplus(builder: Builder, a: View, args: Args) -> View:
    if args.get("beta", 1) != 1 or args.get("threshold", 20) != 20:
        raise NotFusable("a softplus with another beta")
    return builder.emit("SOFTRELU", a)


def _clamp(builder: Builder, a: View, args: Args) -> View:
    for op, limit in (("MAXS", args.get("min")), ("MINS", args.get("max"))):
        if limit is not None:
            a = builder.emit(op, a, number=float(limit))
    return a


def _product(builder: Builder, a: Anything, matrix: Anything, bias: Anything, shape: Shape) -> Anything:
    """Rows times (in, out), plus a row."""
    a = rows_in(a)
    if not isinstance(matrix, Const) or len(matrix.shape) != 2 or a.inner[-1:] != (prod(a.inner),):
        raise NotFusable("a product of rows with rows")
    if a.view.width != matrix.shape[0] or (bias is not None and not is_row(bias, matrix.shape[1])):
        raise NotFusable("a product with a constant of another size")
    row = None if bias is None else bias.weight
    return RowMatrix(builder.linear(a.view, matrix.weight, row, turned=not matrix.turned), shape, a.lead)


def _mm(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    return _product(builder, args["self"], args["mat2"], None, shapes[0])


def _addmm(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    if args.get("beta", 1) != 1 or args.get("alpha", 1) != 1:
        raise NotFusable("addmm with factors")
    return _product(builder, args["mat1"], args["mat2"], args["self"], shapes[0])


def _linear(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    weight = args["weight"]
    if not isinstance(weight, Const) or len(weight.shape) != 2:
        raise NotFusable("a product of rows with rows")
    turned = weight._replace(shape=weight.shape[::-1], turned=not weight.turned)
    return _product(builder, args["input"], turned, args.get("bias"), shapes[0])


def _total(mean: bool) -> Rule:
    """sum or mean of a row."""

    def emit(builder: Builder, args: Args, shapes: Shapes) -> Anything:
        a, dims = rows_in(args["self"]), args.get("dim") or ()
        listed = {dim % len(a.shape) for dim in dims} if a.shape else set()
        over = listed or set(range(len(a.shape)))
        kept = [size for dim, size in enumerate(a.shape) if dim not in over and not (a.lead and dim == 0)]
        if (a.lead and 0 in over) or prod(kept) != 1 or args.get("dtype") is not None:
            raise NotFusable("a sum over rows")
        return RowMatrix(builder.total(a.view, mean), shapes[0], a.lead)

    return emit


def _softmax(op: str) -> Rule:
    def emit(builder: Builder, args: Args, shapes: Shapes) -> Anything:
        a = rows_in(args["self"])
        if not a.shape or a.shape[args["dim"]] != a.view.width or (a.lead and args["dim"] in (0, -len(a.shape))):
            raise NotFusable("a softmax across rows")
        return a._replace(view=builder.emit(op, a.view))

    return emit


def _leaky(builder: Builder, a: View, args: Args) -> View:
    """Two terms, the second with the slope at 0."""
    below = builder.with_number("MUL", builder.emit("MINS", a), float(args.get("negative_slope", 0.01)))
    return builder.emit("ADD", builder.emit("RELU", a), below)


def _dot(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    a, b = rows_in(args["self"]), rows_in(args["tensor"])
    return RowMatrix(builder.total(builder.emit("MUL", a.view, b.view), False), shapes[0])


def _logsumexp(builder: Builder, args: Args, shapes: Shapes) -> Anything:
    a = rows_in(args["self"])
    dims = {dim % max(len(a.shape), 1) for dim in args.get("dim") or ()}
    kept = prod([size for dim, size in enumerate(a.shape) if dim not in dims])
    if a.lead or not a.shape or kept != 1:
        raise NotFusable("a sum over rows")
    return RowMatrix(builder.emit("LOGSUMEXP", a.view, width=1), shapes[0])


def _layer_norm(builder: Builder, args: Args, shapes: Shapes) -> list[Anything]:
    """A row less its mean, over its deviation; not the two themselves."""
    a, weight, bias = rows_in(args["input"]), args.get("weight"), args.get("bias")
    if a.inner[-1:] != (a.view.width,) or tuple(args["normalized_shape"]) != a.inner[-1:]:
        raise NotFusable("a norm of several rows")
    if not all(row is None or is_row(row, a.view.width) for row in (weight, bias)):
        raise NotFusable("a norm with factors that are no constant row")
    centred = builder.combined("SUB", a.view, builder.total(a.view, True))
    variance = builder.total(builder.emit("SQUARE", centred), True)
    deviation = builder.emit("SQRT", builder.with_number("ADD", variance, float(args["eps"])))
    view = builder.combined("DIV", centred, deviation)
    for op, row in (("MUL", weight), ("ADD", bias)):
        view = view if row is None else builder.with_row(op, view, row.weight)
    return [a._replace(view=view), None, None]


def _like(number: float) -> Rule:
    def filled(builder: Builder, a: View, args: Args) -> View:
        if args.get("dtype") is not None:
            raise NotFusable("numbers of another type")
        return builder.filled(a, number)

    return _each(filled)


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

OPERATORS: dict[str, Rule] = {
    **{name: _unary(op) for op, names in _UNARY.items() for name in names},
    **{name: _binary(op) for op, names in _BINARY.items() for name in names},
    **SHAPES,
    **LOSSES,
    "rsub.Scalar": _each(_reversed_sub),
    "pow.Tensor_Scalar": _each(_power),
    "silu.default": _each(lambda builder, a, args: builder.emit("MUL", a, builder.emit("SIGMOID", a))),
    "softplus.default": _each(_softplus),
    "rsqrt.default": _each(lambda builder, a, args: builder.emit("RECIPROCAL", builder.emit("SQRT", a))),
    **dict.fromkeys(("clamp.default", "clamp_min.default", "clamp_max.default"), _each(_clamp)),
    "mm.default": _mm,
    "addmm.default": _addmm,
    "linear.default": _linear,
    "sum.default": _total(False),
    "sum.dim_IntList": _total(False),
    "mean.default": _total(True),
    "mean.dim": _total(True),
    "leaky_relu.default": _each(_leaky),
    "dot.default": _dot,
    "logsumexp.default": _logsumexp,
    "native_layer_norm.default": _layer_norm,
    "zeros_like.default": _like(0.0),
    "ones_like.default": _like(1.0),
    "_log_softmax.default": _softmax("LOGSOFTMAX"),
    "_softmax.default": _softmax("SOFTMAX"),
}
"""By operator of ATen: instructions for rows; what else they may be told raises NotFusable."""
