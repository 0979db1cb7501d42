"""The models, each as its author writes it for one sample; the frameworks' parts are those of `on_mxnet`, `on_torch`.

An array has one row, (1, n), but where words are several rows. What a program reads with `number`, `numbers` and `best`
decides how it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState

from experiments.zoo.row import Row
from experiments.zoo.samples import floats, integers

FEATURES, CLASSES, WORDS = 16, 4, 20
MOST = 24  # steps of what halts by itself
LAYERS, EXPERTS, BEAMS, SEARCHES = 6, 4, 3, 12
DEPTH, CHILDREN = 4, 3  # of trees that grow
CELLS = 9  # of a walk
START = 0
SHIFT, LEFT, RIGHT = 0, 1, 2


class Program:
    """A model. An engine's class has what makes and uses its parts, as `linear`, `step`, `zeros` and `loss_of`.

    branches: calls a function for each part of a sample: one after the other, or side by side.
    """

    branches: Callable[..., Any]
    masked: ClassVar[Any] = None
    linear: Any
    gru: Any
    table: Any
    layer: Any
    several: Any
    step: Any
    zeros: Any
    token: Any
    floats: Any
    joined: Any
    number: Any
    numbers: Any
    loss_of: Any
    shares: Any
    logs: Any
    rows: Any

    def build(self, size: int) -> None:
        """Makes the parts, with hidden states of this size."""
        raise NotImplementedError

    @staticmethod
    def sample(random: RandomState) -> Any:
        """Draws a sample."""
        raise NotImplementedError

    def best(self, scores: Any) -> int:
        """Reads which score is the largest."""
        return int(np.argmax(self.numbers(scores)))


class HaltingGRU(Program):
    """Takes steps until what its gate says has come to the sample's limit: about 6 of at most 24."""

    def build(self, size: int) -> None:
        self.cell, self.gate, self.out = self.gru(FEATURES, size), self.linear(size, 1), self.linear(size, CLASSES)
        self.size = size

    @staticmethod
    def sample(random: RandomState) -> Any:
        limit = float(min(random.exponential(2.8), 11.5))
        return floats(random.normal(size=(1, FEATURES))), limit, integers([random.randint(CLASSES)])

    def forward(self, x: Any, limit: float, label: Any) -> Any:
        h, spent, steps = self.zeros(self.size), 0.0, 0
        while spent < limit and steps < MOST:
            h = self.step(self.cell, x, h)
            spent += self.number(self.gate(h).sigmoid())
            steps += 1
        return self.loss_of(self.out(h), label)

    @staticmethod
    def masked(net: Any, samples: Sequence[Any]) -> Any:
        """Runs all to the last step, as is usual today: a mask says whose state still changes."""
        x, label = net.rows([x for x, _, _ in samples]), net.rows([label for _, _, label in samples])
        limit = net.floats([[limit] for _, limit, _ in samples])
        h, spent = net.zeros(net.size, len(samples)), net.zeros(1, len(samples))
        for _ in range(MOST):
            on = net.floats_of(spent < limit)
            new = net.step(net.cell, x, h)
            h = on * new + (1 - on) * h
            spent = spent + on * net.gate(new).sigmoid().detach()
        return net.losses_of(net.out(h), label)


class Ponder(Program):
    """PonderNet (Banino et al. 2021): answers at each step, weighted by the chance that it halts there."""

    def build(self, size: int) -> None:
        self.cell, self.gate, self.out = self.gru(FEATURES, size), self.linear(size, 1), self.linear(size, CLASSES)
        self.size = size

    @staticmethod
    def sample(random: RandomState) -> Any:
        rest = float(10 ** -random.uniform(0.3, 3))
        return floats(random.normal(size=(1, FEATURES))), rest, integers([random.randint(CLASSES)])

    def forward(self, x: Any, rest: float, label: Any) -> Any:
        h, left = self.zeros(self.size), 1.0
        total: Any = 0.0
        for _ in range(MOST):
            h = self.step(self.cell, x, h)
            halts = self.gate(h).sigmoid()
            total = total + left * halts * self.loss_of(self.out(h), label)
            left = left * (1 - halts)
            if self.number(left) < rest:
                break
        return total.sum()


class EarlyExit(Program):
    """A small Transformer that answers after the first layer at which it is sure enough (as BERxiT does)."""

    def build(self, size: int) -> None:
        self.inp, self.out = self.linear(FEATURES, size), self.linear(size, CLASSES)
        self.layers = self.several([self.layer(size) for _ in range(LAYERS)])

    @staticmethod
    def sample(random: RandomState) -> Any:
        words = floats(random.normal(size=(random.randint(4, 13), FEATURES)))
        return words, float(random.uniform(0.25, 0.6)), integers([random.randint(CLASSES)])

    def forward(self, words: Any, sure: float, label: Any) -> Any:
        h = self.inp(words)
        for layer in self.layers:
            h = layer(h)
            scores = self.out(h.mean(0).reshape((1, -1)))
            if max(self.numbers(self.shares(scores))) > sure:
                break
        return self.loss_of(scores, label)


class GrowingTree(Program):
    """Doubly recurrent network (Alvarez-Melis and Jaakkola 2017): a node decides how many children it has."""

    def build(self, size: int) -> None:
        self.inp, self.out, self.more = self.linear(FEATURES, size), self.linear(size, CLASSES), self.linear(size, 1)
        self.down, self.beside = self.gru(size, size), self.gru(size, size)

    @staticmethod
    def sample(random: RandomState) -> Any:
        return floats(random.normal(size=(1, FEATURES))), integers([random.randint(CLASSES)])

    def forward(self, x: Any, label: Any) -> Any:
        return self.grown(self.inp(x).tanh(), label, 0)

    def grown(self, h: Any, label: Any, depth: int) -> Any:
        """The loss of a node and of all under it."""
        loss, sibling = self.loss_of(self.out(h), label), h
        children: list[Any] = []
        while depth < DEPTH and len(children) < CHILDREN and self.number(self.more(sibling)) > 0.02 * depth:
            sibling = self.step(self.beside, h, sibling)
            children.append(self.step(self.down, sibling, h))
        for found in self.branches(lambda child: self.grown(child, label, depth + 1), children):
            loss = loss + found
        return loss


class StackParser(Program):
    """Arc-standard parser with a stack of states that follows its own actions, and learns what would be right there."""

    def build(self, size: int) -> None:
        self.words, self.memory = self.table(WORDS, size), self.gru(size, size)
        self.seen, self.act, self.reduce = (
            self.linear(3 * size, size),
            self.linear(size, 3),
            self.linear(2 * size, size),
        )
        self.size = size

    @staticmethod
    def sample(random: RandomState) -> Any:
        size = int(random.randint(4, 11))
        heads = [int(random.randint(max(k - 3, 0), min(k + 4, size))) for k in range(size)]
        return integers(random.randint(0, WORDS, size)), heads

    def forward(self, tokens: Any, heads: list[int]) -> Any:
        words, none, loss = self.words(tokens), self.zeros(self.size), 0.0
        buffer = [(words[k : k + 1], k) for k in reversed(range(len(heads)))]
        stack: list[Any] = []  # (what it is, the state with what lies below, the word's number)
        while buffer or len(stack) > 1:
            states = [entry[1] for entry in stack[-2:]]
            parts = [*[none] * (2 - len(states)), *states, buffer[-1][0] if buffer else none]
            scores = self.act(self.seen(self.joined(*parts)).tanh())
            allowed = [SHIFT] * bool(buffer) + [LEFT, RIGHT] * (len(stack) > 1)
            loss = loss + self.loss_of(scores, self.token(_right(stack, buffer, heads)))
            values = self.numbers(scores)
            action = max(allowed, key=values.__getitem__)
            if action == SHIFT:
                x, number = buffer.pop()
            else:
                (top, _, one), (below, _, other) = stack.pop(), stack.pop()
                head, part = (top, below) if action == LEFT else (below, top)
                x, number = self.reduce(self.joined(head, part)).tanh(), one if action == LEFT else other
            stack.append((x, self.step(self.memory, x, stack[-1][1] if stack else none), number))
        return loss


def _right(stack: list[Any], buffer: list[Any], heads: list[int]) -> int:
    """The action that the heads of the words ask for."""
    if len(stack) > 1:
        one, other = stack[-1][2], stack[-2][2]
        if heads[other] == one:
            return LEFT
        if heads[one] == other or not buffer:
            return RIGHT
    return SHIFT


class Greedy(Program):
    """Translates word by word until it says the sample's last word, given what it said itself."""

    def build(self, size: int) -> None:
        self.source, self.target = self.table(WORDS, size), self.table(WORDS, size)
        self.encoder, self.decoder, self.out = self.gru(size, size), self.gru(size, size), self.linear(size, WORDS)
        self.size = size

    @staticmethod
    def sample(random: RandomState) -> Any:
        source, target = (random.randint(1, WORDS, random.randint(3, 13)) for _ in range(2))
        return integers(source), target.tolist(), int(random.randint(WORDS))

    def encoded(self, source: Any) -> Any:
        """The state after a sentence."""
        h, words = self.zeros(self.size), self.source(source)
        for k in range(len(source)):
            h = self.step(self.encoder, words[k : k + 1], h)
        return h

    def forward(self, source: Any, target: list[int], end: int) -> Any:
        h, said, loss = self.encoded(source), START, 0.0
        for wanted in target:
            h = self.step(self.decoder, self.target(self.token(said)), h)
            scores = self.out(h)
            loss = loss + self.loss_of(scores, self.token(wanted))
            said = self.best(scores)
            if said == end:
                break
        return loss


class Beam(Greedy):
    """The same with the three likeliest beginnings; learns to find its best sentence unlikely."""

    def forward(self, source: Any, target: list[int], end: int) -> Any:
        beams: list[Any] = [(0.0, 0.0, START, self.encoded(source))]  # (log-likelihood, the same as an array, ...)
        for _ in target:
            found, going = [], [beam for beam in beams if beam[2] != end or len(beams) == 1]
            states = [self.step(self.decoder, self.target(self.token(said)), h) for _, _, said, h in going]
            scores = [self.logs(self.out(h)) for h in states]
            for (sure, total, _, _), h, row in zip(going, states, scores):
                values = self.numbers(row)
                for word in np.argsort(values)[-BEAMS:].tolist():
                    found.append((sure + values[word], total, word, h, row))
            found += [(sure, total, end, h, None) for sure, total, said, h in beams if said == end and len(beams) > 1]
            chosen = sorted(found, key=lambda beam: -beam[0])[:BEAMS]
            beams = [
                (sure, total if row is None else total + row[:, word : word + 1], word, h)
                for sure, total, word, h, row in chosen
            ]
            if all(beam[2] == end for beam in beams):
                break
        return beams[0][1].sum()


class Experts(Program):
    """A hard mixture of experts: in each layer the gate's largest score says which one computes."""

    def build(self, size: int) -> None:
        self.inp, self.out = self.linear(FEATURES, size), self.linear(size, CLASSES)
        self.gates = self.several([self.linear(size, EXPERTS) for _ in range(LAYERS)])
        self.experts = self.several([self.linear(size, size) for _ in range(LAYERS * EXPERTS)])

    @staticmethod
    def sample(random: RandomState) -> Any:
        return floats(random.normal(size=(1, FEATURES))), integers([random.randint(CLASSES)])

    def forward(self, x: Any, label: Any) -> Any:
        h = self.inp(x).tanh()
        for layer, gate in enumerate(self.gates):
            shares = self.shares(gate(h))
            k = self.best(shares)
            h = h + shares[:, k : k + 1] * self.experts[layer * EXPERTS + k](h).tanh()
        return self.loss_of(self.out(h), label)


class Reinforce(Program):
    """A walk to a goal by drawn actions; learns by the reward (Williams 1992). The sample has the numbers drawn."""

    def build(self, size: int) -> None:
        self.places, self.cell, self.act = self.table(2 * CELLS, size), self.gru(size, size), self.linear(size, 3)
        self.size = size

    @staticmethod
    def sample(random: RandomState) -> Any:
        return random.randint(CELLS, size=2).tolist(), random.uniform(size=MOST).tolist()

    def forward(self, places: list[int], drawn: list[float]) -> Any:
        (at, goal), h, steps = places, self.zeros(self.size), 0
        likely: Any = 0.0
        for number in drawn:
            h = self.step(self.cell, self.places(self.token(at - goal + CELLS)), h)
            scores = self.act(h)
            action = int(np.searchsorted(np.cumsum(self.numbers(self.shares(scores)))[:2], number))
            likely = likely + self.logs(scores)[:, action : action + 1]
            at = min(max(at + action - 1, 0), CELLS - 1)
            steps += 1
            if at == goal:
                break
        return (likely * (steps / MOST - 0.5)).sum()


class Search(Program):
    """Monte Carlo tree search over a game of taking one to three of a heap, guided by a small network."""

    def build(self, size: int) -> None:
        self.inp, self.act, self.value = self.linear(FEATURES, size), self.linear(size, 3), self.linear(size, 1)

    @staticmethod
    def sample(random: RandomState) -> Any:
        return int(random.randint(5, FEATURES)), floats(random.normal(size=(1, FEATURES)))

    def asked(self, x: Any, heap: int) -> tuple[Any, Any]:
        """Scores of the moves, and who wins."""
        h = self.inp(x * self.floats([[1.0 * (k < heap) for k in range(FEATURES)]])).tanh()
        return self.act(h), self.value(h).tanh()

    def forward(self, heap: int, x: Any) -> Any:
        scores, value = self.asked(x, heap)
        root = _Node(heap, self.numbers(self.shares(scores)))
        for _ in range(SEARCHES):
            path, node = [root], root
            while node.visits and node.heap:
                node = node.chosen()
                path.append(node)
            found = -1.0  # who is to move has lost
            if node.heap:
                likely, worth = self.asked(x, node.heap)
                node.likely, found = self.numbers(self.shares(likely)), self.number(worth)
            for node in reversed(path):
                node.visits, node.total, found = node.visits + 1, node.total - found, -found
        visits = self.floats([[root.children[k].visits / SEARCHES if k in root.children else 0.0 for k in range(3)]])
        return (value * value).sum() - (visits * self.logs(scores)).sum()


class _Node:
    def __init__(self, heap: int, likely: Sequence[float]) -> None:
        self.heap, self.likely, self.visits, self.total = heap, likely, 0, 0.0
        self.children: dict[int, _Node] = {}

    def chosen(self) -> _Node:
        """The child to look at next."""

        def worth(k: int) -> float:
            child = self.children.get(k)
            explore = self.likely[k] * sqrt(self.visits)
            return explore if child is None else child.total / max(child.visits, 1) + explore / (1 + child.visits)

        k = max(range(min(3, self.heap)), key=worth)
        return self.children.setdefault(k, _Node(self.heap - k - 1, self.likely))


PROGRAMS: dict[str, type[Program]] = {
    "halting-gru": HaltingGRU,
    "ponder": Ponder,
    "early-exit": EarlyExit,
    "growing-tree": GrowingTree,
    "stack-parser": StackParser,
    "greedy": Greedy,
    "beam": Beam,
    "experts": Experts,
    "reinforce": Reinforce,
    "tree-search": Search,
}
NAMES = tuple(PROGRAMS)


def row_of(name: str, base: type, size: int) -> Row:
    """A model of an engine's classes as a row of the zoo, with hidden states of this size."""
    program = PROGRAMS[name]
    kind = type(program.__name__, (program, base), {})

    def make() -> Any:
        net = kind()
        net.build(size)
        return net

    return Row(
        name=name,
        title=(program.__doc__ or "").split(":")[0],
        make_net=make,
        make_samples=lambda count, random: [program.sample(random) for _ in range(count)],
        loss=lambda net, sample: net(*sample),
        scale=1 / sqrt(size),
    )
