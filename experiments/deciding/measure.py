"""One model that decides: eagerly, by `gluonjit.map`, and all samples run to the last step with masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from statistics import mean, median
from time import process_time
from typing import Any
from unittest.mock import patch

import gluonjit
from experiments.deciding.programs import PROGRAMS, row_of
from experiments.programs.measure import PHASES, TOLERANCE
from experiments.zoo.measure import FIXED, distance
from experiments.zoo.row import Arrays, Each, Engine, in_turn
from gluonjit import Report

WARM_UP, REPEATS = 3, 5


@dataclass(frozen=True)
class Setting:
    """Engine, sizes and seed of a measurement."""

    engine: str
    batch_size: int
    hidden: int
    in_flight: int
    seed: int


@dataclass(frozen=True)
class Timed:
    """One phase of a model.

    eager_ms, map_ms, masked_ms: medians of a minibatch, of the processor's time; flushes: of a minibatch; sizes: how
    many samples the largest step of each had; launches: of one flush; apart, full: sizes of as many samples as four
    minibatches have, so many after so many, and so many in flight; off: the largest differences
    from eager, by the largest number.
    """

    model: str
    phase: str
    eager_ms: float
    map_ms: float
    masked_ms: float | None
    sizes: list[int]
    launches: float
    apart: list[int]
    full: list[int]
    off: dict[str, float]

    @property
    def faster(self) -> float:
        """Speedup over eager execution."""
        return self.eager_ms / self.map_ms

    def faults(self) -> list[str]:
        """Name the faults."""
        said = f"{self.model}, {self.phase}, "
        return [f"{said}{way}: off by {off:.1e} of the largest" for way, off in self.off.items() if off > TOLERANCE]

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def measure(engine: Engine, name: str, setting: Setting) -> list[Timed]:
    """Compare losses and gradients of a model in each way, then time them in turns."""
    parts = import_module(f"experiments.deciding.on_{setting.engine}")
    row = row_of(name, parts.Base, setting.hidden)
    masked = parts.MASKED.get(name) or PROGRAMS[name].masked
    found = []
    for phase in PHASES:
        gluonjit.clear_caches()
        nets = [engine.make_net(row, setting.seed) for _ in range(2)]
        engine.batch(nets[1], **FIXED)
        nets[0].branches, nets[1].branches = in_turn, gluonjit.map
        run = partial(engine.run, row=row, training=phase == PHASES[0])
        mapped = partial(run, nets[1], each=mapping(None))
        flown = partial(run, nets[1], each=mapping(setting.in_flight))
        ways: dict[str, Callable[..., Any]] = {"eager": partial(run, nets[0]), "map": mapped}
        if masked is not None:
            ways["masked"] = partial(run, nets[0], each=partial(_masked, masked, nets[0]))
        many = engine.samples(row, 4 * setting.batch_size, setting.seed)
        samples = many[: setting.batch_size]
        wanted = ways["eager"](samples)
        off = {way: _apart(ways[way](samples), wanted) for way in ways if way != "eager"}
        with steps_of() as few:
            mapped(samples)
        with steps_of() as apart:
            for first in range(0, len(many), setting.in_flight):
                mapped(many[first : first + setting.in_flight])
        with steps_of() as full:
            together = flown(many)
        off["in flight"] = _apart(together, ways["eager"](many))
        took = _times(ways, many, setting.batch_size)
        found.append(
            Timed(
                name,
                phase,
                took["eager"],
                took["map"],
                took.get("masked"),
                [max(steps) for steps in few],
                mean(map(len, few)),
                [max(steps) for steps in apart],
                [max(steps) for steps in full],
                off,
            )
        )
    return found


def _masked(masked: Any, net: Any, _: Any, samples: Sequence[Any]) -> Any:
    return masked(net, samples)


def _apart(found: Arrays, wanted: Arrays) -> float:
    """The largest difference; names of parameters may be those of another model."""
    return distance(dict(zip(wanted, found.values())), wanted)


def mapping(in_flight: int | None) -> Each:
    """Return what runs samples side by side."""
    return lambda function, samples: gluonjit.map(function, samples, in_flight, **FIXED)


@contextmanager
def steps_of() -> Iterator[list[list[int]]]:
    """Give the number of nodes of each step, by flush, of what runs in this region."""
    found: list[list[int]] = []
    original = Report.add_plan

    def add_plan(self: Report, plan: Any, *rest: Any, **more: Any) -> None:
        original(self, plan, *rest, **more)
        if plan.steps:
            found.append([step.count for step in plan.steps])

    with patch.object(Report, "add_plan", add_plan):
        yield found


def _times(ways: dict[str, Callable[..., Any]], samples: Sequence[Any], size: int) -> dict[str, float]:
    """Milliseconds of a minibatch in each way."""
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for count in range(WARM_UP + REPEATS):
        first = count * size % len(samples)
        for way, run in ways.items():
            begin = process_time()
            run(samples[first : first + size])
            spent[way].append(1e3 * (process_time() - begin))
    return {way: median(times[WARM_UP:]) for way, times in spent.items()}
