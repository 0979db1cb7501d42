"""Contents of a graph of MXNet's autograd: rows and weights that results depend on, and what lets arrays enter it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gluonjit.analysis.operands import base_rows, operand_matrices
from gluonjit.analysis.plan import LeafChunk, Place, Plan, Step
from gluonjit.graph import Graph, Kind
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.run import reach
from gluonjit.hybrid.run.reach import owners_of_operand, owners_of_result, roles_of, rows_at
from gluonjit.program.trace import Trace
from gluonjit.rows.running import row_flags


class Reach(reach.Reach):
    """Goes backward through the steps of a plan. `constants` are the addresses of the weights met on the way.

    flags: those of all rows (`rows.running.row_flags`).
    """

    def __init__(self, plan: Plan) -> None:
        self.flags, rows = row_flags(plan)
        super().__init__(plan, rows)
        self.constants: set[int] = set()

    def through(self, step: Step) -> bool:
        """Goes on from a step's results to its operands; False if none of the results has been reached."""
        program = step.kind.program  # a `program.Program`
        if all([place.end > place.begin and self.reaches_all(place) for place in step.places]):
            self._through_all(step, program)
            return True
        results = self.results(step)
        for number in results:
            self.go(step, [number], self.operands(step, number))
        if results:
            self._complete(step, results)
        return bool(results)

    def operands(self, step: Step, result: int) -> tuple[int, ...]:
        """The operands that gradients of a result go on to. Its weights are met."""
        program = step.kind.program
        found = program.sources.get(result)
        if found is None:
            depends, count = program.depends[result], len(step.gathers)
            operands = tuple([k for k, (gather, _) in enumerate(roles_of(step.kind)) if gather in depends])
            consts = [k for k in range(len(program.consts)) if count + k in depends]
            found = program.sources[result] = operands, consts
        self.constants.update([id(program.consts[k]) for k in found[1]])
        return found[0]  # type: ignore[no-any-return]

    def _complete(self, step: Step, results: list[int]) -> None:
        """A node is one: what is reached of it is so with all its results."""
        nodes = self.nodes(step, results)
        for number, place in enumerate(step.places):
            self.at(place)[:] |= True if nodes is None else nodes[owners_of_result(step, number)]

    def _through_all(self, step: Step, program: Any) -> None:
        """Goes on from all results of a step, as is usual, with fewer arrays."""
        used = set().union(*program.depends)
        for position, gather in enumerate(step.gathers):
            if position in used:
                self.rows[gather.place.arena][rows_at(gather.place, gather.index)] = True
        first = len(step.gathers)
        self.constants.update([id(array) for k, array in enumerate(program.consts, first) if k in used])


def entered_waiting(graph: Graph, begun: Iterable[int], learned: Callable[[Any], bool]) -> Any:
    """Does what `entered` does for a graph that waits to run; calls that nobody reads count too, as they do eagerly.

    Returns for each row the number of the node that has let it in, its own or that of one that has read it: infinity
    where none has. Who reads rows that are a part of an array, or of several, reads a new array, and lets in that one.
    """
    since = np.full(graph.rows, np.inf)
    since[list(begun)] = -1
    calls, sizes = [], _sizes(graph)
    for record in graph.records.values():
        if is_recorded(record.mode) and len(record):
            numbers = base_rows(record)
            made = numbers[:, None] + np.arange(record.kind.rows)
            operands = [(rows, _are_whole(rows, sizes)) for rows in operand_matrices(record)]
            calls.append((numbers, operands, made, _Entering(record.kind, learned)))
    changed = True
    while changed:
        before = since.copy()
        for numbers, reads, made, entering in calls:
            inside: dict[tuple[int, ...], Any] = {
                (k,): (since[rows] < numbers[:, None]).any(1) for k, (rows, _) in enumerate(reads)
            }
            for k, (rows, whole) in enumerate(reads):
                nodes = entering.operand((k,), inside, len(numbers)) & whole
                np.minimum.at(since, rows[nodes], numbers[nodes, None])
            nodes = entering.results(inside, len(numbers))
            np.minimum.at(since, made[nodes], numbers[nodes, None])
        changed = not np.array_equal(before, since)
    return since


def _sizes(graph: Graph) -> Any:
    """The number of rows of the array of which a row is the first; 0 for other rows, 1 for entries of look-ups.

    A number of the host's may be one of several arrays, of which a node has read any: of none it is the first.
    """
    sizes = np.ones(graph.rows, dtype=np.int64)
    for table, entries in graph.lookups.items():
        if table.weight is None:
            sizes[list(entries.values())] = 0
    for leaf in graph.leaves.values():
        sizes[leaf.base : leaf.base + leaf.spec.rows] = 0
        sizes[leaf.base] = leaf.spec.rows
    for record in graph.records.values():
        numbers = base_rows(record)
        sizes[numbers[:, None] + np.arange(record.kind.rows)] = 0
        for output in record.kind.outputs:
            sizes[numbers + output.offset] = output.spec.rows
    return sizes


def _are_whole(rows: Any, sizes: Any) -> Any:
    """Tells of each node whether the rows of an operand are those of one array."""
    count = rows.shape[1]
    follow = (rows == rows[:, :1] + np.arange(count)).all(1)
    return follow & (sizes[rows[:, 0]] == count) if count else follow


def entered(plan: Plan, begun: Iterable[Place], learned: Callable[[Any], bool]) -> list[Any]:
    """Finds in each arena of a plan the rows that autograd would have in a computational graph after the run.

    These are the results of recorded nodes that go back to a row of `begun` or to a `learned` weight, and all that such
    nodes have read, if it is a whole array. What a node has read counts for those alone that were captured after it.
    """
    sizes = _sizes_in_arenas(plan)
    since = [np.full(arena.rows, np.inf) for arena in plan.arenas]  # which node has let each row in
    for place in begun:
        since[place.arena][place.begin : place.end] = -1
    recorded = [step for step in plan.steps if is_recorded(step.mode)]
    changed = True
    while changed:  # a node may have let in what one of an earlier step reads
        before = [times.copy() for times in since]
        for step in recorded:
            _enter(step, since, sizes, _Entering(step.kind, learned))
        changed = not all(map(np.array_equal, before, since))
    return [np.isfinite(times) for times in since]


def _sizes_in_arenas(plan: Plan) -> list[Any]:
    """The same for the rows of each arena of a plan."""
    sizes = [np.ones(arena.rows, dtype=np.int64) for arena in plan.arenas]
    for chunk in plan.inputs:
        if isinstance(chunk, LeafChunk):
            counts = np.array([leaf.spec.rows for leaf in chunk.leaves])
            _set_sizes(sizes[chunk.place.arena], chunk.place, counts)
        elif chunk.table is not None and chunk.table.weight is None:
            sizes[chunk.place.arena][chunk.place.begin : chunk.place.end] = 0
    for step in plan.steps:
        for number, place in enumerate(step.places):
            _set_sizes(sizes[place.arena], place, np.bincount(owners_of_result(step, number)))
    return sizes


def _set_sizes(sizes: Any, place: Place, counts: Any) -> None:
    """Notes arrays of so many rows, one after the other."""
    sizes[place.begin : place.end] = 0
    sizes[place.begin + np.cumsum(counts) - counts] = counts


def _owners_of_whole(rows: Any, owners: Any, sizes: Any) -> Any:
    """Tells of each row of an operand whether those of its node, which follow each other, are those of one array."""
    first = np.searchsorted(owners, owners)
    count = np.searchsorted(owners, owners, "right") - first
    begin = rows[first]
    follow = rows == begin + np.arange(len(rows)) - first
    broken = np.bincount(owners[~follow], minlength=owners[-1] + 1 if len(owners) else 0)[owners] > 0
    return (sizes[begin] == count) & ~broken


class _Entering:
    """Rules for what recorded nodes of a kind let into a graph, given those whose operands are in it, by role."""

    def __init__(self, kind: Kind, learned: Callable[[Any], bool]) -> None:
        program: Any = kind.program
        # A kind that is split has the operands of its call, and the program of what is left of it.
        self._enters = None if kind.split is not None or kind.children else program.enters
        self._consts = sum(1 << len(kind.operands) + k for k, array in enumerate(program.consts) if learned(array))

    def results(self, inside: dict[tuple[int, ...], Any], count: int) -> Any:
        """The nodes whose results enter."""
        return np.any([np.full(count, bool(self._consts)), *inside.values()], axis=0)

    def operand(self, role: tuple[int, ...], inside: dict[tuple[int, ...], Any], count: int) -> Any:
        """The nodes whose operand of a role enters."""
        if self._enters is None:
            return self.results(inside, count)
        by = self._enters[role[0]]
        read = [nodes for (k,), nodes in inside.items() if by >> k & 1]
        return np.any([np.full(count, bool(by & self._consts)), *read], axis=0)


def let_in(trace: Trace) -> list[int]:
    """Finds, as bits, which operands and constants in a computational graph let each operand into it.

    MXNet records an operator that reads something that is in, which lets in what else it reads, and its results.
    """
    by = {position: 1 << position for position in range(len(trace.operands) + len(trace.consts))}
    for op in trace.ops:
        reads = 0
        for position in op.inputs:
            reads |= by.get(position, 0)
        for position in (*op.inputs, *op.outputs):
            by[position] = reads
    return [by[position] for position in range(len(trace.operands))]


def _enter(step: Step, since: list[Any], sizes: list[Any], entering: _Entering) -> None:
    """Notes what the nodes of a step let in."""
    numbers = np.concatenate([base_rows(record)[nodes] for record, nodes in step.parts])
    reads, inside = [], {}
    for number, (gather, group) in enumerate(zip(step.gathers, step.kind.groups)):
        place = gather.place
        taken = np.arange(place.begin, place.end) if gather.index is None else gather.index
        begin = 0
        for position, role in enumerate(group):
            owners = owners_of_operand(step, number, position)
            rows = taken[begin : begin + len(owners)]
            begin += len(owners)
            nodes = inside[role] = np.zeros(step.count, dtype=bool)
            nodes[owners[since[place.arena][rows] < numbers[owners]]] = True
            reads.append((since[place.arena], rows, owners, role, _owners_of_whole(rows, owners, sizes[place.arena])))
    for times, rows, owners, role, whole in reads:
        kept = entering.operand(role, inside, step.count)[owners] & whole
        np.minimum.at(times, rows[kept], numbers[owners[kept]])
    nodes = entering.results(inside, step.count)
    for number, place in enumerate(step.places):
        owners = owners_of_result(step, number)
        kept = nodes[owners]
        np.minimum.at(since[place.arena], np.arange(place.begin, place.end)[kept], numbers[owners[kept]])
