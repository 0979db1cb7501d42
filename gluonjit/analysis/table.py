"""The table of schedulers: one row here, and a file of that name in `schedulers/`, for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class SchedulerEntry(NamedTuple):
    """A scheduler, by the name that users give.

    seconds: what each flush, node and step takes, until `python -m gluonjit calibrate` has measured it; offered:
    whether the cost model chooses among it and others, so that it is measured, fuzzed and drawn in figures.
    """

    seconds: tuple[float, float, float]
    offered: bool = True


TABLE: Mapping[str, SchedulerEntry] = {
    "depth": SchedulerEntry((240e-6, 0.5e-6, 8e-6)),
    "agenda": SchedulerEntry((430e-6, 0.55e-6, 38e-6)),
    "greedy": SchedulerEntry((450e-6, 2.3e-6, 88e-6)),
    "agenda_static": SchedulerEntry((430e-6, 0.55e-6, 38e-6), offered=False),  # DyNet's, to compare
}
OFFERED = tuple([name for name, row in TABLE.items() if row.offered])
