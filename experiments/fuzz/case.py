"""A case: everything that decides what is run, as data that can be drawn, cut down and printed."""

from __future__ import annotations

from typing import Any, NamedTuple, Union

import numpy as np

import gluonjit
from experiments.fuzz import axes, control, elementwise, layers, shaping
from experiments.fuzz.run import ERRORS, OPS, WIDTH, WORDS, Step

MODULES = (axes, control, elementwise, layers, shaping)  # importing them fills the tables of operations
NUMBERS = 24


class Given(NamedTuple):
    """An array that is there before the batch; one of whole numbers holds words."""

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
    """What happens between samples or after a minibatch; `at` is the sample before which it does."""

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
    """How a program is run: in part what must not change its results."""

    options: tuple[tuple[str, Any], ...] = ()
    how: str = "hybridize"
    record: bool = True
    train_mode: bool = True
    dtype: str = "float32"


class Case(NamedTuple):
    """What is run eagerly and batched."""

    arrays: tuple[Given, ...]
    minibatches: tuple[Minibatch, ...]
    way: Way


LOSSES = ("gluonjit.add_n({})", "sum({})", "nd.stack(*{}).sum()", "nd.concat(*{}, dim=0).mean()", "nd.add_n(*{})")
BACKWARDS = ("total", "total", "total", "list", "each", "twice", "heads", "grad", "scaled")
READINGS = ("after", "before", "end", "none", "some")
AFTER = ("trainer", "trainer", "set_data", "write", "add")


def draw(seed: int, number: int) -> Case:
    """The case of this number; it follows from the two numbers alone."""
    case = _Draw(np.random.RandomState([seed % 2**32, number])).case()
    apart = np.random.RandomState([seed % 2**32, number, 1])  # so that programs are those of earlier versions
    if apart.uniform() > 0.25:
        return case
    left_out = tuple([name for name in gluonjit.Options.SWITCHES if apart.uniform() < 0.5])
    return case._replace(way=case.way._replace(options=(*case.way.options, ("without", left_out))))


class _Draw:
    """Draws of one case."""

    def __init__(self, random: np.random.RandomState) -> None:
        self.random = random
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
            options.append(("granularity", self.one(["cell", "op", "op", "graph"])))
        if self.chance(0.1):
            options.append(("max_nodes", self.one([1, 2, 7, 30])))
        if self.chance(0.05):
            options.append(("max_bytes", self.one([50, 1000])))
        how = self.one(["hybridize"] * 6 + ["both", "scope"])
        dtype = "float64" if self.chance(0.1) else "float32"
        return Way(tuple(options), how, self.chance(0.75), self.chance(0.8), dtype)

    def minibatch(self, way: Way, data: str, learn: bool, before: Minibatch | None) -> Minibatch:
        bodies = [self.body() for _ in range(self.one([1, 1, 1, 2]))]
        looks = [self.looks() for _ in bodies]
        outputs = [self.number(1, 3) for _ in bodies]
        samples = []
        for _ in range(self.number(3, 6)):
            which = self.random.randint(len(bodies))
            samples.append(self.sample(bodies[which], looks[which], outputs[which], data, learn, before))
        actions = [Action(self.one(AFTER), self.number(0, 99)) for _ in range(self.one([0, 0, 1, 2]))]
        if not way.record and self.chance(0.4):
            at = self.number(1, len(samples) - 1)
            actions.append(Action(self.one(AFTER[2:]), self.number(0, 99), at))
        return Minibatch(tuple(samples), self.one(LOSSES), self.one(BACKWARDS), self.one(READINGS), tuple(actions))

    def body(self) -> tuple[Step, ...]:
        names = sorted(OPS)
        steps = [self.step(self.one(names)) for _ in range(self.number(1, 7))]
        for _ in range(self.number(0, 2)):
            steps.insert(self.random.randint(len(steps) + 1), self.step(self.one(["unary", "unary", "binary", "jump"])))
        return tuple(steps)

    def step(self, op: str) -> Step:
        return Step(op, *(self.number(0, NUMBERS - 1) for _ in range(3)))

    def looks(self) -> list[tuple[int, ...]]:
        """Shapes of a sample's inputs; the last one is that of its words."""
        n = self.number(1, 4)
        shapes = [(1, WIDTH), (n, WIDTH), (WIDTH,), (n, 2), (2, n, WIDTH), (n,), (1,), (n, 1), (1, 2, 2)]
        return [*(self.one(shapes) for _ in range(self.number(1, 3))), (self.number(1, 4),)]

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
        tokens = self.array(words, "int32" if self.chance(0.7) else self.one(["float32", "int64"]), False, True)
        if self.chance(0.1):
            at = self.random.randint(len(body))
            body = (*body[:at], self.step(body[at].op), *body[at + 1 :])
        if self.chance(0.04):
            at = self.random.randint(len(body) + 1)
            body = (*body[:at], self.step(self.one(sorted(ERRORS))), *body[at:])
        return Sample(body, tuple(inputs), tokens, outputs)

    def array(self, shape: tuple[int, ...], dtype: str, learn: bool, words: bool = False) -> int:
        """A new array, or one that is there already."""
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
    """Its dtype as MXNet names it."""
    return given.dtype.split()[-1]
