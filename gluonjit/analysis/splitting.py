"""From calls to the nodes that they run as: products of single arguments with weights run before the recursion.

What a cell computes of one argument alone, where that is a row of an input (a word's vector, say), is cut out of it by
its engine. Here the products of all calls become nodes, equal ones once, so that they run in one step whatever the
depth of their calls. Capture knows nothing of it: it is done for all calls at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from gluonjit.analysis import flat
from gluonjit.analysis.captured import Captured
from gluonjit.analysis.forms import form_of
from gluonjit.compiled import filled, numbers, room
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import Split
from gluonjit.graph.origins import Mark
from gluonjit.graph.recorder import Record

Sharing = Literal["batch", "sample", "none"]
"""The equal products that are one: those of the whole batch, of one sample, or none."""

_Calls = tuple[Any, ...]
"""The arguments of `flat.products` for the calls of one record."""


def captured_nodes(graph: Graph, sharing: Sharing = "batch") -> Captured:
    """The nodes of a graph, with those of calls that run as several nodes in the place of the calls. `graph` stays."""
    captured = Captured([record for record in graph.records.values() if len(record)], graph.rows)
    splits = [
        (number, record.kind.split) for number, record in enumerate(captured.records) if record.kind.split is not None
    ]
    if not splits:
        return captured
    wanted: dict[Any, list[_Calls]] = {}
    for number, split in splits:
        _cut(captured, number, split, wanted)
    _add_products(captured, wanted, sharing, graph.marks)
    made = range(len(captured.records) - len(wanted), len(captured.records))
    tell_rows(captured, [*[number for number, _ in splits], *made])
    return captured


def tell_rows(captured: Captured, made: Sequence[int]) -> None:
    """Tell records that were made of calls which rows their nodes yield, and which they read."""
    bases, operands = numbers(captured.bases), numbers(captured.operands)
    for number in made:
        record, begin, end = captured.records[number], captured.begins[number], captured.begins[number + 1]
        record.bases = bases[begin:end]
        first = captured.firsts[begin]
        record.rows_read = operands[first : first + (end - begin) * captured.forms[number].width]


def _cut(captured: Captured, number: int, split: Split, wanted: dict[Any, list[_Calls]]) -> None:
    """Leave of calls what they do beside their products, which are noted in `wanted`."""
    record, form = captured.records[number], captured.forms[number]
    begin, end = captured.begins[number], captured.begins[number + 1]
    first = captured.firsts[begin]
    left = sum([kind.rows for _, kind in split.products])  # rows of products that come before those of the rest
    kept = [row for of in split.kept for row in range(form.columns[of], form.columns[of + 1])]
    own = form_of(split.rest)
    captured.replace(number, record.like(split.rest), own)
    nodes = captured.bases, captured.firsts, captured.operands
    flat.cut(begin, end, filled(kept), own.width, left, captured.width, *nodes)
    captured.width += (end - begin) * own.width
    column = len(kept)
    for argument, kind in split.products:
        calls = (begin, end, first + form.columns[argument], form.width, left, column, record.origins)
        wanted.setdefault((kind, record.mode), []).append(calls)
        left -= kind.rows
        column += sum([output.spec.rows for output in kind.outputs])


def _add_products(captured: Captured, wanted: dict[Any, list[_Calls]], sharing: Sharing, marks: Sequence[Mark]) -> None:
    """Add the records of products, and tell the calls where to find theirs."""
    starts = filled([row for row, _ in marks] if sharing == "sample" else ())
    known, stamps = room(captured.rows), room(captured.rows)
    stamp = 0
    for (kind, mode), calls in wanted.items():
        record, form = Record(kind, mode, 0.0), form_of(kind)
        results = [row for output in kind.outputs for row in range(output.offset, output.offset + output.spec.rows)]
        count = flat.products(
            calls,
            len(captured.records),
            captured.count,
            captured.width,
            form.width,
            filled(results),
            starts,
            0 if sharing == "none" else stamp + 1,
            captured.kinds,
            captured.bases,
            captured.firsts,
            captured.operands,
            known,
            stamps,
            record.origins,
        )
        stamp += len(starts) + 1
        record.calls = count - captured.count
        captured.add(record, form, record.calls)
