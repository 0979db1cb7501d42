"""Schedulers decide which nodes run together, in which order. Each is a file here, and a row of `analysis/table.py`.

`schedule(nodes)` takes `Nodes` and returns steps of nodes of one type each, in a valid order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.table import TABLE

Scheduler = Callable[[Nodes], Schedule]

SCHEDULERS: Mapping[str, Scheduler] = {name: import_module(f"{__name__}.{name}").schedule for name in TABLE}
