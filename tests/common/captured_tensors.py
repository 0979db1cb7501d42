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


class Signs(nn.Module):
    """Signs, functions and methods outside of any cell, with numbers, plain tensors and parameters on either side."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        self.plain = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x: Any, times: Any) -> Any:
        a, b = self.dense(x), self.dense(x + 1)
        p, count = self.plain, times + 1
        signs = [a + b, a - b, a * b, a / b, a // b, a % b, a**2, a @ b, -a, abs(a), a < b, a <= b, a > b, a >= b]
        signs += [a == b, a != b, a * 2.0, 2.0 * a, 1 - a, a - 1, 2 / a, 2**a, 7 // a, 7 % a, a < 0, 0 < a, a == 0.0]
        zeros = [sum([a, b]), 0 + a, a + 0, a + 0.0, a * 0.0, a * -0.0, a + False, a * 300, a * 2**40, a / float("inf")]
        other = [a + p, p + a, a - p, p - a, a * p, p * a, p / a, p < a, p == a, p @ a, self.scale * a, a * self.scale]
        methods = [a.tanh(), a.sigmoid(), a.relu(), a.exp(), a.sum(), a.sum(0), a.sum(-1), a.sum(0, True), a.add(b)]
        methods += [
            a.add(b, alpha=2),
            a.mul(2),
            a.mul(other=b),
            a.softmax(-1),
            a.neg(),
            a.pow(3),
            a.matmul(b),
            a.dot(p),
        ]
        calls = [
            torch.tanh(a),
            torch.relu(input=a),
            functional.relu(a),
            functional.relu(a, True),
            torch.add(a, b, alpha=3),
        ]
        calls += [
            torch.sum(a, dim=0, keepdim=True),
            torch.where(a > 0, a, b),
            torch.maximum(a, b),
            torch.clamp(a, -1, 1),
        ]
        rows = [
            torch.cat([a, b]),
            torch.cat([a, b], -1),
            torch.cat((a, b), dim=0),
            torch.stack([a, b]),
            torch.stack([a, p]),
        ]
        rows += [
            torch.stack([a, b], 1),
            torch.stack([a, b], dim=0),
            torch.cat([rows[3], rows[3]]),
            torch.cat([rows[3][0:1]]),
        ]
        rows += [torch.cat([rows[3], rows[3]], 1), torch.cat([rows[3], torch.ones(1, 4)]), torch.cat([a, a[0:2]])]
        known = [count, count + times, count * 2, a * count, torch.cat([count, times]), torch.stack([times, times])]
        written = a.clone()
        part = written[0:2]
        written += b
        written.mul_(2.0)
        return [*signs, *zeros, *other, *methods, *calls, *rows, *known, written, part, part * 2.0]


def signs(learning: bool = True) -> Program:
    def program() -> list[Any]:
        torch.manual_seed(3)
        net = gluonjit.hybridize(Signs(), dynamic_batch=True, granularity="op", without=("fused",))
        samples = [(torch.randn(4), torch.arange(4) + k) for k in range(3)]
        with torch.set_grad_enabled(learning):
            return [part for sample in samples for part in net(*sample)]

    return program


def main() -> None:
    programs: dict[str, Program] = {
        "tree": tree(),
        "unshared": tree(sharing=False),
        "operators": tree(granularity="op"),
        "expanded": tree(expand=("Nested",)),
        "inference": inference,
        "changed": changed,
        "signs": signs(),
        "signs again": signs(),
        "signs, inference": signs(False),
    }
    tell(programs, torch.Tensor.tolist)


if __name__ == "__main__":
    main()
