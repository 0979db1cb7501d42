"""Overwrites of values that backward needs: PyTorch refuses that backward pass, and so does gluonjit.

Calls that are pending, or have run, read their own copy of what is written to, so their gradients would be right; but a
program that PyTorch refuses is refused here too. Cases that cannot be decided are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gluonjit.analysis.plan import Place, Plan, Step
from gluonjit.engines.torch.program import program_of
from gluonjit.engines.torch.saved import saved_values
from gluonjit.graph import Graph, Kind, Record, Value
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.reading import joined_of, node_at, readers_of
from gluonjit.hybrid.capture.reuse import refuse
from gluonjit.hybrid.run.reach import part_of, rows_at

ENTRY = "entry"
"""The name of a node that stands for a view by a number: one entry of a tensor."""
_MOST_NODES = 4096  # that are looked at for one write


def note_write(graph: Graph, value: Value, captured: int, learning: bool = True) -> None:
    """Remembers the nodes that save what a write to this value changes: those before this row, and what writes."""
    rows = value.rows
    if not value.taped or not value.depth or isinstance(rows, tuple):
        return
    own = range(rows, rows + value.spec.rows)
    copies = joined_of(graph.copies, own.start, own.stop)
    if any(list(joined) == list(own) for joined in copies):  # this may be the one that is written to
        return
    maker = node_at(graph.records, rows)
    if maker is None or maker[0].calls > len(maker[0]):  # then equal calls have it, too
        return
    record, number = maker
    found = []
    kind = record.kind
    looks = [(record.base(number) + output.offset, output.spec.rows) for output in kind.outputs]
    outputs = [k for k, look in enumerate(looks) if look == (rows, value.spec.rows)]
    kept = is_recorded(record.mode) and not set(outputs).isdisjoint(_may_keep(kind)[1])
    if kept and not set(outputs).isdisjoint(_kept_by(graph, record, number)[1]):
        found.append(rows)
        record.forget(number)  # equal calls are separate nodes from now on: what they save is not written over
    # What reads rows of which there is a copy may read either.
    readers = [] if copies else readers_of(graph.records, rows, value.spec.rows, graph.rows, _MOST_NODES, _gives_views)
    for base, reader, node, operands in readers or ():
        # The write itself keeps a copy of what it writes to, but not of other arguments.
        read = [k for k in operands if k and learning] if base >= captured else operands
        if not read or not is_recorded(reader.mode) or _may_keep(reader.kind)[0].isdisjoint(read):
            continue
        if not _kept_by(graph, reader, node)[0].isdisjoint(read):
            found.append(base + reader.kind.outputs[0].offset)
            reader.forget(node)
    if found:
        graph.overwritten += found
        refuse("it writes over what its backward pass needs")


def note_written_result(value: Value) -> None:
    """Notes that the numbers of a value whose batch has run have changed."""
    if value.taped and value.result is not None and not value.result.chunk.readers.shared:
        chunk, row = value.result
        first = chunk.place.begin + row
        chunk.plan.rewritten.append((chunk.place.arena, first, value.spec.rows))


def savers(
    plan: Plan, learns: Callable[[Place, Any], bool], arena: int, first: int, count: int
) -> Iterator[tuple[int, int]]:
    """Finds results of the nodes whose backward pass needs rows of an arena that were overwritten.

    learns: whether gradients go through any of these rows: those of an index, or where that is None of a place.
    """
    wanted = np.arange(first, first + count)
    for step in plan.steps:
        if not is_recorded(step.mode) or not step.count:
            continue
        results = [place for place in step.places if place.arena == arena and place.begin <= first < place.end]
        readers = list(_readers(step, arena, wanted))
        if not results and not readers:
            continue
        operands, saved = saved_values(program_of(step.kind), _flags(step, learns))
        if any(step.places[k] in results for k in saved):
            yield arena, first
        for operand, node in readers:
            if operand in operands:
                place = step.places[0]
                yield place.arena, place.begin + node * ((place.end - place.begin) // step.count)


def _readers(step: Step, arena: int, wanted: Any) -> Iterator[tuple[int, int]]:
    """The operands, and of which node, that are any of these rows."""
    for gather, group in zip(step.gathers, step.kind.groups):
        if gather.place.arena == arena:
            rows = rows_at(gather.place, gather.index)
            listed = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows)
            size = gather.rows // len(group)
            for at in np.flatnonzero(np.isin(listed, wanted)).tolist():
                role, row = divmod(at, size)
                if size % step.count == 0:  # where nodes have rows as they like it is not known which node's it is
                    yield from [(operand, row // (size // step.count)) for operand in group[role]]


def _flags(step: Step, learns: Callable[[Place, Any], bool]) -> tuple[bool, ...]:
    found = [True] * len(step.kind.operands)
    for gather, group in zip(step.gathers, step.kind.groups):
        size = gather.rows // len(group)
        for position, role in enumerate(group):
            for operand in role:
                found[operand] = learns(*part_of(gather, position * size, size))
    return tuple(found)


def _gives_views(record: Record) -> bool:
    """True if the results of a record's nodes share the memory of their operand."""
    return record.kind.operator and is_recorded(record.mode) and _is_view(record.kind)


def _is_view(kind: Kind) -> bool:
    program = program_of(kind)
    found = _known.get(program)
    if found is None:
        ops = program.trace.ops
        found = _known[program] = kind.name == ENTRY or (bool(ops) and all(op.name in _VIEWS for op in ops))
    return found


def _may_keep(kind: Kind) -> tuple[frozenset[int], frozenset[int]]:
    """The operands and results that a node saves where gradients go through all operands; all where that is unclear."""
    if kind.split is not None or len(program_of(kind).trace.operands) != len(kind.operands):
        return frozenset(range(len(kind.operands))), frozenset(range(len(kind.outputs)))
    return saved_values(program_of(kind), (True,) * len(kind.operands))


_VIEWS = set(
    "view.default select.int slice.Tensor split.Tensor split_with_sizes.default unbind.int unsqueeze.default "
    "squeeze.default squeeze.dim squeeze.dims expand.default t.default transpose.int permute.default detach.default "
    "alias.default diagonal.default".split()
)
_known: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def _kept_by(graph: Graph, record: Record, node: int) -> tuple[frozenset[int], frozenset[int]]:
    """The operands and results, by number, that a node saves for its backward pass."""
    kind = record.kind
    flags = [_is_taped(graph, rows) for rows in record.operands_of(node)]
    if kind.split is None:
        if len(program_of(kind).trace.operands) != len(flags):
            return frozenset(), frozenset()
        return saved_values(program_of(kind), tuple(flags))
    chosen = tuple([flags[k] for k in kind.split.kept]) + (True,) * len(kind.split.products)
    if len(program_of(kind).trace.operands) != len(chosen):
        return frozenset(), frozenset()
    operands, results = saved_values(program_of(kind), chosen)
    own = {kind.split.kept[k] for k in operands if k < len(kind.split.kept)}
    for argument, product in kind.split.products:
        if saved_values(program_of(product), (flags[argument],))[0]:
            own.add(argument)
    return frozenset(own), results


def _is_taped(graph: Graph, rows: Any) -> bool:
    row = rows[0] if isinstance(rows, tuple) else rows
    found = node_at(graph.records, row)
    if found is not None:
        return is_recorded(found[0].mode)
    for leaf in graph.leaves.values():
        if leaf.base <= row < leaf.base + leaf.spec.rows:
            return bool(leaf.taped)
    return any(table.taped for table in graph.lookups)
