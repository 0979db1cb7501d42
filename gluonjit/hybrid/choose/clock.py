"""A clock that stands still while Python's garbage collector looks at all objects.

Such a pause takes as long as several minibatches and comes in any of them: counted, it alone would decide which of two
ways is faster.
"""

from __future__ import annotations

import gc
from threading import Lock
from time import perf_counter

_ALL = 2  # the generation of all objects


class Clock:
    """The time without pauses of the collector, which it hears of while someone measures."""

    _measuring = 0
    _begun = 0.0
    _paused = 0.0

    def __init__(self) -> None:
        self._lock = Lock()

    def start(self) -> None:
        """Begins a measurement."""
        with self._lock:
            self._measuring += 1
            if self._measuring == 1:
                gc.callbacks.append(self._collect)

    def stop(self) -> None:
        """Ends a measurement."""
        with self._lock:
            self._measuring -= 1
            if not self._measuring:
                gc.callbacks.remove(self._collect)

    def now(self) -> float:
        """Returns seconds since some point in time."""
        return perf_counter() - self._paused

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == _ALL:
            if phase == "start":
                self._begun = perf_counter()
            elif self._begun:
                self._paused += perf_counter() - self._begun
                self._begun = 0.0


CLOCK = Clock()
"""That of this process."""
