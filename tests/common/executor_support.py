"""Models, samples and the comparison with eager execution for tests of executors of PyTorch's plans."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import torch
from torch import nn
from torch_support import Tree, assert_close, outcome

import gluonjit
from gluonjit.engines.torch.replay import recorders

FIXED: dict[str, Any] = {"scheduler": "depth", "granularity": "cell", "sharing": True}
Loss = Callable[[Any, Any], Any]


def afresh() -> None:
    """Before each test: the same numbers, and no program, plan or step that is known already."""
    torch.manual_seed(0)
    gluonjit.clear_caches()


class Total:
    """What the reports of several flushes say together."""

    def __init__(self) -> None:
        self.ran: dict[str, int] = {}
        self.declined: dict[str, int] = {}
        self.recordings = self.replays = self.padded = self.captures = 0

    def add(self, report: Any) -> None:
        for name, count in report.executed.ran.items():
            self.ran[name] = self.ran.get(name, 0) + count
        self.declined.update(report.executed.declined)
        self.recordings += report.executed.recordings
        self.replays += report.executed.replays
        self.padded += report.padded
        self.captures += report.executed.captures


def check(net: Any, minibatches: list[list[Any]], loss: Loss, **options: Any) -> Total:
    """Losses and gradients of each minibatch are those of the eager program, while an optimizer changes the weights."""
    eager = copy.deepcopy(net)
    gluonjit.hybridize(net, **{"executor": "replay", **FIXED, **options})
    optimizer = torch.optim.SGD([*net.parameters()], lr=0.01)
    total = Total()
    for number, samples in enumerate(minibatches):
        eager.load_state_dict(net.state_dict())
        expected, wanted = outcome(eager, samples, loss)
        actual, found = outcome(net, samples, loss)
        total.add(gluonjit.explain())
        for value, other in zip(actual, expected):
            assert_close(value, other, f"a loss of minibatch {number}")
        for name, gradient in wanted.items():
            assert (gradient is None) == (found[name] is None), f"{name} in minibatch {number}"
            if gradient is not None:
                assert_close(found[name], gradient, f"gradient of {name} in minibatch {number}")
        optimizer.step()
    return total


def tree_loss(net: Any, tree: Tree) -> Any:
    return net(tree).logsumexp(-1)


def infer(net: Any, samples: list[Any]) -> list[Any]:
    """What a model gives for samples that run together."""
    with torch.no_grad():
        found = [net(sample) for sample in samples]
        return [value.numpy() for value in found]


def trees_of_depth(depth: int, count: int, seed: int) -> list[Tree]:
    """Trees of different shapes and one depth, so that their plans have one skeleton."""
    choose = random.Random(seed)

    def grow(left: int) -> Tree:
        children = [grow(left - 1)] if left > 1 else []
        children += [grow(choose.randint(1, left - 1)) for _ in range(choose.randint(0, 2) if left > 1 else 0)]
        return Tree(choose.randrange(50), children)

    return [grow(depth) for _ in range(count)]


def minibatches_of(count: int, size: int, depth: int = 4) -> list[list[Tree]]:
    return [trees_of_depth(depth, size, k) for k in range(count)]


class Tagger(nn.Module):
    """A BiLSTM over a sentence of embedded words, and a score for each."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 5)
        self.ahead, self.back = nn.LSTMCell(5, 4), nn.LSTMCell(5, 4)
        self.out = nn.Linear(8, 3)

    def forward(self, words: Any) -> Any:
        rows = self.embed(words)
        ahead, back = self.along(self.ahead, list(rows)), self.along(self.back, list(rows)[::-1])[::-1]
        return sum(self.out(torch.cat((one, other), -1)).logsumexp(-1) for one, other in zip(ahead, back))

    def along(self, cell: Any, rows: list[Any]) -> list[Any]:
        state = (torch.zeros(4), torch.zeros(4))
        found = []
        for row in rows:
            state = cell(row, state)
            found.append(state[0])
        return found


def sentences(lengths: list[int], seed: int) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 30, (length,), generator=generator) for length in lengths]


class Graph(nn.Module):
    """Nodes of a directed acyclic graph, each from two that may have several readers, and large inputs as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.start, self.head = nn.Bilinear(6, 6, 6), nn.Linear(40, 6), nn.Linear(6, 1)

    def forward(self, sample: Any) -> Any:
        inputs, edges = sample
        nodes = [self.start(item).tanh() for item in inputs]
        for left, right in edges:
            nodes.append(self.cell(nodes[left], nodes[right]).tanh())
        return self.head(nodes[-1]) + self.head(nodes[-2])


def graphs(count: int, size: int) -> list[list[Any]]:
    """Minibatches of graphs of several sizes."""

    def sample(seed: int, inputs: int) -> Any:
        choose = random.Random(seed)
        given = list(torch.randn(inputs, 40, generator=torch.Generator().manual_seed(seed)))
        edges = [(inputs + k - 1 if k else 0, choose.randrange(inputs + k)) for k in range(4)]
        return given, edges

    return [[sample(10 * k + j, 2 + (k + j) % 3) for j in range(size)] for k in range(count)]


class Roots(nn.Module):
    """Its values and slopes are finite for what it is given, but not for a row of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.weight = nn.Parameter(torch.rand(6) + 0.5)
        self.embed.weight.data.abs_().add_(0.5)
        self.cell = RootCell(self.weight)

    def forward(self, tree: Tree) -> Any:
        words = self.embed(torch.tensor(tree.words()))
        return self.encode(tree, words, [0])

    def encode(self, tree: Tree, words: Any, next_word: list[int]) -> Any:
        k = next_word[0]
        next_word[0] += 1
        return self.cell(words[k], [self.encode(child, words, next_word) for child in tree.children])


class RootCell(nn.Module):
    """One node."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Any, children: list[Any]) -> Any:
        scaled = (x * self.weight).abs()
        own = scaled.sqrt() + scaled.log() / x
        return own + sum(h * self.weight for h in children).abs().sqrt() / own if children else own


class Rerun:
    """In the place of a CUDA graph: what was captured runs again."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.replay = run


class OnHost(recorders.CudaRecorder):
    """The order of warm-up, capture and replay as on CUDA, where no device is needed."""

    made: list[OnHost] = []

    def _open(self) -> None:
        self.done: list[str] = []
        self.made.append(self)

    def begin(self) -> None:
        self.done.append("begin")

    def _checked(self, run: Callable[[], None], memory: Any) -> Any:
        self.memory = memory
        return super()._checked(run, memory)

    def _capture(self, run: Callable[[], None]) -> Any:
        self.captures += 1
        self.done.append("capture")
        before = [room.clone() for room in self.memory]
        run()  # what it launches would not run
        for room, numbers in zip(self.memory, before):
            room.copy_(numbers)
        return Rerun(run)

    def _aside(self, run: Callable[[], None]) -> None:
        self.done.append("aside")
        run()

    def _replay(self, graph: Any) -> None:
        self.done.append("replay")
        graph.replay()
