"""Programs that use MXNet's numpy interface: batched they are what they are sample by sample."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn
from support import TOLERANCE, assert_close

import gluonjit


@pytest.fixture(autouse=True)
def numpy_semantics() -> Iterator[None]:
    """MXNet's switches are the thread's: other tests must not see them."""
    mx.npx.set_np()
    mx.random.seed(3)
    try:
        yield
    finally:
        mx.npx.reset_np()


def uniform(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Any:
    """Random numbers."""
    return np.array(onp.random.RandomState(seed).uniform(low, high, shape).astype(dtype), dtype=dtype)


def whole(high: int, *shape: int, seed: int = 0, dtype: str = "int32") -> Any:
    """Random whole numbers below `high`."""
    return np.array(onp.random.RandomState(seed).randint(0, high, shape).astype(dtype), dtype=dtype)


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


Outcome = dict[str, onp.ndarray]


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


def agree(actual: Outcome, expected: Outcome, tolerance: float = TOLERANCE) -> None:
    """Rule 1."""
    assert actual.keys() == expected.keys()
    for name, wanted in expected.items():
        assert actual[name].dtype == wanted.dtype, f"{name}: {actual[name].dtype} instead of {wanted.dtype}"
        assert_close(actual[name].astype("float64"), wanted.astype("float64"), name, tolerance)


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


class NodeCell(gluon.HybridBlock):
    """A node of a tree: its word, and any number of children."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.word = nn.Dense(6, flatten=False)
            self.child = nn.Dense(6, use_bias=False, in_units=6, flatten=False)
            self.norm = nn.LayerNorm(in_channels=6)
            self.scale = self.params.get("scale", shape=(1,))

    def hybrid_forward(self, F: Any, word: Any, *children: Any, scale: Any) -> Any:
        total = self.word(word)
        if children:
            total = total + self.child(sum(children)) * scale
        return F.np.tanh(self.norm(total))


class TreeNet(gluon.Block):
    """An encoder of trees."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(20, 5)
            self.cell = NodeCell()
            self.head = nn.Dense(2)

    def forward(self, tokens: Any, tree: Any) -> Any:
        return self.head(self.encode(tree, self.embed(tokens)))

    def encode(self, node: Any, words: Any) -> Any:
        index, children = node
        return self.cell(words[index : index + 1], *[self.encode(child, words) for child in children])


TREES = [(1, [(0, []), (3, [(2, [])])]), (0, [(1, []), (2, [])]), (2, [])]


def trees(count: int, seed: int = 0) -> list[Any]:
    random = onp.random.RandomState(seed)
    return [
        (np.array(random.randint(0, 20, 4), dtype="int32"), TREES[k % 3], np.array([[k % 2]])) for k in range(count)
    ]


def test_a_tree_model_with_gluons_layers_and_losses() -> None:
    net, loss = TreeNet(), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Uniform(0.5))
    samples = trees(9)

    def run() -> Outcome:
        with autograd.record():
            losses = [loss(net(tokens, tree), label).mean() for tokens, tree, label in samples]
            total = sum(losses)
        assert losses[0].shape == total.shape == ()
        assert all(isinstance(value, np.ndarray) for value in losses)
        total.backward()
        found = {f"gradient of {name}": p.grad().asnumpy().copy() for name, p in net.collect_params().items()}
        return {**found, "losses": onp.array([float(value) for value in losses])}

    run()
    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert not report.unbatched
    assert report.launches < 15


@pytest.mark.parametrize("way", ["add_n", "sum", "list", "one by one"])
def test_every_way_of_differentiating(way: str) -> None:
    net, loss = TreeNet(), gluon.loss.L2Loss()
    net.initialize(mx.init.Uniform(0.5))
    for parameter in net.collect_params().values():
        parameter.grad_req = "add"
    samples = trees(5)

    def run() -> Outcome:
        for parameter in net.collect_params().values():
            if parameter._grad is not None:
                parameter.grad()[:] = 0
        with autograd.record():
            losses = [loss(net(tokens, tree), np.ones((1, 2))).sum() for tokens, tree, _ in samples]
            total = gluonjit.add_n(losses) if way == "add_n" else sum(losses)
        assert isinstance(total, np.ndarray)
        assert total.shape == ()
        if way == "list":
            autograd.backward(losses)
        elif way == "one by one":
            for value in losses:
                value.backward(retain_graph=True)
        else:
            total.backward()
        return {f"gradient of {name}": p.grad().asnumpy().copy() for name, p in net.collect_params().items()}

    run()
    expected = run()
    net.hybridize(dynamic_batch=True)
    with pytest.warns(gluonjit.errors.BackwardWarning) if way == "one by one" else nullcontext():
        agree(run(), expected)


class Recurrent(gluon.Block):
    """A gated cell in plain functions of mx.np, declared as a cell, over sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.into = self.params.get("into", shape=(6, 3))
            self.over = self.params.get("over", shape=(6, 3))
            self.heat = self.params.get("heat", shape=())  # a parameter without axes

    @gluonjit.cell
    def step(self, x: Any, states: Any) -> Any:
        hidden, memory = states
        gates = x @ self.into.data().T + np.dot(hidden, self.over.data().T)
        gate, value = np.split(gates, 2, axis=-1)
        memory = npx.sigmoid(gate) * memory + np.tanh(value) * self.heat.data()
        return np.tanh(memory), [np.tanh(memory), memory]

    def forward(self, sequence: Any) -> Any:
        states = [np.zeros((1, 3)), np.zeros((1, 3))]
        outputs = []
        for k in range(len(sequence)):
            out, states = self.step(np.expand_dims(sequence[k], 0), states)
            outputs.append(out)
        return np.concatenate(outputs, axis=0).mean(axis=0)


def test_a_recurrent_cell_over_sequences_of_any_length() -> None:
    net = Recurrent()
    net.initialize(mx.init.Uniform(0.9))
    net.heat.data()[()] = 0.7
    samples = [uniform(length, 3, seed=length) for length in (3, 5, 1, 4)]

    def run() -> Outcome:
        with autograd.record():
            outputs = [net(sample) for sample in samples]
            total = sum([(out * out).sum() for out in outputs])
        total.backward()
        found = {f"gradient of {name}": p.grad().asnumpy().copy() for name, p in net.collect_params().items()}
        return {**found, **{f"output {k}": out.asnumpy() for k, out in enumerate(outputs)}}

    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert not report.unbatched


def test_training_follows_the_same_path() -> None:
    def train(dynamic: bool) -> list[float]:
        mx.random.seed(5)
        net, loss = TreeNet(), gluon.loss.SoftmaxCrossEntropyLoss()
        net.initialize(mx.init.Uniform(0.5))
        samples = trees(8)
        with autograd.pause():
            net(*samples[0][:2])
        if dynamic:
            net.hybridize(dynamic_batch=True)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        totals = []
        for _ in range(4):
            with autograd.record():
                total = gluonjit.add_n([loss(net(tokens, tree), label).mean() for tokens, tree, label in samples])
            total.backward()
            trainer.step(len(samples))
            totals.append(total.item())
        return totals

    assert_close(train(True), train(False), "losses", 1e-4)
    assert train(True)[-1] < train(True)[0]


class Plain(gluon.Block):
    """Runs a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def numbers(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return [numbers(part) for part in result]
    if isinstance(result, mx.nd.NDArray):
        return type(result.asnumpy()), isinstance(result, np.ndarray), result.shape, result.dtype, result.tolist()
    return result


def written(x: Any) -> Any:
    a = x * 2
    a[0] = 5.0
    a[:, 1] = x[:, 0] * 3
    a[a > 4] = -1
    a += 1
    return a * 2


READS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: (x * 2).sum().item(),
    "float": lambda x: float((x * 2).sum()),
    "int": lambda x: int((x * 9).sum()),
    "bool": lambda x: bool((x * 2).sum() > 0),
    "if": lambda x: x * 2 if x.sum() > 0 else x * 3,
    "tolist": lambda x: (x * 2).tolist(),
    "str": lambda x: f"{x * 2} {(x * 2).sum():.3f} {x * 2!r}",
    "numpy.array": lambda x: onp.array(x * 2).tolist(),
    "numpy's fallback": lambda x: float(onp.median(x * 2)),
    "allclose": lambda x: bool(np.allclose(x * 2, x + x)),
    "np.array": lambda x: np.array(x * 2),
    "in": lambda x: 3.0 in (x[0] * 0 + 3),
    "iteration": lambda x: [value * 2 for row in x * 2 for value in row],
    "len": lambda x: len(x * 2),
    "shape": lambda x: ((x * 2).shape, (x * 2).ndim, (x * 2).size, str((x * 2).dtype), str((x * 2).ctx)),
    "max": lambda x: max([x[0].sum(), x[1].sum()]),
    "as_in_ctx": lambda x: (x * 2).as_in_ctx(mx.cpu()),
    "copyto": lambda x: (x * 2).copyto(mx.cpu()),
    "pickle": lambda x: pickle.loads(pickle.dumps(x * 2)),
    "written": written,
    "boolean mask": lambda x: (x * 2)[(x * 2) > 0],
    "mask of numpy": lambda x: (x * 2)[onp.array([True, False, True])] * 2,
    "nonzero": lambda x: np.nonzero(x > 0),
    "unique": lambda x: np.unique((x > 0).astype("float32")),
    "no rows": lambda x: (x * 2)[1:1],
    "no rows and some": lambda x: np.concatenate([np.zeros((0, 4)), x * 2]) * 3,
    "sum of nothing": lambda x: np.zeros((0, 4)).sum() + x.sum(),
    "as_nd_ndarray": lambda x: (mx.nd.sigmoid((x * 2).as_nd_ndarray()) * 2).as_np_ndarray() * 3,
    "there and back": lambda x: mx.nd.sum((x * 2).as_nd_ndarray()).as_np_ndarray() + x.sum(),
    "random": lambda x: x + np.random.uniform(size=(3, 4)) * 0,
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_or_writes_numbers_gives_what_it_gave(name: str) -> None:
    net = Plain(READS[name])
    samples = [uniform(3, 4, seed=seed) for seed in range(4)]
    expected = [numbers(net(sample)) for sample in samples]
    net.hybridize(dynamic_batch=True)
    results = [net(sample) for sample in samples]
    assert [numbers(result) for result in results] == expected


ERRORS: dict[str, Callable[[Any], Any]] = {
    "hash": lambda x: hash(x * 2),
    "bool of many": lambda x: bool(x * 2),
    "len of a scalar": lambda x: len((x * 2).sum()),
    "index of a scalar": lambda x: (x * 2).sum()[0],
    "index out of bounds": lambda x: (x * 2)[5],
    "too many indices": lambda x: (x * 2)[1, 2, 3],
    "classic operator": lambda x: mx.nd.sigmoid(x * 2),
    "operator of mx.np": lambda x: np.exp((x * 2).as_nd_ndarray()),
    "classic result": lambda x: (x * 2).as_nd_ndarray(),
    "asscalar": lambda x: (x * 2).asscalar(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_raises_still_raises(name: str) -> None:
    net = Plain(ERRORS[name])
    with pytest.raises(Exception) as eager:
        net(uniform(3, 4))
    net.hybridize(dynamic_batch=True)
    with pytest.raises(eager.type):
        net(uniform(3, 4))
    net.hybridize(dynamic_batch=False)


def test_gradients_through_what_is_read_on_the_way() -> None:
    """The batch runs in the middle, and MXNet's own history goes on from there while other values stay captured."""

    def function(x: Any) -> Any:
        twice, thrice = x * 2, x * 3
        picked = twice[twice > 0].sum()
        return picked + thrice.mean() * float(twice.sum())

    net = Plain(function)
    samples = [uniform(3, 4, seed=seed) for seed in range(4)]

    def run() -> Outcome:
        for sample in samples:
            sample.attach_grad()
        with autograd.record():
            total = sum([net(sample) for sample in samples])
        total.backward()
        return {f"gradient of {k}": sample.grad.asnumpy() for k, sample in enumerate(samples)}

    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)


def test_batching_of_functions_and_blocks_that_nobody_hybridized() -> None:
    dense = nn.Dense(3, in_units=4)
    dense.initialize(mx.init.Uniform(0.5))
    samples = [uniform(1, 4, seed=seed) for seed in range(4)]
    expected = [np.tanh(dense(sample)).sum().item() for sample in samples]
    with gluonjit.batching() as batch:
        results = [np.tanh(dense(sample)).sum() for sample in samples]
        assert {type(result).__name__ for result in results} == {"LazyNumpy"}
    assert_close([result.item() for result in results], expected, "results")
    assert batch.report.launches <= 3


def test_scopes_of_numpy_semantics_and_classic_arrays_in_one_batch() -> None:
    net = Plain(lambda x: x.sum() if isinstance(x, np.ndarray) else mx.nd.sum(x))
    net.hybridize(dynamic_batch=True)
    classic = [mx.nd.ones((2, 3)) * k for k in range(3)]
    arrays = [np.ones((2, 3)) * k for k in range(3)]
    mx.npx.reset_np()
    with gluonjit.batching() as batch:
        first = [net(array) for array in classic]
        with mx.util.np_shape(True), mx.util.np_array(True):
            second = [net(array) for array in arrays]
        third = [net(array) for array in classic]
    assert [array.shape for array in first + third] == [(1,)] * 6
    assert [array.asscalar() for array in first] == [0.0, 6.0, 12.0]
    assert not any(isinstance(array, np.ndarray) for array in first + third)
    assert [array.shape for array in second] == [()] * 3
    assert [array.item() for array in second] == [0.0, 6.0, 12.0]
    assert batch.report.flushes == 1


def test_semantics_are_the_users_own_after_a_flush() -> None:
    net = Plain(lambda x: np.tanh(x).sum())
    net.hybridize(dynamic_batch=True)
    result = net(uniform(3, 4))
    mx.npx.reset_np()
    value = float(result.asnumpy())
    assert not mx.util.is_np_shape()
    assert not mx.util.is_np_array()
    assert value == float(onp.tanh(uniform(3, 4).asnumpy()).sum().astype("float32")) or abs(value) < 12


def test_look_ups_by_known_integers_are_rows() -> None:
    embed = nn.Embedding(9, 4)
    embed.initialize()
    net = Plain(lambda tokens: embed(tokens)[1] * 2)
    net.register_child(embed)
    samples = [whole(9, 3, seed=seed) for seed in range(4)]
    expected = [net(sample).asnumpy() for sample in samples]
    net.hybridize(dynamic_batch=True)
    results = [net(sample) for sample in samples]
    for number, (result, wanted) in enumerate(zip(results, expected)):
        assert_close(result.asnumpy(), wanted, f"result {number}")
    report = gluonjit.explain()
    assert {step.name for step in report.steps} == {"_npi_multiply_scalar"}


class Attention(gluon.HybridBlock):
    """Each row looks at all rows of its sample."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.ask = nn.Dense(4, flatten=False, in_units=4)
            self.key = nn.Dense(4, flatten=False, in_units=4, use_bias=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        weights = F.npx.softmax(F.np.matmul(self.ask(x), F.np.transpose(self.key(x), (1, 0))), axis=-1)
        return F.np.matmul(weights, x)


def sequential(*layers: gluon.HybridBlock) -> gluon.HybridBlock:
    net = nn.HybridSequential()
    net.add(*layers)
    return net


LAYERS: dict[str, Callable[[], tuple[gluon.Block, Callable[[int], Any]]]] = {
    "dense": lambda: (
        sequential(nn.Dense(5, activation="tanh"), nn.LayerNorm(), nn.Dense(2)),
        lambda k: uniform(1, 4, seed=k),
    ),
    "activations": lambda: (
        sequential(nn.LeakyReLU(0.1), nn.ELU(), nn.SELU(), nn.GELU(), nn.Swish(), nn.PReLU()),
        lambda k: uniform(1, 4, seed=k),
    ),
    "convolution": lambda: (
        sequential(nn.Conv2D(3, 3, padding=1), nn.MaxPool2D(), nn.Flatten(), nn.Dense(2)),
        lambda k: uniform(1, 2, 6, 6, seed=k),
    ),
    "attention": lambda: (Attention(), lambda k: uniform(2 + k % 2, 4, seed=k)),
    "recurrent layer": lambda: (gluon.rnn.GRU(4), lambda k: uniform(3, 1, 2, seed=k)),
    "no dropout": lambda: (sequential(nn.Dense(4), nn.Dropout(0.0)), lambda k: uniform(1, 4, seed=k)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gluons_layers(name: str) -> None:
    layer, sample = LAYERS[name]()
    net = Plain(lambda x: layer(x * 2))
    net.register_child(layer)
    net.initialize(mx.init.Uniform(0.7))
    samples = [sample(k) for k in range(5)]

    def run() -> Outcome:
        for array in samples:
            array.attach_grad()
        with autograd.record():
            results = [net(array) for array in samples]
            total = sum([(result * result).mean() + result.sum() for result in results])
        total.backward()
        found = {f"result {k}": result.asnumpy() for k, result in enumerate(results)}
        found.update({f"gradient of input {k}": array.grad.asnumpy() for k, array in enumerate(samples)})
        return {**found, **{f"gradient of {name}": p.grad().asnumpy().copy() for name, p in parameters.items()}}

    with autograd.pause():
        net(samples[0])
    parameters = net.collect_params()
    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert not report.unbatched


STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, b, w: a + b,
    lambda a, b, w: a * np.tanh(b),
    lambda a, b, w: np.tanh(a) @ (w.T @ w) * 0.3,
    lambda a, b, w: np.concatenate([a[1:], b[:1]], axis=0),
    lambda a, b, w: np.stack([b[0], a[2], a[1]]),
    lambda a, b, w: np.where(a > 0, a, b * 0.5),
    lambda a, b, w: a - a.mean(axis=1, keepdims=True),
    lambda a, b, w: npx.softmax(a, axis=-1) * b.sum(),
    lambda a, b, w: np.split(np.concatenate([a, b], axis=1), 2, axis=1)[1],
    lambda a, b, w: a.T.reshape(3, 4) + b,
    lambda a, b, w: np.maximum(a, b) / (np.abs(b).max() + 1.0),
    lambda a, b, w: a * a[0, 1] + b[:, 2:3],
    lambda a, b, w: np.einsum("ij,kj->ik", a, b) @ a * 0.2,
    lambda a, b, w: npx.layer_norm(a, w[0], w[1], axis=-1),
    lambda a, b, w: np.flip(a, axis=0) + np.expand_dims(b[1], 0),
    lambda a, b, w: a[[2, 0, 1]] * (b.astype("float64").sum()).astype("float32"),
]


@pytest.mark.parametrize("seed", range(12))
def test_programs_that_differ_from_sample_to_sample(seed: int) -> None:
    random = onp.random.RandomState(seed)
    programs = [random.randint(0, len(STEPS), 6).tolist() for _ in range(3)]
    picks = [programs[k] for k in random.randint(0, 3, 6)]

    class Program(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(5, 4))

        def forward(self, steps: list[int], x: Any, y: Any) -> Any:
            arrays = [x, y]
            for step in steps:
                arrays.append(STEPS[step](arrays[-1], arrays[step % len(arrays)], self.weight.data()))
            return arrays[-1]

    net = Program()
    net.initialize(mx.init.Uniform(0.7))
    samples = [(uniform(3, 4, seed=seed + k), uniform(3, 4, seed=seed + k + 50)) for k in range(6)]

    def run() -> Outcome:
        for x, _ in samples:
            x.attach_grad()
        with autograd.record():
            results = [net(steps, x, y) for steps, (x, y) in zip(picks, samples)]
            total = sum([(result * result).mean() for result in results])
        total.backward()
        found = {f"result {k}": result.asnumpy() for k, result in enumerate(results)}
        found.update({f"gradient of input {k}": x.grad.asnumpy() for k, (x, _) in enumerate(samples)})
        return {**found, "gradient of weight": net.weight.grad().asnumpy().copy()}

    expected = run()
    net.hybridize(dynamic_batch=True)
    agree(run(), expected)
    report = gluonjit.explain()
    assert not report.alone
    assert report.flushes == 1


def test_semantics_are_each_threads_own() -> None:
    net = Plain(lambda x: np.tanh(x).sum())
    net.hybridize(dynamic_batch=True)
    expected = net(uniform(2, 3)).item()
    found: list[Any] = []

    def work() -> None:
        found.append(mx.util.is_np_shape())
        mx.npx.set_np()
        x = uniform(2, 3)
        x.attach_grad()
        with autograd.record():
            total = sum([net(x), net(x * 1)])
        total.backward()
        found.append((total.shape, total.item(), x.grad.shape))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] is False
    assert found[1][0] == ()
    assert found[1][2] == (2, 3)
    assert_close(found[1][1], 2 * expected, "result")


def test_classes_decorated_with_use_np_in_a_classic_program() -> None:
    @mx.util.use_np
    class Inner(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, in_units=4)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.np.tanh(self.dense(x)).sum()

    @mx.util.use_np
    class Outer(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(x) * self.inner(x * 2)

    net = Outer()
    net.initialize(mx.init.Uniform(0.5))
    samples = [uniform(1, 4, seed=seed) for seed in range(4)]
    mx.npx.reset_np()
    expected = [net(sample).asnumpy() for sample in samples]
    net.hybridize(dynamic_batch=True)
    results = [net(sample) for sample in samples]
    assert [result.shape for result in results] == [()] * 4
    assert_close([result.asnumpy() for result in results], expected, "results")
    assert gluonjit.explain().flushes == 1


def test_every_wrapped_function_is_named_in_the_packages_documentation() -> None:
    from gluonjit.engines.mxnet.hook import PATCHES

    text = str(gluonjit.__doc__)
    assert [name for _, name, _ in PATCHES if f"{name}`" not in text] == []
