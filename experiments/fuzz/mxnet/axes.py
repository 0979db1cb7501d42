"""Instructions along axes and products: reductions, softmax, sorting, matrices, sequences."""

from __future__ import annotations

from typing import Any

from experiments.fuzz.mxnet.table import op
from experiments.fuzz.run import WIDTH, Run, fits


@op
def reduce(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    axes: Any = [None, b % x.ndim, -1, (0,), tuple(range(x.ndim))[b % x.ndim :]][c % 5]
    how = f"axis={axes}, keepdims={bool(b % 2)}"
    return [
        f"nd.sum({x}, {how}) * 0.5",
        f"nd.mean({x}, {how})",
        f"{x}.mean()" if axes is None else f"{x}.sum(axis={axes}) * 0.5",
        f"nd.max({x}, {how})",
        f"nd.sqrt(nd.sum({x} * {x}, {how}) + 0.2)",
        f"nd.min({x}, {how})",
        f"nd.prod(nd.tanh({x}) + 0.2, {how})",
        f"nd.nansum({x}, {how}) * 0.5",
        f"nd.norm({x} + 3, {how}) * 0.2",
        f"nd.nanprod(nd.tanh({x}) + 0.2, {how})",
        f"nd.moments({x}, axes={(0,) if axes is None else axes})" if x.dtype != "float16" else None,
    ][(a + b) % 11]


@op
def softmax(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    axis = b % x.ndim - (x.ndim if c % 2 else 0)
    return [
        f"nd.softmax({x}, axis={axis})",
        f"nd.softmin({x}, axis={axis})",
        f"0.2 * nd.log_softmax({x}, axis={axis})",
        f"nd.SoftmaxActivation({x})" if x.ndim > 1 and x.dtype == "float32" else None,
        f"nd.softmax({x}, axis={axis}, temperature=2.0)",
    ][(a + c) % 5]


@op
def order(run: Run, a: int, b: int, c: int) -> str | None:
    """Sorting and places of extremes, on arrays that were given."""
    x = run.exact(a)
    if x.dtype == "float16":
        return None
    axis = b % x.ndim
    return [
        f"nd.argmax({x}.detach(), axis={axis}) * 0.1",
        f"nd.argmin({x}.detach(), axis={axis}) * 0.1",
        f"nd.sort({x}, axis={axis})",
        f'nd.topk({x}, axis={axis}, k=1, ret_typ="value")',
        f"nd.cumsum({x}, axis={axis}) * 0.3",
        f"nd.argsort({x}.detach(), axis={axis}) * 0.1",
        f"nd.L2Normalization({x} + 2)" if x.ndim > 1 else None,
        f"nd.argmax_channel({x}.detach()) * 0.1" if x.ndim == 2 else None,
        f'nd.topk({x}, axis={axis}, k=2, ret_typ="both")[0]' if x.shape[axis] > 1 else None,
        f"nd.sort({x}, axis={axis}, is_ascend=False)",
        f"nd.diag({x}) * 0.5" if x.ndim == 2 else None,
    ][(b + c) % 11]


@op
def weights(run: Run, a: int, b: int, c: int) -> str | None:
    """A parameter in an operator outside any cell."""
    x = run.rows(a)
    if b % 2:
        return f"{x} * 0.5 + nd.broadcast_to(net.vector.data(), shape={x.shape})"
    return f"nd.broadcast_mul({x}, net.vector.data())"


@op
def fully_connected(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.shape[-1] <= 4 and x.ndim > 1 and x.dtype == run.dtype)
    if x is None or not fits(*x.shape[:-1], 4):
        return None
    flat = x.ndim == 2 and bool(b % 2)
    return f"nd.tanh(nd.FullyConnected({x}, net.w{x.shape[-1]}.data(), no_bias=True, num_hidden=4, flatten={flat}))"


@op
def shared_dot(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.shape[-1] <= 4 and x.ndim <= 2 and x.dtype == run.dtype)
    return None if x is None else f"nd.tanh(nd.dot({x}, net.w{x.shape[-1]}.data(), transpose_b=True))"


@op
def own_dot(run: Run, a: int, b: int, c: int) -> str | None:
    """Products of a sample's own matrices."""
    x = run.pick(a, lambda x: x.ndim == 2 and x.dtype != "float16")
    if x is None:
        return None
    y = run.pick(b, lambda y: y.ndim == 2 and y.dtype == x.dtype and y.shape[c % 2] == x.shape[1])
    if y is None:
        y, c = x, 1
    if not fits(x.shape[0], y.shape[1 - c % 2]):
        return None
    turned = bool(c % 2)
    return [
        f"nd.tanh(nd.dot({x}, {y}, transpose_b={turned}))",
        f"nd.tanh(nd.linalg.gemm2({x}, {y}, transpose_b={turned}))",
        f"nd.tanh(nd.dot({x}, {y}, transpose_b={turned}))",
        f"nd.linalg.syrk({x}, alpha=0.5)" if fits(x.shape[0], x.shape[0]) else None,
        f"nd.linalg.extractdiag(nd.dot({x}, {x}, transpose_b=True)) * 0.3" if fits(x.shape[0], x.shape[0]) else None,
        f"nd.linalg.sumlogdiag(nd.dot({x}, {x}, transpose_b=True) + 2) * 0.1" if fits(x.shape[0], x.shape[0]) else None,
    ][b % 6]


@op
def attend(run: Run, a: int, b: int, c: int) -> str | None:
    """softmax(x yT) y."""
    x, y = run.rows(a), run.rows(b)
    if not fits(x.shape[0], y.shape[0]):
        return None
    return f"nd.dot(nd.softmax(nd.dot({x}, {y}, transpose_b=True), axis=-1), {y})"


@op
def batch_dot(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim == 3 and x.dtype != "float16" and fits(x.shape[0], x.shape[1], x.shape[1]))
    if x is None:
        return None
    y = run.like(x, b)
    return [
        f"nd.tanh(nd.batch_dot({x}, {y}, transpose_b=True))",
        f"nd.tanh(nd.linalg.gemm2({x}, {y}, transpose_b=True, alpha=0.7))",
    ][c % 2]


@op
def layer_norm(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.exact(a)
    if x.shape[-1] != WIDTH or x.dtype != run.dtype:
        return None
    return [
        f"net.norm({x})",
        f"net.instance({x}.reshape((-1, {WIDTH}, 1)))",
        f"nd.GroupNorm({x}.reshape((-1, {WIDTH}, 1)), net.gamma.data(), net.beta.data(), num_groups=3)",
    ][c % 3]


@op
def sequence(run: Run, a: int, b: int, c: int) -> str | None:
    """Operators on sequences of known length; the first axis is time."""
    x = run.pick(a, lambda x: x.ndim == 3 and x.dtype == "float32")
    if x is None:
        return None
    length = [(b + k) % x.shape[0] + 1 for k in range(x.shape[1])]
    call = ["SequenceMask", "SequenceLast", "SequenceReverse"][c % 3]
    return f"nd.{call}({x}, sequence_length=nd.array({length}), use_sequence_length=True)"
