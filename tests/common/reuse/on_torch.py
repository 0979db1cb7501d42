"""Models whose calls are reused, on PyTorch."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import numpy as np
import torch
from torch import nn

import gluonjit
from reuse import FIXED, SIZE, WORDS, Encoding, Tree, itself

_GENERATOR = torch.Generator()


class Node(nn.Module):
    """A state from a word and any number of states."""

    def __init__(self) -> None:
        super().__init__()
        self.x_weight = nn.Parameter(torch.empty(SIZE, SIZE).uniform_(-0.7, 0.7))
        self.h_weight = nn.Parameter(torch.empty(SIZE, SIZE).uniform_(-0.7, 0.7))

    def forward(self, x: Any, *children: Any) -> Any:
        h = x @ self.x_weight
        for child in children:
            h = h + child @ self.h_weight
        return h.tanh()


class Encoder(Encoding, nn.Module):
    """The state of a tree's root."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.embed = nn.Embedding(WORDS, SIZE)
        self.node = Node()
        self.drop = nn.Dropout(0.5)
        self.after: Callable[[Any, Any], Any] = itself
        self.tally = [0]

    def forward(self, tree: Tree) -> Any:
        return self.encoded(tree, torch.tensor)


class Sums(nn.Module):
    """Of tensors: one that is given, one that the module holds, and zeros."""

    def __init__(self, held: Any = None) -> None:
        super().__init__()
        self.cell = nn.Linear(3, 3)
        self.held = held

    def forward(self, x: Any) -> Any:
        h = self.cell(x) + torch.zeros(2, 3)
        return h if self.held is None else h * self.held


class Difference(nn.Module):
    """Of two arguments, which may be one."""

    def forward(self, x: Any, y: Any) -> Any:
        return x * 2 - y


def make() -> Encoder:
    """An encoder with weights."""
    torch.manual_seed(5)
    return Encoder()


def sums(held: Any = None) -> Sums:
    """One with weights."""
    torch.manual_seed(5)
    return Sums(held)


def use(net: Any, **options: Any) -> None:
    """Reuse by the arguments themselves, each choice made."""
    fixed = {**FIXED, "expand": ("Sums", "Difference"), "reuse": lambda tree: tree}
    gluonjit.hybridize(net, dynamic_batch=True, **{**fixed, **options})


def off(net: Any) -> None:
    """Run eagerly."""
    gluonjit.hybridize(net, dynamic_batch=False)


def rows(*shape: int, seed: int = 0) -> Any:
    """Random numbers."""
    return torch.tensor(np.random.RandomState(seed).uniform(-1, 1, shape), dtype=torch.float32)


def learning(*shape: int, seed: int = 0) -> Any:
    """Random numbers that get a gradient."""
    return rows(*shape, seed=seed).requires_grad_()


def gradient(tensor: Any) -> Any:
    """The gradient of a tensor."""
    return tensor.grad.numpy()


def numbers(tensor: Any) -> Any:
    """The numbers of a tensor."""
    return tensor.detach().numpy().copy()


def joined(tensors: list[Any]) -> Any:
    """Tensors one after the other."""
    return torch.cat(tensors)


def recording() -> Any:
    """A region in which gradients are recorded."""
    return torch.enable_grad()


def plainly() -> Any:
    """A region in which they are not."""
    return torch.no_grad()


def outcome(net: Any, samples: list[Any], loss: Callable[[Any, Any], Any]) -> tuple[list[Any], dict[str, Any]]:
    """Each sample's loss, and the gradients of their sum."""
    net.zero_grad(set_to_none=True)
    losses = [loss(net, sample) for sample in samples]
    sum(losses[1:], losses[0]).backward()
    found = {name: weight.grad.numpy().copy() for name, weight in net.named_parameters() if weight.grad is not None}
    return [numbers(value).reshape(1) for value in losses], found


def step(net: Any, rate: float, count: int) -> None:
    """Descend along the gradients."""
    torch.optim.SGD(net.parameters(), rate / count).step()


def twin_of(net: Any) -> Any:
    """A copy that learns by itself."""
    return copy.deepcopy(net)


def freeze(net: Any, frozen: bool) -> None:
    """Let the weights of nodes learn, or not."""
    net.node.requires_grad_(not frozen)


def hook(net: Any, seen: list[Any]) -> Any:
    """A hook of the net's, which notes each call; its handle takes it away."""
    return net.register_forward_hook(lambda module, args, out: seen.append(args))


def remove(handle: Any) -> None:
    """Take a hook away."""
    handle.remove()


def new_node() -> Any:
    """A part that is another one."""
    return Node()


def _written(net: Any, root: Any) -> Any:
    with torch.no_grad():
        net.buffer.copy_(net.learned)
    return root


def _frozen(net: Any, root: Any) -> Any:
    with torch.no_grad():
        scale = torch.tanh(net.node.x_weight)[0:1]
    return root * scale


REFUSED: dict[str, tuple[Callable[[Any], Callable[[Any, Any], Any]], str]] = {
    "draws": (lambda net: lambda root, words: root + torch.randn(1, SIZE), "draws random numbers"),
    "draws in Python": (lambda net: lambda root, words: root * random.random(), "draws random numbers"),
    "draws in numpy": (
        lambda net: lambda root, words: root + torch.from_numpy(np.random.uniform(size=(1, SIZE))).float(),
        "draws random numbers",
    ),
    "draws by a generator": (
        lambda net: lambda root, words: root + torch.randn(1, SIZE, generator=_GENERATOR),
        "draws random numbers",
    ),
    "writes": (lambda net: lambda root, words: _written(net, root), "it writes to a tensor"),
    "computes": (lambda net: lambda root, words: _frozen(net, root), "parameters or arguments alone"),
    "reads a weight": (
        lambda net: lambda root, words: root * net.node.x_weight[0, 0].item(),
        "reads numbers of a tensor",
    ),
    "reads a tensor": (
        lambda net: lambda root, words: root * float(net.learned.detach()[0, 0]),
        "reads numbers of a tensor",
    ),
    "a buffer": (lambda net: lambda root, words: root * net.scale, "a buffer outside of any cell"),
}

CHANGES: dict[str, Callable[[Any], Any]] = {
    "hybridize": use,
    "hybridize a part": lambda net: gluonjit.hybridize(net.node, dynamic_batch=True),
    "clear_caches": lambda net: gluonjit.clear_caches(),
    "another child": lambda net: setattr(net, "node", copy.deepcopy(net.node)),
    "another weight": lambda net: setattr(net.node, "x_weight", nn.Parameter(torch.ones(SIZE, SIZE))),
    "cast": lambda net: net.double(),
}


def loss(net: Any, tree: Any) -> Any:
    """A number of a tree's."""
    return (net(tree) * rows(1, SIZE, seed=3).to(net.node.x_weight.dtype)).sum()


def weight(module: Any, name: str) -> Any:
    """A weight of a module's own."""
    return getattr(module, name)


def copied(tensor: Any) -> Any:
    """A tensor with the same numbers."""
    return tensor.detach().clone()


def keep(net: Any) -> None:
    """Give the net tensors that are no part of it."""
    net.learned = learning(1, SIZE, seed=5)
    net.register_buffer("buffer", rows(1, SIZE))
    net.register_buffer("scale", rows(1, SIZE))
