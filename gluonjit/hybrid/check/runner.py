"""Runs nodes of a step one by one, from their traces: to compare a program with them, and in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.plan import Step, node_operands
from gluonjit.graph import Arrays, Kind, Spec
from gluonjit.hybrid.check.rounding import EPS, PLAINLY, WIDE, Manner
from gluonjit.program.trace import Trace


class NodeRun(NamedTuple):
    """The numbers that a trace gives for one node: results, and gradients of operands and, by identity, of weights."""

    results: list[Any]
    gradients: Arrays = ()
    weights: dict[int, Any] = {}


class NodeRunner:
    """Moves rows of arrays, and runs single nodes; an engine derives from it, and says how. Numbers are numpy's arrays.

    Defaults are numpy's. room_for: makes an array, not yet filled, of so many rows like those of a spec; sent: sends
    numbers to a device; index_type: of those that are indices; reason_of: what an error of the framework's says.

    once: operators whose backward pass overwrites what their forward pass has saved: a second one is wrong; piece: cuts
    an array of a spec out of rows; numbers: reads rows of an array; numbers_of: reads an array, into one of its own;
    array_of: makes an array of numbers, a dtype and a device; spec_of: looks at one; learns: whether gradients go to a
    constant; track: lets them go to an array; gradients: numbers of those of sources, given results with theirs;
    region: where operators of a kind run, in a mode, and recorded if asked to; build: makes a batched program of a
    trace, as `program`, `outputs`, `rows` and `poly`, or raises an error; interpret: runs the operators of a trace;
    wait: waits for all work that devices were given; address: where numbers lie row by row in the host's memory, None
    if they do not;
    together: runs the program of a kind for so many nodes.
    """

    index_type: Any = np.int64
    room_for: Callable[..., Any]
    sent: Callable[..., Any]
    reason_of: Callable[[Exception], str] = str
    once: frozenset[str] = frozenset()
    piece: Callable[..., Any]
    numbers: Callable[..., Any]
    numbers_of: Callable[..., Any]
    array_of: Callable[..., Any]
    spec_of: Callable[..., Spec]
    learns: Callable[..., bool]
    track: Callable[..., Any]
    gradients: Callable[..., Arrays]
    region: Callable[..., AbstractContextManager[Any]]
    build: Callable[..., Any]
    interpret: Callable[..., Arrays]
    together: Callable[..., Arrays]
    wait: Callable[[], None]
    address: Callable[[Any], int | None]

    def slice_rows(self, array: Any, begin: int, end: int) -> Any:
        """Returns consecutive rows of an array, in its memory."""
        return array[begin:end]

    def take(self, array: Any, index: Any) -> Any:
        """Copies rows of an array."""
        return array[index]

    def copy(self, rows: Any, to: Any) -> None:
        """Copies rows into others, without their history."""
        to[...] = rows

    def detached(self, array: Any, copied: bool) -> Any:
        """Returns an array without its history, a copy if asked to."""
        return array.copy() if copied else array

    def index(self, numbers: Sequence[int] | npt.NDArray[Any], device: str) -> Any:
        """Sends indices to a device."""
        return self.sent(np.asarray(numbers, self.index_type), device)

    def wide(self, value: Any) -> Any:
        """Returns an attribute of an operator, with float64 in place of other floats."""
        return WIDE.get(value, value)

    def alone(
        self,
        kind: Kind,
        operands: Arrays,
        mode: int,
        manner: Manner,
        heads: Arrays | None = None,
        together: int = 0,
    ) -> NodeRun:
        """Runs a node's operators one by one, without effect on anything.

        heads: gradients of the results, None for those that have none.
        together: where not 0, the kind's program runs for so many nodes, whose rows come one after the other.
        """
        trace: Trace = kind.call
        with self.region(kind, mode, bool(heads)):
            given = [self._array(array, spec, manner) for array, spec in zip(operands, kind.operands)]
            consts = [self._copied(array, manner) for array in trace.consts]
            learned = [array for array, spec in zip(given, kind.operands) if heads and spec.dtype in EPS]
            weights = {id(own): leaf for own, leaf in zip(trace.consts, consts) if heads and self.learns(own)}
            sources = [*learned, *weights.values()]
            for array in sources:
                self.track(array)
            if together:
                groups = [[given[position] for (position,) in group] for group in kind.groups]
                found = self.together(kind, groups, consts, together)
            else:
                found = self.interpret(self._widened(trace) if manner.exact else trace, given, consts)
            pairs = [
                (result, self._array(np.reshape(head, result.shape), self.spec_of(result), PLAINLY))
                for result, head in zip(found, heads or ())
                if head is not None
            ]
            gradients = dict(zip(map(id, sources), self.gradients(pairs, sources))) if pairs and sources else {}
            by_weight = {key: gradients.get(id(leaf)) for key, leaf in weights.items()}
            return NodeRun(
                [self.numbers_of(array) for array in found],
                [gradients.get(id(array)) for array in given],
                {key: gradient for key, gradient in by_weight.items() if gradient is not None},
            )

    def _array(self, array: Any, spec: Spec, manner: Manner) -> Any:
        return self.array_of(
            manner.of(array), WIDE.get(spec.dtype, spec.dtype) if manner.exact else spec.dtype, spec.device
        )

    def _copied(self, array: Any, manner: Manner) -> Any:
        """A constant that the run may write to, as to running statistics."""
        if manner == PLAINLY:
            return self.detached(array, len(array.shape) <= 1)
        return self._array(self.numbers_of(array), self.spec_of(array), manner)

    def _widened(self, trace: Trace) -> Trace:
        """The trace with its floats, where operators name them, in float64."""
        ops = [op._replace(attrs=tuple((name, self.wide(value)) for name, value in op.attrs)) for op in trace.ops]
        return replace(trace, ops=tuple(ops))

    def constant(self, array: Any, leaf: Any, node: int) -> Any:
        """Returns what a node of a step has as a constant, given what the step has in its place."""
        return leaf

    def compute(self, step: Step, roles: Arrays, consts: Arrays) -> list[list[Any]]:
        """Returns each result of all nodes of a step, run one by one in place of its program.

        roles: the rows of all nodes' operands, by role.
        """
        leaves = {id(own): leaf for own, leaf in zip(step.kind.program.consts, consts)}
        parts: list[list[Any]] = [[] for _ in step.kind.outputs]
        for node, (kind, given) in enumerate(node_operands(step, roles, self.piece)):
            own = [self.constant(array, leaves.get(id(array), array), node) for array in kind.call.consts]
            for listed, array in zip(parts, self.interpret(kind.call, given, own)):
                listed.append(array)
        return parts
