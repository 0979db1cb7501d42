"""Products of `mx.np`: dot, matmul, tensordot, einsum."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import mxnet as mx

from .elementwise import aligned
from .linear import contract
from .rule import OperatorCall, Rule
from .symbols import apply
from .values import STACK, NotBatchable, Shape, Val, convert, normal_axis, reshape, reshaped, spread, with_shape


def dot(call: OperatorCall) -> list[Val]:
    """Sums over the left one's last axis and the right one's last but one; a scalar multiplies."""
    left, right = call.inputs
    if not left.ndim or not right.ndim:
        operands = aligned(call.inputs, call.shape)
        return call.deliver(apply("_npi_multiply", operands.symbols, {}), operands.layout, operands.poly)
    if right.ndim > 2:
        raise NotBatchable("np.dot with a right side of more than two axes")
    return contract(call, left, right)


def matmul(call: OperatorCall) -> list[Val]:
    """Matrices in the last two axes; those in front broadcast."""
    left, right = call.inputs
    if right.ndim <= 2 and (right.shared or left.ndim <= 2):
        return contract(call, left, right)
    if call.poly:
        raise NotBatchable("matmul of rows of varying length")
    left, right = _matrix(left, last=False), _matrix(right, last=True)
    ndim = max(left.ndim, right.ndim)
    front = tuple(max(a, b) for a, b in zip(_front(left, ndim), _front(right, ndim)))
    if any(1 in value.shape[:-2] and _front(value, ndim) != front for value in (left, right)):
        raise NotBatchable("matmul that broadcasts an axis of length 1, of which MXNet's own gradient is wrong")
    reference = call.batched[0]
    first, second = (_repeated(spread(value, reference), front) for value in (left, right))
    product = apply("batch_dot", [first, second], {})
    return [Val(reshape(product, call.shape), call.shape, call.dtype, STACK)]


def _repeated(value: Val, front: Shape) -> mx.sym.Symbol:
    """All matrices of a stack in a row, those that broadcast repeated.

    Left to MXNet's matmul, the gradient of what broadcasts would be summed over the wrong axes.
    """
    ndim = len(front) + 2
    own = (1,) * (ndim - value.ndim) + value.shape
    whole = reshape(value.sym, own)
    if own[:-2] != front:
        whole = apply("broadcast_to", [whole], {"shape": (0, *front, *value.shape[-2:])})
    return reshape(whole, value.shape[-2:])


def _matrix(value: Val, last: bool) -> Val:
    """A vector as a matrix of one row, or on the right of one column."""
    if value.ndim > 1:
        return value
    return with_shape(value, (*value.shape, 1) if last else (1, *value.shape), STACK)


def _front(value: Val, ndim: int) -> Shape:
    return (1,) * (ndim - value.ndim) + value.shape[:-2]


def tensordot(call: OperatorCall) -> list[Val]:
    left, right = call.inputs
    summed = [
        [normal_axis(axis, value.ndim) for axis in call.attrs.axes(key) or ()]
        for value, key in ((left, "a_axes_summed"), (right, "b_axes_summed"))
    ]
    return _tensordot(call, summed[0], summed[1])


def tensordot_int_axes(call: OperatorCall) -> list[Val]:
    count = call.attrs.integer("axes", 2)
    return _tensordot(call, list(range(call.data.ndim - count, call.data.ndim)), list(range(count)))


def _tensordot(call: OperatorCall, summed_left: Sequence[int], summed_right: Sequence[int]) -> list[Val]:
    """Both sides as matrices, free axes outside and summed ones inside, for each sample."""
    left, right = call.inputs
    if call.poly:
        raise NotBatchable("tensordot of rows of varying length")
    inner = math.prod(left.shape[axis] for axis in summed_left)
    reference = call.batched[0]
    free_left = [axis for axis in range(left.ndim) if axis not in summed_left]
    free_right = [axis for axis in range(right.ndim) if axis not in summed_right]
    rows, columns = math.prod(left.shape) // inner, math.prod(right.shape) // inner
    first = _arranged(left, reference, [*free_left, *summed_left], (rows, inner))
    second = _arranged(right, reference, [*summed_right, *free_right], (inner, columns))
    product = apply("batch_dot", [first.sym, second.sym], {})
    return [reshaped(Val(product, (rows, columns), call.dtype, STACK), call.shape, STACK)]


def _arranged(value: Val, reference: Val, order: Sequence[int], shape: Shape) -> Val:
    stacked = spread(value, reference)
    if list(order) != sorted(order):
        axes = (0, *(axis + 1 for axis in order))
        stacked = stacked._replace(sym=apply("transpose", [stacked.sym], {"axes": axes}))
    return stacked._replace(sym=reshape(stacked.sym, shape), shape=shape)


def einsum(call: OperatorCall) -> list[Val]:
    """One more letter for the samples, in every operand that has them and in the result."""
    text = _spelled(call.attrs.text("subscripts", "").replace(" ", ""), call.inputs)
    terms, arrow, result = text.partition("->")
    if "." in text or call.poly:
        raise NotBatchable("einsum with an ellipsis that broadcasts, or rows of varying length")
    if not arrow:
        result = "".join(sorted(letter for letter in set(terms) - {","} if terms.count(letter) == 1))
    letter = next(letter for letter in string.ascii_letters if letter not in text)
    parts = terms.split(",")
    if len(parts) != len(call.inputs):
        raise NotBatchable(f"einsum {text} of {len(call.inputs)} operands")
    batched = [part if value.shared else letter + part for part, value in zip(parts, call.inputs)]
    stacked = [value if value.shared else convert(value, STACK) for value in call.inputs]
    symbols = [_on_diagonals(value.sym, part, value.shape) for part, value in zip(parts, stacked)]
    subscripts = f"{','.join(batched)}->{letter}{result}"
    return call.deliver(call.same(symbols, subscripts=subscripts), STACK)


def _spelled(text: str, inputs: Sequence[Val]) -> str:
    """Subscripts with letters for an ellipsis, if it stands for the same axes in every operand that has one."""
    terms = text.partition("->")[0].split(",")
    counts = [value.ndim - len(term) + 3 for term, value in zip(terms, inputs)]
    shapes = {
        value.shape[(at := term.index("...")) : at + count]
        for term, value, count in zip(terms, inputs, counts)
        if "..." in term and count >= 0
    }
    if len(shapes) != 1:
        return text
    free = [letter for letter in string.ascii_uppercase if letter not in text]
    spelled, arrow, result = text.replace("...", "".join(free[: len(shapes.pop())])).partition("->")
    if not arrow:  # the axes of the ellipsis come first
        found = [letter for letter in sorted({*spelled} - {","}) if spelled.count(letter) == 1 or letter in free]
        result = "".join(sorted(found, key=lambda letter: letter not in free))
    return f"{spelled}->{result}"


def _on_diagonals(symbol: mx.sym.Symbol, part: str, shape: Shape) -> mx.sym.Symbol:
    """An operand of which a letter that comes twice reads a diagonal: MXNet's gradient is not written beside that."""
    mask: mx.sym.Symbol | None = None
    for at, letter in enumerate(part):
        if letter in part[:at]:
            first, sizes = part.index(letter), [1] * len(part)
            sizes[first] = sizes[at] = shape[at]
            ones = apply("Reshape", [apply("_eye", [], {"N": shape[at]})], {"shape": tuple(sizes)})
            mask = ones if mask is None else apply("_npi_multiply", [mask, ones], {})
    return symbol if mask is None else apply("_npi_where", [mask, symbol, apply("zeros_like", [symbol], {})], {})


def solve(call: OperatorCall) -> list[Val]:
    """Linear systems; right sides of as many axes as the matrices."""
    matrix, side = call.inputs
    if matrix.ndim != 2 or side.ndim != 2 or call.poly:
        raise NotBatchable("linalg.solve of other than one matrix and one matrix of right sides")
    reference = call.batched[0]
    return call.deliver(call.same([spread(value, reference).sym for value in call.inputs]), STACK)


RULES: dict[str, Rule] = {
    "_np_dot": Rule("rewritten", dot, notes="unchanged with a shared right side, else batch_dot"),
    "_npi_matmul": Rule("rewritten", matmul, notes="as np.dot, or stacked"),
    "_npi_tensordot": Rule("rewritten", tensordot, notes="batch_dot"),
    "_npi_tensordot_int_axes": Rule("rewritten", tensordot_int_axes, notes="batch_dot"),
    "_npi_einsum": Rule("rewritten", einsum, notes="one more letter"),
    "_npi_solve": Rule("rewritten", solve, notes="stacked"),
}
