"""Products: with a weight that all samples share one large product, else one small product per sample."""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod

import mxnet as mx

from gluonjit.engines.mxnet.framework.symbols import apply, listed
from gluonjit.program.axes.elementwise import Map
from gluonjit.program.axes.products import Contract
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.values import Shape, Vals, Values

MAP = Map(casts=None)


def added(call: Application, one: Values, other: Values) -> Vals:
    """The sum of two values."""
    return MAP.lift(call.on("broadcast_add", {}, [one, other], call.outs))


def connected(call: Application) -> Vals:
    """FullyConnected: of all rows, by a weight that all nodes share, or by that of each."""
    data, weight, *bias = call.vals
    width, writer = weight.shape[1], call.writer
    if data.shared or not weight.shared:
        matrix = writer.form(writer.spread(data), 1, (prod(data.shape) // width, width))
        (slot,) = writer.call("batch_dot", {"transpose_b": True}, [matrix, writer.each(weight)])
        found = call.lying([slot], 1, (matrix.rest[0], weight.shape[0]))
        return added(call, found[0], bias[0]) if bias else found
    if data.padded:
        rows = writer.put("reshape", data, data.rest[-1:])
        if data.rank > 2 and call.get("flatten", True):
            raise call.mixed_rows
        found = call.lying(call.again([rows, weight, *bias]), 1, call.shape)
        return [writer.put("reshape", found[0], call.shape)]
    if data.packed:
        rows = writer.folded(data, 1)
    else:
        rows = writer.form(data, prod(data.shape) // width, (width,))
    rest = (*([] if call.get("flatten", True) else rows.rest[:-1]), weight.shape[0])
    if bias and not bias[0].shared:
        found = call.lying(call.again([rows, weight], {"no_bias": True}), rows.lead, rest)
        return added(call, found[0], bias[0])
    return call.lying(call.again([rows, weight, *bias]), rows.lead, rest)


def _turned(call: Application, key: str, labels: str) -> str:
    return labels[::-1] if call.get(key) else labels


def _dotted(call: Application) -> str:
    """Sums over the left one's last axis and the right one's first; transposes swap which."""
    left, right = [val.rank for val in call.vals]
    one, other = "abcdefg"[: left - 1] + "k", "k" + "tuvwxyz"[: right - 1]
    terms = f"{_turned(call, 'transpose_a', one)},{_turned(call, 'transpose_b', other)}"
    return f"{terms}->{one[:-1]}{other[1:]}"


def is_sparse(call: Application) -> str | None:
    """Says so of a product that is kept in sparse storage."""
    return None if call.get("forward_stype", "default") == "default" else "a sparse result"


DOT = Contract(_dotted)


def dot(call: Application) -> Vals:
    """Two operands, over the left one's last axis and the right one's first."""
    left, right = call.vals
    transposes = call.get("transpose_a") or call.get("transpose_b")
    if max(left.rank, right.rank) > 2 and transposes:
        raise call.refuse("a transpose of more than two axes")
    if left.rank == 1 and right.shared and not transposes and not left.padded:
        return call.lying(call.again([call.writer.stack(left), right]), 1, right.shape[1:])
    return DOT.lift(call)


def numpy_dot(call: Application) -> Vals:
    """np.dot: over the left one's last axis and the right one's last but one; a number multiplies."""
    if not all(val.rank for val in call.vals):
        return MAP.lift(call.on("_npi_multiply", {}, call.vals, call.outs))
    if call.vals[1].rank > 2:
        raise call.refuse("a right side of more than two axes")
    return dot(call.on("dot", {}, call.vals, call.outs))


def factors(call: Application) -> int:
    """The products of numbers in one of matrices: of each result as many as the left one's rows have entries."""
    rank = call.vals[0].rank
    return prod(call.shape) * (call.vals[0].shape[-2 if call.get("transpose_a") else -1] if rank else 1)


def matrices(call: Application) -> str:
    """Matrices in the last two axes, all axes before them alike."""
    front = "abcdefg"[: call.vals[0].rank - 2]
    one, other = _turned(call, "transpose_a", "ik"), _turned(call, "transpose_b", "kj")
    return f"{front}{one},{front}{other}->{front}ij"


_OF_EACH = Contract(matrices, each=True)


def gemm(call: Application) -> Vals:
    """alpha * A B, and with three operands + beta * C, by batch_dot.

    Not as gemm itself, whose backward adds to what it has not cleared where gradients are added up.
    """
    if call.get("axis", -2) != -2:
        raise call.refuse("matrices on other axes than the last two")
    factors, addend, rank = call.vals[:2], call.vals[2:], call.vals[0].rank
    transposes = {key: bool(call.get(key)) for key in ("transpose_a", "transpose_b")}
    one = call.on("dot" if rank == 2 else "batch_dot", transposes, factors, call.outs)
    (found,) = _of_many(one) if rank > 3 else (DOT if rank == 2 else _OF_EACH).lift(one)
    found = _scaled(call, found, "alpha")
    return added(call, found, _scaled(call, addend[0], "beta")) if addend else [found]


def _of_many(call: Application) -> Vals:
    """batch_dot of matrices behind more than one axis."""
    writer = call.writer
    rows = [writer.folded(writer.spread(val), 1) for val in call.vals]
    flat = [writer.put("shape", val, (-1, *val.rest[-2:])) for val in rows]
    (found,) = call.made(call.again(flat), 1)
    return [writer.put("reshape", found, call.shape[1:])]


def _scaled(call: Application, val: Values, key: str) -> Values:
    factor = float(call.get(key, 1.0))
    return val if factor == 1.0 else call.writer.put("scale", val, factor)


def matmul(call: Application) -> Vals:
    """Matrices in the last two axes; those in front broadcast.

    Left to MXNet's matmul, the gradient of what broadcasts would be summed over the wrong axes.
    """
    if call.vals[1].rank <= 2:
        return dot(call.on("dot", {}, call.vals, call.outs))
    front = call.shape[: max(val.rank for val in call.vals) - 2]
    if any(1 in val.shape[:-2] and val.shape[:-2] != front for val in call.vals):
        raise call.refuse("it broadcasts an axis of length 1, of which MXNet's own gradient is wrong")
    return _MATMUL.lift(call)


def _multiplied(call: Application) -> str:
    left, right = [val.rank for val in call.vals]
    front = "abcdef"[: max(left, right) - 2]
    one = "k" if left == 1 else front[len(front) - left + 2 :] + "ik"
    return f"{one},{front[len(front) - right + 2 :]}kj->{front}{'i' if left > 1 else ''}j"


_MATMUL = Contract(_multiplied, rows=False)


def tensordot(call: Application) -> str:
    """The labels of np.tensordot."""
    left, right = [val.rank for val in call.vals]
    if call.name == "_npi_tensordot":
        pairs = zip(listed(call.attrs["a_axes_summed"]), listed(call.attrs["b_axes_summed"]))
    else:
        count = call.get("axes", 2)
        pairs = zip(range(left - count, left), range(count))
    one, other = list("abcdefg"[:left]), list("tuvwxyz"[:right])
    for here, there in pairs:
        other[there] = one[here]
    free = [label for label in one + other if (label in one) != (label in other)]
    return f"{''.join(one)},{''.join(other)}->{''.join(free)}"


def einsum(call: Application) -> Vals:
    """One more letter for the nodes, in every operand that has them and in the result."""
    text = _spelled(str(call.get("subscripts", "")).replace(" ", ""), call.vals)
    terms, arrow, result = text.partition("->")
    if "." in text:
        raise call.refuse("an ellipsis that broadcasts")
    if not arrow:
        result = "".join(sorted(letter for letter in {*terms} - {","} if terms.count(letter) == 1))
    letter = next(letter for letter in string.ascii_letters if letter not in text)
    parts = terms.split(",")
    named = [part if val.shared else letter + part for part, val in zip(parts, call.vals)]
    vals = [val if val.shared else call.writer.stack(val) for val in call.vals]
    shapes = [val.shape for val in vals]

    def summed(*symbols: mx.sym.Symbol) -> mx.sym.Symbol:
        placed = [_on_diagonals(*each) for each in zip(symbols, parts, shapes)]
        return apply(call.name, placed, {**call.attrs, "subscripts": f"{','.join(named)}->{letter}{result}"})

    return call.applied(summed, vals)


def _spelled(text: str, vals: Sequence[Values]) -> str:
    """Subscripts with letters for an ellipsis, if it stands for the same axes in every operand that has one."""
    terms = text.partition("->")[0].split(",")
    counts = [val.rank - len(term) + 3 for term, val in zip(terms, vals)]
    shapes = {
        val.shape[(at := term.index("...")) : at + count]
        for term, val, count in zip(terms, vals, counts)
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
