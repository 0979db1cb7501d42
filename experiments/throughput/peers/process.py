"""Processes that take commands line by line and time themselves, and a peer as one of the systems."""

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
    """A peer's task: samples of a family, weights by name, and the rate it learns at."""

    family: str
    samples: Sequence[Any]
    weights: dict[str, np.ndarray]
    rate: float


class Process:
    """A process that answers each line with one; it ends with `close`, or when this one does."""

    def __init__(
        self, name: str, command: Sequence[str], threads: int, root: Path = ROOT, folder: Path | None = None
    ) -> None:
        """Prepare to run `command` with the modules of `root`, in a folder; `scratch` is for files between the two."""
        self.name = self.label = name
        self._made = tempfile.TemporaryDirectory(prefix="throughput-")
        self.scratch = Path(self._made.name)
        self._log = self.scratch / "log"
        self._command = list(command)
        self._environment = _environment(threads, root)
        self._folder = folder

    def start(self, told: Sequence[str] = ()) -> dict[str, Any]:
        """Start it, told more, and wait for its first line, which is returned. Raises PeerError when none comes."""
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [*self._command, *told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
                text=True,
            )
        try:
            return self._reply()
        except PeerError:
            self.close()
            raise

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
        self._made.cleanup()

    def ask(self, command: str, **order: Any) -> dict[str, Any]:
        """Send a command and return the reply. Raises PeerError with the fault."""
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
        """Return how the process ended, with its last output."""
        code = self._process.wait()
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LAST_LINES:]
        return PeerError(f"{self.name}: its process ended with {code}: {' / '.join(said) or 'it said nothing'}")


class Peer(Process):
    """A peer as a system."""

    sharing: bool | None = None
    one_by_one = False
    foreign = True

    def __init__(self, name: str, command: Sequence[str], task: Task, threads: int) -> None:
        """Start `command` and wait until it has loaded the task. Raises PeerError when it does not."""
        super().__init__(name, command, threads)
        self._places = {id(sample): place for place, sample in enumerate(task.samples)}
        path = self.scratch / "task.npz"
        files.save(path, task.family, task.samples, task.weights)
        options = {"peer": name, "family": task.family, "path": path, "rate": task.rate, "threads": threads}
        self.start([f"--{option}={value}" for option, value in options.items()])

    def results(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return the losses of samples and the gradient of their sum for each weight."""
        path = self.scratch / "results.npz"
        self.ask("differentiate", samples=self._of(samples), path=str(path))
        with np.load(path, allow_pickle=False) as found:
            return dict(found)

    def timed(self, phase: str, samples: Sequence[Any]) -> float:
        """Run one minibatch and return its seconds."""
        return float(self.ask("time", phase=phase, minibatches=[self._of(samples)])["seconds"][0])

    def figures(self) -> None:
        """Return no figures: a peer reports none."""

    def notes(self) -> dict[str, int]:
        """Return no other figures: a peer reports none."""
        return {}

    def profile(self, phase: str, samples: Sequence[Any]) -> None:
        """Nothing is known of the parts of a minibatch."""

    def _of(self, samples: Sequence[Any]) -> list[int]:
        return [self._places[id(sample)] for sample in samples]


def command_of(python: Path) -> list[str]:
    """Return the command that serves a peer in its environment."""
    return [str(python), "-m", MODULE]


def _environment(threads: int, root: Path) -> dict[str, str]:
    """Return the environment of a process: this many threads, and the modules of a checkout."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **limits, "PYTHONPATH": str(root)}
