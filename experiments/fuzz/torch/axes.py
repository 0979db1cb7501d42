"""Instructions along axes and products: reductions, softmax, sorting, matrices."""

from __future__ import annotations

from typing import Any

from experiments.fuzz.run import WIDTH, Run, Var, fits
from experiments.fuzz.torch.table import op


def shaped(run: Run, k: int) -> Var | None:
    """A tensor that has an axis."""
    found: Var | None = run.pick(k, lambda x: x.ndim > 0)
    return found


@op
def reduce(run: Run, a: int, b: int, c: int) -> str | None:
    x = shaped(run, a)
    if x is None:
        return None
    axis = b % x.ndim
    axes: Any = [axis, -1, (0,), tuple(range(x.ndim))[axis:], 0][c % 5]
    how = f"dim={axes}, keepdim={bool(b % 2)}"
    single = f"{axis}, keepdim={bool(b % 2)}"
    return [
        f"torch.sum({x}, {how}) * 0.5",
        f"{x}.mean({how})",
        f"{x}.sum() * 0.5",
        f"torch.amax({x}, {how})",
        f"torch.sqrt(torch.sum({x} * {x}, {how}) + 0.2)",
        f"torch.amin({x}, {how})",
        f"torch.prod(torch.tanh({x}) + 0.2, {single})",
        f"torch.nansum({x}, {how}) * 0.5",
        f"torch.norm({x} + 3, {how}) * 0.2",
        f"torch.logsumexp({x}, {how}) * 0.5",
        f"torch.var({x} * 2, {how}, correction=0)",
        f"torch.std({x} + torch.arange({x.shape[-1]}), -1, correction=0)" if x.shape[-1] > 1 else None,
        f"{x}.mean()",
        f"{x}.max()",
        f"{x}.min() * 0.5",
        f"{x}.sum(({axis},), dtype=torch.float64).to(torch.{x.dtype}) * 0.3",
        f"torch.linalg.vector_norm({x} + 2, {how}) * 0.2" if isinstance(axes, (int, tuple)) else None,
        f"(({x} > 0.1234).any({single}) * 0.5)",
        f"(({x} > -0.5678).all(dim={axis})) * 0.5",
        f"torch.count_nonzero({x} > 0.1234, dim={axis}) * 0.1",
        f"{x}.var(unbiased=False)",
        f"torch.var_mean({x}, {how}, correction=0)[0]",
        f"{x}.norm() * 0.3 + 0 * {x}.sum()",
        f"torch.std_mean({x} + torch.arange({x.shape[-1]}), correction=0)" if x.shape[-1] > 1 else None,
    ][(a + b) % 24]


@op
def softmax(run: Run, a: int, b: int, c: int) -> str | None:
    x = shaped(run, a)
    if x is None:
        return None
    axis = b % x.ndim - (x.ndim if c % 2 else 0)
    return [
        f"F.softmax({x}, dim={axis})",
        f"{x}.softmax({axis})",
        f"F.softmin({x}, dim={axis})",
        f"0.2 * {x}.log_softmax({axis})",
        f"torch.softmax({x} / 2.0, dim={axis})",
        f"F.glu({x}, {axis})" if x.shape[axis] % 2 == 0 else None,
        f"F.normalize({x} + 2, dim={axis})",
        f"{x}.cumsum({axis}) * 0.3",
        f"torch.cumprod({x}.tanh() + 0.5, {axis})",
        f"torch.diff({x}, dim={axis})" if x.shape[axis] > 1 else None,
        f"{x}.logcumsumexp({axis}) * 0.3",
    ][(a + c) % 11]


@op
def order(run: Run, a: int, b: int, c: int) -> str | None:
    """Sorting and places of extremes, on tensors that were given."""
    x = run.exact(a)
    if x.dtype == "float16" or not x.ndim:
        return None
    axis = b % x.ndim
    return [
        f"{x}.argmax({axis}) * 0.1",
        f"torch.argmin({x}, dim={axis}, keepdim=True) * 0.1",
        f"torch.sort({x}, dim={axis})[0]",
        f"torch.topk({x}, 1, dim={axis})[0]",
        f"{x}.sort({axis}, descending=True)",
        f"torch.argsort({x}, dim={axis}) * 0.1",
        f"{x}.max({axis})",
        f"{x}.min(dim={axis}, keepdim=True).values",
        f"torch.topk({x}, 2, dim={axis}).values" if x.shape[axis] > 1 else None,
        f"torch.median({x}, dim={axis})[0]",
        f"torch.kthvalue({x}, 1, dim={axis})[0]",
        f"{x}.argmax() * 0.1",
        f"{x}.gather({axis}, {x}.argmax({axis}, keepdim=True))",
        f"torch.take_along_dim({x}, torch.argsort({x}, dim={axis}), {axis})",
        f"torch.searchsorted(torch.tensor([-0.5, 0.0, 0.5], dtype=torch.{x.dtype}), {x}.detach()) * 0.1",
        f"torch.cummax({x}, {axis})[0]",
        f"torch.aminmax({x}, dim={axis})[0]",
        f"torch.unique({x}.detach()).sum() * 0.3",
        f"torch.nonzero({x} > 0).sum() * 0.1",
        f"{x}[{x} > -2].sum() * 0.3",
    ][(b + c) % 20]


@op
def weights(run: Run, a: int, b: int, c: int) -> str | None:
    """A parameter in an operator outside any cell."""
    x = run.pick(a, lambda x: x.ndim > 0 and x.shape[-1] == WIDTH and x.dtype == run.dtype)
    if x is None:
        return None
    return [
        f"{x} * 0.5 + net.vector",
        f"{x} * net.vector",
        f"net.vector - {x}",
        f"torch.addmm(net.vector, {x}.reshape(-1, {WIDTH}), net.squash.w)",
        f"{x} + net.vector.expand({', '.join(map(str, x.shape))})",
        f"{x} * net.scale",
        f"net.vector.dot({x})" if x.ndim == 1 else f"{x} @ net.vector",
        f"net.squash.w.t() @ {x}" if x.ndim == 1 else f"{x} @ net.squash.w",
        f"torch.cat([net.vector.unsqueeze(0), {x}.reshape(-1, {WIDTH})])" if x.size <= 24 else None,
        "net.vector",
    ][(b + c) % 10]


@op
def linear(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim > 0 and x.shape[-1] <= 4 and x.dtype == run.dtype)
    if x is None or not fits(*x.shape[:-1], 4):
        return None
    w = f"net.w{x.shape[-1]}"
    return [
        f"F.linear({x}, {w}).tanh()",
        f"torch.tanh({x} @ {w}.t())",
        f"torch.matmul({x}, {w}.T).sin()",
        f"torch.tanh(torch.einsum('...i,oi->...o', {x}, {w}))",
        f"F.linear({x}, {w}, torch.ones(4, dtype=torch.{x.dtype})).tanh()",
        f"torch.tensordot({x}, {w}, dims=([-1], [1])) * 0.5",
        f"torch.mm({x}, {w}.t()) * 0.5" if x.ndim == 2 else f"torch.mv({w}, {x})" if x.ndim == 1 else None,
        f"torch.inner({x}, {w}) * 0.5",
    ][(b + c) % 8]


@op
def own_product(run: Run, a: int, b: int, c: int) -> str | None:
    """Products of a sample's own matrices."""
    x = run.pick(a, lambda x: x.ndim == 2 and x.dtype != "float16")
    if x is None:
        return None
    y = run.pick(b, lambda y: y.ndim == 2 and y.dtype == x.dtype and y.shape[c % 2] == x.shape[1])
    if y is None:
        y, c = x, 1
    if not fits(x.shape[0], y.shape[1 - c % 2]) or not fits(x.shape[0], x.shape[0]):
        return None
    turned = f"{y}.t()" if c % 2 else f"{y}"
    return [
        f"torch.tanh({x} @ {turned})",
        f"torch.mm({x}, {turned}).tanh()",
        f"torch.matmul({x}, {turned}).sin()",
        f"torch.einsum('ij,jk->ik', {x}, {turned}).tanh()",
        f"({x} @ {x}.T).diagonal() * 0.3",
        f"torch.trace({x} @ {x}.t()) * 0.1",
        f"torch.linalg.det({x} @ {x}.t() + 2 * torch.eye({x.shape[0]}, dtype=torch.{x.dtype})) * 0.01",
        f"torch.addmm({x} @ {turned}, {x}, {turned}, beta=0.5, alpha=0.3).tanh()",
        f"torch.einsum('ij,ij->i', {x}, {x}) * 0.5",
        f"torch.einsum('ij,kj->', {x}, {x}) * 0.1",
        f"torch.mv({x}, {y}[0]) * 0.3" if c % 2 else f"({x} @ {y}[:, 0]) * 0.3",
        f"torch.dot({x}[0], {x}[-1]) * 0.3",
        f"torch.tril({x}) * 0.5",
        f"torch.cdist({x} + 3, {turned}.t()) * 0.1",
        f"torch.kron({x}[:1], {x}[:1]) * 0.5" if x.shape[1] <= 3 else None,
        f"torch.linalg.solve({x} @ {x}.t() + 3 * torch.eye({x.shape[0]}, dtype=torch.{x.dtype}), {x})",
    ][b % 16]


@op
def attend(run: Run, a: int, b: int, c: int) -> str | None:
    """softmax(x yT) y."""
    x, y = run.rows(a), run.rows(b)
    if not fits(x.shape[0], y.shape[0]):
        return None
    return [
        f"torch.softmax({x} @ {y}.t(), -1) @ {y}",
        f"F.scaled_dot_product_attention({x}, {y}, {y})",
        f"(F.softmax(torch.matmul({x}, {y}.transpose(0, 1)) / 3 ** 0.5, dim=-1) @ {y})",
        f"net.attention({x}, {y}, {y})[0]",
        f"torch.einsum('qk,kd->qd', ({x} @ {y}.T).softmax(1), {y})",
    ][c % 5]


@op
def batch_product(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim == 3 and x.dtype != "float16" and fits(x.shape[0], x.shape[1], x.shape[1]))
    if x is None:
        return None
    y = run.like(x, b)
    return [
        f"torch.tanh(torch.bmm({x}, {y}.transpose(1, 2)))",
        f"torch.tanh({x} @ {y}.mT)",
        f"torch.einsum('bij,bkj->bik', {x}, {y}) * 0.5",
        f"torch.baddbmm({x} @ {y}.mT, {x}, {y}.mT).tanh()",
        f"({x} @ {y}[0].t()).tanh()",
        f"torch.einsum('bij,bij->b', {x}, {y}) * 0.3",
        f"({x} @ {y}[0, 0]).tanh()",
    ][c % 7]


@op
def norms(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.exact(a)
    if not x.ndim or x.shape[-1] != WIDTH or x.dtype != run.dtype:
        return None
    return [
        f"net.norm({x})",
        f"F.layer_norm({x}, ({WIDTH},))",
        f"F.layer_norm({x}, ({WIDTH},), net.vector, net.squash.b)",
        f"net.group({x}.reshape(-1, {WIDTH}, 1))",
        f"F.layer_norm({x}, {x.shape})",
        f"net.instance(torch.stack([{x}.reshape(-1, {WIDTH}), {x}.reshape(-1, {WIDTH}) * 0.5], -1))",
        f"F.rms_norm({x}, ({WIDTH},))",
        f"net.statistics({x}.reshape(-1, {WIDTH}))",
    ][(b + c) % 8]
