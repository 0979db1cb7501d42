"""A process in which one mechanism is off, and which runs programs when it is told to."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from time import process_time
from typing import Any

from experiments.mechanisms.mechanism import PACKAGE, Mechanism

TOLERANCE = 1e-3


class Worker:
    """A child process; `ask` has it do something and returns what that gave."""

    def __init__(self, mechanism: Mechanism | None) -> None:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, mechanism), daemon=True)
        self._process.start()
        other.close()

    def ask(self, *what: Any) -> Any:
        """Have it done. Raises RuntimeError with what went wrong, or EOFError where the process has died."""
        self._pipe.send(what)
        done, found = self._pipe.recv()
        if not done:
            raise RuntimeError(found)
        return found

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _serve(pipe: Any, mechanism: Mechanism | None) -> None:
    warnings.simplefilter("ignore")
    os.environ["GLUONJIT_CACHE"] = os.devnull
    from experiments.bench.environment import limit_threads

    limit_threads()
    work = _Work(mechanism)
    while True:
        try:
            name, *given = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                found = getattr(work, name)(*given)
            pipe.send((True, found))
        except KeyboardInterrupt:
            return
        except Exception as error:  # what a program does without a mechanism is what is asked for
            pipe.send((False, f"{type(error).__name__}: {error}"[:300]))


class _Work:
    """Commands that the process runs."""

    def __init__(self, mechanism: Mechanism | None) -> None:
        from experiments.coverage.collection import collection

        self._collection = collection
        self._programs: dict[str, Any] = {}
        self._step: Any = None
        self._off = mechanism
        self._patched = mechanism is None

    def names(self, source: str) -> list[str]:
        """Return the names of the programs of a part of the collection."""
        for program in self._collection(source):
            self._programs[program.name] = program
        return [name for name, program in self._programs.items() if program.source == source]

    def reached(self, name: str, options: dict[str, Any]) -> list[str]:
        """Return the files of the library that a program runs functions of."""
        files: set[str] = set()

        def note(frame: Any, event: str, argument: Any) -> None:
            if event == "call":
                files.add(frame.f_code.co_filename)

        step = self._started(name, options)
        sys.setprofile(note)
        try:
            for _ in range(self._programs[name].minibatches):
                step()
        finally:
            sys.setprofile(None)
        root = f"{PACKAGE}{os.sep}"
        return sorted(file[len(root) :] for file in files if file.startswith(root))

    def measure(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Run a program; returns the counts of its last minibatch, and where it differs from eager."""
        from experiments.coverage.counting import reports, sums

        with reports() as found:
            step, eager = self._started(name, options), self._programs[name].start(None)
            wrong: list[str] = []
            before = [0, 0, 0, 0]
            for _ in range(self._programs[name].minibatches):
                before = sums(found)
                wrong += differences(step(), eager(), name)
            after = sums(found)
        calls, nodes, launches, flushes = (now - then for now, then in zip(after, before))
        return {"calls": calls, "nodes": nodes, "launches": launches, "flushes": flushes, "wrong": wrong[:3]}

    def start(self, name: str, options: dict[str, Any]) -> float:
        """Make a program to be timed; returns the processor time of its first minibatches."""
        self._step = self._started(name, options)
        begin = process_time()
        for _ in range(self._programs[name].minibatches):
            self._step()
        return process_time() - begin

    def seconds(self) -> float:
        """Return the processor time of the next minibatch."""
        begin = process_time()
        self._step()
        return process_time() - begin

    def _started(self, name: str, options: dict[str, Any]) -> Any:
        import gluonjit

        gluonjit.clear_caches()
        if not self._patched:  # engines are there once programs are
            assert self._off is not None
            self._off.turn_off()
            self._patched = True
        return self._programs[name].start(options)


def differences(one: Any, other: Any, name: str) -> list[str]:
    """Return lines that say where results differ."""
    if name.startswith("habits/"):
        from habits.outcomes import differences as compared  # type: ignore[import-not-found]

        found = [line for (label, a), (_, b) in zip(one, other) for line in compared(a, b, label)]
        return found + ([] if len(one) == len(other) else ["other outcomes"])
    return list(_differing(one, other))


def _differing(one: Any, other: Any, place: str = "result") -> Iterator[str]:
    import numpy as np

    if isinstance(other, dict) and isinstance(one, dict) and len(one) == len(other):
        for (key, value), mine in zip(other.items(), one.values()):  # Gluon counts the names of parameters
            yield from _differing(mine, value, f"{place}[{key!r}]")
    elif isinstance(other, (list, tuple)) and isinstance(one, (list, tuple)) and len(one) == len(other):
        for number, value in enumerate(other):
            yield from _differing(one[number], value, f"{place}[{number}]")
    elif isinstance(other, (float, np.ndarray, np.floating)):
        a, b = np.asarray(one, float), np.asarray(other, float)
        if a.shape != b.shape or not np.abs(a - b).max(initial=0) <= TOLERANCE * max(1e-3, np.abs(b).max(initial=0)):
            yield f"{place} differs"
    elif not hasattr(other, "__array__") and one != other:
        yield f"{place} differs"
