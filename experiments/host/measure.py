"""One kind of call, eagerly and captured in turns: microseconds per call, and the part before gluonjit."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np

import gluonjit
from experiments.host import MOST_CALLS, WAY
from experiments.host.sorts import Engine, Sort
from experiments.host.trees import sentence

WARM_UP = 4  # rounds in which programs are traced, and not timed
TOLERANCE = 1e-5  # of the largest number, in float32


@dataclass(frozen=True)
class Row:
    """A sort of call with gradients or without; times are medians of the rounds, in `unit`.

    eager: a call without gluonjit, until it has been computed; captured: one that is captured, and not run, with its
    fastest and slowest round; door: the part of that before it comes to gluonjit, where it goes through MXNet's Python;
    nodes: how many a call appends; off: how far results are apart, of the largest number.
    """

    sort: str
    gradients: bool
    unit: str
    calls: int
    rounds: int
    eager: float
    captured: float
    fastest: float
    slowest: float
    door: float | None
    nodes: float
    off: float


class Clock:
    """Makes calls, keeps their results, and knows how many seconds they took to be there."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.seconds = engine, 0.0
        self.results: list[Any] = []
        self.operands: Any = None  # what has been made before, and stays

    def __call__(self, make: Callable[[], list[Any]]) -> None:
        self.engine.wait()
        begin = perf_counter()
        self.results = make()
        self.engine.wait()
        self.seconds = perf_counter() - begin


class Stubbed(Clock):
    """The same with nothing behind the door."""

    def __init__(self, engine: Engine, name: str, stub: Any) -> None:
        super().__init__(engine)
        self.name, self.stub = name, stub

    def __call__(self, make: Callable[[], list[Any]]) -> None:
        with self.stub() as nothing:
            super().__call__(make)
        if any(result is not nothing for result in self.results):
            raise ValueError(f"{self.name}: a call has come to gluonjit by another way")


class Still(Clock):
    """Makes no call."""

    def __call__(self, make: Callable[[], list[Any]]) -> None:
        pass


class Program(Protocol):
    """A pair to time: two models with equal weights, eager and batched, and what they do."""

    name: str
    unit: str
    scale: float  # from seconds of a round
    per: int  # calls of a round
    nets: tuple[Any, Any]
    stub: Any  # of the sort of call

    def draw(self, draw: np.random.RandomState) -> Any:
        """Draw the operands of a round."""

    def run(self, net: Any, given: Any, clock: Clock) -> None:
        """Let the clock make the calls, and only those."""


class Calls:
    """Calls of one sort inside of a sample, on operands that have been captured before them."""

    unit = "µs"

    def __init__(self, engine: Engine, nets: tuple[Any, Any], sort: Sort, calls: int) -> None:
        self.engine, self.nets, self.sort, self.name = engine, nets, sort, sort.name
        self.per, self.scale, self.stub = calls, 1e6 / calls, sort.stub

    def draw(self, draw: np.random.RandomState) -> np.ndarray:
        """Draw as many words, all different."""
        return draw.permutation(MOST_CALLS)[: self.per]

    def run(self, net: Any, given: np.ndarray, clock: Clock) -> None:
        """Make operands; then let the clock make the calls."""

        def work(net: Any) -> None:
            at = self.engine.operands(net, given)
            clock.operands = at, self.sort.run(net, at) if self.sort.again else []
            clock(lambda: self.sort.run(net, at))

        net(work)


class Trees:
    """Samples of the TreeModel, from the call of the model to the result."""

    unit, scale, per, stub = "ms", 1e3, 1, None

    def __init__(self, engine: Engine, samples: int, seed: int) -> None:
        self.engine, self.samples, self.name = engine, samples, f"{samples} samples of the TreeModel"
        self.nets = engine.trees(False, seed), engine.trees(True, seed)

    def draw(self, draw: np.random.RandomState) -> list[Any]:
        """Draw samples."""
        drawn = [sentence(draw) for _ in range(self.samples)]
        return [(self.engine.words(words), tree) for words, tree in drawn]

    def run(self, net: Any, given: list[Any], clock: Clock) -> None:
        """Let the clock call the model with each sample."""
        clock(lambda: [net(tokens, tree) for tokens, tree in given])


class Replayed:
    """Samples of the TreeModel that come again, with `reuse=`: a call of the model over the nodes of its recording."""

    name, unit, stub = "a node replayed", "µs", None

    def __init__(self, engine: Engine, samples: int, seed: int) -> None:
        draw = np.random.RandomState(seed)
        drawn = [sentence(draw) for _ in range(samples)]
        self.samples = [(engine.words(words), tree) for words, tree in drawn]  # which stay, and are told by their trees
        self.nets = engine.trees(False, seed), engine.trees(True, seed, reuse=lambda tokens, tree: id(tree))
        with gluonjit.batching(**WAY) as batch:
            clock = Clock(engine)
            self.run(self.nets[1], self.samples, clock)
        self.per = batch.report.calls
        self.scale = 1e6 / self.per

    def draw(self, draw: np.random.RandomState) -> list[Any]:
        """Draw an order of the samples."""
        return [self.samples[place] for place in draw.permutation(len(self.samples))]

    def run(self, net: Any, given: list[Any], clock: Clock) -> None:
        """Let the clock call the model with each sample."""
        clock(lambda: [net(tokens, tree) for tokens, tree in given])


def measure(engine: Engine, program: Program, gradients: bool, rounds: int, seed: int) -> Row:
    """Time a program. Raises ValueError if calls that are to be captured alone have run."""
    off, nodes = _compared(engine, program, gradients, seed)
    spent: dict[str, list[float]] = {"eager": [], "captured": [], "door": []}
    draw = np.random.RandomState(seed + 1)
    ways = [way for way in spent if way != "door" or program.stub]
    with uncollected():
        for number in range(WARM_UP + rounds):
            given = program.draw(draw)
            for way in ways if number % 2 else reversed(ways):
                clock = Clock(engine) if way != "door" else Stubbed(engine, program.name, program.stub)
                _time(engine, program, given, clock, way != "eager", gradients)
                if number >= WARM_UP:
                    spent[way].append(program.scale * clock.seconds)
            gc.collect()  # what has become garbage since, and nothing that was there before
    return Row(
        sort=program.name,
        gradients=gradients,
        unit=program.unit,
        calls=program.per,
        rounds=rounds,
        eager=median(spent["eager"]),
        captured=median(spent["captured"]),
        fastest=min(spent["captured"]),
        slowest=max(spent["captured"]),
        door=median(spent["door"]) if spent["door"] else None,
        nodes=nodes,
        off=off,
    )


def _time(engine: Engine, program: Program, given: Any, clock: Clock, captured: bool, gradients: bool) -> None:
    """Time one round. Raises ValueError if a batch has run."""
    with engine.gradients(gradients):
        if not captured:
            program.run(program.nets[0], given, clock)
            return
        with gluonjit.batching(**WAY) as batch:
            program.run(program.nets[1], given, clock)
            if batch.report.flushes:
                raise ValueError(f"{program.name}: the batch ran while its calls were timed: {batch.report.reasons}")
            batch.discard("its calls were captured to be timed")


def _compared(engine: Engine, program: Program, gradients: bool, seed: int) -> tuple[float, float]:
    """Run a round, too; how far the results are apart, and the nodes that a call appends."""
    given = program.draw(np.random.RandomState(seed))
    eager, batched, nodes = Clock(engine), Clock(engine), []
    with engine.gradients(gradients):
        program.run(program.nets[0], given, eager)
        for clock in (Still(engine), batched):
            with gluonjit.batching(**WAY) as batch:
                program.run(program.nets[1], given, clock)
            nodes.append(batch.report.nodes)
    wanted, found = (np.stack(list(map(engine.numbers, clock.results))) for clock in (eager, batched))
    off = float(np.abs(found - wanted).max() / np.abs(wanted).max()) if found.shape == wanted.shape else float("inf")
    return off, (nodes[1] - nodes[0]) / program.per


@contextmanager
def uncollected() -> Iterator[None]:
    """Run the garbage collector only on request, and let it ignore existing objects."""
    frozen = gc.get_freeze_count()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if not frozen:  # otherwise another has left alone what is there
            gc.unfreeze()
