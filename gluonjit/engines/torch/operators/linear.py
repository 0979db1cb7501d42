"""Rules of attention and of products of three tensors, and the names of operators of linear algebra."""

from __future__ import annotations

from math import inf
from typing import Any

from gluonjit.program.axes.row import Application
from gluonjit.program.axes.values import Operand, Vals, Values, is_sized


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
