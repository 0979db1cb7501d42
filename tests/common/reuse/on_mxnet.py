"""Models whose calls are reused, on MXNet."""

from __future__ import annotations

import copy
from typing import Any, Callable

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from support import outcome as outcome
from support import rows as rows

import gluonjit
from reuse import FIXED, SIZE, WORDS, Encoding, Tree, itself


class Node(gluon.HybridBlock):
    """A state from a word and any number of states."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.x_weight = self.params.get("x_weight", shape=(SIZE, SIZE))
            self.h_weight = self.params.get("h_weight", shape=(SIZE, SIZE))

    def hybrid_forward(self, F: Any, x: Any, *children: Any, x_weight: Any, h_weight: Any) -> Any:
        h = F.FullyConnected(x, x_weight, no_bias=True, num_hidden=SIZE)
        for child in children:
            h = h + F.FullyConnected(child, h_weight, no_bias=True, num_hidden=SIZE)
        return F.tanh(h)


class Encoder(Encoding, gluon.Block):
    """The state of a tree's root."""

    def __init__(self) -> None:
        gluon.Block.__init__(self)
        with self.name_scope():
            self.embed = gluon.nn.Embedding(WORDS, SIZE)
            self.node = Node()
            self.drop = gluon.nn.Dropout(0.5)
        self.after: Callable[[Any, Any], Any] = itself
        self.tally = [0]

    def forward(self, tree: Tree) -> Any:
        return self.encoded(tree, lambda words: mx.nd.array(words, dtype="int32"))


class Sums(gluon.Block):
    """Of arrays: one that is given, one that the block holds, and zeros."""

    def __init__(self, held: Any = None) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.held = held

    def forward(self, x: Any) -> Any:
        h = self.cell(x) + mx.nd.zeros((2, 3))
        return h if self.held is None else h * self.held


class Difference(gluon.Block):
    """Of two arguments, which may be one."""

    def forward(self, x: Any, y: Any) -> Any:
        return x * 2 - y


def make() -> Encoder:
    """An encoder with weights."""
    mx.random.seed(5)
    made = Encoder()
    made.initialize(mx.init.Uniform(0.7))
    return made


def sums(held: Any = None) -> Sums:
    """One with weights."""
    made = Sums(held)
    made.initialize()
    return made


def use(net: Any, **options: Any) -> None:
    """Reuse by the arguments themselves, each choice made."""
    net.hybridize(dynamic_batch=True, **{**FIXED, "reuse": lambda tree: tree, **options})


def off(net: Any) -> None:
    """Run eagerly."""
    net.hybridize(dynamic_batch=False)


def numbers(array: Any) -> Any:
    """The numbers of an array."""
    return array.asnumpy()


def joined(arrays: list[Any]) -> Any:
    """Arrays one after the other."""
    return mx.nd.concat(*arrays, dim=0)


def recording() -> Any:
    """A region in which gradients are recorded."""
    return autograd.record()


def plainly() -> Any:
    """A region like any other: MXNet records where it is asked to."""
    return autograd.pause()


def learning(*shape: int, seed: int = 0) -> Any:
    """Random numbers that get a gradient."""
    found = rows(*shape, seed=seed)
    found.attach_grad()
    return found


def gradient(array: Any) -> Any:
    """The gradient of an array."""
    return array.grad.asnumpy()


def step(net: Any, rate: float, count: int) -> None:
    """Descend along the gradients."""
    with autograd.pause():
        for parameter in net.collect_params().values():
            if parameter.grad_req != "null":
                parameter.set_data(parameter.data() - rate / count * parameter.grad())


def twin_of(net: Any) -> Any:
    """A copy that learns by itself."""
    twin = copy.deepcopy(net)
    for grad_req in ("null", "write"):  # a copied array has no gradient
        twin.collect_params().setattr("grad_req", grad_req)
    return twin


def freeze(net: Any, frozen: bool) -> None:
    """Let the weights of nodes learn, or not."""
    for parameter in net.node.collect_params().values():
        parameter.grad_req = "null" if frozen else "write"


def hook(net: Any, seen: list[Any]) -> Any:
    """A hook of the net's, which notes each call; its handle takes it away."""
    return net.register_forward_hook(lambda block, args, out: seen.append(args))


def remove(handle: Any) -> None:
    """Take a hook away."""
    handle.detach()


def new_node() -> Any:
    """A part without weights yet."""
    return Node()


def _written(net: Any, root: Any) -> Any:
    with autograd.pause():
        net.buffer[:] = net.learned
    return root


REFUSED: dict[str, tuple[Callable[[Any], Callable[[Any, Any], Any]], str]] = {
    "draws": (lambda net: lambda root, words: root + mx.nd.random.normal(shape=(1, SIZE)), "runs when it is called"),
    "writes": (lambda net: lambda root, words: _written(net, root), "it writes to an array"),
    "computes": (lambda net: lambda root, words: root * mx.nd.tanh(net.node.x_weight.data())[0:1], "parameters alone"),
    "draws in numpy": (
        lambda net: lambda root, words: root + mx.nd.array(np.random.uniform(size=(1, SIZE))),
        "draws random numbers",
    ),
}

CHANGES: dict[str, Callable[[Any], Any]] = {
    "hybridize": use,
    "hybridize a part": lambda net: net.node.hybridize(dynamic_batch=True),
    "clear_caches": lambda net: gluonjit.clear_caches(),
    "another child": lambda net: setattr(net, "node", copy.deepcopy(net.node)),
    "a hook": lambda net: net.node.register_forward_hook(lambda *_: None).detach(),
    "initialize": lambda net: net.initialize(mx.init.Uniform(0.3), force_reinit=True),
    "cast": lambda net: net.cast("float64"),
    "reset_ctx": lambda net: net.collect_params().reset_ctx(mx.cpu(0)),
    "grad_req": lambda net: net.collect_params().setattr("grad_req", "add"),
}


def loss(net: Any, tree: Any) -> Any:
    """A number of a tree's."""
    return (net(tree) * rows(1, SIZE, seed=3)).sum()


def weight(block: Any, name: str) -> Any:
    """A weight of a block's own."""
    return getattr(block, name).data()


def copied(array: Any) -> Any:
    """An array with the same numbers."""
    return array.copy()


def keep(net: Any) -> None:
    """Give the net arrays that are no part of it."""
    net.learned, net.buffer = learning(1, SIZE, seed=5), rows(1, SIZE)
