"""A case: everything that decides what is run, as data that can be drawn, shrunk and printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

import gluonjit
from experiments.fuzz.run import WIDTH, WORDS, Step
from experiments.fuzz.vocabulary.table import Table

NUMBERS = 24


class Given(NamedTuple):
    """An array from before the batch; one of integers holds words."""

    shape: tuple[int, ...]
    dtype: str
    seed: int
    learn: bool = False
    digits: int = 4


class Carried(NamedTuple):
    """A result of a sample of the minibatch before."""

    sample: int
    output: int
    detach: bool


Input = Union[int, Carried]


class Sample(NamedTuple):
    """A program and what it starts from: numbers of given arrays, or earlier results."""

    steps: tuple[Step, ...]
    inputs: tuple[Input, ...]
    tokens: int
    outputs: int


class Action(NamedTuple):
    """An event between samples or after a minibatch; `at` is the sample before which it does."""

    what: str
    number: int
    at: int = -1


class Minibatch(NamedTuple):
    """Samples, and what is done with their losses."""

    samples: tuple[Sample, ...]
    loss: str
    backward: str
    reading: str
    actions: tuple[Action, ...] = ()


class Way(NamedTuple):
    """A way to run a program; parts of it must not change the results.

    turns: whether stretches of calls run eagerly, one after the other and again from the first; none: all are batched.
    side: samples run side by side, so many at once, or all (0); None: one is captured after the other.
    """

    options: tuple[tuple[str, Any], ...] = ()
    how: str = "hybridize"
    record: bool = True
    train_mode: bool = True
    dtype: str = "float32"
    turns: tuple[bool, ...] = ()
    side: int | None = None

    def turning(self, number: int) -> Way:
        """This way with calls that run eagerly in every other stretch, and options that leave that open."""
        options = tuple([pair for pair in self.options if pair[0] in ("max_nodes", "max_bytes")])
        return self._replace(options=options, how="hybridize", turns=(bool(number % 2), not number % 2))


class Case(NamedTuple):
    """A program that is run eagerly and batched."""

    arrays: tuple[Given, ...]
    minibatches: tuple[Minibatch, ...]
    way: Way


class Choices(NamedTuple):
    """Tables that cases of a framework are drawn from; entries that occur twice are drawn more often.

    losses: how losses are added up, `{}` are they; shapes: those of inputs, of this many rows; after: actions, of which
    those from the number `between` on may also happen between samples; options: chance, name and values of options
    beside those of every framework; wholes: dtypes of words beside int32.
    """

    table: Table
    losses: Sequence[str]
    backwards: Sequence[str]
    readings: Sequence[str]
    after: Sequence[str]
    between: int
    hows: Sequence[str]
    wholes: Sequence[str]
    shapes: Callable[[int], list[tuple[int, ...]]]
    options: Sequence[tuple[float, str, Sequence[Any]]] = ()


def shapes(n: int) -> list[tuple[int, ...]]:
    """Shapes of inputs of n rows."""
    return [(1, WIDTH), (n, WIDTH), (WIDTH,), (n, 2), (2, n, WIDTH), (n,), (1,), (n, 1), (1, 2, 2)]


def draw(choices: Choices, seed: int, number: int) -> Case:
    """The case of this number; it follows from the framework and the two numbers alone."""
    case = _Draw(np.random.RandomState([seed % 2**32, number]), choices).case()
    apart = np.random.RandomState([seed % 2**32, number, 1])  # so that programs are those of earlier versions
    options: list[tuple[str, Any]] = list(case.way.options)
    if apart.uniform() <= 0.25:
        options.append(("without", tuple([name for name in gluonjit.Options.SWITCHES if apart.uniform() < 0.5])))
    for chance, name, values in choices.options:
        if apart.uniform() < chance:
            options.append((name, values[apart.randint(len(values))]))
    return case._replace(way=case.way._replace(options=tuple(options)))


class _Draw:
    """Draws of one case."""

    def __init__(self, random: np.random.RandomState, choices: Choices) -> None:
        self.random = random
        self.choices = choices
        self.arrays: list[Given] = []

    def chance(self, share: float) -> bool:
        return bool(self.random.uniform() < share)

    def number(self, low: int, high: int) -> int:
        return int(self.random.randint(low, high + 1))

    def one(self, of: Any) -> Any:
        return of[self.random.randint(len(of))]

    def case(self) -> Case:
        way = self.way()
        data = self.one(["float16", "float64", way.dtype]) if self.chance(0.12) else way.dtype
        learn = self.chance(0.5) and way.record
        minibatches: list[Minibatch] = []
        for _ in range(self.one([1, 1, 1, 1, 2, 2, 3])):
            minibatches.append(self.minibatch(way, data, learn, minibatches[-1] if minibatches else None))
        return Case(tuple(self.arrays), tuple(minibatches), way)

    def way(self) -> Way:
        options: list[tuple[str, Any]] = []
        if self.chance(0.4):
            options.append(("sharing", False))
        if self.chance(0.5):
            options.append(("granularity", self.one(["cell", "op", "op"])))
        if self.chance(0.1):
            options.append(("max_nodes", self.one([1, 2, 7, 30])))
        if self.chance(0.05):
            options.append(("max_bytes", self.one([50, 1000])))
        how = self.one(self.choices.hows)
        dtype = "float64" if self.chance(0.1) else "float32"
        return Way(tuple(options), how, self.chance(0.75), self.chance(0.8), dtype)

    def minibatch(self, way: Way, data: str, learn: bool, before: Minibatch | None) -> Minibatch:
        choices = self.choices
        bodies = [self.body() for _ in range(self.one([1, 1, 1, 2]))]
        looks = [self.looks() for _ in bodies]
        outputs = [self.number(1, 3) for _ in bodies]
        samples = []
        for _ in range(self.number(3, 6)):
            which = self.random.randint(len(bodies))
            samples.append(self.sample(bodies[which], looks[which], outputs[which], data, learn, before))
        actions = [Action(self.one(choices.after), self.number(0, 99)) for _ in range(self.one([0, 0, 1, 2]))]
        if not way.record and self.chance(0.4):
            at = self.number(1, len(samples) - 1)
            actions.append(Action(self.one(choices.after[choices.between :]), self.number(0, 99), at))
        loss, backward, reading = (self.one(of) for of in (choices.losses, choices.backwards, choices.readings))
        return Minibatch(tuple(samples), loss, backward, reading, tuple(actions))

    def body(self) -> tuple[Step, ...]:
        names = sorted(self.choices.table.ops)
        steps = [self.step(self.one(names)) for _ in range(self.number(1, 7))]
        for _ in range(self.number(0, 2)):
            steps.insert(self.random.randint(len(steps) + 1), self.step(self.one(["unary", "unary", "binary", "jump"])))
        return tuple(steps)

    def step(self, op: str) -> Step:
        return Step(op, *(self.number(0, NUMBERS - 1) for _ in range(3)))

    def looks(self) -> list[tuple[int, ...]]:
        """Draw the shapes of a sample's inputs; the last one is that of its words."""
        n = self.number(1, 4)
        found = self.choices.shapes(n)
        return [*(self.one(found) for _ in range(self.number(1, 3))), (self.number(1, 4),)]

    def sample(
        self,
        body: tuple[Step, ...],
        looks: list[tuple[int, ...]],
        outputs: int,
        data: str,
        learn: bool,
        before: Minibatch | None,
    ) -> Sample:
        *shapes, words = looks
        if self.chance(0.1):
            shapes = [(self.number(1, 4), *shape[1:]) if len(shape) > 1 else shape for shape in shapes]
        inputs: list[Input] = [self.array(shape, data, learn) for shape in shapes]
        if before is not None and self.chance(0.3):
            number = self.random.randint(len(before.samples))
            place = self.random.randint(before.samples[number].outputs)
            inputs[-1] = Carried(number, place, self.chance(0.3))
        if self.chance(0.1):
            words = (self.number(1, 4),)
        tokens = self.array(words, "int32" if self.chance(0.7) else self.one(self.choices.wholes), False, True)
        if self.chance(0.1):
            at = self.random.randint(len(body))
            body = (*body[:at], self.step(body[at].op), *body[at + 1 :])
        if self.chance(0.04):
            at = self.random.randint(len(body) + 1)
            body = (*body[:at], self.step(self.one(sorted(self.choices.table.errors))), *body[at:])
        return Sample(body, tuple(inputs), tokens, outputs)

    def array(self, shape: tuple[int, ...], dtype: str, learn: bool, words: bool = False) -> int:
        """Return a new array, or an existing one."""
        wanted = "words " + dtype if words else dtype
        same = [k for k, given in enumerate(self.arrays) if (given.shape, given.dtype) == (shape, wanted)]
        if same and self.chance(0.15):
            return int(self.one(same))
        self.arrays.append(Given(shape, wanted, self.number(0, 10**6), learn and self.chance(0.7)))
        return len(self.arrays) - 1


def numbers_of(given: Given) -> np.ndarray:
    """The numbers of a given array."""
    random = np.random.RandomState(given.seed)
    if given.dtype.startswith("words"):
        return random.randint(0, WORDS, given.shape)
    return random.uniform(-1, 1, given.shape).round(given.digits)


def dtype_of(given: Given) -> str:
    """The name of its dtype."""
    return given.dtype.split()[-1]
