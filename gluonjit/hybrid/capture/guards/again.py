"""Cache hits, one in a thousand of which is traced again and compared with the cached trace."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from gluonjit.compiled import FAST
from gluonjit.errors import StateError
from gluonjit.graph.recorder import Record
from gluonjit.hybrid.capture.guards.variants import NEVER
from gluonjit.hybrid.run.batch import RUNNING, Batch

EVERY = 1000
_SHARE = 0.003


class Again:
    """Selects the calls that are traced again: one in a thousand, in at most 0.3 % of the time."""

    def __init__(self) -> None:
        self.found = 0
        self.resting = 0.0  # until when none is, in seconds of `perf_counter`

    def due(self) -> bool:
        """Counts a cache hit, and tells whether to trace it again; C counts its own hits."""
        self.found += 1
        if self.found < EVERY and not (FAST is not None and FAST.due()):
            return False
        self.found = 0
        return perf_counter() >= self.resting

    def timed(self, trace: Callable[[], Any]) -> Any:
        """Runs and times a trace; None if the recursion is too deep, which says nothing about its result.

        What it finds it has to find twice: the collector of garbage may have run the program's code in between.
        """
        begin = perf_counter()
        try:
            return trace() and trace()
        except RecursionError:
            return None
        finally:
            now = perf_counter()
            self.resting = now + (now - begin) / _SHARE


AGAIN = Again()


def retrace(cell: Any, wanted: Any, record: Record, batch: Batch, difference: Callable[[Any], str]) -> None:
    """Compares the trace of a call that was found with its present one. Raises StateError where that is another."""
    variants = cell.variants.get(wanted, ())
    variant = next((variant for variant in variants if variant.guards is record.guards), None)
    if variant is None or variant.traced is None:
        return
    batch.report.retraced += 1
    with RUNNING:
        found = AGAIN.timed(lambda: difference(variant.traced))
    if found:
        cell.clear()
        batch.changes += 1
        record.guards = NEVER  # it is no longer found
        raise StateError(
            f"{cell.name}: a call that was traced before now does something else: {found}. It depends on something "
            "that gluonjit does not see; results since that changed may be wrong. Pass it as an argument, or expand "
            f"the call: hybridize(dynamic_batch=True, expand=({cell.name!r},))."
        )


def first_difference(one: Any, other: Any) -> str:
    """Returns the first difference of two traces, each given as a list of its parts; "" if they are equal."""
    for before, now in zip(one, other):
        if repr(before) != repr(now):
            return f"it was {before!r} and is {now!r}"[:300]
    if len(one) != len(other):
        return f"it had {len(one)} parts and has {len(other)}"
    return ""
