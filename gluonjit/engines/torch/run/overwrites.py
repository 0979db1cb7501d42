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
    writers = {arena: np.full(plan.arenas[arena].rows, _AS_IT_WAS) for arena, *_ in rewritten}
    for arena, first, count, writer in rewritten:
        writers[arena][first : first + count] = writer
    for step in plan.steps:
        if not is_recorded(step.mode) or not step.count:
            continue
        made = [(k, place.arena, at) for k, place in enumerate(step.places) for at in _written(writers, place)]
        read = [role for role in roles_of(step.kind) if _written(writers, *taken_by(step, *role)).size]
        if not made and not read:
            continue
        views = _gives_views(step.kind)
        operands, results = saved_values(program_of(step.kind), _flags(step, learns))
        yield from [(arena, step.places[k].begin + int(at)) for k, arena, at in made if k in results]
        place = step.places[0]
        size = (place.end - place.begin) // step.count
        for number, role in read:
            saved = operands.intersection(step.kind.groups[number][role])
            taken, index = taken_by(step, number, role)
            by = writers[taken.arena][rows_at(taken, index)]
            for at in _written(writers, taken, index) if views or saved else ():
                position, writer = place.begin + int(owners_of_operand(step, number, role)[at]) * size, int(by[at])
                if views:
                    known = writers.setdefault(place.arena, np.full(plan.arenas[place.arena].rows, _AS_IT_WAS))
                    known[position : position + size] = writer
                elif writer != -2 and (saved != {0} or not _lies_at(plan, writer, place.arena, position)):
                    yield place.arena, position


def _written(writers: dict[int, Any], place: Place, index: Any = None) -> Any:
    """Returns which of these rows, by their number among them, were written over."""
    by = writers.get(place.arena)
    return np.empty(0, int) if by is None else np.flatnonzero(by[rows_at(place, index)] != _AS_IT_WAS)


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
