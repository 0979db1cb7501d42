"""Kinds of calls in PyTorch. A vector is (C,), as usual in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import gluonjit
from experiments.host import MOST_CALLS, WAY
from experiments.host.sorts import Operands, Sort, Tree
from experiments.host.trees import WORDS

SIZE, EMBEDDED = 64, 32
PLANNED = (42, 360)


class TreeModel(nn.Module):
    """The README's."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, EMBEDDED), nn.Linear(SIZE, 1)
        self.word, self.child = nn.Linear(EMBEDDED, SIZE), nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, tokens: torch.Tensor, tree: Tree) -> torch.Tensor:
        """Score a sentence."""
        return self.head(self.encode(tree, self.embed(tokens)))

    def encode(self, node: Tree, words: torch.Tensor) -> torch.Tensor:
        """The state of a node."""
        index, children = node
        below = sum(self.child(self.encode(child, words)) for child in children)
        return torch.tanh(self.word(words[index]) + below)


class Own(nn.Module):
    """A module as users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return torch.tanh(self.linear(x))


class Joining(nn.Module):
    """A module with a method of two operands."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def join(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """One layer of both."""
        return torch.tanh(self.left(x) + self.right(y))


class JoiningCell(Joining):
    """The same, declared."""

    join = gluonjit.cell(Joining.join)


def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A function of two operands."""
    return torch.sigmoid(x) * torch.tanh(y)


gated_cell = gluonjit.cell(gated)


class Calls(nn.Module):
    """A model that calls the function it is given, and the layers for it."""

    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(MOST_CALLS, SIZE)
        self.first, self.second, self.linear = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.own = Own()
        self.joining = JoiningCell() if batched else Joining()
        self.gated = gated_cell if batched else gated

    def forward(self, work: Any) -> Any:
        """Call `work` with this model."""
        return work(self)


def calls(batched: bool, seed: int) -> Calls:
    """Return the model in which calls are made."""
    torch.manual_seed(seed)
    return _batched(Calls(batched)) if batched else Calls(batched)


def trees(batched: bool, seed: int, **options: Any) -> TreeModel:
    """Return the TreeModel; `options` are more of how it is batched."""
    torch.manual_seed(seed)
    return _batched(TreeModel(), **options) if batched else TreeModel()


def _batched(net: Any, **options: Any) -> Any:
    return gluonjit.hybridize(net, dynamic_batch=True, **WAY, **options)


def operands(net: Calls, words: np.ndarray) -> Operands:
    """Make operands of these words: results of layers, and the look-up of the sentence."""
    found = net.embed(torch.tensor(words))
    each = [found[k] for k in range(len(words))]
    return Operands([net.first(word) for word in each], [net.second(word) for word in each], found)


def words(words: np.ndarray) -> torch.Tensor:
    """Return words as an input tensor."""
    return torch.tensor(words)


gradients = torch.set_grad_enabled


def wait() -> None:
    """Return at once: on the host PyTorch computes in the call."""


def numbers(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's numbers."""
    return tensor.detach().numpy()


def _index(net: Calls, at: Operands) -> list[Any]:
    words = at.words
    return [words[k] for k in range(len(at.xs))]


def _linear(net: Calls, at: Operands) -> list[Any]:
    linear = net.linear
    return [linear(x) for x in at.xs]


def _own(net: Calls, at: Operands) -> list[Any]:
    own = net.own
    return [own(x) for x in at.xs]


def _function(net: Calls, at: Operands) -> list[Any]:
    function = net.gated
    return [function(x, y) for x, y in zip(at.xs, at.ys)]


def _method(net: Calls, at: Operands) -> list[Any]:
    joining = net.joining
    return [joining.join(x, y) for x, y in zip(at.xs, at.ys)]


def _add(net: Calls, at: Operands) -> list[Any]:
    return [x + y for x, y in zip(at.xs, at.ys)]


SORTS = (
    Sort("`x + y`", _add),
    Sort("`x + y`, an equal call", _add, again=True),
    Sort("`x * 2.0`", lambda net, at: [x * 2.0 for x in at.xs]),
    Sort("`words[i]`", _index),
    Sort("`torch.tanh(x)`", lambda net, at: [torch.tanh(x) for x in at.xs]),
    Sort("`torch.cat([x, y])`", lambda net, at: [torch.cat([x, y]) for x, y in zip(at.xs, at.ys)]),
    Sort("`x.unsqueeze(-1)`", lambda net, at: [x.unsqueeze(-1) for x in at.xs]),
    Sort("`x[:, None]`", lambda net, at: [x[:, None] for x in at.xs]),
    Sort("`x.chunk(2, -1)`", lambda net, at: [x.chunk(2, -1)[0] for x in at.xs]),
    Sort("`F.relu(x)`", lambda net, at: [F.relu(x) for x in at.xs]),
    Sort("an `nn.Linear`", _linear),
    Sort("a module of the user's", _own),
    Sort("a function as `@gluonjit.cell`, two operands", _function),
    Sort("a method as `@gluonjit.cell`, two operands", _method),
)
