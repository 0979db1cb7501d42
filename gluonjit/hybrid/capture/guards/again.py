"""Cache hits, one in a thousand of which is traced again and compared with the cached trace."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from gluonjit.compiled import FAST
from gluonjit.errors import StateError
from gluonjit.graph.recorder import Record

EVERY = 1000
_SHARE = 0.003


class Again:
    """Says which calls are traced again: each thousandth, but not so many that it takes more than 0.3 % of the time."""

    def __init__(self) -> None:
        self.found = 0
        self.resting = 0.0  # until when none is, in seconds of `perf_counter`

    def due(self) -> bool:
        """Count a call that was found, and say whether it is to be traced again; C counts those that it has found."""
        self.found += 1
        if self.found < EVERY and not (FAST is not None and FAST.due()):
            return False
        self.found = 0
        return perf_counter() >= self.resting

    def timed(self, trace: Callable[[], Any]) -> Any:
        """Runs a trace and takes its time. None if it goes too deep, which says nothing of what it would give."""
        begin = perf_counter()
        try:
            return trace()
        except RecursionError:
            return None
        finally:
            now = perf_counter()
            self.resting = now + (now - begin) / _SHARE


AGAIN = Again()


class _Never:
    """Guards of what is stale."""

    def hold(self) -> bool:
        """Tells whether a call may be found by it: no."""
        return False


def changed(name: str, difference: str, record: Record) -> StateError:
    """The error for a call that does something else now than when it was traced; its record is found no more."""
    record.guards = _Never()
    return StateError(
        f"{name}: a call that was traced before now does something else: {difference}. It depends on something "
        "that gluonjit does not see; results since that changed may be wrong. Pass it as an argument, or expand "
        f"the call: hybridize(dynamic_batch=True, expand=({name!r},))."
    )


def first_difference(one: Any, other: Any) -> str:
    """Tells where two traces differ first, each given as what it consists of, in order; "" where they are equal."""
    for before, now in zip(one, other):
        if repr(before) != repr(now):
            return f"it was {before!r} and is {now!r}"[:300]
    if len(one) != len(other):
        return f"it had {len(one)} parts and has {len(other)}"
    return ""
