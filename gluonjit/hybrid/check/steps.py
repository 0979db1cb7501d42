"""Compares what a batched program gives with what its trace gives for one node, before anybody reads it.

It happens where a program first runs, and where it is first differentiated. What differs beyond rounding is not used:
the program's nodes run one by one from then on, from their traces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, partial
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.plan import Plan, Step, rows_read
from gluonjit.analysis.plan_cache import clear_plans
from gluonjit.errors import RuleWarning
from gluonjit.graph import Checks, Kind, Line, Record, line_of, warn_at
from gluonjit.graph.kinds import ENOUGH
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.check.entries import BACKWARD, GRAPH, ROWS, steps_of
from gluonjit.hybrid.check.runner import (
    EPS,
    PLAINLY,
    TRIES,
    Deviation,
    Manner,
    NodeRun,
    NodeRunner,
    deviation_of,
    near,
    scale_of,
    shrunk,
)
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Node, Provenance
from gluonjit.hybrid.options import ALWAYS, NEVER
from gluonjit.program.trace import Trace

_SAME = 800.0  # rounding errors, below which numbers are those of the same weights
_LOOSELY = 1e4  # rounding errors, below which an operator is not the one that differs
_CHECKS = attrgetter("kind.program.checks")
_NEAR = 8  # nodes, among which one with other operands is looked for


class _Differentiated(NamedTuple):
    """A node whose backward pass is compared: its kind, operands, and gradients of its results."""

    kind: Kind
    given: list[Any]
    heads: list[Any]
    record: Record
    node: int


class StepCheck:
    """Comparisons of the steps of one flush, of which a session has the plan and the rows, by arena."""

    def __init__(self, session: Any, option: str, runner: NodeRunner) -> None:
        self.plan: Plan = session.plan
        self.arrays: Sequence[Any] = session.arrays
        self._report: Counts = session.report
        self.provenance: Provenance = session.provenance
        self.runner = runner
        self._always = option == ALWAYS
        self._never = option == NEVER
        self._distrusted = False
        self._stops: set[int] = set()

    def left(self, number: int, ran: str) -> int:
        """The number of nodes of a step to compare now that it has run so."""
        return self._left(self.plan.steps[number].kind.program.checks, ran)

    def _left(self, checks: Checks | None, ran: str) -> int:
        if checks is None or self._never:
            return 0
        return ENOUGH * (not checks.distrusted) if self._always else checks.left(ran)

    @cached_property
    def _checks(self) -> set[Checks]:
        """Those of the programs of all steps."""
        return set(map(_CHECKS, self.plan.steps)) - {None}

    def stops(self, steps: Iterable[int]) -> set[int]:
        """Selects the steps that are compared when they have run in C, as long as they are: others wait for that."""
        common = self.plan.common
        if self._always or not (self._never or common.checked):
            begun = set(map(_CHECKS, map(self.plan.steps.__getitem__, steps)))
            owing = {checks for checks in begun if self._left(checks, ROWS)}
            if owing:
                self._stops.update([number for number in steps if _CHECKS(self.plan.steps[number]) in owing])
            common.checked = not (self._stops or self._always)
        return self._stops

    def owes(self, entries: Sequence[Any]) -> bool:
        """True if the backward pass of any step that a tape has noted is still to be compared."""
        if self._distrusted:
            return True
        ran = [(way, checks) for way in BACKWARD for checks in self._checks if self._always or way in checks.compared]
        ways = {way for way, checks in ran if self._left(checks, BACKWARD[way])}
        return bool(ways) and any(way in ways and self.left(n, BACKWARD[way]) for n, way in steps_of(entries))

    # --- forward ------------------------------------------------------------------------------------------------

    def agrees(self, number: int, ran: str) -> bool:
        """Compares nodes of a step that has just run; if they differ, it has to run once more, one by one."""
        left = self.left(number, ran)
        if not left:
            return True
        found = self._judge(number, ran, partial(self._forward, number, ran, left))
        self._stops.difference_update([number for number in self._stops if not self.left(number, ROWS)])
        return found

    def _judge(self, number: int, ran: str, compare: Callable[[], Deviation | None]) -> bool:
        """Compares; notes what has differed, or why nothing could be compared."""
        kind = self.plan.steps[number].kind
        checks = kind.program.checks
        assert checks is not None
        try:
            apart = compare()
        except Exception as error:  # the program itself has run, and must go on
            checks.compared[ran] = ENOUGH
            self._report.unchecked[kind.name] = (
                f"its operators, run for one sample, raised {type(error).__name__}: {error}"
            )
            return True
        if apart is None or self._is_below_rounding(number, apart, ran):
            return True
        self._distrust(number, checks, apart, ran)
        return False

    def _is_below_rounding(self, number: int, apart: Deviation, ran: str) -> bool:
        """True if numbers near zero differ by less than rounding of the operands, and those of other operands agree.

        As where one kernel rounds 1 + erf(-9) to 0, and another does not. In C none run on others: a later step tells.
        """
        kind, given = self._given(number)
        step = self.plan.steps[number]
        sizes = [scale_of(array) for each in given for array in each if array.dtype.kind in "fc"]
        if "weight" in apart.what or not apart.far <= 4 * _eps(kind) * max(sizes, default=0.0):
            return False
        if ROWS in ran:
            step.kind.program.checks.compared.pop(ran, None)
            self._put_off(step, ran)
            return True
        shrink = partial(shrunk, np.random.RandomState(0))
        others = [list(map(shrink, each)) for each in given]
        return self._runs_together(kind, others, step.mode, ran == BACKWARD[GRAPH])

    def _given(self, number: int) -> tuple[Kind, list[list[Any]]]:
        """The kind of a step's last node, and the operands of some of its nodes."""
        nodes = self._nodes(number, ENOUGH)
        kind = nodes[0][0].kind
        return kind, [self._operands(record, node) for record, node in nodes if record.kind is kind]

    def _forward(self, number: int, ran: str, left: int) -> Deviation | None:
        step = self.plan.steps[number]
        nodes = self._nodes(number, left)
        for record, node in nodes:
            kind, given = record.kind, self._operands(record, node)
            found = [self._result(record, node, k) for k in range(len(kind.outputs))]

            def run(manner: Manner, kind: Kind = kind, given: Sequence[Any] = given) -> list[Any]:
                return self.runner.alone(kind, given, step.mode, manner).results

            apart = deviation_of([f"result {k}" for k in range(len(found))], found, run, _eps(kind), 1.0)
            if apart is not None:
                return apart
        self._count(step, ran, len(nodes))
        return None

    def _count(self, step: Step, ran: str, nodes: int) -> None:
        checks = step.kind.program.checks
        assert checks is not None
        if nodes and not checks.compared.get(ran):
            self._report.checked += 1
        checks.compared[ran] = checks.compared.get(ran, 0) + nodes if nodes else ENOUGH

    def _put_off(self, step: Step, what: str) -> None:
        """Leaves a comparison to a later backward pass, a few times, as a weight has been written to since."""
        checks = step.kind.program.checks
        assert checks is not None
        late = f"{what}, put off"
        checks.compared[late] = checks.compared.get(late, 0) + 1
        if checks.compared[late] >= TRIES:
            self._count(step, what, 0)

    def _nodes(self, number: int, most: int) -> list[Node]:
        """The last node of a step, and one that has other operands; none where they draw at random."""
        step = self.plan.steps[number]
        nodes = [self.provenance.node(number, k) for k in _spread(step.count)]
        if not step.kind.pure:
            return []
        found = nodes[:1]
        if most > 1 and len(nodes) > 1:
            first = self._operands(*found[0])
            others = [node for node in nodes[1:] if not _equal(self._operands(*node), first)]
            others.sort(key=lambda node: node[0].kind is found[0][0].kind)  # of another length, if there is one
            found.append((others or nodes[1:])[0])
        return found

    def _operands(self, record: Record, node: int) -> list[Any]:
        return [
            self._rows(rows).reshape(spec.shape) for rows, spec in zip(rows_read(record, node), record.kind.operands)
        ]

    def _result(self, record: Record, node: int, number: int) -> Any:
        return self._rows(_rows_of(record, node, number)).reshape(record.kind.outputs[number].spec.shape)

    def _rows(self, rows: Sequence[int]) -> Any:
        arena, positions = self._places(rows)
        return self.runner.numbers(self.arrays[arena], positions)

    def _places(self, rows: Sequence[int]) -> tuple[int, list[int]]:
        return int(self.plan.arena[rows[0]]), self.plan.position[list(rows)].tolist()

    def raised(self, number: int, error: Exception) -> bool:
        """Distrusts a program that has raised an error though its nodes run one by one; True if they are to run so."""
        checks = self.plan.steps[number].kind.program.checks
        if checks is None or checks.distrusted or isinstance(error, MemoryError):
            return False
        self._distrust(number, checks, Deviation("a run", _raised(error)), GRAPH)
        return True

    def run_alone(self, record: Record, node: int, mode: int) -> None:
        """Runs the operators of a node once more, one by one, as they refuse what learns if they are recorded."""
        heads = [None] * len(record.kind.outputs) if is_recorded(mode) else None
        self.runner.alone(record.kind, self._operands(record, node), mode, PLAINLY, heads)

    # --- backward -----------------------------------------------------------------------------------------------

    def backward(self, tape: Any) -> None:
        """Compares backward passes that are the first of their programs, before a tape goes through its steps.

        The tape has `entries`, tells whether gradients go through all of some rows by `learned_at(arena, rows)`, goes
        back through a step alone by `trial(number, [(arena, rows, gradient)])`, which gives what reads the gradients
        of rows and of a weight, and by `redo(number)` runs a step once more, recorded.
        """
        ran = list(steps_of(tape.entries))
        chosen: dict[Hashable, tuple[int, str]] = {}
        for number, way in ran:
            step, what = self.plan.steps[number], BACKWARD[way]
            if self.left(number, what):
                key: Hashable = number if self._always else (id(step.kind.program.checks), what)
                known = chosen.get(key)
                if known is None or self.plan.steps[known[0]].count < min(ENOUGH, step.count):
                    chosen[key] = number, what
        for number, what in chosen.values():
            self._judge(number, what, partial(self._backward, tape, number, what))
        for number, _ in ran:
            checks = self.plan.steps[number].kind.program.checks
            if checks is not None and checks.distrusted:
                tape.redo(number)

    def _backward(self, tape: Any, number: int, what: str) -> Deviation | None:
        step = self.plan.steps[number]
        nodes = [
            _Differentiated(record.kind, self._operands(record, node), self._heads(tape, record, node), record, node)
            for record, node in self._nodes(number, self.left(number, what))
        ]
        seeds = [
            (*self._places(_rows_of(each.record, each.node, k)), head)
            for each in nodes
            for k, head in enumerate(each.heads)
            if head is not None
        ]
        if not seeds or not self.runner.once.isdisjoint([op.name for op in step.kind.call.ops]):
            self._count(step, what, 0)
            return None
        once = self._runs(nodes, step.mode, PLAINLY)
        if not all(map(self._as_it_was, nodes, once)):
            self._put_off(step, what)
            return None
        self._count(step, what, len(nodes))
        try:
            rows, weight = tape.trial(number, seeds)
        except Exception as error:  # though the traces' own backward passes have run
            return Deviation("the gradient", _raised(error))
        places, names, found = [], [], []
        for each in nodes:
            for k, (numbers, spec) in enumerate(zip(rows_read(each.record, each.node), each.kind.operands)):
                arena, positions = self._places(numbers)
                if spec.dtype in EPS and tape.learned_at(arena, positions):
                    places.append((arena, positions))
                    names.append(f"the gradient of operand {k}")
                    found.append(rows(arena, positions))
        weights = {id(array): array for each in nodes for array in each.kind.call.consts}
        learned = {key: gradient for key, array in weights.items() if (gradient := weight(array)) is not None}
        names += [f"the gradient of a weight of shape {gradient.shape}" for gradient in learned.values()]

        def run(manner: Manner) -> list[Any]:
            ran = once if manner is PLAINLY else self._runs(nodes, step.mode, manner)
            return self._summed(nodes, ran, places, learned)

        eps = max(_eps(each.kind) for each in nodes)
        return deviation_of(names, [*found, *learned.values()], run, eps, 10.0)

    def _runs(self, nodes: Sequence[_Differentiated], mode: int, manner: Manner) -> list[NodeRun]:
        return [self.runner.alone(each.kind, each.given, mode, manner, each.heads) for each in nodes]

    def _heads(self, tape: Any, record: Record, node: int) -> list[Any]:
        """Gradients of a node's results, each number another; None for those that have none."""
        found = []
        for k, output in enumerate(record.kind.outputs):
            spec = output.spec
            learns = spec.dtype in EPS and tape.learned_at(*self._places(_rows_of(record, node, k)))
            found.append(_head(spec.shape, k) if learns else None)
        return found

    def _as_it_was(self, each: _Differentiated, ran: NodeRun) -> bool:
        """True if a trace gives now what it gave when its step ran."""
        found = [self._result(each.record, each.node, k) for k in range(len(ran.results))]
        return all(near(*pair, _SAME * _eps(each.kind)) for pair in zip(found, ran.results))

    def _summed(
        self,
        nodes: Sequence[_Differentiated],
        runs: Sequence[NodeRun],
        places: Sequence[tuple[int, list[int]]],
        learned: dict[int, Any],
    ) -> list[Any]:
        """Gradients by the traces of nodes, added up: those of rows, and those of weights."""
        rows: dict[int, list[tuple[Any, Any]]] = defaultdict(list)
        weights: dict[int, Any] = {}
        for each, ran in zip(nodes, runs):
            for numbers, gradient in zip(rows_read(each.record, each.node), ran.gradients):
                if gradient is not None:
                    arena, positions = self._places(numbers)
                    rows[arena].append((positions, gradient))
            for key, gradient in ran.weights.items():
                weights[key] = weights.get(key, 0.0) + gradient
        found = []
        for arena, positions in places:
            dtype = np.result_type(0.0, *[gradient for _, gradient in rows[arena]])
            total = np.zeros((len(positions), *self.plan.arenas[arena].spec.row_shape), dtype)
            for others, gradient in rows[arena]:
                mine, theirs = np.nonzero(np.equal.outer(positions, others))
                np.add.at(total, mine, gradient.reshape(len(others), *total.shape[1:])[theirs])
            found.append(total)
        return found + [np.broadcast_to(weights.get(key, 0.0), array.shape) for key, array in learned.items()]

    # --- what differs -------------------------------------------------------------------------------------------

    def _distrust(self, number: int, checks: Checks, apart: Deviation, ran: str) -> None:
        """Lets the nodes of a program run one by one from now on, and says so."""
        record, node = self.provenance.node(number, self.plan.steps[number].count - 1)
        kind = record.kind
        operator = self._operator(number, ran in BACKWARD.values())
        where = ", in C" if ran in (ROWS, BACKWARD[ROWS]) else ""
        text = f"{apart.what} of {operator} {apart.how}{where}: {self.provenance.describe(record, node)}"
        self._distrusted = True
        distrust(checks, self._report, kind, text, line_of(record.origins[node]))

    def _operator(self, number: int, backward: bool) -> str:
        """The first operator of a step's program that differs where it is run without what follows; else all."""
        kind = self.plan.steps[number].kind
        names: list[str] = [op.name for op in kind.call.ops]
        kind, given = self._given(number) if kind.pure else (kind, [])
        for k, name in enumerate(names if len(names) > 1 and given else ()):
            trace: Trace = kind.call.part(range(len(kind.operands)), kind.call.ops[k].outputs, kind.operands)
            try:
                built = self.runner.build(trace)
            except Exception:  # it has no batched program by itself
                continue
            part = Kind(kind.name, kind.operands, built.outputs, built.rows, built.program, poly=built.poly, call=trace)
            if not self._runs_together(part, given, self.plan.steps[number].mode, backward):
                return name
        return ", ".join(dict.fromkeys(names))

    def _runs_together(self, kind: Kind, given: Sequence[Any], mode: int, backward: bool) -> bool:
        """True if a kind's program gives for nodes of these operands what its trace gives for each."""
        heads = [_head(output.spec.shape, 0) for output in kind.outputs] if backward else None
        stacked = None if heads is None else [np.stack([head] * len(given)) for head in heads]
        rows = [
            np.concatenate([np.reshape(array, (spec.rows, *spec.row_shape)) for array in each])
            for each, spec in zip(zip(*given), kind.operands)
        ]
        try:
            alone = [self.runner.alone(kind, each, mode, PLAINLY, heads) for each in given]
            found = self.runner.alone(kind, rows, mode, PLAINLY, stacked, len(given))
        except Exception:
            return False
        every = zip(*[[*each.results, *each.gradients] for each in alone])
        for numbers, parts in zip([*found.results, *found.gradients], every):
            if numbers is not None:
                wanted = np.concatenate([np.reshape(part, -1) for part in parts])
                if not near(numbers.reshape(-1), wanted, _LOOSELY * _eps(kind)):
                    return False
        return True


def distrust(checks: Checks, report: Counts, kind: Kind, text: str, line: Line | None = None) -> None:
    """Notes and tells what is wrong with a program, which does not run any more."""
    checks.distrusted = report.distrusted[kind.name] = text
    clear_plans()  # they know which steps run in C
    warn_at(line, f"{text}. {_REPORT}", RuleWarning)


_REPORT = (
    "Its calls run one by one from here on, which is right, but slower. This is a fault of gluonjit: please report "
    "this text, with the versions that `python -m gluonjit doctor` prints."
)


def _head(shape: tuple[int, ...], first: int) -> Any:
    """A gradient of a result, each number another."""
    return np.cos(np.arange(prod(shape)) + first).reshape(shape)


def _raised(error: Exception) -> str:
    return f"raises {type(error).__name__} batched ({str(error).partition(chr(10))[0]}), and nothing for one sample"


def _rows_of(record: Record, node: int, number: int) -> range:
    """The rows of a node's result."""
    output = record.kind.outputs[number]
    first = record.base(node) + output.offset
    return range(first, first + output.spec.rows)


def _spread(count: int) -> list[int]:
    """Numbers of some nodes, the last one first."""
    found = [count - 1, *[(count - 1) * k // _NEAR for k in (3, 0, 6, 1, 4, 2, 5, 7)]]
    return list(dict.fromkeys(found))


def _equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(a.shape == b.shape and bool(np.all(a == b)) for a, b in zip(one, other))


def _eps(kind: Kind) -> float:
    """The relative error of the least precise numbers of a kind."""
    return max(EPS.get(dtype, 0.0) for _, dtype in kind.call.shapes)
