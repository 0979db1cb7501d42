"""How each workload is loaded."""

from __future__ import annotations

from collections.abc import Callable

from experiments.workloads import relatedness, sentiment, tagging
from experiments.workloads.workload import Workload

LOADERS: dict[str, Callable[[str | None, int, int | None], Workload]] = {
    "treelstm-sick": relatedness.load_sick,
    "treelstm-sst": sentiment.load,
    "treelstm-builtin": relatedness.load_builtin,
    "bilstm": tagging.load_bilstm,
    "lattice": tagging.load_lattice,
}
