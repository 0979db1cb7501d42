"""Running statistics, as of BatchNorm, in MXNet's order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Plan, base_rows
from gluonjit.engines.mxnet.framework.arrays import fill_zero, zeros
from gluonjit.engines.mxnet.framework.semantics import classic
from gluonjit.hybrid.run.reach import Reach


class _Room(NamedTuple):
    """The statistics of the nodes of one step: a row a node, mixed into zeros."""

    running: NDArray
    rows: NDArray
    momentum: float


class Statistics:
    """The running statistics, as of BatchNorm, that the recorded steps of one flush update.

    In the order in which MXNet's backward updates them: the last call first. MXNet's operator mixes its statistics into
    the running ones when backward comes to it, which here is step by step. So each node is given zeros to mix them
    into, and what was mixed in is written to the running ones when a pass is over.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rooms: dict[int, list[_Room]] = {}
        self._passed: list[tuple[int, Reach]] = []

    def apart(self, number: int, consts: list[Any]) -> list[Any]:
        """The constants of a step, with rows of zeros in the place of running statistics."""
        step = self._plan.steps[number]
        program = step.kind.program  # a `program.Program`
        if not program.running:
            return consts
        rooms = self._rooms[number] = []
        for position in program.running:
            running = classic(program.consts[position])
            rows = zeros((step.count, *running.shape), running.context, running.dtype)
            rooms.append(_Room(running, rows, program.momentum))
            consts[position] = rows
        return consts

    def lend(self) -> None:
        """Shows the running statistics themselves to a backward pass that is not in training, which keeps them."""
        for rooms in self._rooms.values():
            for room in rooms:
                mx.nd.broadcast_to(room.running.expand_dims(0), shape=room.rows.shape, out=room.rows)

    def take_back(self) -> None:
        """Lets the next pass begin with zeros again."""
        for rooms in self._rooms.values():
            for room in rooms:
                fill_zero(room.rows)

    def passed(self, numbers: Iterable[int], reach: Reach) -> None:
        """Notes the steps that a backward pass has gone through, which is over when `write` is called."""
        self._passed += [(number, reach) for number in numbers if number in self._rooms]

    def write(self) -> None:
        """Writes what was mixed in, and lets the next pass begin with zeros again."""
        found: dict[int, list[tuple[int, _Room, int]]] = {}
        for number, reach in self._passed:
            step = self._plan.steps[number]
            reached = reach.nodes(step, range(len(step.places)))
            calls = np.concatenate([base_rows(record)[nodes] for record, nodes in step.parts]).tolist()
            nodes = [node for node in range(step.count) if reached is None or reached[node]]
            for room in self._rooms[number]:
                found.setdefault(id(room.running), []).extend([(calls[node], room, node) for node in nodes])
        self._passed = []
        for of in found.values():
            _write(sorted(of, key=lambda call: call[0]))


def _write(calls: list[tuple[int, _Room, int]]) -> None:
    """Writes the statistics of these calls, in the order of capture."""
    left, weights = 1.0, {}
    for _, room, node in calls:
        if id(room) not in weights:
            weights[id(room)] = room, np.zeros((1, len(room.rows)), dtype=room.rows.dtype)
        weights[id(room)][1][0, node] = left  # what those update that backward comes to afterwards leaves of it
        left *= room.momentum
    running = calls[0][1].running
    total = running * left
    for room, given in weights.values():
        weight = mx.nd.array(given, ctx=running.context, dtype=given.dtype)
        total = total + mx.nd.dot(weight, room.rows.reshape((len(room.rows), -1))).reshape(running.shape)
        fill_zero(room.rows)
    total.copyto(running)
