"""Programs of mx.np that differ from sample to sample, and what their look-ups and functions are captured as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as onp
import pytest
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn
from numpy_support import Outcome, Plain, agree, numpy_program, uniform, whole
from support import assert_close

import gluonjit


@pytest.fixture(autouse=True)
def numpy_semantics() -> Iterator[None]:
    with numpy_program():
        yield


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
