"""Launches, analysis time and speed of schedulers on models and workloads, and launches of any graph of small nodes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

import gluonjit
from experiments.bench.engines import engine_of
from experiments.schedulers.baselines import BASELINES
from experiments.schedulers.exact import fewest
from experiments.schedulers.policy import learned
from experiments.schedulers.problem import Problem, of_trace, random_problem

ROOT = Path(__file__).resolve().parents[2]
NAMES = tuple(gluonjit.Options.SCHEDULERS)
POLICY = "policy, ED-Batch"
OTHERS = (*BASELINES, POLICY)
WAY: dict[str, Any] = {"granularity": "cell", "sharing": True, "without": ("hoisting",), "scheduler": "depth"}
TURNS = 6
"""Timed minibatches of each scheduler."""
Run = Callable[[], list[Any]]
"""Capture the losses of a minibatch."""


@dataclass(frozen=True)
class Row:
    """A graph: its nodes, the lower bound, and by scheduler launches, milliseconds of planning, samples a second."""

    name: str
    nodes: int
    bound: int
    launches: dict[str, int]
    ms: dict[str, float]
    rates: dict[str, float]


@dataclass(frozen=True)
class Excess:
    """A scheduler on random graphs: launches over the fewest, in all and in the worst one, and the share of these."""

    scheduler: str
    total: float
    worst: float
    share: float


def captured(
    engine: str, names: Sequence[str], size: int, seed: int, way: dict[str, Any]
) -> Iterator[tuple[str, list[Run]]]:
    """Yield models of the zoo, batched in this way, as what runs minibatches in inference."""
    zoo = engine_of("zoo", engine)
    for name in names:
        gluonjit.clear_caches()
        row = zoo.ROWS[name]
        minibatches, net = [zoo.samples(row, size, seed + turn) for turn in range(TURNS + 1)], zoo.make_net(row, seed)
        zoo.run(net, minibatches[0][:2], row, False)  # layers learn the shapes of their weights
        zoo.batch(net, **way)
        yield name, [partial(_losses, row.loss, net, samples) for samples in minibatches]


def loaded(
    engine: str, names: Sequence[str], size: int, seed: int, data_dir: str | None, way: dict[str, Any]
) -> Iterator[tuple[str, list[Run]]]:
    """Yield workloads in the same form."""
    found = engine_of("tradeoff", engine)
    for name in names:
        workload = found.load(name, data_dir, seed, size * (TURNS + 1))
        net = found.batched(workload.net, way)
        found.run(net, workload.loss, workload.train[:2], False)
        minibatches = [workload.train[begin : begin + size] for begin in range(0, len(workload.train), size)]
        yield name, [partial(_losses, workload.loss, net, samples) for samples in minibatches]


def _losses(loss: Callable[[Any, Any], Any], net: Any, samples: Sequence[Any]) -> list[Any]:
    return [loss(net, sample) for sample in samples]


def measured(name: str, runs: Sequence[Run], engine: str, episodes: int) -> Row:
    """Capture the first minibatch, save it, plan it with every scheduler where no framework is; time the others."""
    with inference(engine), gluonjit.batching(**WAY):
        runs[0]()  # calls are known from now on
    with TemporaryDirectory() as folder:
        trace, figures = Path(folder) / "trace", Path(folder) / "figures.json"
        with inference(engine), gluonjit.batching(**WAY) as batch:
            kept = runs[0]()
            batch.save_trace(trace)
        del kept
        command = [sys.executable, "-m", "gluonjit", "simulate", "--scheduler", ",".join(NAMES), "--json", str(figures)]
        done = subprocess.run([*command, str(trace)], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"{name}: simulate: {done.stderr.strip()}")
        rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
        problem = of_trace(trace)
    launches = {each["scheduler"]: each["launches"] for each in rows}
    nodes, bound = rows[0]["nodes"], rows[0]["lower_bound"]
    if (problem.count, problem.bound()) == (nodes, bound):
        row = _compared(name, problem, launches, episodes)
    else:  # the library has folded sums, which others do not
        row = Row(name, nodes, bound, launches, {}, {})
    row.ms.update({each["scheduler"]: each["analysis_ms"] for each in rows})
    row.rates.update(_rates(runs, engine, launches))
    return row


def _rates(runs: Sequence[Run], engine: str, launches: dict[str, int]) -> dict[str, float]:
    """Return samples in a second of processor time by scheduler: medians of fresh minibatches, in turns."""
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for turn, run in enumerate(runs):
        at = turn % len(NAMES)
        for name in (*NAMES[at:], *NAMES[:at]):
            begin = process_time()
            with inference(engine), gluonjit.batching(**{**WAY, "scheduler": name}) as batch:
                losses = run()
            wait(engine)
            if turn:
                found[name].append(len(losses) / (process_time() - begin))
            elif batch.report.launches != launches[name]:
                raise ValueError(f"{name}: {batch.report.launches} launches, and {launches[name]} planned from a file")
    return {name: median(of) for name, of in found.items()}


def wait(engine: str) -> None:
    """Wait for what the framework has been handed."""
    if engine == "mxnet":
        import_module("mxnet").nd.waitall()


def inference(engine: str) -> Any:
    """Return a context in which nothing is recorded."""
    return import_module("torch").no_grad() if engine == "torch" else nullcontext()


def _compared(name: str, problem: Problem, launches: dict[str, int], episodes: int) -> Row:
    found = {**launches, **{other: of(problem) for other, of in BASELINES.items()}}
    if episodes:
        found[POLICY] = learned(problem, episodes)
    return Row(name, problem.count, problem.bound(), found, {}, {})


class Small:
    """Graphs of nodes of up to two operands, run by the library on numbers of a framework."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        one = np.ones((1, 1), dtype=np.float32)
        self.leaf = (
            import_module("torch").from_numpy(one) if engine == "torch" else import_module("mxnet").nd.array(one)
        )

        @gluonjit.cell
        def added(a: Any, b: Any) -> Any:
            return a + b

        @gluonjit.cell
        def subtracted(a: Any, b: Any) -> Any:
            return a - b

        @gluonjit.cell
        def multiplied(a: Any, b: Any) -> Any:
            return a * b

        self.cells = added, subtracted, multiplied

    def launches(self, problem: Problem, scheduler: str) -> int:
        """Run the nodes of a problem; return the launches that the report counts."""
        values: list[Any] = []
        with (
            inference(self.engine),
            gluonjit.batching(granularity="cell", sharing=False, scheduler=scheduler) as batch,
        ):
            for kind, used in zip(problem.types, problem.uses):
                operands = [values[one] for one in used] + [self.leaf] * (2 - len(used))
                values.append(self.cells[kind](*operands))
        report = batch.report
        if (report.nodes, report.lower_bound) != (problem.count, problem.bound()):
            raise ValueError(f"{report.nodes} nodes and the bound {report.lower_bound} in a graph of {problem.count}")
        return int(report.launches)

    def row(self, name: str, problem: Problem, episodes: int) -> Row:
        """Return the figures of a graph."""
        return _compared(name, problem, {each: self.launches(problem, each) for each in NAMES}, episodes)


def two_types(trees: Sequence[Any], seed: int) -> Problem:
    """Return binary trees, pairs of trees, whose phrases are of two types by chance; words are of a third."""
    rng = random.Random(seed)
    types: list[int] = []
    uses: list[list[int]] = []

    def place(kind: int, used: list[int]) -> int:
        types.append(kind)
        uses.append(used)
        return len(types) - 1

    for tree in trees:
        waiting: list[Any] = [(tree, False)]
        done: list[int] = []
        while waiting:
            one, seen = waiting.pop()
            if not isinstance(one, tuple):
                done.append(place(0, []))
            elif seen:
                done[-2:] = [place(1 + rng.randrange(2), done[-2:])]
            else:
                waiting += [(one, True), (one[1], False), (one[0], False)]
    return Problem(types, uses, [False] * 3)


def excess(small: Small, graphs: int, seed: int) -> list[Excess]:
    """Compare every scheduler with the best of all schedules on random graphs."""
    rng = random.Random(seed)
    ways = [*NAMES, *BASELINES]
    ratios: dict[str, list[tuple[int, int]]] = {way: [] for way in ways}
    for _ in range(graphs):
        problem = random_problem(rng)
        best = fewest(problem)
        for way in ways:
            found = small.launches(problem, way) if way in NAMES else BASELINES[way](problem)
            if found < best:
                raise ValueError(f"{way} needs {found} launches, and the best schedule {best}")
            ratios[way].append((found, best))
    return [
        Excess(
            way,
            sum(found for found, _ in of) / sum(best for _, best in of) - 1.0,
            max(found / best for found, best in of) - 1.0,
            sum(found > best for found, best in of) / len(of),
        )
        for way, of in ratios.items()
    ]
