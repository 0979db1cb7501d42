"""Steps of a flush that run in C as a whole (see `gluonjit.rows`), on the memory of MXNet's arrays."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from gluonjit.engines.mxnet.framework.arrays import address_of
from gluonjit.engines.mxnet.operators.table import call_of
from gluonjit.engines.mxnet.run.program import program_of
from gluonjit.graph import Kind
from gluonjit.rows import fused_steps
from gluonjit.rows.lowering import lowered
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.running import cores
from gluonjit.rows.stretches import StepStretch

SETTINGS = ("MXNET_OMP_MAX_THREADS", "OMP_NUM_THREADS")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@lru_cache(maxsize=1)
def threads() -> int:
    """Threads of one operator: as set, else one for each core, of which a processor may show two each.

    MXNet reads its settings once, when it is loaded.
    """
    for setting in SETTINGS:
        found = os.environ.get(setting, "").split(",")[0].strip()
        if found.isdecimal() and int(found):
            return int(found)
    try:  # those that share a core are one
        return len({Path(_SIBLINGS.format(core)).read_text() for core in os.sched_getaffinity(0)})
    except (OSError, AttributeError):  # not on Linux
        return max(1, cores() // 2)


def row_program(kind: Kind) -> RowProgram:
    """The program of the nodes of a kind. Raises NotFusable."""
    if program_of(kind).may_fail:
        raise NotFusable("it may fail")
    return lowered(kind, call_of)


class FusedSteps(fused_steps.FusedSteps):
    """The `steps` of a flush that run in C.

    MXNet computes in the background: a step waits, once, for what MXNet may still be writing.
    """

    make, threads, address = staticmethod(row_program), staticmethod(threads), staticmethod(address_of)

    def through(self, stretch: StepStretch, number: int, way: int, given: bytes) -> Any:
        step, made = self.plan.steps[number], self._pass
        form = None if made.dry else self.steps.backward_form(number, way, self)
        return tuple([((k,), made.operands(step, k)) for k, found in enumerate(given) if found]), form

    def other(self, made: Any) -> Callable[[int], Any]:
        return lambda number: made.through(self.plan.steps[number])
