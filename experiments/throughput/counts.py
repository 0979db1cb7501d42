"""The multiply-adds of a model's matrix products, counted from the samples: a lower bound for any batching.

Products with zero states are not counted, because they are unnecessary, and nothing but products is. Equal values in
one minibatch count once: equal words, and equal states, which come from equal subtrees or prefixes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from experiments.data.arrays import host
from experiments.data.trees import Tree


class Sizes(NamedTuple):
    """Columns in a model: of word vectors, states, outputs, and of the layer before outputs if there is one."""

    width: int
    size: int
    out: int
    hidden: int = 0


class Product(NamedTuple):
    """Rows of a width, times a weight; `learnt`: gradients go on through the rows, which are no fixed vectors."""

    what: str
    rows: int
    width: int
    out: int
    learnt: bool

    @property
    def forward(self) -> int:
        """Multiply-adds of the product."""
        return self.rows * self.width * self.out

    @property
    def training(self) -> int:
        """Multiply-adds of the product, of the weight's gradient, and of the rows' if they need one."""
        return self.forward * (3 if self.learnt else 2)


class _Rows:
    """Rows by content: with sharing equal rows have one number, otherwise separate ones."""

    def __init__(self, shared: bool) -> None:
        self._shared = shared
        self._numbers: dict[Hashable, int] = {}
        self.count = 0

    def add(self, content: Hashable) -> int:
        """Return the number of a row."""
        number = self._numbers.setdefault(content, self.count) if self._shared else self.count
        self.count = max(self.count, number + 1)
        return number


def pairs(sizes: Sizes, samples: Sequence[Any], shared: bool) -> list[Product]:
    """Count the child-sum Tree-LSTM of `experiments.treelstm` and its head."""
    width, size, classes, hidden = sizes
    words, inner_words, states, inner, forgets, heads = (_Rows(shared) for _ in range(6))

    def visit(node: Tree, ids: Sequence[int]) -> int:
        children = tuple(visit(child, ids) for child in node.children)
        word = ids[node.index]
        words.add(word)
        if children:
            inner_words.add(word)
            inner.add((word, children))
            for child in children:
                forgets.add(child)
        return states.add((word, children))

    for pair in samples:
        heads.add(tuple(visit(side.root, side.ids.tolist()) for side in (pair.left, pair.right)))
    return [
        Product("words: i, o, u", words.count, width, 3 * size, False),
        Product("words of inner nodes: f", inner_words.count, width, size, False),
        Product("sums of children: i, o, u", inner.count, size, 3 * size, True),
        Product("children: f", forgets.count, size, size, True),
        Product("head: product and distance", heads.count, size, 2 * hidden, True),
        Product("head: classes", heads.count, hidden, classes, True),
    ]


def phrases(sizes: Sizes, samples: Sequence[Any], shared: bool) -> list[Product]:
    """Count the binary Tree-LSTM."""
    width, size, classes, _ = sizes
    leaves, inner, states = (_Rows(shared) for _ in range(3))

    def visit(part: Any, ids: Sequence[int]) -> int:
        if not isinstance(part, tuple):
            leaves.add(ids[part])
            return states.add(ids[part])
        content = (visit(part[0], ids), visit(part[1], ids))
        inner.add(content)
        return states.add(content)

    for sample in samples:
        visit(sample.tree, host(sample.tokens).tolist())
    return [
        Product("words: i, o, u", leaves.count, width, 3 * size, False),
        Product("parts: all gates", inner.count, 2 * size, 5 * size, True),
        Product("classes", states.count, size, classes, True),
    ]


def tagged(sizes: Sizes, samples: Sequence[Any], shared: bool) -> list[Product]:
    """Count the BiLSTM tagger."""
    width, size, tags, _ = sizes
    words, outputs = _Rows(shared), _Rows(shared)
    ahead, back = _Chain(shared), _Chain(shared)
    for sample in samples:
        ids = host(sample.characters).tolist()
        for word in ids:
            words.add(word)
        for state in zip(ahead.run(ids), list(back.run(ids[::-1]))[::-1]):
            outputs.add(state)
    return [
        Product("words: both directions", words.count, width, 8 * size, False),
        Product("states: both directions", ahead.steps.count + back.steps.count, size, 4 * size, True),
        Product("tags", outputs.count, 2 * size, tags, True),
    ]


class _Chain:
    """The states of chains; `steps` are the states that another one follows from, the zero state apart."""

    def __init__(self, shared: bool) -> None:
        self._states = _Rows(shared)
        self.steps = _Rows(shared)

    def run(self, contents: Sequence[Hashable]) -> Iterator[int]:
        """Yield the state after each step."""
        state = None
        for content in contents:
            if state is not None:
                self.steps.add(state)
            state = self._states.add((content, state))
            yield state


def lattice(sizes: Sizes, samples: Sequence[Any], shared: bool) -> list[Product]:
    """Count the lattice LSTM."""
    width, size, tags, _ = sizes
    names = ("characters", "gated", "words", "states", "steps", "starts", "memories", "ends")
    rows = {name: _Rows(shared) for name in names}
    for sample in samples:
        characters, numbers = host(sample.characters).tolist(), host(sample.words).tolist()
        states: list[int] = []
        for character, ending in zip(characters, sample.spans):
            found = []
            for first, place in ending:
                rows["words"].add(numbers[place])
                rows["starts"].add(states[first])
                found.append(rows["memories"].add((numbers[place], states[first])))
            if states:
                rows["steps"].add(states[-1])
            rows["characters"].add(character)
            if found:
                rows["gated"].add(character)
                for memory in found:
                    rows["ends"].add(memory)
            before = states[-1] if states else None
            states.append(rows["states"].add((character, before, tuple(found))))
    return [
        Product("characters: i, o, u", rows["characters"].count, width, 3 * size, False),
        Product("characters where words end: gate", rows["gated"].count, width, size, False),
        Product("words: i, f, u", rows["words"].count, width, 3 * size, False),
        Product("states before: i, o, u", rows["steps"].count, size, 3 * size, True),
        Product("states where words begin: i, f, u", rows["starts"].count, size, 3 * size, True),
        Product("memories of words: gate", rows["ends"].count, size, size, True),
        Product("tags", rows["states"].count, size, tags, True),
    ]


FAMILIES: Mapping[str, Callable[[Sizes, Sequence[Any], bool], list[Product]]] = {
    "pairs": pairs,
    "phrases": phrases,
    "tagged": tagged,
}
"""Those of models that peers have, by family."""
