"""Five workloads by name, for experiments that compare ways of batching: `load(name)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.workloads.workload import Workload

NAMES = ("treelstm-sick", "treelstm-sst", "treelstm-builtin", "bilstm", "lattice")


def load(name: str, data_dir: str | None = None, seed: int = 0, limit: int | None = None) -> Workload:
    """Return a workload; with `limit`, of its first samples alone. Weights and samples depend on the seed alone.

    Raises DataError where files are missing or broken, ValueError for an unknown name.
    """
    # Names are known without the framework, so that a command can refuse an argument at once.
    from experiments.workloads.registry import LOADERS

    if name not in LOADERS:
        raise ValueError(f"load({name!r}): there is no such workload; the workloads are {', '.join(NAMES)}")
    return LOADERS[name](data_dir, seed, limit)
