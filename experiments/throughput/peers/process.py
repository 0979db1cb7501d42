"""A peer as a system among the others: orders go to its process line by line, and it times itself."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.throughput.peers import samples as files
from experiments.throughput.peers.environments import PeerError

ROOT = Path(__file__).resolve().parents[3]
MODULE = "experiments.throughput.peers.serve"
LAST_LINES = 5  # of a process that has died, in the message


class Task(NamedTuple):
    """What a peer is given: samples of a family, weights by name, and the rate it learns at."""

    family: str
    samples: Sequence[Any]
    weights: dict[str, np.ndarray]
    rate: float


class Peer:
    """One process; it ends with `close`, or when this one does."""

    sharing: bool | None = None
    one_by_one = False
    foreign = True

    def __init__(self, name: str, command: Sequence[str], task: Task, threads: int) -> None:
        """Start `command` and wait until it has loaded the task. Raises PeerError when it does not."""
        self.name = self.label = name
        self._places = {id(sample): place for place, sample in enumerate(task.samples)}
        self._folder = tempfile.TemporaryDirectory(prefix="throughput-")
        folder = Path(self._folder.name)
        files.save(folder / "task.npz", task.family, task.samples, task.weights)
        self._log = folder / "log"
        options = {"peer": name, "family": task.family, "path": folder / "task.npz", "rate": task.rate}
        told = [f"--{option}={value}" for option, value in {**options, "threads": threads}.items()]
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [*command, *told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(threads),
                text=True,
            )
        try:
            self._reply()
        except PeerError:
            self.close()
            raise

    def results(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return the losses of samples and the gradient of their sum for each weight."""
        path = Path(self._folder.name) / "results.npz"
        self._ask("differentiate", samples=self._of(samples), path=str(path))
        with np.load(path, allow_pickle=False) as found:
            return dict(found)

    def timed(self, phase: str, samples: Sequence[Any]) -> float:
        """Run one minibatch and return its seconds."""
        return float(self._ask("time", phase=phase, minibatches=[self._of(samples)])["seconds"][0])

    def figures(self) -> None:
        """Nothing is known of what a minibatch took."""

    def notes(self) -> dict[str, int]:
        """There is nothing else to say of a peer."""
        return {}

    def profile(self, phase: str, samples: Sequence[Any]) -> None:
        """Nothing is known of the parts of a minibatch."""

    def close(self) -> None:
        """End the process and remove its files."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # it has died before, with an order half written
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _of(self, samples: Sequence[Any]) -> list[int]:
        return [self._places[id(sample)] for sample in samples]

    def _ask(self, command: str, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": command, **order}) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._died() from None
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._died()
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise PeerError(f"{self.name}: {reply['error']}")
        return reply

    def _died(self) -> PeerError:
        """Say how the process ended, with the last of what it said."""
        code = self._process.wait()
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LAST_LINES:]
        return PeerError(f"{self.name}: its process ended with {code}: {' / '.join(said) or 'it said nothing'}")


def command_of(python: Path) -> list[str]:
    """Return the command that serves a peer in its environment."""
    return [str(python), "-m", MODULE]


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a peer's process: so many threads, and modules of this repository."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **limits, "PYTHONPATH": str(ROOT)}
