"""From a batched symbolic graph to a fused program (see `gluonjit.fused`), where every operator has an instruction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import mxnet as mx

from gluonjit.engines.mxnet.rules import Attributes
from gluonjit.fused import CHILD, NODE, Builder, NotFusable, Program, View, Weight
from gluonjit.graph import Kind


class _Rows(NamedTuple):
    """An array with one row for each node or child, of these dimensions."""

    view: View
    dims: tuple[int, ...]


class _Group(NamedTuple):
    """Operands that are gathered together, one after the other; `apart` once an axis of its own tells them apart."""

    roles: tuple[_Rows, ...]
    apart: bool = False


class _Folded(NamedTuple):
    """Rows that are to be summed up, so many for each node, on an axis of their own."""

    rows: _Rows
    number: int


class _Const(NamedTuple):
    """A constant array, or some columns of it."""

    weight: Weight
    vector: bool


class _Beside(NamedTuple):
    """What tells children apart."""

    name: str


_Value = Any  # one of these


def fused_program(graph: mx.sym.Symbol, kind: Kind, shapes: Sequence[tuple[int, ...]]) -> Program:
    """The program of a batched graph whose constants have these shapes. Raises NotFusable.

    Operands are the roles of the kind's groups, one group after the other.
    """
    reading = _Reading(kind, shapes)
    loaded = json.loads(graph.tojson())
    values: list[list[_Value]] = []
    for node in loaded["nodes"]:
        inputs = [values[number][output] for number, output, *_ in node["inputs"]]
        if node["op"] == "null":
            values.append([reading.variable(node["name"])])
            continue
        rule = OPERATORS.get(node["op"])
        if rule is None:
            raise NotFusable(f"{node['op']} has no instruction")
        made = rule(reading.builder, Attributes(node.get("attrs", {})), *inputs)
        values.append(made if isinstance(made, list) else [made])
    results = [_rows(values[number][output]) for number, output, *_ in loaded["heads"]]
    if any(reading.builder.space(result.view) != NODE for result in results):
        raise NotFusable("a result is of children")
    return reading.builder.finish([result.view for result in results])


class _Reading:
    """The variables of a graph."""

    def __init__(self, kind: Kind, shapes: Sequence[tuple[int, ...]]) -> None:
        self.builder = Builder()
        self._groups = []
        for group in kind.groups:
            spec = kind.operands[group[0][0]]
            if spec.dtype != "float32":
                raise NotFusable(f"an operand of {spec.dtype}")
            width = prod(spec.row_shape)
            if not width:
                raise NotFusable("an operand without elements")
            folded = kind.sum_of > 1 and len(kind.operands) == 1
            if folded and spec.rows != kind.sum_of:
                raise NotFusable("a sum of arrays of several rows")
            spaces = [CHILD if folded or role in kind.children else NODE for role in group]
            roles = [_Rows(self.builder.operand(space, width), spec.row_shape) for space in spaces]
            self._groups.append(_Group(tuple(roles)) if len(roles) > 1 else roles[0])
        self._shapes = shapes

    def variable(self, name: str) -> _Value:
        if name.startswith("group"):
            return self._groups[int(name[5:])]
        if name.startswith("const"):
            number = int(name[5:])
            shape = self._shapes[number]
            if not 1 <= len(shape) <= 2:
                raise NotFusable(f"a constant of shape {shape}")
            rows, columns = shape if len(shape) == 2 else (1, shape[0])
            return _Const(Weight(number, 0, rows, 0, columns), len(shape) == 1)
        return _Beside(name)


def _rows(value: _Value) -> _Rows:
    if not isinstance(value, _Rows):
        raise NotFusable(f"{type(value).__name__} where rows are needed")
    return value


def _row(value: _Value) -> Weight | None:
    """A constant that is one row."""
    return value.weight if isinstance(value, _Const) and value.weight.rows == 1 else None


# --- emitting --------------------------------------------------------------------------------------------------------


def _unary(op: str) -> Callable[..., _Value]:
    def emit(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
        a = _rows(a)
        return _Rows(builder.emit(op, a.view), a.dims)

    return emit


def _scalar(op: str) -> Callable[..., _Value]:
    def emit(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
        a = _rows(a)
        return _Rows(builder.emit(op, a.view, number=attrs.number("scalar", 0.0)), a.dims)

    return emit


def _less(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    a = _rows(a)
    return _Rows(builder.emit("ADDS", a.view, number=-attrs.number("scalar", 0.0)), a.dims)


def _over(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    a, scalar = _rows(a), attrs.number("scalar", 1.0)
    if scalar == 0.0:
        raise NotFusable("a division by zero")
    return _Rows(builder.emit("MULS", a.view, number=1.0 / scalar), a.dims)


_WITH_ROW = {"ADD": "ADDV", "MUL": "MULV", "SUB": "SUBV"}
_WITH_COLUMN = {"ADD": "ADDW", "MUL": "MULW", "SUB": "SUBW", "DIV": "DIVW"}
_COMMUTATIVE = ("ADD", "MUL")


def _binary(op: str) -> Callable[..., _Value]:
    def emit(builder: Builder, attrs: Attributes, a: _Value, b: _Value) -> _Value:
        return _two(builder, op, a, b)

    return emit


def _two(builder: Builder, op: str, a: _Value, b: _Value) -> _Value:
    if isinstance(a, _Const) and op in _COMMUTATIVE:
        a, b = b, a
    a = _rows(a)
    row = _row(b)
    if row is not None:
        if op not in _WITH_ROW or row.columns != a.view.width or len(a.dims) != 1:
            raise NotFusable(f"{op} of rows and a constant")
        return _Rows(builder.vector(_WITH_ROW[op], a.view, row), a.dims)
    b = _rows(b)
    if a.dims == b.dims:
        return _Rows(builder.emit(op, a.view, b.view), a.dims)
    if a.dims == (1,) and len(b.dims) == 1 and op in _COMMUTATIVE:
        a, b = b, a
    if b.dims == (1,) and len(a.dims) == 1 and op in _WITH_COLUMN:
        return _Rows(builder.emit(_WITH_COLUMN[op], a.view, b.view), a.dims)
    raise NotFusable(f"{op} of rows of {a.dims} and of {b.dims}")


def _add_n(builder: Builder, attrs: Attributes, *terms: _Value) -> _Value:
    total = terms[0]
    for term in terms[1:]:
        total = _two(builder, "ADD", total, term)
    return total


def _fully_connected(
    builder: Builder, attrs: Attributes, a: _Value, weight: _Value, bias: _Value | None = None
) -> _Value:
    a = _rows(a)
    row = None if bias is None else _row(bias)
    flat = attrs.flag("flatten", True) or len(a.dims) == 1
    if not isinstance(weight, _Const) or (bias is not None and row is None) or not flat:
        raise NotFusable("a product with something that is no constant")
    if weight.vector or weight.weight.columns != a.view.width:
        raise NotFusable("a product with a constant of another size")
    return _Rows(builder.linear(a.view, weight.weight, row), (weight.weight.rows,))


_ACTIVATIONS = {"sigmoid": "SIGMOID", "tanh": "TANH", "relu": "RELU", "softrelu": "SOFTRELU"}


def _activation(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    kind = attrs.text("act_type", "")
    if kind not in _ACTIVATIONS:
        raise NotFusable(f"Activation {kind}")
    a = _rows(a)
    return _Rows(builder.emit(_ACTIVATIONS[kind], a.view), a.dims)


def _slice_axis(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    begin, end, _ = slice(attrs.integer("begin", 0), attrs.optional_integer("end", None)).indices(_columns(a))
    if attrs.integer("axis", 0) not in (1, -1):
        raise NotFusable("a slice of rows")
    return _cut(a, begin, end)


def _slice(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    begin, end, step = (attrs.entries(key) or () for key in ("begin", "end", "step"))
    if len(begin) != 2 or len(end) != 2 or (begin[0], end[0]) != (None, None) or not {None, 1}.issuperset(step):
        raise NotFusable("a slice of rows")
    first, last, _ = slice(begin[1], end[1]).indices(_columns(a))
    return _cut(a, first, last)


def _columns(a: _Value) -> int:
    if isinstance(a, _Const) and not a.vector:
        return int(a.weight.columns)
    dims = _rows(a).dims
    if len(dims) != 1:
        raise NotFusable(f"a slice of rows of {dims}")
    return dims[0]


def _cut(a: _Value, begin: int, end: int) -> _Value:
    if end <= begin:
        raise NotFusable("a slice without columns")
    if isinstance(a, _Const):
        return a._replace(weight=a.weight._replace(left=a.weight.left + begin, columns=end - begin))
    return _Rows(a.view.part(begin, end), (end - begin,))


def _reshape(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    shape = attrs.axes("shape") or ()
    if attrs.flag("reverse") or not shape or min(shape) < -1:
        raise NotFusable(f"Reshape to {shape}")
    if isinstance(a, _Group):
        if shape == (len(a.roles), -1, *a.roles[0].dims) and not a.apart:
            return a._replace(apart=True)
        raise NotFusable("Reshape of operands that lie together")
    a = _rows(a)
    first, *rest = shape
    if builder.space(a.view) == CHILD and first == -1 and rest and rest[0] > 1 and prod(rest[1:]) == a.view.width:
        return _Folded(_Rows(a.view, tuple(rest[1:])), rest[0])
    if first == 0 and rest.count(-1) == 1:
        known = prod(entry for entry in rest if entry > 0)
        if 0 not in rest and known and a.view.width % known == 0:
            rest = [a.view.width // known if entry == -1 else entry for entry in rest]
    if first not in (0, -1) or min([1, *rest]) < 1 or prod(rest) != a.view.width:
        raise NotFusable(f"Reshape of rows of {a.dims} to {shape}")
    return _Rows(a.view, tuple(rest))


def _split(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    count, axis, squeeze = attrs.integer("num_outputs", 1), attrs.integer("axis", 1), attrs.flag("squeeze_axis")
    if isinstance(a, _Group):
        if a.apart and axis == 0 and squeeze and count == len(a.roles):
            return list(a.roles)
        raise NotFusable("a split of operands that lie together")
    a = _rows(a)
    if axis < 0:
        axis += len(a.dims) + 1
    if axis != 1 or not a.dims or a.dims[0] % count:
        raise NotFusable("a split across rows")
    dims = a.dims[1:] if squeeze and a.dims[0] == count else (a.dims[0] // count, *a.dims[1:])
    width = prod(dims)
    return [_Rows(a.view.part(k * width, (k + 1) * width), dims) for k in range(count)]


def _concat(builder: Builder, attrs: Attributes, *parts: _Value) -> _Value:
    given = [_rows(part) for part in parts]
    if attrs.integer("dim", 1) not in (1, -1) or any(len(part.dims) != 1 for part in given):
        raise NotFusable("a concatenation of rows")
    view = builder.concat([part.view for part in given])
    return _Rows(view, (view.width,))


def _take(builder: Builder, attrs: Attributes, a: _Value, owners: _Value) -> _Value:
    a = _rows(a)
    if owners != _Beside("owners") or builder.space(a.view) != NODE:
        raise NotFusable("take of rows")
    return _Rows(builder.spread(a.view), a.dims)


def _dot(builder: Builder, attrs: Attributes, a: _Value, b: _Value) -> _Value:
    if a != _Beside("segments"):
        raise NotFusable("dot")
    b = _rows(b)
    if builder.space(b.view) != CHILD:
        raise NotFusable("a sum over children of what is the node's")
    return _Rows(builder.gather_up(b.view), b.dims)


def _total(scale: bool) -> Callable[..., _Value]:
    """sum or mean along each row."""

    def emit(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
        axes = attrs.axes("axis")
        if isinstance(a, _Folded) and axes == (1,) and not scale and not attrs.flag("keepdims"):
            return _Rows(builder.gather_up(a.rows.view), a.rows.dims)
        a = _rows(a)
        if attrs.flag("exclude") or len(a.dims) != 1 or axes not in ((1,), (-1,)):
            raise NotFusable(f"a sum over {axes}")
        view = builder.emit("SUMW", a.view, width=1)
        if scale:
            view = builder.emit("MULS", view, number=1.0 / a.view.width)
        return _Rows(view, (1,) if attrs.flag("keepdims") else ())

    return emit


def _softmax(op: str) -> Callable[..., _Value]:
    def emit(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
        a = _rows(a)
        plain = attrs.text("temperature", "None") in ("None", "1.0", "1") and not attrs.flag("use_length")
        if attrs.integer("axis", -1) not in (1, -1) or len(a.dims) != 1 or not plain:
            raise NotFusable(op)
        return _Rows(builder.emit(op, a.view), a.dims)

    return emit


def _pick(builder: Builder, attrs: Attributes, a: _Value, index: _Value) -> _Value:
    a, index = _rows(a), _rows(index)
    if attrs.integer("axis", -1) not in (1, -1) or attrs.text("mode", "clip") != "clip" or len(a.dims) != 1:
        raise NotFusable("pick")
    if index.view.width != 1:
        raise NotFusable("pick of several a row")
    return _Rows(builder.emit("PICK", a.view, index.view, width=1), (1,) if attrs.flag("keepdims") else ())


def _same(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    return _rows(a)


def _stop(builder: Builder, attrs: Attributes, a: _Value) -> _Value:
    a = _rows(a)
    return _Rows(builder.stop(a.view), a.dims)


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
    "ADDS": ("_plus_scalar", "_npi_add_scalar"),
    "MULS": ("_mul_scalar", "_npi_multiply_scalar"),
    "RSUBS": ("_rminus_scalar", "_npi_rsubtract_scalar"),
    "RDIVS": ("_rdiv_scalar", "_npi_rtrue_divide_scalar"),
}

OPERATORS: dict[str, Callable[..., _Value]] = {
    **{name: _binary(op) for op, names in _BINARY.items() for name in names},
    **{name: _unary(op) for op, names in _UNARY.items() for name in names},
    **{name: _scalar(op) for op, names in _SCALAR.items() for name in names},
    "_minus_scalar": _less,
    "_npi_subtract_scalar": _less,
    "_div_scalar": _over,
    "_npi_true_divide_scalar": _over,
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
    "sum": _total(False),
    "mean": _total(True),
    "log_softmax": _softmax("LOGSOFTMAX"),
    "softmax": _softmax("SOFTMAX"),
    "pick": _pick,
    "identity": _same,
    "_copy": _same,
    "BlockGrad": _stop,
}
"""By operator: instructions for rows; what else they may be told raises NotFusable."""
