"""Times a step launched as a row program, a flush of one node, and the row programs of a minibatch."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gluonjit
from experiments.data.errors import DataError
from experiments.host import WAY
from experiments.host.measure import WARM_UP, uncollected
from experiments.host.sorts import Engine
from gluonjit.errors import SmallBatchWarning

LENGTHS = (50, 450)  # steps of a chain of layers, each on the result of the one before
FLUSHES = 20  # in a row
DRAWN = 8  # times as many samples as a minibatch has, of which it is drawn
WORKLOADS = ("treelstm-sick", "treelstm-builtin")  # the second where the files of the first are missing


@dataclass(frozen=True)
class Launched:
    """Medians of the rounds.

    forward, backward: microseconds that one more step of a chain takes, a layer of two rows each, kernel and all;
    in_c: the share of steps that are row programs; flush, recorded: microseconds of a flush of one call beyond its row
    program, one of many in a row, without gradients and with them; cold: of one without gradients after other work,
    when little of what it needs is in the processor's caches.
    """

    rounds: int
    forward: float
    backward: float
    in_c: float
    flush: float
    recorded: float
    cold: float


@dataclass(frozen=True)
class Shared:
    """A minibatch of a workload: milliseconds, and the part of them that is spent in row programs; medians."""

    workload: str
    batch_size: int
    phase: str
    rounds: int
    ms: float
    row_ms: float


def launched(engine: Engine, rounds: int, seed: int) -> Launched:
    """Time chains of two lengths, and flushes of one call."""
    net = engine.calls(True, seed)
    steps: dict[int, list[tuple[float, float]]] = {length: [] for length in LENGTHS}
    flushes: dict[str, list[float]] = {"cold": [], "flush": [], "recorded": []}
    in_c = 1.0
    with uncollected(), warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallBatchWarning)  # a call by itself is what is timed
        for number in range(WARM_UP + rounds):
            for length in LENGTHS:
                report = _chain(engine, net, length)
                if number >= WARM_UP:
                    steps[length].append((report.ms["gather"] + report.ms["compute"], report.ms["backward"]))
                    in_c = min(in_c, report.fused / report.launches)
            found = {
                "cold": [_flush(engine, net, False)],
                "flush": [_flush(engine, net, False) for _ in range(FLUSHES)],
                "recorded": [_flush(engine, net, True) for _ in range(FLUSHES)],
            }
            if number >= WARM_UP:
                for name, times in found.items():
                    flushes[name].append(median(times))
            gc.collect()
    forward, backward = (
        1e3
        * (median(each[part] for each in steps[LENGTHS[1]]) - median(each[part] for each in steps[LENGTHS[0]]))
        / (LENGTHS[1] - LENGTHS[0])
        for part in (0, 1)
    )
    return Launched(rounds, forward, backward, in_c, **{name: median(times) for name, times in flushes.items()})


def _chain(engine: Engine, net: Any, length: int) -> gluonjit.Report:
    """Run a chain of layers forward and backward."""

    def work(word: int) -> Callable[[Any], Any]:
        def run(net: Any) -> Any:
            x = engine.operands(net, np.array([word])).xs[0]
            for _ in range(length):
                x = net.first(x)
            return x

        return run

    with engine.gradients(True):
        with gluonjit.batching(**WAY) as batch:
            total = net(work(0)).sum() + net(work(1)).sum()
        total.backward()
    engine.wait()
    return batch.report


def _flush(engine: Engine, net: Any, gradients: bool) -> float:
    """Return the microseconds of a flush of one call on a separate word, beyond its row program."""
    with engine.gradients(gradients), gluonjit.batching(**WAY) as batch:
        kept = net(lambda net: engine.operands(net, np.array([1])).xs)
        begin = perf_counter()
        batch.flush("one call is to be timed")
        engine.wait()
        seconds = perf_counter() - begin
    del kept
    return 1e6 * seconds - 1e3 * batch.report.row_ms


def shared(engine: str, rounds: int, batch_size: int, seed: int) -> list[Shared]:
    """Time minibatches of a workload, and row programs in them."""
    module = import_module(f"experiments.throughput.on_{engine}")
    for name in WORKLOADS:
        try:
            task = module.load(name, None, seed, DRAWN * batch_size)
        except DataError:
            continue
        break
    (system, *_), _ = module.make_systems(task, ["dynamic"], [], [])
    draw = np.random.RandomState(seed)
    rows = []
    with uncollected():
        for phase in ("train", "inference"):
            found = []
            for number in range(WARM_UP + rounds):
                places = draw.choice(len(task.samples), batch_size, replace=False)
                seconds = system.timed(phase, [task.samples[place] for place in places])
                if number >= WARM_UP:
                    found.append((1e3 * seconds, gluonjit.explain().row_ms))
                gc.collect()
            rows.append(Shared(name, batch_size, phase, rounds, *_medians(found)))
    return rows


def _medians(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the median time of a minibatch, and the median share of its row programs."""
    whole = median(ms for ms, _ in found)
    return whole, whole * median(rows / ms for ms, rows in found)
