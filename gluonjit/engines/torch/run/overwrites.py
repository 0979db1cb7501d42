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
from gluonjit.hybrid.run.reach import owners_of_operand, part_of, rows_at

ENTRY = "entry"
"""The name of a node that stands for a view by a number: one entry of a tensor."""


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
    writers: dict[int, dict[int, int]] = {}
    for arena, first, count, writer in rewritten:
        writers.setdefault(arena, {}).update(dict.fromkeys(range(first, first + count), writer))
    for step in plan.steps:
        if not is_recorded(step.mode) or not step.count:
            continue
        made = [
            (k, (place.arena, position))
            for k, place in enumerate(step.places)
            for position in writers.get(place.arena, ())
            if place.begin <= position < place.end
        ]
        read = list(_readers(step, writers))
        if not made and not read:
            continue
        operands, results = saved_values(program_of(step.kind), _flags(step, learns))
        yield from [row for k, row in made if k in results]
        place = step.places[0]
        size = (place.end - place.begin) // step.count
        for operand, node, writer in read:
            position = place.begin + node * size
            if _gives_views(step.kind):
                writers.setdefault(place.arena, {}).update(dict.fromkeys(range(position, position + size), writer))
            elif operand in operands and writer != -2 and (operand or writer != _row(plan, place.arena, position)):
                yield place.arena, position


def _row(plan: Plan, arena: int, position: int) -> int:
    """The first row of the graph that lies there; -3 if there is none."""
    rows = np.flatnonzero((plan.arena == arena) & (plan.position == position))
    return int(rows[0]) if len(rows) else -3


def _readers(step: Step, writers: dict[int, dict[int, int]]) -> Iterator[tuple[int, int, int]]:
    """The operands, and of which node, that are any of these rows, and what has written over the row."""
    for number, (gather, group) in enumerate(zip(step.gathers, step.kind.groups)):
        wanted = writers.get(gather.place.arena)
        if wanted:
            rows = rows_at(gather.place, gather.index)
            listed = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows)
            size = gather.rows // len(group)
            for at in np.flatnonzero(np.isin(listed, list(wanted))).tolist():
                role, row = divmod(at, size)
                node = int(owners_of_operand(step, number, role)[row])
                yield from [(operand, node, wanted[int(listed[at])]) for operand in group[role]]


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
