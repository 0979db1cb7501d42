"""Contents of a graph of MXNet's autograd: rows and weights that results depend on, and what lets arrays enter it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gluonjit.analysis.operands import base_rows, operand_matrices
from gluonjit.analysis.plan import LeafChunk, Place, Plan, Step
from gluonjit.graph import Graph, Kind, Leaf, Record
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.run import reach
from gluonjit.hybrid.run.reach import owners_of_result, roles_of, rows_at
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


_Call = tuple[Record, Any, Sequence[Any]]
"""A record, the first result row of some of its nodes, and the rows of each of their operands."""


def entered_waiting(graph: Graph, begun: list[int], learned: Callable[[Any], bool]) -> Any:
    """Does what `entered` does for a graph that waits to run; calls that nobody reads count too, as they do eagerly.

    Returns for each row the number of the node that has let it in, its own or that of one that has read it: infinity
    where none has. Who reads rows that are a part of an array, or of several, reads a new array, and lets in that one.
    """
    calls = [(record, base_rows(record), operand_matrices(record)) for record in graph.records.values() if len(record)]
    host = [row for table, rows in graph.lookups.items() if table.weight is None for row in rows.values()]
    return _since(_sizes(graph.rows, host, graph.leaves.values(), calls), begun, learned, calls)


def entered(plan: Plan, begun: Iterable[Place], learned: Callable[[Any], bool]) -> list[Any]:
    """Finds in each arena of a plan the rows that autograd would have in a computational graph after the run.

    These are the results of recorded nodes that go back to a row of `begun` or to a `learned` weight, and all that such
    nodes have read, if it is a whole array. What a node has read counts for those alone that were captured after it.
    """
    captured = plan.captured
    calls: list[_Call] = []
    for step in plan.steps:
        for number, (record, nodes) in zip(step.numbers, step.parts):
            read, columns = captured.rows_read(number)[nodes], captured.forms[number].columns
            operands = [read[:, begin:end] for begin, end in zip(columns, columns[1:])]
            calls.append((record, base_rows(record)[nodes], operands))
    rows = [np.zeros(arena.rows, dtype=np.int64) for arena in plan.arenas]  # of the graph, by their places
    for arena, found in enumerate(rows):
        there = np.flatnonzero(plan.arena == arena)
        found[plan.position[there]] = there
    leaves: list[Any] = []
    host: list[int] = []
    for chunk in plan.inputs:
        if isinstance(chunk, LeafChunk):
            leaves += chunk.leaves
        elif chunk.table is not None and chunk.table.weight is None:
            host += rows[chunk.place.arena][chunk.place.begin : chunk.place.end].tolist()
    first = [row for place in begun for row in rows[place.arena][place.begin : place.end].tolist()]
    since = _since(_sizes(captured.rows, host, leaves, calls), first, learned, calls)
    return [np.isfinite(since[found]) for found in rows]


def _since(sizes: Any, begun: list[int], learned: Callable[[Any], bool], calls: Sequence[_Call]) -> Any:
    """Finds for each row the number of the node that has let it in, -1 where gradients begin."""
    since = np.full(len(sizes), np.inf)
    since[begun] = -1
    recorded = [
        (
            bases,
            [(rows, _are_whole(rows, sizes)) for rows in operands],
            bases[:, None] + np.arange(record.kind.rows),
            _Entering(record.kind, learned),
        )
        for record, bases, operands in calls
        if is_recorded(record.mode)
    ]
    changed = True
    while changed:  # a node may have let in what an earlier one reads
        before = since.copy()
        for bases, reads, made, entering in recorded:
            inside = [(since[rows] < bases[:, None]).any(1) for rows, _ in reads]
            for k, (rows, whole) in enumerate(reads):
                nodes = entering.operand(k, inside, len(bases)) & whole
                np.minimum.at(since, rows[nodes], bases[nodes, None])
            nodes = entering.results(inside, len(bases))
            np.minimum.at(since, made[nodes], bases[nodes, None])
        changed = not np.array_equal(before, since)
    return since


def _sizes(count: int, host: list[int], leaves: Iterable[Leaf], calls: Sequence[_Call]) -> Any:
    """The number of rows of the array of which a row is the first; 0 for other rows, 1 for entries of look-ups.

    A number of the host's may be one of several arrays, of which a node has read any: of none it is the first.
    """
    sizes = np.ones(count, dtype=np.int64)
    sizes[host] = 0
    for leaf in leaves:
        sizes[leaf.base : leaf.base + leaf.spec.rows] = 0
        sizes[leaf.base] = leaf.spec.rows
    for record, bases, _ in calls:
        sizes[bases[:, None] + np.arange(record.kind.rows)] = 0
        for output in record.kind.outputs:
            sizes[bases + output.offset] = output.spec.rows
    return sizes


def _are_whole(rows: Any, sizes: Any) -> Any:
    """Tells of each node whether the rows of an operand are those of one array."""
    count = rows.shape[1]
    follow = (rows == rows[:, :1] + np.arange(count)).all(1)
    return follow & (sizes[rows[:, 0]] == count) if count else follow


class _Entering:
    """Rules for what recorded nodes of a kind let into a graph, given those whose operands are in it."""

    def __init__(self, kind: Kind, learned: Callable[[Any], bool]) -> None:
        program: Any = kind.program
        # A kind that is split has the operands of its call, and the program of what is left of it.
        self._enters = None if kind.split is not None or kind.children else program.enters
        self._consts = sum(1 << len(kind.operands) + k for k, array in enumerate(program.consts) if learned(array))

    def results(self, inside: Sequence[Any], count: int) -> Any:
        """The nodes whose results enter."""
        return np.any([np.full(count, bool(self._consts)), *inside], axis=0)

    def operand(self, number: int, inside: Sequence[Any], count: int) -> Any:
        """The nodes whose operand of this number enters."""
        if self._enters is None:
            return self.results(inside, count)
        by = self._enters[number]
        read = [nodes for k, nodes in enumerate(inside) if by >> k & 1]
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
