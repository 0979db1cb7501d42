"""The instructions of an MXNet operator in a fused program (see `gluonjit.rows`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from math import prod

from gluonjit.engines.mxnet.fusing_values import Anything, Beside, Const, Folded, Group, RowMatrix, row_in, rows_in
from gluonjit.engines.mxnet.operators.attributes import Attributes, listed
from gluonjit.rows.program import CHILD, COMMUTATIVE, NODE, Builder, NotFusable, View

Emit = Callable[..., Anything]


def _each(make: Callable[[Builder, View, Attributes], View]) -> Emit:
    """An operator on the elements of one array."""

    def emit(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
        a = rows_in(a)
        return RowMatrix(make(builder, a.view, attrs), a.dims)

    return emit


def _unary(op: str) -> Emit:
    return _each(lambda builder, a, attrs: builder.emit(op, a))


def _limited(op: str, name: str) -> Emit:
    return _each(lambda builder, a, attrs: builder.emit(op, a, number=float(attrs.get(name, 0.0))))


def _filled(number: float) -> Emit:
    return _each(lambda builder, a, attrs: builder.filled(a, number))


def _clip(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    return _limited("MINS", "a_max")(builder, attrs, _limited("MAXS", "a_min")(builder, attrs, a))


def _scalar(op: str) -> Emit:
    default = 1.0 if op == "DIV" else 0.0
    return _each(lambda builder, a, attrs: builder.with_number(op, a, float(attrs.get("scalar", default))))


_softsign = _each(
    lambda builder, a, attrs: builder.emit("DIV", a, builder.with_number("ADD", builder.emit("ABS", a), 1.0))
)


def _binary(op: str, builder: Builder, attrs: Attributes, a: Anything, b: Anything) -> Anything:
    if isinstance(a, Const) and op in COMMUTATIVE:
        a, b = b, a
    a = rows_in(a)
    row = row_in(b)
    if row is not None:
        if len(a.dims) != 1:
            raise NotFusable(f"{op} of rows of {a.dims} and a constant")
        return RowMatrix(builder.with_row(op, a.view, row), a.dims)
    b = rows_in(b)
    if a.dims != b.dims and ((1,) not in (a.dims, b.dims) or len(a.dims) != len(b.dims)):
        raise NotFusable(f"{op} of rows of {a.dims} and of {b.dims}")
    return RowMatrix(builder.combined(op, a.view, b.view), max(a.dims, b.dims))


def _add_n(builder: Builder, attrs: Attributes, *terms: Anything) -> Anything:
    return reduce(partial(_binary, "ADD", builder, attrs), terms)


def _fully_connected(
    builder: Builder, attrs: Attributes, a: Anything, weight: Anything, bias: Anything | None = None
) -> Anything:
    a = rows_in(a)
    row = None if bias is None else row_in(bias)
    flat = attrs.get("flatten", True) or len(a.dims) == 1
    if not isinstance(weight, Const) or (bias is not None and row is None) or not flat:
        raise NotFusable("a product with something that is not constant")
    if weight.vector or weight.weight.columns != a.view.width:
        raise NotFusable("a product with a constant of another size")
    return RowMatrix(builder.linear(a.view, weight.weight, row), (weight.weight.rows,))


# MXNet runs these by oneDNN, whose relu makes 0 of a NaN.
_ACTIVATIONS = {"sigmoid": "SIGMOID", "tanh": "TANH", "relu": "POSITIVE", "softrelu": "SOFTRELU"}


def _activation(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    kind = attrs.get("act_type")
    if kind == "softsign":
        return _softsign(builder, attrs, a)
    if kind not in _ACTIVATIONS:
        raise NotFusable(f"Activation {kind}")
    return _unary(_ACTIVATIONS[kind])(builder, attrs, a)


def _slice_axis(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    begin, end, _ = slice(attrs.get("begin", 0), attrs.get("end")).indices(_columns(a))
    if attrs.get("axis", 0) not in (1, -1):
        raise NotFusable("a slice of rows")
    return _cut(a, begin, end)


def _slice(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    begin, end, step = (listed(attrs.get(key)) for key in ("begin", "end", "step"))
    if len(begin) != 2 or len(end) != 2 or (begin[0], end[0]) != (None, None) or not {None, 1}.issuperset(step):
        raise NotFusable("a slice of rows")
    first, last, _ = slice(begin[1], end[1]).indices(_columns(a))
    return _cut(a, first, last)


def _columns(a: Anything) -> int:
    if isinstance(a, Const) and not a.vector:
        return int(a.weight.columns)
    dims = rows_in(a).dims
    if len(dims) != 1:
        raise NotFusable(f"a slice of rows of {dims}")
    return dims[0]


def _cut(a: Anything, begin: int, end: int) -> Anything:
    if end <= begin:
        raise NotFusable("a slice without columns")
    if isinstance(a, Const):
        return a._replace(weight=a.weight._replace(left=a.weight.left + begin, columns=end - begin))
    return RowMatrix(a.view.part(begin, end), (end - begin,))


def _reshape(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    shape = listed(attrs.get("shape"))
    if attrs.get("reverse") or not shape or min(shape) < -1:
        raise NotFusable(f"Reshape to {shape}")
    if isinstance(a, Group):
        if shape == (len(a.roles), -1, *a.roles[0].dims) and not a.apart:
            return a._replace(apart=True)
        raise NotFusable("Reshape of contiguous operands")
    a = rows_in(a)
    first, *rest = shape
    if builder.space(a.view) == CHILD and first == -1 and rest and rest[0] > 1 and prod(rest[1:]) == a.view.width:
        return Folded(RowMatrix(a.view, tuple(rest[1:])), rest[0])
    if first == 0 and rest.count(-1) == 1:
        known = prod(entry for entry in rest if entry > 0)
        if 0 not in rest and known and a.view.width % known == 0:
            rest = [a.view.width // known if entry == -1 else entry for entry in rest]
    if first not in (0, -1) or min([1, *rest]) < 1 or prod(rest) != a.view.width:
        raise NotFusable(f"Reshape of rows of {a.dims} to {shape}")
    return RowMatrix(a.view, tuple(rest))


def _split(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    count, axis, squeeze = attrs.get("num_outputs", 1), attrs.get("axis", 1), attrs.get("squeeze_axis")
    if isinstance(a, Group):
        if a.apart and axis == 0 and squeeze and count == len(a.roles):
            return list(a.roles)
        raise NotFusable("a split of contiguous operands")
    a = rows_in(a)
    if axis < 0:
        axis += len(a.dims) + 1
    if axis != 1 or not a.dims or a.dims[0] % count:
        raise NotFusable("a split across rows")
    dims = a.dims[1:] if squeeze and a.dims[0] == count else (a.dims[0] // count, *a.dims[1:])
    width = prod(dims)
    return [RowMatrix(a.view.part(k * width, (k + 1) * width), dims) for k in range(count)]


def _concat(builder: Builder, attrs: Attributes, *parts: Anything) -> Anything:
    given = [rows_in(part) for part in parts]
    if attrs.get("dim", 1) not in (1, -1) or any(len(part.dims) != 1 for part in given):
        raise NotFusable("a concatenation of rows")
    view = builder.concat([part.view for part in given])
    return RowMatrix(view, (view.width,))


def _take(builder: Builder, attrs: Attributes, a: Anything, owners: Anything) -> Anything:
    a = rows_in(a)
    if owners != Beside("owners") or builder.space(a.view) != NODE:
        raise NotFusable("take of rows")
    return RowMatrix(builder.spread(a.view), a.dims)


def _dot(builder: Builder, attrs: Attributes, a: Anything, b: Anything) -> Anything:
    if a != Beside("segments"):
        raise NotFusable("dot")
    b = rows_in(b)
    if builder.space(b.view) != CHILD:
        raise NotFusable("a sum over children of a value of the node")
    return RowMatrix(builder.gather_up(b.view), b.dims)


def _total(mean: bool, builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    """sum or mean along each row."""
    axes = listed(attrs.get("axis"))
    if isinstance(a, Folded) and axes == (1,) and not mean and not attrs.get("keepdims"):
        return RowMatrix(builder.gather_up(a.rows.view), a.rows.dims)
    a = rows_in(a)
    if attrs.get("exclude") or len(a.dims) != 1 or axes not in ((1,), (-1,)):
        raise NotFusable(f"a sum over {axes}")
    return RowMatrix(builder.total(a.view, mean), (1,) if attrs.get("keepdims") else ())


def _softmax(op: str, builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    a = rows_in(a)
    plain = attrs.get("temperature") in (None, 1.0) and not attrs.get("use_length")
    if attrs.get("axis", -1) not in (1, -1) or len(a.dims) != 1 or not plain:
        raise NotFusable(op)
    return RowMatrix(builder.emit(op, a.view), a.dims)


def _pick(builder: Builder, attrs: Attributes, a: Anything, index: Anything) -> Anything:
    a, index = rows_in(a), rows_in(index)
    if attrs.get("axis", -1) not in (1, -1) or attrs.get("mode", "clip") != "clip" or len(a.dims) != 1:
        raise NotFusable("pick")
    if index.view.width != 1:
        raise NotFusable("pick of several entries per row")
    return RowMatrix(builder.emit("PICK", a.view, index.view, width=1), (1,) if attrs.get("keepdims") else ())


def _argmax(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    a = rows_in(a)
    if attrs.get("axis") not in (1, -1) or len(a.dims) != 1:
        raise NotFusable("argmax over other axes than one")
    return RowMatrix(builder.emit("ARGMAX", a.view, width=1), (1,) if attrs.get("keepdims") else ())


def _same(builder: Builder, attrs: Attributes, a: Anything) -> Anything:
    return rows_in(a)


_BINARY = {
    "ADD": ("elemwise_add", "broadcast_add", "_npi_add"),
    "SUB": ("elemwise_sub", "broadcast_sub", "_npi_subtract"),
    "MUL": ("elemwise_mul", "broadcast_mul", "_npi_multiply"),
    "DIV": ("elemwise_div", "broadcast_div", "_npi_true_divide"),
    "MAX": ("_maximum", "broadcast_maximum"),
    "MIN": ("_minimum", "broadcast_minimum"),
}
_UNARY = {
    "SIGMOID": ("sigmoid", "_npx_sigmoid"),
    "TANH": ("tanh", "_npi_tanh"),
    "RELU": ("relu", "_npx_relu"),
    "EXP": ("exp", "_npi_exp"),
    "LOG": ("log", "_npi_log"),
    "SQRT": ("sqrt", "_npi_sqrt"),
    "SQUARE": ("square", "_npi_square"),
    "ABS": ("abs", "_npi_absolute"),
    "NEG": ("negative", "_npi_negative"),
    "RECIPROCAL": ("reciprocal", "_npi_reciprocal"),
}
_SCALAR = {
    "ADD": ("_plus_scalar", "_npi_add_scalar"),
    "SUB": ("_minus_scalar", "_npi_subtract_scalar"),
    "MUL": ("_mul_scalar", "_npi_multiply_scalar"),
    "DIV": ("_div_scalar", "_npi_true_divide_scalar"),
    "RSUB": ("_rminus_scalar", "_npi_rsubtract_scalar"),
    "RDIV": ("_rdiv_scalar", "_npi_rtrue_divide_scalar"),
}

OPERATORS: dict[str, Emit] = {
    **{name: partial(_binary, op) for op, names in _BINARY.items() for name in names},
    **{name: _unary(op) for op, names in _UNARY.items() for name in names},
    **{name: _scalar(op) for op, names in _SCALAR.items() for name in names},
    **dict.fromkeys(("_maximum_scalar", "_npi_maximum_scalar"), _limited("MAXS", "scalar")),
    **dict.fromkeys(("_minimum_scalar", "_npi_minimum_scalar"), _limited("MINS", "scalar")),
    "ones_like": _filled(1.0),
    "zeros_like": _filled(0.0),
    "clip": _clip,
    "softsign": _softsign,
    "rsqrt": _each(lambda builder, a, attrs: builder.emit("RECIPROCAL", builder.emit("SQRT", a))),
    "add_n": _add_n,
    "FullyConnected": _fully_connected,
    "Activation": _activation,
    "slice_axis": _slice_axis,
    "slice": _slice,
    "Reshape": _reshape,
    "SliceChannel": _split,
    "Concat": _concat,
    "take": _take,
    "dot": _dot,
    "sum": partial(_total, False),
    "mean": partial(_total, True),
    "log_softmax": partial(_softmax, "LOGSOFTMAX"),
    "softmax": partial(_softmax, "SOFTMAX"),
    "pick": _pick,
    "argmax": _argmax,
    "identity": _same,
    "_copy": _same,
    "BlockGrad": _each(lambda builder, a, attrs: builder.stop(a)),
}
"""By operator: instructions for rows; what else they may be told raises NotFusable."""
