"""Number of threads that MXNet allows an operator; MXNet reads its settings once, when it is loaded."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from gluonjit.rows.running import cores

SETTINGS = ("MXNET_OMP_MAX_THREADS", "OMP_NUM_THREADS")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@lru_cache(maxsize=1)
def threads() -> int:
    """Threads of one operator: as set, else one for each core, of which a processor may show two each."""
    for setting in SETTINGS:
        found = os.environ.get(setting, "").split(",")[0].strip()
        if found.isdecimal() and int(found):
            return int(found)
    try:  # those that share a core are one
        return len({Path(_SIBLINGS.format(core)).read_text() for core in os.sched_getaffinity(0)})
    except (OSError, AttributeError):  # not on Linux
        return max(1, cores() // 2)
