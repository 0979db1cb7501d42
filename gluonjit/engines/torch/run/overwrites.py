"""Overwrites of values that backward needs: PyTorch refuses that backward pass, and so does gluonjit.

Calls that are pending, or have run, read their own copy of what is written to, so their gradients would be right; but a
program that PyTorch refuses is refused here too. Cases that cannot be decided are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gluonjit.analysis.plan import Place, Plan, Step
from gluonjit.engines.torch.operators.binding import operator_named
from gluonjit.engines.torch.run.program import program_of
from gluonjit.engines.torch.run.saved import saved_values
from gluonjit.graph import Graph, Kind, Value
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.run.reach import owners_of_operand, part_of, roles_of, rows_at, taken_by

ENTRY = "entry"
"""The name of a node that stands for a view by a number: one entry of a tensor."""
_AS_IT_WAS = -9
"""Stands for no writer, of rows that nothing has written over."""


def note_write(graph: Graph, before: Value, after: Value) -> None:
    """Notes that a tensor with one value has another now."""
    if before.taped and before.depth and not isinstance(before.rows, tuple):
        graph.overwrite(before.rows, before.spec.rows, -1 if isinstance(after.rows, tuple) else after.rows)


def note_written_result(value: Value) -> None:
    """Notes that the numbers of a value whose batch has run have changed."""
    if value.taped and value.result is not None and not value.result.chunk.readers.shared:
        chunk, row = value.result
        first = chunk.place.begin + row
        chunk.plan.rewritten.append((chunk.place.arena, first, value.spec.rows, -1))


def savers(
    plan: Plan, learns: Callable[[Place, Any], bool], rewritten: list[tuple[int, int, int, int]]
) -> Iterator[tuple[int, int]]:
    """Finds results of the nodes whose backward pass needs rows that were written over: arena and position of each.

    learns: whether gradients go through any of these rows: those of an index, or where that is None of a place.
    rewritten: `plan.rewritten`. What writes keeps a copy of its first operand, but not of others.
    """
    writers = [np.full(arena.rows, _AS_IT_WAS) for arena in plan.arenas]
    for arena, first, count, writer in rewritten:
        writers[arena][first : first + count] = writer

    def written(place: Place, index: Any = None) -> tuple[Any, Any]:
        by = writers[place.arena][rows_at(place, index)]
        at = np.flatnonzero(by != _AS_IT_WAS)
        return at, by[at]

    for step in plan.steps:
        if not is_recorded(step.mode) or not step.count:
            continue
        made = [(k, place, at) for k, place in enumerate(step.places) for at in written(place)[0].tolist()]
        read = [(each, *written(*taken_by(step, *each))) for each in roles_of(step.kind)]
        read = [(each, at, by) for each, at, by in read if len(at)]
        if not made and not read:
            continue
        views = _gives_views(step.kind)
        operands, results = saved_values(program_of(step.kind), _flags(step, learns))
        yield from [(place.arena, place.begin + at) for k, place, at in made if k in results]
        place = step.places[0]
        counts = np.array([(record.kind.outputs[0].spec.rows, len(nodes)) for record, nodes in step.parts])
        sizes = np.repeat(*counts.T)
        begins = place.begin + sizes.cumsum() - sizes  # of nodes: those of one step may have unlike numbers of rows
        for (number, role), at, by in read:
            saved = operands.intersection(step.kind.groups[number][role])
            if not (views or saved):
                continue
            owners = owners_of_operand(step, number, role)[at]
            for position, size, writer in zip(begins[owners].tolist(), sizes[owners].tolist(), by.tolist()):
                if views:
                    writers[place.arena][position : position + size] = writer
                elif writer != -2 and (saved != {0} or not _lies_at(plan, writer, place.arena, position)):
                    yield place.arena, position


def _lies_at(plan: Plan, row: int, arena: int, position: int) -> bool:
    """True if this row of the graph, if it is one, lies there."""
    return row >= 0 and bool(plan.arena[row] == arena and plan.position[row] == position)


def _flags(step: Step, learns: Callable[[Place, Any], bool]) -> tuple[bool, ...]:
    found = [True] * len(step.kind.operands)
    for gather, group in zip(step.gathers, step.kind.groups):
        size = gather.rows // len(group)
        for position, role in enumerate(group):
            for operand in role:
                found[operand] = learns(*part_of(gather, position * size, size))
    return tuple(found)


def _gives_views(kind: Kind) -> bool:
    """True if the results of a kind share the memory of its operand."""
    ops = program_of(kind).trace.ops
    returns = [operator_named(op.name)._schema.returns[0].alias_info for op in ops]
    return kind.operator and (kind.name == ENTRY or (bool(ops) and all(info is not None for info in returns)))
