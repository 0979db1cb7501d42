"""Processor time: what the library measures of itself, too, so that other work on the machine does not count.

It is the elapsed time of a process that has one core and one thread. Run this before the library is imported:
`python -m experiments.tradeoff.processor MODULE ARGUMENTS` runs a module so.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Sequence

_SHARE = 0.85  # of a stretch of steps in C that these steps take themselves, at most, where other work came between


def use() -> None:
    """Let `time.perf_counter` be processor time."""
    time.perf_counter = time.process_time
    from gluonjit.rows import stretches

    plain = stretches.ends_of

    def ends_of(begin: float, end: float, took: Sequence[int]) -> list[float]:
        return plain(begin, end, without_pauses(took, (end - begin) * 1e9))

    for module in [module for name, module in sys.modules.items() if name.startswith("gluonjit")]:
        if getattr(module, "ends_of", None) is plain:
            module.ends_of = ends_of  # type: ignore[attr-defined]


def without_pauses(took: Sequence[int], whole: float) -> list[int]:
    """Limit what steps took, by a clock that does not stop in pauses, so that it fits into the whole.

    A pause is longer than most steps: the longest ones are shortened.
    """
    if sum(took) <= whole:
        return list(took)
    left, limit = _SHARE * whole, 0.0
    ordered = sorted(took)
    for place, nanoseconds in enumerate(ordered):
        limit = left / (len(ordered) - place)
        if nanoseconds >= limit:
            break
        left -= nanoseconds
    return [int(min(nanoseconds, limit)) for nanoseconds in took]


if __name__ == "__main__":
    use()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
