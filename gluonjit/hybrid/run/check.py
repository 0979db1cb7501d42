"""Compares what a batched program gives with what its trace gives for one node, before anybody reads it.

It happens where a program first runs, and where it is first differentiated. What differs beyond rounding is not used:
the program's nodes run one by one from then on, from their traces.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from gluonjit.analysis.again import clear_plans
from gluonjit.analysis.operands import rows_read
from gluonjit.analysis.plan import Plan, Step
from gluonjit.errors import RuleWarning
from gluonjit.graph import Checks, Kind, Line, Record, line_of
from gluonjit.graph.kinds import ENOUGH
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.explain.counts import Counts
from gluonjit.hybrid.explain.provenance import Node, Provenance
from gluonjit.hybrid.options import ALWAYS, NEVER
from gluonjit.program.trace import Trace

GRAPH, ROWS = "graph", "rows"
"""The ways in which a step runs: by the framework's operators, or in C."""
BACKWARD = {GRAPH: "backward of graph", ROWS: "backward of rows"}
_EPS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.2e-16}
_EPS.update(complex32=1e-3, complex64=1.2e-7, complex128=2.2e-16)
_TIMES = 80.0  # rounding errors, above which numbers are looked at closely
_CLOSELY = 16.0  # times what rounding changes in the trace itself, above which a difference is none of rounding
_LOOSELY = 1e4  # rounding errors, below which an operator is not the one that differs
_SAME = 800.0  # rounding errors, below which numbers are those of the same weights
_TRIES = 4  # traces on operands that differ by rounding
_CHECKS = attrgetter("kind.program.checks")
_NEAR = 8  # nodes, among which one with other operands is looked for


class NodeRun(NamedTuple):
    """The numbers that a trace gives for one node: results, and gradients of operands and, by identity, of weights."""

    results: list[Any]
    gradients: Sequence[Any] = ()
    weights: dict[int, Any] = {}


class Manner(NamedTuple):
    """A way to run traces one by one: in float64 if `exact`, on operands and weights that `move` has changed."""

    exact: bool = False
    move: Callable[[Any], Any] | None = None

    def of(self, array: Any) -> Any:
        """Changes numbers."""
        return array if self.move is None else self.move(array)


PLAINLY = Manner()


class NodeRunner(Protocol):
    """The engine's part of comparisons. Numbers are arrays of numpy.

    once: operators whose backward pass overwrites what their forward pass has saved: a second one is wrong.
    """

    once: frozenset[str]

    def numbers(self, array: Any, rows: Sequence[int]) -> Any:
        """Reads rows of an array."""

    def build(self, trace: Trace) -> Any:
        """Makes a batched program, as `program`, `outputs`, `rows` and `poly`. Raises an error if there is none."""

    def alone(
        self,
        kind: Kind,
        operands: Sequence[Any],
        mode: int,
        manner: Manner,
        heads: Sequence[Any] | None = None,
        together: int = 0,
    ) -> NodeRun:
        """Runs a node's operators one by one, without effect on anything.

        heads: gradients of the results, None for those that have none.
        together: where not 0, the kind's program runs for so many nodes, whose rows come one after the other.
        """

    def compute(self, step: Step, operands: Sequence[Any], consts: Sequence[Any], results: Sequence[Any]) -> Any:
        """Computes all nodes of a step one by one, in place of its program."""


class _Apart(NamedTuple):
    """A difference: what differs, how, and how far at most."""

    what: str
    how: str
    far: float = np.inf


class _Differentiated(NamedTuple):
    """A node whose backward pass is compared: its kind, operands, and gradients of its results."""

    kind: Kind
    given: list[Any]
    heads: list[Any]
    record: Record
    node: int


_Run = Callable[[Manner], "list[Any]"]


class StepCheck:
    """Comparisons of the steps of one flush; `arrays` has their rows, by arena."""

    def __init__(
        self,
        plan: Plan,
        arrays: Sequence[Any],
        report: Counts,
        provenance: Provenance,
        option: str,
        runner: NodeRunner,
    ) -> None:
        self.plan, self.arrays, self._report, self.provenance = plan, arrays, report, provenance
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
            owing = {checks for checks in self._checks if self._left(checks, ROWS)}
            if owing:
                self._stops.update([number for number in steps if _CHECKS(self.plan.steps[number]) in owing])
            common.checked = not (self._stops or self._always)
        return self._stops

    def owes(self, entries: Sequence[Any]) -> bool:
        """Tells whether the backward pass of any step that a tape has noted is still to be compared."""
        if self._distrusted:
            return True
        ran = [(way, checks) for way in BACKWARD for checks in self._checks if self._always or way in checks.compared]
        ways = {way for way, checks in ran if self._left(checks, BACKWARD[way])}
        return bool(ways) and any([way in ways and self.left(n, BACKWARD[way]) for n, way in steps_of(entries)])

    # --- forward ------------------------------------------------------------------------------------------------

    def agrees(self, number: int, ran: str) -> bool:
        """Compares nodes of a step that has just run; if they differ, it has to run once more, one by one."""
        left = self.left(number, ran)
        if not left:
            return True
        found = self._judge(number, ran, partial(self._forward, number, ran, left))
        self._stops.difference_update([number for number in self._stops if not self.left(number, ROWS)])
        return found

    def _judge(self, number: int, ran: str, compare: Callable[[], _Apart | None]) -> bool:
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
        if apart is None or (ran in (GRAPH, BACKWARD[GRAPH]) and self._is_below_rounding(number, apart, ran)):
            return True
        self._distrust(number, checks, apart, ran)
        return False

    def _is_below_rounding(self, number: int, apart: _Apart, ran: str) -> bool:
        """True if numbers near zero differ by less than rounding of the operands, and those of other operands agree.

        As where one kernel rounds 1 + erf(-9) to 0, and another does not.
        """
        kind, given = self._given(number)
        backward = ran in BACKWARD.values()
        sizes = [_scale(array) for each in given for array in each if array.dtype.kind in "fc"]
        if "weight" in apart.what or not apart.far <= _eps(kind) * max(sizes, default=0.0):
            return False
        shrink = partial(_shrunk, np.random.RandomState(0))
        others = [list(map(shrink, each)) for each in given]
        return self._runs_together(kind, others, self.plan.steps[number].mode, backward)

    def _given(self, number: int) -> tuple[Kind, list[list[Any]]]:
        """The kind of a step's last node, and the operands of some of its nodes."""
        nodes = self._nodes(number, ENOUGH)
        kind = nodes[0][0].kind
        return kind, [self._operands(record, node) for record, node in nodes if record.kind is kind]

    def _forward(self, number: int, ran: str, left: int) -> _Apart | None:
        step = self.plan.steps[number]
        nodes = self._nodes(number, left)
        for record, node in nodes:
            kind, given = record.kind, self._operands(record, node)
            found = [self._result(record, node, k) for k in range(len(kind.outputs))]

            def run(manner: Manner, kind: Kind = kind, given: Sequence[Any] = given) -> list[Any]:
                return self.runner.alone(kind, given, step.mode, manner).results

            apart = _apart([f"result {k}" for k in range(len(found))], found, run, _eps(kind), 1.0)
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
        if checks.compared[late] >= _TRIES:
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
        self._distrust(number, checks, _Apart("a run", _raised(error)), GRAPH)
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

    def _backward(self, tape: Any, number: int, what: str) -> _Apart | None:
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
            return _Apart("the gradient", _raised(error))
        places, names, found = [], [], []
        for each in nodes:
            for k, (numbers, spec) in enumerate(zip(rows_read(each.record, each.node), each.kind.operands)):
                arena, positions = self._places(numbers)
                if spec.dtype in _EPS and tape.learned_at(arena, positions):
                    places.append([(arena, position) for position in positions])
                    names.append(f"the gradient of operand {k}")
                    found.append(rows(arena, positions))
        weights = {id(array): array for each in nodes for array in each.kind.call.consts}
        learned = {key: gradient for key, array in weights.items() if (gradient := weight(array)) is not None}
        names += [f"the gradient of a weight of shape {gradient.shape}" for gradient in learned.values()]

        def run(manner: Manner) -> list[Any]:
            ran = once if manner is PLAINLY else self._runs(nodes, step.mode, manner)
            return self._summed(nodes, ran, places, learned)

        eps = max([_eps(each.kind) for each in nodes])
        return _apart(names, [*found, *learned.values()], run, eps, 10.0)

    def _runs(self, nodes: Sequence[_Differentiated], mode: int, manner: Manner) -> list[NodeRun]:
        return [self.runner.alone(each.kind, each.given, mode, manner, each.heads) for each in nodes]

    def _heads(self, tape: Any, record: Record, node: int) -> list[Any]:
        """Gradients of a node's results, each number another; None for those that have none."""
        found = []
        for k, output in enumerate(record.kind.outputs):
            spec = output.spec
            learns = spec.dtype in _EPS and tape.learned_at(*self._places(_rows_of(record, node, k)))
            found.append(_head(spec.shape, k) if learns else None)
        return found

    def _as_it_was(self, each: _Differentiated, ran: NodeRun) -> bool:
        """Tells whether a trace gives now what it gave when its step ran."""
        found = [self._result(each.record, each.node, k) for k in range(len(ran.results))]
        return all([_near(*pair, _SAME * _eps(each.kind)) for pair in zip(found, ran.results)])

    def _summed(
        self,
        nodes: Sequence[_Differentiated],
        runs: Sequence[NodeRun],
        places: Sequence[Sequence[tuple[int, int]]],
        learned: dict[int, Any],
    ) -> list[Any]:
        """Gradients by the traces of nodes, added up: those of rows, and those of weights."""
        rows: dict[tuple[int, int], Any] = {}
        weights: dict[int, Any] = {}
        for each, ran in zip(nodes, runs):
            for numbers, spec, gradient in zip(rows_read(each.record, each.node), each.kind.operands, ran.gradients):
                arena, positions = self._places(numbers)
                parts = [0.0] * spec.rows if gradient is None else gradient.reshape(spec.rows, *spec.row_shape)
                for position, part in zip(positions, parts):
                    rows[arena, position] = rows.get((arena, position), 0.0) + part
            for key, gradient in ran.weights.items():
                weights[key] = weights.get(key, 0.0) + gradient
        shapes = [self.plan.arenas[listed[0][0]].spec.row_shape for listed in places]
        found = [
            np.stack([np.broadcast_to(rows[place], shape) for place in listed]) for listed, shape in zip(places, shapes)
        ]
        return found + [np.broadcast_to(weights.get(key, 0.0), array.shape) for key, array in learned.items()]

    # --- what differs -------------------------------------------------------------------------------------------

    def _distrust(self, number: int, checks: Checks, apart: _Apart, ran: str) -> None:
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
        kind, given = self._given(number)
        names: list[str] = [op.name for op in kind.call.ops]
        for k, name in enumerate(names if len(names) > 1 else ()):
            trace: Trace = kind.call.part(range(len(kind.operands)), kind.call.ops[k].outputs, kind.operands)
            try:
                program, outputs, rows, poly = self.runner.build(trace)
            except Exception:  # it has no batched program by itself
                continue
            part = Kind(kind.name, kind.operands, outputs, rows, program, poly=poly, call=trace)
            if not self._runs_together(part, given, self.plan.steps[number].mode, backward):
                return name
        return ", ".join(dict.fromkeys(names))

    def _runs_together(self, kind: Kind, given: Sequence[Any], mode: int, backward: bool) -> bool:
        """Tells whether a kind's program gives for nodes of these operands what its trace gives for each."""
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
                if not _near(numbers.reshape(-1), wanted, _LOOSELY * _eps(kind)):
                    return False
        return True


def steps_of(entries: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """Lists the steps of a tape's entries, each with the way in which it ran."""
    for entry in entries:
        steps = getattr(entry, "steps", None)
        yield from [(entry.number, GRAPH)] if steps is None else [(number, ROWS) for number in steps]


def entry_of(entries: Sequence[Any], number: int) -> tuple[int, Any, int]:
    """Finds the entry of a step: its number, itself, and the step's place in it."""
    for k, entry in enumerate(entries):
        steps = [number for number, _ in steps_of([entry])]
        if number in steps:
            return k, entry, steps.index(number)
    raise KeyError(number)


def replace_step(entries: list[Any], number: int, fresh: Sequence[Any]) -> None:
    """Puts other entries in place of a step's."""
    k, entry, place = entry_of(entries, number)
    if hasattr(entry, "steps"):
        parts = entry.part(0, place), entry.part(place + 1, len(entry.steps))
        before, after = [[part] if part.steps else [] for part in parts]
        fresh = [*before, *fresh, *after]
    entries[k : k + 1] = fresh


def distrust(checks: Checks, report: Counts, kind: Kind, text: str, line: Line | None = None) -> None:
    """Notes and tells what is wrong with a program, which does not run any more."""
    checks.distrusted = report.distrusted[kind.name] = text
    clear_plans()  # they know which steps run in C
    place = (line.file, line.number) if line is not None else ("<unknown>", 0)
    warnings.warn_explicit(f"{text}. {_REPORT}", RuleWarning, *place)


_REPORT = (
    "Its calls run one by one from here on, which is right, but slower. This is a fault of gluonjit: please report "
    "this text, with the versions that `python -m gluonjit doctor` prints."
)


def _head(shape: tuple[int, ...], first: int) -> Any:
    """A gradient of a result, each number another."""
    return np.cos(np.arange(prod(shape)) + first).reshape(shape)


def _raised(error: Exception) -> str:
    return f"raises {type(error).__name__} batched ({str(error).partition(chr(10))[0]}), and nothing for one sample"


def _shown(found: Any, wanted: Any) -> str:
    """Both numbers, where they differ most."""
    if found.shape != wanted.shape:
        return f"is of shape {found.shape} batched, and {wanted.shape} for one sample"
    at = np.unravel_index(int(np.argmax(_distance(found, wanted))), found.shape)
    return f"is {found[at]!s} batched, and {wanted[at]!s} for one sample"


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
    return all([a.shape == b.shape and bool(np.all(a == b)) for a, b in zip(one, other)])


def _eps(kind: Kind) -> float:
    """The relative error of the least precise numbers of a kind."""
    return max([_EPS.get(dtype, 0.0) for _, dtype in kind.call.shapes])


def _distance(found: Any, wanted: Any) -> Any:
    """|a - b| of each number: 0 where both are not finite in one way, infinite where they are not in the same way."""
    if found.dtype.kind not in "fc":
        return np.where(found == wanted, 0.0, np.inf)
    with np.errstate(all="ignore"):
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        apart = np.where(same, 0.0, np.abs(found.astype(np.result_type(found, np.float64)) - wanted))
    return np.where(np.isnan(apart), np.inf, apart)


def _scale(array: Any) -> float:
    sizes = np.abs(array[np.isfinite(array)])
    return float(sizes.max(initial=0.0))


def _near(found: Any, wanted: Any, tolerance: float) -> bool:
    """Tells whether numbers agree to rounding, measured by the largest."""
    if found.shape != wanted.shape:
        return False
    return bool(_distance(found, wanted).max(initial=0.0) <= tolerance * _scale(wanted))


def _apart(names: Sequence[str], found: Sequence[Any], run: _Run, eps: float, times: float) -> _Apart | None:
    """The first of numbers that differ from those of a run one by one by more than rounding."""
    expected = run(PLAINLY)
    off = [k for k, pair in enumerate(zip(found, expected)) if not _near(*pair, times * _TIMES * eps)]
    if not off:
        return None
    try:
        like = [run(Manner(True))]
    except Exception:  # of an operator that has no such numbers
        like = [expected]
    draw = np.random.RandomState(0)
    like += [run(Manner(False, partial(_moved, draw, eps))) for _ in range(_TRIES)]
    for k in off:
        if not _is_rounding(found[k], expected[k], [each[k] for each in like]):
            far = float(_distance(found[k], expected[k]).max()) if found[k].shape == expected[k].shape else np.inf
            return _Apart(names[k], _shown(found[k], expected[k]), far)
    return None


def _moved(draw: Any, eps: float, array: Any) -> Any:
    """Numbers that differ by rounding."""
    if array.dtype.kind not in "fc":
        return array
    noise = draw.uniform(-2 * eps, 2 * eps, array.shape)
    return array * (1.0 + noise) + noise * _scale(array) * 0.1


def _shrunk(draw: Any, array: Any) -> Any:
    """Numbers of any size up to those that they are, none above 1."""
    if array.dtype.kind not in "fc":
        return array
    return (array * draw.uniform(size=array.shape) / max(1.0, _scale(array))).astype(array.dtype)


def _is_rounding(found: Any, wanted: Any, like: Sequence[Any]) -> bool:
    """Tells whether a difference is no larger than what rounding changes in the trace itself; ties, too."""
    if any(each.shape != found.shape for each in (wanted, *like)):
        return False
    if found.dtype.kind not in "fc":
        return bool(np.any([found == each for each in (wanted, *like)], axis=0).all())
    exact = like[0]
    spread = max([_distance(each, exact).max(initial=0.0) for each in (wanted, *like)])
    return bool(_distance(found, exact).max(initial=0.0) <= _CLOSELY * spread)
