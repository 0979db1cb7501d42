"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gluonjit.engines.torch.rules.values import NotBatchable, OperatorCall, Val


def mm(call: OperatorCall) -> list[Val]:
    """(r, k) @ (k, n): with a weight on the right all rows of all nodes in one product."""
    left, right = call["self"], call["mat2"]
    if right.shared:
        rows = call.rows(left)
        return [call.result(call.emit(torch.mm, [rows, right]), rows.lead, (right.shape[1],))]
    return call.emitted(torch.matmul, [_whole(call, left), call.stack(right)])


def addmm(call: OperatorCall) -> list[Val]:
    """bias + (r, k) @ (k, n)."""
    bias, left, right = call["self"], call["mat1"], call["mat2"]
    scales = [call.get("beta", 1), call.get("alpha", 1)]
    if right.shared and bias.shared and (len(bias.shape) < 2 or bias.shape[0] == 1) and scales == [1, 1]:
        rows = call.rows(left)
        return [call.result(call.emit(torch.addmm, [bias, rows, right]), rows.lead, (right.shape[1],))]
    product = call.emit(torch.matmul, [_whole(call, left), _whole(call, right)])
    scaled = call.stacked(call.emit(torch.mul, [call.stacked(product)], scales[1]))
    added = bias if bias.shared else call.aligned(bias, 2)
    return call.emitted(_plus, [scaled, added], scales[0])


def _plus(product: torch.Tensor, added: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.add(product, added, alpha=scale)


def _whole(call: OperatorCall, val: Val) -> Val:
    return val if val.shared else call.stack(val)


def mv(call: OperatorCall) -> list[Val]:
    """(n, k) @ (k,)."""
    matrix, vector = call["self"], call["vec"]
    if matrix.shared:
        return call.emitted(_times_transposed, [call.stack(vector), matrix])
    if vector.shared:
        return call.emitted(torch.matmul, [call.stack(matrix), vector])
    return call.emitted(_each_times, [call.stack(matrix), call.stack(vector)])


def _times_transposed(vectors: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    return torch.mm(vectors, matrix.t())


def _each_times(matrices: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    return torch.bmm(matrices, vectors.unsqueeze(2)).squeeze(2)


def dot(call: OperatorCall) -> list[Val]:
    """dot and vdot: (k,) with (k,)."""
    left, right = call.vals()
    if call.name == "vdot.default" and "complex" in left.dtype:
        raise NotBatchable(f"{call.name}: it conjugates; type (a.conj() * b).sum()")
    return call.emitted(_dots, [_whole(call, left), _whole(call, right)])


def _dots(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left * right).sum(-1, dtype=left.dtype)


def bmm(call: OperatorCall) -> list[Val]:
    """(b, m, k) @ (b, k, n)."""
    return call.emitted(torch.matmul, [_whole(call, call["self"]), _whole(call, call["mat2"])])


def baddbmm(call: OperatorCall) -> list[Val]:
    """bias + (b, m, k) @ (b, k, n)."""
    bias = call["self"]
    if call.get("beta", 1) != 1 or call.get("alpha", 1) != 1 or (not bias.shared and len(bias.shape) != 3):
        raise NotBatchable(f"{call.name}: scaled, or with a bias of another shape")
    product = call.emit(torch.matmul, [_whole(call, call["batch1"]), _whole(call, call["batch2"])])
    return call.emitted(torch.add, [call.stacked(product), _whole(call, bias)])


def trilinear(call: OperatorCall) -> list[Val]:
    """_trilinear, as bilinear layers call it: of three tensors that are aligned by new axes and summed over some."""
    vals, expands = [call[f"i{k}"] for k in (1, 2, 3)], [tuple(call[f"expand{k}"]) for k in (1, 2, 3)]
    rank = len(vals[0].shape) + len(expands[0])
    placed = []
    for val, new in zip(vals, expands):
        sizes = iter(val.shape)
        shape = tuple([1 if axis in new else next(sizes) for axis in range(rank)])
        if val.shared:
            text = f"aligned{shape}"
            (slot,) = call.writer.emit(_aligned(shape), [val.slot], text)
            placed.append(val._replace(slot=slot, shape=shape, rest=shape))
        else:
            placed.append(call.form(val, 1, shape))
    dims = tuple([axis + 1 for axis in call["sumdim"]])
    return call.emitted(_sum_of_products, placed, dims)


def attention(call: OperatorCall) -> list[Val]:
    """Attention as one operator: (b, heads, n, k) by (b, heads, m, k), with a mask or without."""
    placed = {}
    for name in ("query", "key", "value", "attn_mask"):
        val = call.get(name)
        if val is None or (val.shared and name == "attn_mask" and (val.rank < 4 or val.shape[0] == 1)):
            continue
        rows = call["query"].shape[0]
        if val.rank == 4 and val.shape[0] == rows:
            placed[name] = call.form(call.spread(val), rows, val.shape[1:])
        else:  # a mask that a sample has for all of its rows, or heads
            rest = ((1,) * (4 - val.rank) + val.shape)[1:]
            slot = call.emit(_for_each_row, [call.spread(val)], rows, rest)
            placed[name] = Val(slot, (rows, *rest), val.dtype, rows, rest)
    slots = call.again(placed, 2)
    (shape, _), (sums, dtype) = call.outputs
    return [call.result(slots[0], shape[0], shape[1:]), Val(slots[1], sums, dtype, sums[0], sums[1:])]


def _for_each_row(masks: torch.Tensor, rows: int, rest: tuple[int, ...]) -> torch.Tensor:
    return masks.reshape(-1, 1, *rest).expand(-1, rows, *rest).reshape(-1, *rest)


def distances(call: OperatorCall) -> list[Val]:
    """cdist: between the rows of two matrices of each node."""
    return call.rerun({name: call.spread(call[name]) for name in ("x1", "x2")})


def of_matrices(call: OperatorCall) -> list[Val]:
    """Linear algebra on (..., n, n), of all nodes at once. An error of one is an error of all."""
    if call.name == "_linalg_solve_ex.default" and len(call["B"].shape) < len(call["A"].shape):
        return _solved(call)
    names = [name for name in call.args if isinstance(call[name], Val)]
    slots = call.again({name: call.spread(call[name]) for name in names}, len(call.outputs))
    return [call.stacked(slot, number) for number, slot in enumerate(slots if len(call.outputs) > 1 else (slots,))]


def _solved(call: OperatorCall) -> list[Val]:
    """_linalg_solve_ex with a vector on the right side, which for several matrices is one of one column."""
    if len(call["B"].shape) != 1:
        raise NotBatchable(f"{call.name}: right sides for several matrices")
    column = call.form(call.spread(call["B"]), 1, (*call["B"].shape, 1))
    slots = call.again({"A": call.spread(call["A"]), "B": column}, len(call.outputs))
    return [call.stacked(call.emit(_first_column, [Val(slots[0], (), "", 1, ())]), 0)] + [
        call.stacked(slot, number) for number, slot in enumerate(slots[1:], 1)
    ]


def _first_column(found: torch.Tensor) -> torch.Tensor:
    return found.squeeze(-1)


CHECKING = {"linalg_inv_ex.default", "linalg_cholesky_ex.default", "_linalg_solve_ex.default"}
"""Operators of linear algebra that say whether they have failed, and raise an error if they are asked to."""
MATRICES = CHECKING | {
    f"{name}.default"
    for name in "_linalg_det _linalg_slogdet _linalg_eigh _linalg_svd linalg_qr linalg_matrix_exp "
    "linalg_solve_triangular cholesky_inverse cholesky_solve linalg_eig".split()
}
"""Operators of linear algebra."""


def _aligned(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.reshape(1, *shape)


def _sum_of_products(first: torch.Tensor, second: torch.Tensor, third: torch.Tensor, dims: Any) -> torch.Tensor:
    return (first * second * third).sum(dims)
