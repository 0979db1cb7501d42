"""Prints what some programs of PyTorch capture, as JSON, for torch/test_compiled.py: with and without the part in C."""

from __future__ import annotations

from typing import Any

import torch
from captured_support import Program, tell
from torch import nn
from torch.nn import functional

import gluonjit

SHAPES: list[Any] = [(0, (1,), (2, (0,))), (2, (1, (0,), (1,), (2,))), (0,), (1, (2,), (2,)), (0, (1,), (2, (0,)))]
TOKENS = [[1, 2, 3], [3, 2, 1], [5, 5, 8], [1, 2, 3], [1, 2, 3]]


class Sentence:
    """No plain constant: a module that takes it is not one node."""

    def __init__(self, tokens: list[int], tree: Any) -> None:
        self.tokens, self.tree = torch.tensor(tokens), tree


class Cell(nn.Module):
    """Any number of children in tuples and lists, and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 6)

    def forward(self, x: Any, *children: Any, weight: float = 1.0, flag: bool = False) -> Any:
        found = self.dense(x) * weight
        for child in children:
            if child is not None and not isinstance(child, (int, float, str)):
                found = found + sum(part for part in child if part is not None)
        return torch.tanh(found), found + 1 if flag else found


class Nested(nn.Module):
    def forward(self, x: Any) -> Any:
        return [x + 1, {"twice": (x * 2, x), "none": None}]


class Noisy(nn.Module):
    def forward(self, x: Any) -> Any:
        return functional.dropout(x, 0.5)


class Encoder(nn.Module):
    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, sentence: Sentence, words: Any) -> Any:
        return self.encode(sentence.tree, words)

    def encode(self, tree: Any, words: Any) -> Any:
        index, *children = tree
        found = [self.encode(child, words) for child in children]
        return self.cell(words[index], *found)


class Model(nn.Module):
    """Everything that is captured in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.cell, self.noisy, self.nested = Cell(), Noisy(), Nested()
        self.encoder = Encoder(self.cell)

    def forward(self, sentence: Sentence) -> Any:
        words = self.embed(sentence.tokens)
        h, c = self.encoder(sentence, words)
        again = self.cell(words[1], [h, None], None, 3, "text", True, 2.5)[0]
        flagged = self.cell(words[-1], (c, again), weight=0.5, flag=True)[1]
        turned = self.cell(words[-1], (c, again), flag=True, weight=0.5)[1]
        parts = [words[0:2], words[2], c[0:3], h[4], functional.softmax(h, dim=-1), functional.softmax(c, -1)]
        whole = [torch.cat([h, c]), torch.stack([h, c])[0], self.noisy(h), self.noisy(h), h * 3, h * 3.5, h + c]
        nested = self.nested(c)
        outside = self.cell(torch.ones(4), (torch.arange(6.0), h))[0]
        return [*parts, *whole, again, flagged, turned, nested[0], *nested[1]["twice"], outside]


def trees() -> list[Sentence]:
    return [Sentence(tokens, tree) for tokens, tree in zip(TOKENS, SHAPES)]


def model(**options: Any) -> Model:
    torch.manual_seed(3)
    net: Model = gluonjit.hybridize(Model(), dynamic_batch=True, **{"without": ("fused",), **options})
    return net


def tree(**options: Any) -> Program:
    def program() -> list[Any]:
        net, samples, target = model(**options), trees(), torch.ones(6)
        results = [part for sample in samples + samples[:2] for part in net(sample)]
        losses = [functional.mse_loss(part, target, reduction="sum") for part in results if part.shape == (6,)]
        modules = [nn.L1Loss()(part, target) for part in results if part.shape == (6,)]
        return [*results, *losses, *modules]

    return program


def inference() -> list[Any]:
    net = model()
    taped = net(trees()[0])[-1]
    with torch.no_grad():
        return [*[part for sample in trees() for part in net(sample)], taped[1:3], net.nested(taped)[0]]


def changed() -> list[Any]:
    net, samples = model(), trees()
    results = net(samples[0])
    net.cell.extra = 1
    results += net(samples[0])
    net.cell.register_forward_hook(lambda module, args, out: None)
    return [*results, *net(samples[1])]


def main() -> None:
    programs: dict[str, Program] = {
        "tree": tree(),
        "unshared": tree(sharing=False),
        "operators": tree(granularity="op"),
        "expanded": tree(expand=("Nested",)),
        "inference": inference,
        "changed": changed,
    }
    tell(programs, torch.Tensor.tolist)


if __name__ == "__main__":
    main()
