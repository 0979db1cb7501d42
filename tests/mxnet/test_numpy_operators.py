"""Every operator of MXNet's numpy interface: batched it is what it is sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, gluon, np, npx
from numpy_support import Outcome, agree, numpy_program, uniform, whole
from support import TOLERANCE

import gluonjit


@pytest.fixture(autouse=True)
def numpy_semantics() -> Iterator[None]:
    with numpy_program():
        yield


class Sample:
    """What a case gets: arrays of several shapes, other ones for each sample."""

    def __init__(self, seed: int) -> None:
        self.x = uniform(3, 4, seed=seed)
        self.y = uniform(3, 4, seed=seed + 100)
        self.p = uniform(3, 4, seed=seed + 200, low=0.5, high=1.5)
        self.v = uniform(4, seed=seed + 300)
        self.s = uniform(seed=seed + 400)
        self.t = uniform(2, 3, 4, seed=seed + 500)
        self.q = uniform(3, 3, seed=seed + 600)
        self.i = whole(3, 3, seed=seed + 700)
        self.n = whole(9, 3, 4, seed=seed + 800)
        self.d = uniform(3, 4, seed=seed + 900, dtype="float64")
        self.m = np.array(onp.arange(12).reshape(3, 4) % (seed + 2) > 0)
        self.floats = [self.x, self.y, self.p, self.v, self.s, self.t, self.q, self.d]


Case = Callable[[Sample, Any], Any]
CASES: dict[str, Case] = {
    # Python's operators
    "x + y": lambda a, w: a.x + a.y,
    "x - y": lambda a, w: a.x - a.y,
    "x * y": lambda a, w: a.x * a.y,
    "x / p": lambda a, w: a.x / a.p,
    "x % p": lambda a, w: a.x % a.p,
    "p ** y": lambda a, w: a.p**a.y,
    "x @ w.T": lambda a, w: a.x @ w.T,
    "x @ q": lambda a, w: a.q @ a.x,
    "v @ v": lambda a, w: a.v @ a.v,
    "x @ v": lambda a, w: a.x @ a.v,
    "t @ t": lambda a, w: a.t @ a.t.transpose(0, 2, 1),
    "-x": lambda a, w: -a.x,
    "abs(x)": lambda a, w: abs(a.x),
    "x + 2": lambda a, w: a.x + 2,
    "2 - x": lambda a, w: 2 - a.x,
    "x * 0.5": lambda a, w: 0.5 * a.x,
    "1 / p": lambda a, w: 1 / a.p,
    "x ** 2": lambda a, w: a.x**2,
    "2 ** x": lambda a, w: 2**a.x,
    "x % 0.7": lambda a, w: a.x % 0.7,
    "x == y": lambda a, w: a.x == a.y,
    "x != y": lambda a, w: a.x != a.y,
    "x < y": lambda a, w: a.x < a.y,
    "x <= 0": lambda a, w: a.x <= 0,
    "x > y": lambda a, w: a.x > a.y,
    "x >= 0": lambda a, w: a.x >= 0,
    # a scalar, an array without axes, one axis
    "s + s": lambda a, w: a.s + a.s,
    "s * x": lambda a, w: a.s * a.x,
    "x + v": lambda a, w: a.x + a.v,
    "v * w": lambda a, w: a.v * w,
    "exp(s)": lambda a, w: np.exp(a.s),
    "s.reshape(1)": lambda a, w: a.s.reshape(1) * 2,
    "s.reshape(1, 1)": lambda a, w: a.s.reshape(1, 1) * 2,
    "expand_dims(s)": lambda a, w: np.expand_dims(a.s, 0) * 2,
    "v.sum()": lambda a, w: a.v.sum() * 2,
    "sum over samples' own": lambda a, w: sum([a.s, a.s * 2, a.x.sum()]),
    "x + x.mean()": lambda a, w: a.x - a.x.mean(),
    # methods
    "sum": lambda a, w: a.x.sum(),
    "sum axis 0": lambda a, w: a.x.sum(axis=0),
    "sum axis 1": lambda a, w: a.x.sum(axis=1),
    "sum keepdims": lambda a, w: a.x.sum(axis=-1, keepdims=True),
    "mean": lambda a, w: a.x.mean(),
    "mean axis": lambda a, w: a.x.mean(axis=(0, 1)),
    "max": lambda a, w: a.x.max(),
    "max axis": lambda a, w: a.x.max(axis=1),
    "min axis": lambda a, w: a.x.min(axis=0),
    "prod": lambda a, w: a.p.prod(axis=1),
    "std": lambda a, w: a.x.std(axis=1),
    "var": lambda a, w: a.x.var(axis=1),
    "argmax": lambda a, w: a.x.argmax(axis=1),
    "argmin": lambda a, w: a.x.argmin(axis=1),
    "cumsum": lambda a, w: a.x.cumsum(axis=1),
    "reshape": lambda a, w: a.x.reshape(2, 6),
    "reshape tuple": lambda a, w: a.x.reshape((-1, 2)),
    "flatten": lambda a, w: a.x.flatten(),
    "transpose": lambda a, w: a.t.transpose(0, 2, 1),
    "T": lambda a, w: a.x.T,
    "swapaxes": lambda a, w: a.t.swapaxes(0, 2),
    "squeeze": lambda a, w: a.x.reshape(3, 1, 4).squeeze(1),
    "astype float64": lambda a, w: (a.x * 2).astype("float64"),
    "astype int32": lambda a, w: (a.x * 10).detach().astype("int32"),
    "astype float16": lambda a, w: (a.x * 2).astype(onp.float16),
    "astype bool": lambda a, w: (a.x > 0).astype("float32"),
    "copy": lambda a, w: (a.x * 3).copy() * 2,
    "detach": lambda a, w: (a.x * 3).detach() * a.x,
    "clip": lambda a, w: a.x.clip(-0.5, 0.5),
    "dot": lambda a, w: a.x.dot(a.v),
    "repeat": lambda a, w: a.x.repeat(2, axis=1),
    "take": lambda a, w: a.x.take(a.i, axis=0, mode="clip"),
    # functions
    "exp": lambda a, w: np.exp(a.x),
    "log": lambda a, w: np.log(a.p),
    "sqrt": lambda a, w: np.sqrt(a.p),
    "square": lambda a, w: np.square(a.x),
    "tanh": lambda a, w: np.tanh(a.x),
    "sin": lambda a, w: np.sin(a.x),
    "sign": lambda a, w: np.sign(a.x),
    "floor": lambda a, w: np.floor(a.x * 3),
    "maximum": lambda a, w: np.maximum(a.x, a.y),
    "maximum of number": lambda a, w: np.maximum(a.x, 0.25),
    "minimum": lambda a, w: np.minimum(a.x, a.y),
    "where": lambda a, w: np.where(a.x > 0, a.x, a.y),
    "where mask": lambda a, w: np.where(a.m, a.x, a.y),
    "masks compared": lambda a, w: np.where(a.m == (a.x > 0), a.x, a.y),
    "masks joined": lambda a, w: np.concatenate([a.m, a.x > 0], axis=1).astype("float32"),
    "where of number": lambda a, w: np.where(a.x > 0, a.x, 0.5),
    "matmul": lambda a, w: np.matmul(a.q, a.x),
    "np.dot": lambda a, w: np.dot(a.x, w.T),
    "np.dot of scalar": lambda a, w: np.dot(a.s, a.x),
    "inner": lambda a, w: np.inner(a.v, a.v),
    "outer": lambda a, w: np.outer(a.v, a.v),
    "tensordot": lambda a, w: np.tensordot(a.x, a.y, axes=[[0, 1], [0, 1]]),
    "tensordot 1": lambda a, w: np.tensordot(a.q, a.x, axes=1),
    "einsum": lambda a, w: np.einsum("ij,kj->ik", a.x, a.y),
    "einsum with weight": lambda a, w: np.einsum("ij,kj->ik", a.x, w),
    "concatenate": lambda a, w: np.concatenate([a.x, a.y], axis=1),
    "concatenate rows": lambda a, w: np.concatenate([a.x, a.y * 2], axis=0) * 3,
    "stack": lambda a, w: np.stack([a.x, a.y], axis=1),
    "stack rows": lambda a, w: np.stack([a.v, a.v * 2]) * 3,
    "stack scalars": lambda a, w: np.stack([a.s, a.x.sum()]) * 3,
    "vstack": lambda a, w: np.vstack([a.x, a.y]),
    "hstack": lambda a, w: np.hstack([a.x, a.y]),
    "dstack": lambda a, w: np.dstack([a.x, a.y]),
    "column_stack": lambda a, w: np.column_stack([a.x, a.y]),
    "split": lambda a, w: np.split(a.x, 2, axis=1),
    "split rows": lambda a, w: np.split(a.x, 3, axis=0),
    "split at": lambda a, w: np.split(a.x, [1, 3], axis=1),
    "expand_dims": lambda a, w: np.expand_dims(a.x, 1),
    "broadcast_to": lambda a, w: np.broadcast_to(a.v, (3, 4)) * a.x,
    "tile": lambda a, w: np.tile(a.x, (1, 2)),
    "flip": lambda a, w: np.flip(a.x, axis=1),
    "roll": lambda a, w: np.roll(a.x, 1, axis=1),
    "moveaxis": lambda a, w: np.moveaxis(a.t, 2, 0),
    "sort": lambda a, w: np.sort(a.x, axis=1),
    "argsort": lambda a, w: np.argsort(a.x, axis=1),
    "np.sum": lambda a, w: np.sum(a.t, axis=(1, 2)),
    "ones_like": lambda a, w: np.ones_like(a.x) + a.x,
    "zeros": lambda a, w: np.zeros((3, 4)) + a.x,
    "full": lambda a, w: np.full((3, 4), 0.5) * a.x,
    "arange": lambda a, w: np.arange(4) * a.x,
    "linalg.norm": lambda a, w: np.linalg.norm(a.x, axis=1),
    "tril": lambda a, w: np.tril(a.q),
    "numpy's own function": lambda a, w: onp.exp(a.x) + onp.sum(a.y, axis=0),
    # whole numbers, truth values, float64
    "n + n": lambda a, w: a.n + a.n,
    "n * 2": lambda a, w: a.n * 2,
    "n == n": lambda a, w: a.n == 4,
    "n.sum()": lambda a, w: a.n.sum(),
    "d * d": lambda a, w: a.d * a.d,
    "d.mean()": lambda a, w: a.d.mean(),
    "n to float": lambda a, w: a.n.astype("float32") * a.x,
    # npx
    "fully_connected": lambda a, w: npx.fully_connected(a.x, w, num_hidden=5, no_bias=True, flatten=False),
    "relu": lambda a, w: npx.relu(a.x),
    "sigmoid": lambda a, w: npx.sigmoid(a.x),
    "activation": lambda a, w: npx.activation(a.x, act_type="softrelu"),
    "leaky_relu": lambda a, w: npx.leaky_relu(a.x, act_type="gelu"),
    "softmax": lambda a, w: npx.softmax(a.x, axis=-1),
    "softmax of vector": lambda a, w: npx.softmax(a.v),
    "log_softmax": lambda a, w: npx.log_softmax(a.x),
    "embedding": lambda a, w: npx.embedding(a.i, w, input_dim=5, output_dim=4),
    "batch_dot": lambda a, w: npx.batch_dot(a.t, a.t, transpose_b=True),
    "one_hot": lambda a, w: npx.one_hot(a.i, 4),
    "pick": lambda a, w: npx.pick(a.x, a.i),
    "topk": lambda a, w: npx.topk(a.x, k=2, ret_typ="value"),
    "npx.reshape": lambda a, w: npx.reshape(a.x, (-2, 2, 2)),
    "reshape_like": lambda a, w: npx.reshape_like(a.t, a.t),
    "batch_flatten": lambda a, w: npx.batch_flatten(a.t),
    "layer_norm": lambda a, w: npx.layer_norm(a.x, w[0], w[1], axis=-1),
    "gather_nd": lambda a, w: npx.gather_nd(a.x, np.array([[0, 2], [1, 3]], dtype="int32")),
    "smooth_l1": lambda a, w: npx.smooth_l1(a.x),
    "cast": lambda a, w: npx.cast(a.x, dtype="float64"),
    # indices
    "x[0]": lambda a, w: a.x[0] * 2,
    "x[-1]": lambda a, w: a.x[-1] * 2,
    "x[1:3]": lambda a, w: a.x[1:3] * 2,
    "x[::2]": lambda a, w: a.x[::2] * 2,
    "x[::-1]": lambda a, w: a.x[::-1] * 2,
    "x[:, 1]": lambda a, w: a.x[:, 1] * 2,
    "x[1, 2]": lambda a, w: a.x[1, 2] * 2,
    "x[..., 1:3]": lambda a, w: a.x[..., 1:3] * 2,
    "x[None]": lambda a, w: a.x[None] * 2,
    "x[:, None]": lambda a, w: a.x[:, None] * 2,
    "v[1]": lambda a, w: a.v[1] * 2,
    "v[1:3]": lambda a, w: a.v[1:3] * 2,
    "s[()]": lambda a, w: a.s[()] * 2,
    "i[1]": lambda a, w: a.i[1] + 1,
    "x[[0, 2]]": lambda a, w: a.x[[0, 2]] * 2,
    "x[[0, 1], [2, 3]]": lambda a, w: a.x[[0, 1], [2, 3]] * 2,
    "x[array]": lambda a, w: a.x[np.array([2, 0], dtype="int32")] * 2,
    "rows of a slice": lambda a, w: [row * 2 for row in a.x[1:]],
}
ALONE: set[str] = set()
EAGER: set[str] = set()


class Runs(gluon.Block):
    """Runs a case for one sample."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(5, 4))

    def forward(self, sample: Sample) -> Any:
        return self.case(sample, self.weight.data())


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def loss_of(result: Any) -> Any:
    """One number, with gradients that do not vanish by symmetry."""
    total = 0.0
    for out in listed(result):
        weights = np.array(onp.cos(onp.arange(out.size)).reshape(out.shape) + 1.5)
        total = total + (out.astype("float32") * out.astype("float32") * weights + out.astype("float32")).mean()
    return total


def play(net: gluon.Block, samples: list[Sample]) -> tuple[Outcome, list[type]]:
    """Every result and every gradient, and of what class the results were."""
    for array in [array for sample in samples for array in sample.floats]:
        array.attach_grad()
    for parameter in net.collect_params().values():
        parameter.grad()[:] = 0
    with autograd.record():
        results = [net(sample) for sample in samples]
        kinds = [type(out) for result in results for out in listed(result)]
        total = sum([loss_of(result) + sample.x.mean() for sample, result in zip(samples, results)])
    total.backward()
    found: Outcome = {"loss": total.asnumpy()}
    for number, (sample, result) in enumerate(zip(samples, results)):
        for place, out in enumerate(listed(result)):
            found[f"result {place} of sample {number}"] = out.asnumpy()
        for place, array in enumerate(sample.floats):
            found[f"gradient of array {place} of sample {number}"] = array.grad.asnumpy()
    for name, parameter in net.collect_params().items():
        found[f"gradient of {name}"] = parameter.grad().asnumpy().copy()
    return found, kinds


@pytest.mark.parametrize("name", CASES)
def test_a_case_batched_equals_itself_sample_by_sample(name: str) -> None:
    net = Runs(CASES[name])
    net.initialize(mx.init.Uniform(1.0))
    samples = [Sample(seed) for seed in range(5)]
    expected, _ = play(net, samples)
    net.hybridize(dynamic_batch=True)
    actual, kinds = play(net, samples)
    report = gluonjit.explain()
    agree(actual, expected, 2e-3 if "float16" in name else TOLERANCE)
    captured = all(kind is not np.ndarray for kind in kinds)
    assert captured == (name not in EAGER), "captured or not"
    assert bool(report.alone) == (name in ALONE), report.alone
    assert report.flushes == 1, report.reasons
