"""What tests of PyTorch share: trees, models for one sample, and the eager program as oracle."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit

TOLERANCE = 1e-5
Loss = Callable[[Any, Any], Any]


class Tree:
    """A word with children."""

    def __init__(self, word: int, children: list[Tree]) -> None:
        self.word = word
        self.children = children

    def words(self) -> list[int]:
        return [self.word, *[word for child in self.children for word in child.words()]]


def make_tree(size: int, choose: random.Random, most: int = 3, vocabulary: int = 50) -> Tree:
    """A random tree of so many nodes."""
    children, left = [], size - 1
    count = min(left, choose.randint(1, most)) if left else 0
    for number in range(count):
        rest = count - number - 1
        part = left - rest if not rest else choose.randint(1, left - rest)
        children.append(make_tree(part, choose, most, vocabulary))
        left -= part
    return Tree(choose.randrange(vocabulary), children)


def make_trees(count: int, largest: int = 12, most: int = 3, seed: int = 0) -> list[Tree]:
    choose = random.Random(seed)
    return [make_tree(choose.randint(1, largest), choose, most) for _ in range(count)]


class ChildSum(nn.Module):
    """A node of a child-sum Tree-LSTM (Tai, Socher and Manning 2015, equations 2 to 8)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates_x = nn.Linear(inputs, 3 * hidden)
        self.gates_h = nn.Linear(hidden, 3 * hidden, bias=False)
        self.forget_x = nn.Linear(inputs, hidden)
        self.forget_h = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Any, children: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        gates = self.gates_x(x)
        if children:
            gates = gates + self.gates_h(sum(h for h, _ in children))
        i, o, u = gates.chunk(3, -1)
        c = i.sigmoid() * u.tanh()
        if children:
            forget = self.forget_x(x)
            c = c + sum((forget + self.forget_h(h)).sigmoid() * child for h, child in children)
        return o.sigmoid() * c.tanh(), c


class TreeModel(nn.Module):
    """Scores of a tree's root; `vectors` says whether one vector is (C,) or (1, C)."""

    def __init__(self, cell: Any = None, vectors: bool = True, classes: int = 3, words: int = 50) -> None:
        super().__init__()
        self.vectors = vectors
        self.embed = nn.Embedding(words, 8)
        self.cell = ChildSum(8, 6) if cell is None else cell
        self.head = nn.Linear(6, classes)

    def forward(self, tree: Tree) -> Any:
        words = self.embed(torch.tensor(tree.words()))
        return self.head(self.encode(tree, words, [0])[0])

    def encode(self, tree: Tree, words: Any, next_word: list[int]) -> Any:
        k = next_word[0]
        next_word[0] += 1
        children = [self.encode(child, words, next_word) for child in tree.children]
        return self.cell(words[k] if self.vectors else words[k : k + 1], children)


def gradients(net: Any) -> dict[str, Any]:
    """A copy of every gradient."""
    return {
        name: None if parameter.grad is None else parameter.grad.clone() for name, parameter in net.named_parameters()
    }


def outcome(net: Any, samples: list[Any], loss: Loss) -> tuple[list[Any], dict[str, Any]]:
    """Each sample's loss, and the gradients of their sum."""
    net.zero_grad(set_to_none=True)
    losses = [loss(net, sample) for sample in samples]
    sum(value.sum() for value in losses).backward()
    return [value.detach().clone() for value in losses], gradients(net)


def assert_close(actual: Any, expected: Any, what: str, tolerance: float = TOLERANCE) -> None:
    """Equal to rounding, relative to the largest element."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if expected.numel():
        scale = max(float(expected.detach().abs().max()), 1e-2)
        difference = float((actual - expected).detach().abs().max())
        assert difference <= tolerance * scale, f"{what}: off by {difference} at scale {scale}"


def assert_near(actual: Any, expected: Any, *, msg: Any = None, **limits: Any) -> None:
    """Do what `torch.testing.assert_close` does of two tensors, which takes much longer to say that they are close."""
    alike = (actual.shape, actual.dtype, actual.device) == (expected.shape, expected.dtype, expected.device)
    if not alike or not torch.allclose(actual, expected, **limits):
        torch.testing.assert_close(actual, expected, msg=msg, **limits)


def assert_same(net: Any, samples: list[Any], loss: Loss, tolerance: float = TOLERANCE, **options: Any) -> Any:
    """Batched values and gradients are those of the eager program; returns the report."""
    eager = copy.deepcopy(net)
    expected, wanted = outcome(eager, samples, loss)
    gluonjit.hybridize(net, dynamic_batch=True, **options)
    actual, found = outcome(net, samples, loss)
    report = gluonjit.explain()
    for number, (value, other) in enumerate(zip(actual, expected)):
        assert_close(value, other, f"loss {number}", tolerance)
    for name, gradient in wanted.items():
        if gradient is None:
            assert found[name] is None, f"{name} has a gradient"
        else:
            assert found[name] is not None, f"{name} has no gradient"
            assert_close(found[name], gradient, f"gradient of {name}", tolerance)
    return report


def assert_minibatch_as_eagerly(net: Any, own: Any, samples: list[Any], forward: Any = None) -> Any:
    """Losses and gradients of `own`, which is batched, are those of `net`; the report of the minibatch.

    A sample is what the model is called with, or what `forward` is with the model before it.
    """
    forward = forward or (lambda net, sample: net(sample))
    found = []
    for model in (net, own):
        model.zero_grad()
        losses = [forward(model, sample).sum() for sample in samples]
        sum(losses).backward()
        found.append(([loss.item() for loss in losses], [each.grad for each in model.parameters()]))
    report = gluonjit.explain()
    (wanted, gradients), (actual, grads) = found
    assert actual == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    for one, other in zip(grads, gradients):
        assert (one is None) == (other is None)
        if one is not None:
            assert_near(one, other, rtol=1e-4, atol=1e-5)
    return report
