"""Schedulers: which nodes run together, in which order. A file here that has a `schedule` is one, by its name.

`schedule(nodes)` takes `Nodes` and returns steps of nodes of one type each, in an order in which they can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules

from gluonjit.analysis.nodes import Nodes, Schedule

Scheduler = Callable[[Nodes], Schedule]

_modules = {info.name: import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)}
SCHEDULERS: Mapping[str, Scheduler] = {
    name: module.schedule for name, module in _modules.items() if hasattr(module, "schedule")
}
