"""Pauses of Python's garbage collector in small minibatches: ``python -m experiments.pauses --engine torch``.

A minibatch is forward and backward of eight samples of the README's TreeModel, each with its own structure. The
collector keeps its settings; `gc.callbacks` report its runs. The output includes the memory of the process after a
tenth of the minibatches and at the end, and the most tracked objects that one minibatch has: fewer than the collector's
threshold never trigger it.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gluonjit
from experiments.bench.arguments import count, ended, whole
from experiments.bench.engines import ENGINES, engine_of
from experiments.bench.environment import environment, limit_threads
from experiments.bench.files import write_json
from experiments.host.measure import Trees

TIMES = 3.0  # the median: a longer minibatch is told of
_LOOKS = 8  # minibatches whose objects are counted
_WARM_UP = 20
_GROWTH = 0.01


class Collector:
    """The seconds of the garbage collector by generation, from `gc.callbacks`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.longest = [0.0] * 3
        self.runs = [0] * 3
        self._begun = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun = perf_counter()
            return
        seconds, generation = perf_counter() - self._begun, info["generation"]
        self.seconds += seconds
        self.runs[generation] += 1
        self.longest[generation] = max(self.longest[generation], seconds)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Be told in here."""
        gc.callbacks.append(self)
        try:
            yield
        finally:
            gc.callbacks.remove(self)


def train(engine: Any, net: Any, given: Sequence[Any]) -> Any:
    """Run a minibatch forward and backward; returns its sum, which has been computed."""
    with engine.gradients(True):
        total = gluonjit.add_n([net(tokens, tree) for tokens, tree in given])
    total.backward()
    engine.wait()
    return total


def measure(name: str, minibatches: int, batch_size: int, seed: int) -> dict[str, Any]:
    """Time minibatches, and the collector's share of each."""
    engine = engine_of("host", name)
    trees, draw = Trees(engine, batch_size, seed), np.random.RandomState(seed)
    net = trees.nets[1]
    for _ in range(_WARM_UP):
        train(engine, net, trees.draw(draw))
    collector = Collector()
    whole_times, pauses = np.zeros(minibatches), np.zeros(minibatches)
    early = 0
    with collector.listening():
        for number in range(minibatches):
            before, begin = collector.seconds, perf_counter()
            train(engine, net, trees.draw(draw))
            whole_times[number] = perf_counter() - begin
            pauses[number] = collector.seconds - before
            if number == minibatches // 10:
                early = resident()
    usual = median(whole_times.tolist())
    long = whole_times > TIMES * usual
    return {
        "minibatches": minibatches,
        "batch_size": batch_size,
        "seed": seed,
        "thresholds": list(gc.get_threshold()),
        "median_ms": 1e3 * usual,
        "longest_ms": 1e3 * float(whole_times.max()),
        "long": int(long.sum()),
        "long_by_the_collector": int((long & (whole_times - pauses <= TIMES * usual)).sum()),
        "runs": collector.runs,
        "longest_pauses_ms": [1e3 * seconds for seconds in collector.longest],
        "pauses_percent": 100.0 * float(pauses.sum() / whole_times.sum()),
        "bytes_after_a_tenth": early,
        "bytes_at_the_end": resident(),
        "objects": objects(engine, net, [trees.draw(draw) for _ in range(_LOOKS)]),
    }


def objects(engine: Any, net: Any, minibatches: Sequence[Any]) -> dict[str, float]:
    """Count the collector's objects that a minibatch has made: when it has run forward, and when it is over.

    Medians of these minibatches. What is left at the end goes when the next one runs: its report, say.
    """
    captured, ran, left = [], [], []
    for given in minibatches:
        gc.collect()
        gc.disable()
        try:
            before = len(gc.get_objects())
            with engine.gradients(True):
                results = [net(tokens, tree) for tokens, tree in given]
                captured.append(len(gc.get_objects()) - before)
                total = gluonjit.add_n(results)
                engine.numbers(total)
            ran.append(len(gc.get_objects()) - before)
            total.backward()
            engine.wait()
            del results, total
            left.append(len(gc.get_objects()) - before)
        finally:
            gc.enable()
    return {"captured": median(captured), "forward": median(ran), "left": median(left)}


def resident() -> int:
    """Bytes of memory that the process holds now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 where the collector made a minibatch long, or memory grew by more than 1 %."""
    parser = argparse.ArgumentParser(prog="python -m experiments.pauses", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--minibatches", type=count, default=10_000)
    parser.add_argument("--batch-size", type=count, default=8)
    parser.add_argument("--seed", type=whole, default=0)
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    chosen = parser.parse_args(arguments)
    limit_threads()
    return ended(lambda: _run(chosen), OSError)


def _run(chosen: argparse.Namespace) -> list[str]:
    found = measure(chosen.engine, chosen.minibatches, chosen.batch_size, chosen.seed)
    if chosen.json:
        write_json(chosen.json, {"engine": chosen.engine, "environment": environment(), **found})
    pauses = ", ".join(
        f"{runs} of generation {number} (at most {ms:.1f} ms)"
        for number, (runs, ms) in enumerate(zip(found["runs"], found["longest_pauses_ms"]))
    )
    print(
        f"{found['minibatches']} minibatches of {found['batch_size']}: median {found['median_ms']:.2f} ms, longest "
        f"{found['longest_ms']:.2f} ms; over {TIMES:.0f} medians {found['long']}, by the collector "
        f"{found['long_by_the_collector']}\nthe collector took {found['pauses_percent']:.1f} %: {pauses}\n"
        f"objects of the collector's in a minibatch: {found['objects']}\n"
        f"memory {found['bytes_after_a_tenth'] / 1e6:.1f} MB, at the end {found['bytes_at_the_end'] / 1e6:.1f} MB"
    )
    faults = []
    if found["long_by_the_collector"]:
        faults.append(f"the collector made {found['long_by_the_collector']} minibatches long")
    if found["bytes_at_the_end"] > (1 + _GROWTH) * found["bytes_after_a_tenth"] > 0:
        faults.append("memory grew")
    return faults


if __name__ == "__main__":
    sys.exit(main())
