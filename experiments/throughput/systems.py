"""The systems of a workload, by name, all with the same weights."""

from __future__ import annotations

from collections.abc import Sequence

import mxnet as mx
import numpy as np

from experiments.bench.agreement import Disagreement
from experiments.bench.on_mxnet import Dynamic, System
from experiments.throughput import ABLATED, DYNAMIC
from experiments.throughput.tasks import Task
from experiments.treelstm.systems import KINDS


def make_systems(task: Task, names: Sequence[str], switches: Sequence[str]) -> list[System]:
    """Build systems, dynamic ones with and without sharing, and one with sharing for each switch that is off."""
    systems: list[System] = []
    for name in names:
        net = task.make_net(name if name in KINDS else "dynamic")
        if name in DYNAMIC:
            systems.append(Dynamic(name, net, True, task.program(), **DYNAMIC[name]))
            systems.append(Dynamic(name, task.make_net("dynamic"), False, task.program(), **DYNAMIC[name]))
        else:
            systems.append(KINDS[name][0](name, net, task.program()))
    for switch in switches:
        net = task.make_net("dynamic")
        systems.append(Dynamic(ABLATED + switch, net, True, task.program(), without=(switch,)))
    _check_weights(systems)
    mx.nd.waitall()
    return systems


def _check_weights(systems: Sequence[System]) -> None:
    """Raise Disagreement unless all systems have equal parameters."""
    for system in systems[1:]:
        for name, expected in systems[0].parameters.items():
            if not np.array_equal(system.parameters[name].data().asnumpy(), expected.data().asnumpy()):
                raise Disagreement(f"{system.label} and {systems[0].label} begin with different values of {name}")
