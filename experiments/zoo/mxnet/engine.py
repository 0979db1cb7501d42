"""Making, batching and differentiating models in MXNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import gluonjit
from experiments.data.arrays import maker
from experiments.zoo.models import rows_of
from experiments.zoo.row import RATE, Arrays, Each, Row, in_turn
from experiments.zoo.samples import given

ROWS = rows_of("mxnet")
_make = maker("mxnet")


def samples(row: Row, count: int, seed: int) -> list[Any]:
    """Return samples of a model; a single number is an array of one, as MXNet has none without axes."""
    drawn = row.make_samples(count, np.random.RandomState(seed))
    return [given(sample, lambda array: _make(np.atleast_1d(array))) for sample in drawn]


def make_net(row: Row, seed: int) -> gluon.Block:
    """Return a model; layers learn the shapes of their parameters from the samples that reach them."""
    mx.random.seed(seed)
    net = row.make_net()
    net.initialize(mx.init.Uniform(row.scale))
    return net


def batch(net: gluon.Block, **options: Any) -> None:
    """Batch a model with these options of gluonjit; it never runs eagerly because that is faster."""
    net.hybridize(dynamic_batch=True, **{"granularity": "batched", **options})


def unbatch(net: gluon.Block) -> None:
    """Run a model sample by sample again."""
    net.hybridize(dynamic_batch=False)


def run(net: gluon.Block, samples: Sequence[Any], row: Row, training: bool, each: Each = in_turn) -> Arrays:
    """Return each sample's loss, and in training the gradients of their sum."""
    if not training:
        return {"losses": _numbers(each(partial(row.loss, net), samples))}
    learned = {name: value for name, value in net.collect_params().items() if value.grad_req != "null"}
    for parameter in learned.values():
        if parameter._data is not None:
            parameter.zero_grad()
    with autograd.record():
        losses = each(partial(row.loss, net), samples)
        total = losses.sum() if isinstance(losses, mx.nd.NDArray) else gluonjit.add_n(losses)
    total.backward()
    return {
        "losses": _numbers(losses),
        **{name: parameter.grad().asnumpy().copy() for name, parameter in learned.items()},
    }


def runner(net: gluon.Block, row: Row, training: bool) -> Callable[[Sequence[Any]], Any]:
    """Return what runs a minibatch: a step of SGD, or the losses on the host."""
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": RATE}, kvstore=None)

    def step(samples: Sequence[Any]) -> float:
        with autograd.record():
            total = sum(row.loss(net, sample) for sample in samples)
        total.backward()
        trainer.step(len(samples), ignore_stale_grad=True)
        mx.nd.waitall()  # for the weights
        return float(total.asscalar())

    return step if training else lambda samples: run(net, samples, row, False)


def _numbers(losses: Sequence[Any]) -> np.ndarray:
    return np.array([float(loss.asscalar()) for loss in losses])
