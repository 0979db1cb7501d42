"""This checkout and another one in turns, each in a process of its own, on the same minibatches."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from experiments.bench.clock import MOST_MINIBATCHES, PHASES, WARM_UP, Minibatches
from experiments.bench.environment import environment, threads
from experiments.bench.files import write_json
from experiments.data.reading import DATA_VARIABLE
from experiments.throughput import agreeing
from experiments.throughput.against.checkouts import HERE, build, checkout_of, commit_of
from experiments.throughput.against.paired import ratio
from experiments.throughput.peers.environments import PeerError
from experiments.throughput.peers.process import Process

SERVER = Path(__file__).with_name("serve.py")
TURNS = 15
CHECKED = 32  # samples on which both have to agree before anything is timed
NAMES = {"train": "training", "inference": "inference"}


class Wanted(NamedTuple):
    """A requested comparison and its duration; `command` is the command line, for the record."""

    checkout: str
    engine: str
    workload: str
    system: str
    batch_sizes: Sequence[int]
    turns: int
    seconds: float  # of one version in one phase of one turn
    seed: int
    limit: int | None
    data_dir: str | None
    json: Path | None
    command: str


class Version(Process):
    """One checkout; samples are named by their places."""

    foreign = False

    def __init__(self, label: str, folder: Path, wanted: Wanted) -> None:
        """Start it and wait until it has loaded the workload. Raises PeerError when it does not."""
        told = [f"--{name}={getattr(wanted, name)}" for name in ("engine", "workload", "system", "seed")]
        if wanted.limit is not None:
            told.append(f"--limit={wanted.limit}")
        data = wanted.data_dir or os.environ.get(DATA_VARIABLE)
        if data:
            told.append(f"--data-dir={Path(data).resolve()}")
        command = [sys.executable, str(SERVER), str(folder), *told]
        super().__init__(label, command, threads(), root=folder, folder=folder)
        self.ready = self.start()

    def results(self, samples: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the losses of samples and the gradient of their sum for each weight."""
        path = self.scratch / "results.npz"
        self.ask("differentiate", samples=list(samples), path=str(path))
        with np.load(path, allow_pickle=False) as found:
            return dict(found)

    def timed(self, phase: str, samples: Sequence[int], collect: bool = False) -> float:
        """Run one minibatch and return its seconds, which a collection before it is no part of."""
        return float(
            self.ask("time", phase=phase, samples=[int(place) for place in samples], collect=collect)["seconds"]
        )


def compare(wanted: Wanted) -> dict[str, Any]:
    """Check, measure, show and save.

    Raises PeerError if a checkout cannot be asked, Disagreement if the two do not compute the same.
    """
    other = checkout_of(wanted.checkout)
    build(HERE)
    versions: list[Version] = []
    try:
        for label, folder in (("this", HERE), ("other", other)):
            versions.append(Version(label, folder, wanted))
        return _measure(wanted, versions, (HERE, other))
    finally:
        for version in versions:
            version.close()


def _measure(wanted: Wanted, versions: Sequence[Version], folders: Sequence[Path]) -> dict[str, Any]:
    """Measure two versions that agree."""
    mine, others = (version.ready for version in versions)
    if mine["samples"] != others["samples"]:
        raise PeerError(f"this version loads {mine['samples']} samples, the other one {others['samples']}")
    if mine["samples"] < max(wanted.batch_sizes):
        raise PeerError(f"{mine['samples']} samples do not fill --batch-size {max(wanted.batch_sizes)}")
    print(f"data: {mine['note']}; {mine['samples']} samples")
    places = range(mine["samples"])
    agreement, silent = agreeing.check(versions, places[:CHECKED])
    if silent:
        raise PeerError(silent["other"])
    shown = ", ".join(f"{name.replace('_', ' ')} {value:.1e}" for name, value in agreement["other"].items())
    print(f"both compute the same, to: {shown}")
    rows = []
    for size in wanted.batch_sizes:
        minibatches = Minibatches(places, size, wanted.seed)
        for version in versions:
            version.ask("meet", size=size)
        for phase in PHASES:
            rows.append({"batch_size": size, "phase": phase, **_turns(wanted, versions, phase, minibatches)})
            print(_shown(rows[-1]))
    result = {
        "workload": wanted.workload,
        "engine": wanted.engine,
        "system": wanted.system,
        "note": mine["note"],
        "command": wanted.command,
        "threads": threads(),
        "environment": environment(),
        "versions": {
            version.label: {"version": version.ready["version"], "commit": commit_of(folder)}
            for version, folder in zip(versions, folders)
        },
        "agreement": agreement["other"],
        "rows": rows,
    }
    if wanted.json:
        write_json(wanted.json, result)
    return result


def _turns(wanted: Wanted, versions: Sequence[Version], phase: str, minibatches: Minibatches) -> dict[str, Any]:
    """Time both on the same minibatches; who is first changes with each of them."""
    for batch in minibatches.draw(WARM_UP):
        slowest = max(version.timed(phase, batch) for version in versions)
    count = min(MOST_MINIBATCHES, max(1, ceil(wanted.seconds / slowest)))
    pairs = []
    for turn in tqdm(range(wanted.turns), unit="turn", desc=phase, leave=False, disable=None):
        spent = dict.fromkeys(versions, 0.0)
        for number, batch in enumerate(minibatches.draw(count)):
            for version in versions if (turn + number) % 2 == 0 else versions[::-1]:
                spent[version] += version.timed(phase, batch, collect=number == 0)
        pairs.append((spent[versions[0]], spent[versions[1]]))
    samples = count * minibatches.size
    return {
        "minibatches_per_turn": count,
        "samples_per_s": {
            version.label: float(np.median([samples / pair[place] for pair in pairs]))
            for place, version in enumerate(versions)
        },
        "seconds": pairs,
        "ratio": ratio(pairs)._asdict(),
    }


def _shown(row: dict[str, Any]) -> str:
    found, rates = row["ratio"], row["samples_per_s"]
    return (
        f"batch {row['batch_size']}, {NAMES[row['phase']]}: {rates['this']:,.0f} samples/s, the other one "
        f"{rates['other']:,.0f}; {found['median']:.3f} times as fast, {found['low']:.3f} to {found['high']:.3f} "
        f"({100 * found['coverage']:.0f} % interval of the median of {len(row['seconds'])} turns)"
    )
