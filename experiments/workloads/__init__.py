"""Workloads by name, for experiments that compare ways of batching: `load(name)`. A row of `WORKLOADS` is one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from experiments.workloads.workload import Workload


class Row(NamedTuple):
    """A workload: the module here and the function in it that loads it; files: whether it reads any of --data-dir."""

    module: str
    function: str
    files: bool = True


# Names are known without the framework, so that a command can refuse an argument at once.
WORKLOADS = {
    "treelstm-sick": Row("relatedness", "load_sick"),
    "treelstm-sst": Row("sentiment", "load"),
    "treelstm-builtin": Row("relatedness", "load_builtin", files=False),
    "bilstm": Row("tagging", "load_bilstm"),
    "lattice": Row("tagging", "load_lattice"),
}
NAMES = tuple(WORKLOADS)


def load(name: str, data_dir: str | None = None, seed: int = 0, limit: int | None = None) -> Workload:
    """Return a workload; with `limit`, of its first samples alone. Weights and samples depend on the seed alone.

    Raises DataError if files are missing or broken, ValueError for an unknown name.
    """
    if name not in WORKLOADS:
        raise ValueError(f"load({name!r}): no such workload; the workloads are {', '.join(NAMES)}")
    row = WORKLOADS[name]
    found: Workload = getattr(import_module(f"{__name__}.{row.module}"), row.function)(data_dir, seed, limit)
    return found
