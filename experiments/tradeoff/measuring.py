"""Timing: the same fresh minibatches for all configurations, in turns, from sample objects to finished results."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, Protocol

from tqdm import tqdm

import gluonjit
from experiments.bench.clock import Minibatches
from experiments.tradeoff.configurations import Configuration
from experiments.tradeoff.predicting import predicted_ms

PHASES = ("forward", "training")
POOL = 256  # samples, unless minibatches are larger: each runs in each way before anything is timed, as it may trace
WARM = 32  # of them in a minibatch
PROFILED = 5  # minibatches that are run with a wait after each part, so that a cost model can learn; not timed
CHOOSING = 150  # at most, minibatches in which the automatic setting makes its choice; not timed
LEAST = 3  # repeats of a configuration that is slow


class Workload(Protocol):
    """A model for one sample, with initialised parameters, and samples to run it on.

    note: what the samples are. loss: `loss(net, sample)` calls the model as a user does and gives the sample's loss.
    """

    @property
    def note(self) -> str: ...
    @property
    def train(self) -> Sequence[Any]: ...
    @property
    def net(self) -> Any: ...
    @property
    def loss(self) -> Callable[[Any, Any], Any]: ...


class Times(NamedTuple):
    """The times at which a minibatch began, was captured, and had run, in seconds."""

    begin: float
    captured: float
    end: float


class Engine(Protocol):
    """The names that the module of a framework has."""

    def load(self, name: str, data_dir: str | None, seed: int, limit: int | None) -> Workload:
        """Return a workload; with `limit`, of its first samples alone. Raises DataError if files are missing."""

    def batched(self, net: Any, options: dict[str, Any]) -> Any:
        """Return a net with the same parameters that is batched with these options of gluonjit."""

    def run(self, net: Any, loss: Callable[[Any, Any], Any], samples: Sequence[Any], training: bool) -> Times:
        """Compute the losses of a minibatch, and in training the gradients of their sum."""


class Run(NamedTuple):
    """One minibatch: seconds in all, of capture and of analysis, and what the library reports of it.

    outside: seconds of none of its parts: of the program before its first call, and of the framework around backward.
    """

    seconds: float
    capture: float
    analysis: float
    outside: float
    nodes: int
    launches: int
    predicted_ms: float | None
    choice: str | None


@dataclass
class Timing:
    """The runs of one configuration at one batch size in one phase; `runs` are those that are timed.

    Each minibatch runs twice: `pairs` are both runs, between which all other configurations have theirs.
    """

    configuration: Configuration
    batch_size: int
    phase: str
    repeats: int
    runs: list[Run] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[Run, Run]]:
        """Both runs of each minibatch; where one was interrupted twice the same."""
        return [(run, self.runs[min(at + 1, len(self.runs) - 1)]) for at, run in enumerate(self.runs) if at % 2 == 0]


class Measurement:
    """The timings of one workload; they may be read at any time, also after an interruption."""

    def __init__(self, engine: Engine, workload: Workload, configurations: Sequence[Configuration], seed: int) -> None:
        self.engine = engine
        self.workload = workload
        self.seed = seed
        self.timings: list[Timing] = []
        self._nets = {found: engine.batched(workload.net, found.options) for found in configurations}
        # Samples and weights stay: Python's collector need not go through them ever again.
        gc.collect()
        gc.freeze()

    def run(self, batch_sizes: Sequence[int], repeats: int, seconds: float) -> None:
        """Measure all configurations; one whose minibatch takes longer than `seconds` has LEAST repeats at most."""
        total = len(batch_sizes) * len(PHASES) * len(self._nets) * (2 * repeats + 1)
        pool = self.workload.train[: max(POOL, *batch_sizes)]
        with tqdm(total=total, unit="run", leave=False, disable=None) as bar:
            for phase, configuration in product(PHASES, self._nets):
                bar.set_description(f"{phase}, {configuration.label}: all samples")
                for begin in range(0, len(pool), WARM):
                    self._once(configuration, phase, pool[begin : begin + WARM])
            for size in batch_sizes:
                minibatches = Minibatches(pool, size, self.seed)
                for phase in PHASES:
                    self._measure(minibatches, phase, repeats, seconds, bar)

    def _measure(self, minibatches: Minibatches, phase: str, repeats: int, seconds: float, bar: Any) -> None:
        """Warm up every configuration, let a cost model see its steps, in turns, then let them run in turns."""
        first, *more = minibatches.draw(CHOOSING)
        timings, learns = [], []
        for configuration in self._nets:
            bar.set_description(f"{phase}, batch {minibatches.size}, {configuration.label}: warm-up")
            slow = self._once(configuration, phase, first).seconds > seconds
            if configuration.automatic:
                self._choose(configuration, phase, more)
            else:
                learns.append((configuration, 1 if slow else PROFILED))
            timings.append(Timing(configuration, minibatches.size, phase, min(LEAST, repeats) if slow else repeats))
            bar.update()
        for turn, minibatch in enumerate(more[:PROFILED]):
            for configuration, turns in learns:
                if turn < turns:
                    with gluonjit.batching(profile=True, **configuration.options):
                        self._once(configuration, phase, minibatch)
        self.timings += timings
        for repeat in range(repeats):
            (minibatch,) = minibatches.draw(1)
            at = repeat % len(timings)
            for timing in 2 * [*timings[at:], *timings[:at]]:
                if repeat < timing.repeats:
                    bar.set_description(f"{phase}, batch {timing.batch_size}, {timing.configuration.label}")
                    timing.runs.append(self._once(timing.configuration, phase, minibatch))
                bar.update()

    def _choose(self, configuration: Configuration, phase: str, minibatches: Sequence[Sequence[Any]]) -> None:
        """Let the automatic setting make its choice."""
        for minibatch in minibatches:
            self._once(configuration, phase, minibatch)
            choice = gluonjit.explain().choice
            if choice is not None and choice.decided:
                break

    def _once(self, configuration: Configuration, phase: str, samples: Sequence[Any]) -> Run:
        """Run one minibatch, with the engine's work, and without Python's collector."""
        training = phase == "training"
        gc.collect()
        gc.disable()
        try:
            times = self.engine.run(self._nets[configuration], self.workload.loss, samples, training)
        finally:
            gc.enable()
        report = gluonjit.explain()
        choice = getattr(report, "choice", None)
        return Run(
            times.end - times.begin,
            times.captured - times.begin,
            report.ms["analysis"] / 1e3,
            max(times.end - times.begin - sum(report.ms.values()) / 1e3, 0.0),
            report.nodes,
            report.launches,
            predicted_ms(report, training),
            None if choice is None or not configuration.automatic else str(choice.setting),
        )
