"""Captured results in eager operators under recording: MXNet's own backward comes back through the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close


class Net(gluon.Block):
    """A look-up, a layer of its result, and one that is read by no loss."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(7, 3)
            self.dense = nn.Dense(3, in_units=3)
            self.statistics = nn.BatchNorm(in_channels=3, use_global_stats=True)

    def forward(self, word: Any, x: Any) -> Any:
        found = self.embed(word) + x
        self.statistics(found) * 0.5
        return self.dense(found)


def written(captured: Any) -> Any:
    """A captured result in an eager array."""
    array = nd.zeros(captured.shape)
    array[:] = captured
    return array


def together(net: Net, samples: list[Any]) -> list[Any]:
    """Losses of eager arrays, and one pass for all."""
    with autograd.record():
        losses = [(written(net(*sample)) ** 2).sum() for sample in samples]
    autograd.backward(losses)
    return []


def beside(net: Net, samples: list[Any]) -> list[Any]:
    """One loss of captured results, with those that went through an eager array."""
    with autograd.record():
        results = [net(*sample) for sample in samples]
        loss = sum([((result + written(result)) ** 2).sum() for result in results])
    loss.backward(retain_graph=True)
    loss.backward()
    return []


def one_by_one(net: Net, samples: list[Any]) -> list[Any]:
    """A pass for each loss: none frees what another needs."""
    with autograd.record():
        results = [net(*sample) for sample in samples]
        losses = [(written(result) ** 2).sum() for result in results]
    for loss in losses:
        loss.backward()
    return []


def of_the_last(net: Net, samples: list[Any]) -> list[Any]:
    """A pass for one loss: gradients of what it does not depend on stay as they were."""
    with autograd.record():
        losses = [(written(net(*sample)) ** 2).sum() for sample in samples]
    losses[-1].backward()
    return []


def of_an_input(net: Net, samples: list[Any]) -> list[Any]:
    """What is not asked for gets no gradient."""
    with autograd.record():
        loss = sum([(written(net(*sample)) ** 2).sum() for sample in samples])
    gradients: list[Any] = autograd.grad(loss, [samples[-1][1]])
    return gradients


def predicting(net: Net, samples: list[Any]) -> list[Any]:
    """Backward in the mode that it is given."""
    with autograd.record():
        loss = sum([(written(nd.Dropout(net(*sample), p=0.0)) ** 2).sum() for sample in samples])
    loss.backward(train_mode=False)
    return []


@pytest.mark.parametrize("grad_req", ["write", "add"])
@pytest.mark.parametrize("way", [together, beside, one_by_one, of_the_last, of_an_input, predicting])
def test_gradients(way: Callable[..., list[Any]], grad_req: str) -> None:
    """As eagerly, of weights with and without gradients (BatchNorm's), of words and of inputs."""
    net = Net()
    net.initialize()
    weights = net._collect_params_with_prefix()
    for name, weight in weights.items():
        weight.set_data(nd.cos(nd.arange(np.prod(weight.shape)) + len(name)).reshape(weight.shape) + 1.5)
        if weight.grad_req != "null":
            weight.grad_req = grad_req
    runs = []
    for batched in (False, True):  # eager first, as MXNet then knows the running statistics
        net.hybridize(dynamic_batch=batched)
        inputs = [nd.arange(3).reshape((1, 3)) * k for k in (1, 2)]
        for x in inputs:
            x.attach_grad(grad_req)
            x.grad[:] = 3
        learned = {name: weight.grad() for name, weight in weights.items() if weight.grad_req != "null"}
        for gradient in learned.values():
            gradient[:] = 3
        returned = way(net, [(nd.array([k], dtype="int32"), x) for k, x in enumerate(inputs)])
        found = {**learned, **{f"input {k}": x.grad for k, x in enumerate(inputs)}}
        found.update({f"returned {k}": array for k, array in enumerate(returned)})
        runs.append({name: array.asnumpy().copy() for name, array in found.items()})
    assert list(runs[0]) == list(runs[1])
    for name, wanted in runs[0].items():
        assert_close(runs[1][name], wanted, name)
