"""Throughput of all systems and of peers side by side: `python -m experiments.throughput`."""

from __future__ import annotations

from typing import Any

WORKLOADS = ("treelstm-sick", "treelstm-builtin", "treelstm-synthetic", "bintree-sst", "bilstm", "lattice")
SYSTEMS = {
    "mxnet": ("imperative", "hybridized", "handbatched", "dynamic", "dynamic+reuse"),
    "torch": ("imperative", "dynamic", "dynamic+reuse"),
}
PEERS = {
    "mxnet": ("dynet", "torch-handbatched-ownbwd"),
    "torch": ("dynet", "torch-handbatched-ownbwd", "torch-handbatched", "torch-compile", "torchfold"),
}
# Dynamic systems, and what else `hybridize(dynamic_batch=True)` is told for each: another one, named `dynamic+...`,
# needs a line here and its name in SYSTEMS.
DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "dynamic+reuse": {"reuse": lambda *sample: tuple(map(id, sample))},  # the samples stay where they are
}
ABLATED = "dynamic-"  # what names of systems begin with that leave an optimization out
RATE = 0.01  # of stochastic gradient descent, the rule of all systems
