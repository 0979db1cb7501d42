"""One run: make systems and peers, check that they agree, measure them in turns, report the results."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from experiments.bench.base import BaseSystem
from experiments.bench.clock import PHASES, Minibatches, measure_all, row_of
from experiments.bench.engines import engine_of
from experiments.bench.environment import environment, threads
from experiments.bench.files import write_json
from experiments.bench.model import MEMORY_SIZE
from experiments.data.errors import DataError
from experiments.throughput import RATE, agreeing, table
from experiments.throughput.floor import Measurable, floors
from experiments.throughput.peers.environments import PeerError, python_of
from experiments.throughput.peers.process import Peer, command_of
from experiments.throughput.peers.process import Task as PeerTask

CHECKED = 32  # samples on which all systems have to agree before anything is timed


class Engine(Protocol):
    """The names that the module of an engine has. `IN_PROCESS` are peers run in this process."""

    IN_PROCESS: tuple[str, ...]

    def load(
        self, name: str, data_dir: str | None, seed: int, limit: int | None, hidden: int | None = None
    ) -> Measurable:
        """Return a workload; with `limit`, of its first samples alone, and with `hidden`, of a model of that size.

        Raises DataError if files are missing.
        """

    def make_systems(
        self, task: Any, names: Sequence[str], switches: Sequence[str], peers: Sequence[str]
    ) -> tuple[list[BaseSystem], dict[str, str]]:
        """Build systems and peers of this process; by name, why one cannot be.

        Dynamic ones come with and without sharing, and one with sharing for each switch that is off.
        """

    def gemm_rates(self) -> dict[str, float]:
        """Return GFLOP/s of products in several ways, the best of some tries each."""


@dataclass(frozen=True)
class Wanted:
    """A requested measurement and its duration; `command` is the command line, for the record."""

    workload: str
    batch_sizes: Sequence[int]
    systems: Sequence[str] | None  # None: all that the workload has
    peers: Sequence[str]
    ablations: Sequence[str]
    repeats: int
    seconds: float  # of one system in one phase of one repeat
    seed: int
    limit: int | None = None
    data_dir: str | None = None
    json: Path | None = None
    plot: Path | None = None
    command: str = ""
    engine: str = "mxnet"
    hidden: int | None = None  # the size of the model, where it is not the usual one


def bench(wanted: Wanted, start: Callable[[str, PeerTask], Peer] | None = None) -> dict[str, Any]:
    """Check, measure, show and save; `start` starts a peer.

    Raises DataError if samples are missing or too few, Disagreement if systems do not compute the same.
    """
    engine: Engine = engine_of("throughput", wanted.engine)
    task = engine.load(wanted.workload, wanted.data_dir, wanted.seed, wanted.limit, wanted.hidden)
    print(f"data: {task.note}; {len(task.samples)} samples")
    if len(task.samples) < max(wanted.batch_sizes):
        few = f"{len(task.samples)} samples do not fill --batch-size {max(wanted.batch_sizes)}"
        raise DataError(Path(wanted.workload), None, few)
    lost: dict[str, str] = {}
    missing = [name for name in wanted.systems or () if name not in task.systems]
    for name in missing:
        lost[name] = f"{name}: {wanted.workload} has no such system; it has {', '.join(task.systems)}"
    names = [name for name in wanted.systems or task.systems if name not in missing]
    inside = [name for name in wanted.peers if name in engine.IN_PROCESS]
    made, unmade = engine.make_systems(task, names, wanted.ablations, inside)
    systems: list[Any] = [*made]
    for name, why in unmade.items():
        lost[name] = why
        print(f"left out: {why}")
    peers = _start(task, [name for name in wanted.peers if name not in inside], start or _start_peer, lost)
    try:
        systems += peers
        # Samples and nets stay: Python's collector need not go through them ever again, as in the peers.
        gc.collect()
        gc.freeze()
        if not systems:
            raise DataError(Path(wanted.workload), None, "none of the systems that were asked for can run")
        return _measure(wanted, engine, task, systems, lost)
    finally:
        for peer in peers:
            peer.close()


def _start(
    task: Measurable, names: Sequence[str], start: Callable[[str, PeerTask], Peer], lost: dict[str, str]
) -> list[Peer]:
    """Start the peers; why one cannot be is noted in `lost`, and the run goes on without it."""
    if names and task.family is None:
        lost.update({name: f"{name}: {task.name} has no model for peers" for name in names})
        print(f"peers: none, {task.name} has no models for them")
        return []
    peers = []
    for name in names:
        assert task.family is not None
        try:
            peers.append(start(name, PeerTask(task.family, task.samples, task.weights(), RATE)))
        except PeerError as error:
            lost[name] = str(error)
            print(f"left out: {error}")
    return peers


def _start_peer(name: str, task: PeerTask) -> Peer:
    return Peer(name, command_of(python_of(name)), task, threads())


def _measure(
    wanted: Wanted, engine: Engine, task: Measurable, systems: Sequence[Any], lost: dict[str, str]
) -> dict[str, Any]:
    """Measure all systems that agree."""
    wider = (wanted.hidden or MEMORY_SIZE) / MEMORY_SIZE
    agreement, silent = agreeing.check(systems, task.samples[:CHECKED], wider)
    lost.update(silent)
    for label, figures in agreement.items():
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.1e}" for name, value in figures.items())
        print(f"{label} is as {systems[0].label}, to: {shown}")
    rates = engine.gemm_rates()
    rows: list[dict[str, Any]] = []
    for size in wanted.batch_sizes:
        running = [system for system in systems if system.label not in lost]
        for system in running:
            if isinstance(system, BaseSystem):
                system.meet(task.samples, size)
        minibatches = Minibatches(task.samples, size, wanted.seed)
        measured = measure_all(running, minibatches, wanted.repeats, wanted.seconds, (PeerError,))
        for label, why in measured.lost.items():
            print(f"left out from here: {why}")
            lost[label] = why
        rows += [
            row_of(wanted.workload, size, system, phase, measured.timings[system.label, phase])
            for system in running
            for phase in PHASES
            if system.label not in lost
        ]
    rates_again = engine.gemm_rates()
    rates = {name: max(rate, rates_again[name]) for name, rate in rates.items()}
    result = {
        "workload": wanted.workload,
        "engine": wanted.engine,
        "note": task.note,
        "command": wanted.command,
        "threads": threads(),
        **({} if wanted.hidden is None else {"hidden": wanted.hidden}),
        "environment": environment(),
        "agreement": agreement,
        "left_out": lost,
        "notes": {system.label: found for system in systems if (found := system.notes())},
        "gemm_gflops": rates,
        "floor": floors(task, wanted.batch_sizes, max(rates.values()), wanted.seed),
        "rows": rows,
    }
    result.update(table.findings(result))
    print(table.table(result))
    if wanted.json:
        write_json(wanted.json, result)
    if wanted.plot:
        from experiments.bench.plot import draw

        draw(result, wanted.plot)
    return result
