"""The operators of numpy: how each runs for one sample, how for many, and how gradients go through it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gluonjit.program.axes.along import Reduce
from gluonjit.program.axes.elementwise import Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application, By, Row
from gluonjit.program.axes.shapes import Join, Permute, Reshape
from gluonjit.program.axes.values import Operand, Shaped, Vals, placed
from gluonjit.program.axes.writer import Writer
from gluonjit.program.trace import TraceOp
from gluonjit.rows.values import pair

Gradient = Callable[..., Sequence[Any]]
"""Of the gradient of the result, the result, and the arguments: gradients of these, before broadcasting is undone."""


class Operator(NamedTuple):
    """A function of arrays, its gradient, and what it does with axes: no row says that only programs call it."""

    run: Callable[..., Any]
    gradient: Gradient
    row: Row | None = None


class ArrayFunction:
    """An operator with its arguments, as a function of arrays: `Operand` k among the arguments is array k."""

    def __init__(self, of: Operator, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.of, self.args, self.named = of, args, named

    def __call__(self, *arrays: Any) -> Any:
        return self.of.run(*placed(self.args, arrays), **self.named)

    def gradients(self, gradient: Any, result: Any, arrays: Sequence[Any]) -> list[Any]:
        """The gradients of the arrays, each of the array's shape."""
        found = self.of.gradient(gradient, result, *placed(self.args, arrays), **self.named)
        args = self.args[0] if isinstance(self.args[0], tuple) else self.args
        parts: dict[int, Any] = {arg: part for arg, part in zip(args, found) if arg.__class__ is Operand}
        return [unbroadcast(parts[k], array.shape) for k, array in enumerate(arrays)]


def unbroadcast(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sums over the axes along which an array of this shape was repeated."""
    more = np.ndim(gradient) - len(shape)
    axes = [axis + more for axis, size in enumerate(shape) if size == 1 != gradient.shape[axis + more]]
    return np.sum(gradient, (*range(more), *axes)).reshape(shape) if more or axes else gradient.reshape(shape)


def _part(call: Application) -> Vals:
    if len(call.vals) > 1:
        raise call.refuse("by an array")
    key = call.attrs["1"]
    keys = (slice(None), *(key if isinstance(key, tuple) else (key,)))
    return call.made(call.again(call.stacked(*call.vals), {"1": keys}))


def _put(gradient: Any, result: Any, array: Any, key: Any) -> list[Any]:
    found = np.zeros_like(array)
    found[key] = gradient
    return [found]


def _product(call: Application) -> str:
    """The labels of a product of vectors and matrices."""
    left, right = [val.rank for val in call.vals]
    if max(left, right) > 2:
        raise call.refuse("of more than two axes")
    return f"{'ik'[-left:]},{'kj'[:right]}->{'i' * (left == 2)}{'j' * (right == 2)}"


def _factors(gradient: Any, result: Any, left: Any, right: Any, *many: Any) -> list[Any]:
    """The gradients of a product of matrices, or of many; vectors are matrices of one row or column."""
    a = left[None] if left.ndim == 1 else left
    b = right[:, None] if right.ndim == 1 else right
    g = gradient[..., None] if right.ndim == 1 else gradient
    g = g[..., None, :] if left.ndim == 1 else g
    of_left, of_right = g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g
    return [of_left, of_right[..., 0] if right.ndim == 1 else of_right]


def _repeated(gradient: Any, array: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis is not None and not keepdims:
        gradient = np.expand_dims(gradient, axis)
    return np.broadcast_to(gradient, array.shape)


def _unjoined(gradient: Any, result: Any, arrays: Any, axis: int = 0) -> Sequence[Any]:
    return np.split(gradient, np.cumsum([array.shape[axis] for array in arrays])[:-1], axis)


def _like(gradient: Any, result: Any, array: Any, *ignored: Any) -> list[Any]:
    return [gradient.reshape(array.shape)]


def _cut(call: Application, value: Any) -> Any:
    """The part of rows that a slice of their only axis is."""
    key = call.attrs["1"]
    if key.__class__ is not slice or key.step is not None or value.rank != 1:
        raise call.refuse("of several axes")
    return value.part(0, key.indices(value.shape[0])[0], *call.shape)


def _each(code: str, turned: str = "") -> Map:
    """An operator on each entry, by its instruction; turned: that of a number and rows, where their order matters."""

    def run(call: Application, first: Any, *others: Any) -> Any:
        if others or len(call.attrs) == 1:
            return pair(code, *call.vals) if others else first.do(code)
        left, right = call.attrs["0"], call.attrs["1"]
        return pair(code, first, right) if left.__class__ is Operand else pair(turned or code, first, left)

    return Map(casts=None, code=run)


_along = partial(Reduce, "axis", keep="keepdims", many=True)
_BY_FUNCTION: dict[Any, tuple[Gradient, Row]] = {
    np.add: (lambda g, y, a, b: [g, g], _each("ADD")),
    np.subtract: (lambda g, y, a, b: [g, -g], _each("SUB", "RSUB")),
    np.multiply: (lambda g, y, a, b: [g * b, g * a], _each("MUL")),
    np.true_divide: (lambda g, y, a, b: [g / b, -g * y / b], _each("DIV", "RDIV")),
    np.maximum: (lambda g, y, a, b: [g * (a >= b), g * (a < b)], _each("MAX")),
    np.negative: (lambda g, y, a: [-g], _each("NEG")),
    np.exp: (lambda g, y, a: [g * y], _each("EXP")),
    np.log: (lambda g, y, a: [g / a], _each("LOG")),
    np.tanh: (lambda g, y, a: [g * (1 - y * y)], _each("TANH")),
    np.square: (lambda g, y, a: [2 * g * a], _each("SQUARE")),
    np.sqrt: (lambda g, y, a: [g / (2 * y)], _each("SQRT")),
    np.absolute: (lambda g, y, a: [g * np.sign(a)], _each("ABS")),
    np.matmul: (_factors, Contract(_product)),
    np.sum: (lambda g, y, a, **axes: [_repeated(g, a, **axes)], _along(code="SUM")),
    np.mean: (lambda g, y, a, **axes: [_repeated(g * (np.size(y) / a.size), a, **axes)], _along(code="MEAN")),
    np.concatenate: (_unjoined, Join("axis")),
    np.stack: (lambda g, y, arrays, axis=0: list(np.moveaxis(g, axis, 0)), Join("axis", new=True)),
    np.reshape: (_like, Reshape()),
    np.transpose: (
        lambda g, y, a, axes=None: [np.transpose(g, axes and np.argsort(axes))],
        Permute(lambda call, rank: call.get("axes", range(rank)[::-1])),
    ),
    operator.getitem: (_put, By(_part, "shape", "the same part of each sample", code=_cut)),
}
OPERATORS = {run.__name__: Operator(run, gradient, row) for run, (gradient, row) in _BY_FUNCTION.items()}
"""By the name of the function in numpy."""


def call_of(op: TraceOp, vals: Sequence[Any], outputs: Sequence[Shaped]) -> tuple[Row | None, Application]:
    """The row of an operator of a trace, and its call on values."""
    return OPERATORS[op.name].row, Application(op.name, dict(op.attrs), vals, outputs, Writer(0))


PRIMS: dict[str, Operator] = {
    "reshape": Operator(lambda x, rest: x.reshape(-1, *rest), _like),
    "shape": Operator(lambda x, shape: x.reshape(shape), _like),
    "permute": OPERATORS["transpose"],
    "expand": Operator(lambda x, count, shape: np.broadcast_to(x, (count, *shape)), lambda g, *ignored: [g]),
    "widen": Operator(lambda x, rest: np.broadcast_to(x, (len(x), *rest)), lambda g, *ignored: [g]),
    "matrices": Operator(lambda a, b, many: a @ b, _factors),
}
"""What programs call to bring values into another form (`program.axes.writer.Writer`)."""
