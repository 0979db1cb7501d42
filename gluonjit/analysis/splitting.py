"""From calls to nodes: products of single arguments with weights run before the recursion.

If a cell computes something from one argument alone, and that is a row of an input (a word's vector, say), its engine
splits it from the cell. Here the products of all calls become nodes, equal ones once, so that they run in one step for
any depth of their calls. Capture does not know this: it is done for all calls at once.
"""

from __future__ import annotations

from typing import Any

from gluonjit.analysis import flat
from gluonjit.analysis.captured import Captured
from gluonjit.analysis.forms import SplitCall, form_of
from gluonjit.compiled import filled, room
from gluonjit.graph.graph import Graph
from gluonjit.graph.recorder import Record

_Calls = tuple[Any, ...]
"""The arguments of `flat.products` for the calls of one record."""


def captured_nodes(graph: Graph, sharing: bool = True) -> Captured:
    """Returns the nodes of a graph, with calls that run as several nodes replaced by these. `graph` is unchanged.

    sharing: whether equal products are one.
    """
    captured = Captured([record for record in graph.records.values() if len(record)], graph.rows)
    splits = [(number, form.cut) for number, form in enumerate(captured.forms) if form.cut is not None]
    if not splits:
        return captured
    wanted: dict[Any, list[_Calls]] = {}
    for number, cut in splits:
        _cut(captured, number, cut, wanted)
    _add_products(captured, wanted, sharing)
    captured.untold = [*[number for number, _ in splits], *range(len(captured.given), len(captured.records))]
    return captured


def _cut(captured: Captured, number: int, cut: SplitCall, wanted: dict[Any, list[_Calls]]) -> None:
    """Reduces calls to the rest without their products, which go into `wanted`."""
    record, width = captured.records[number], captured.forms[number].width
    begin, end = captured.begins[number], captured.begins[number + 1]
    first = captured.firsts[begin]
    captured.replace(number, record.like(cut.kind), cut.rest)
    nodes = captured.bases, captured.firsts, captured.operands
    flat.cut(begin, end, cut.kept, cut.rest.width, cut.left, captured.width, *nodes)
    captured.width += (end - begin) * cut.rest.width
    for product in cut.products:
        calls = (begin, end, first + product.begin, width, product.left, product.column, record.origins)
        wanted.setdefault((product.kind, record.mode), []).append(calls)


def _add_products(captured: Captured, wanted: dict[Any, list[_Calls]], sharing: bool) -> None:
    """Adds the records of products, and link the calls to theirs."""
    known, stamps = room(captured.rows), room(captured.rows)
    for stamp, ((kind, mode), calls) in enumerate(wanted.items(), 1):
        record, form = Record(kind, mode, 0.0), form_of(kind)
        results = [row for output in kind.outputs for row in range(output.offset, output.offset + output.spec.rows)]
        count = flat.products(
            calls,
            len(captured.records),
            captured.count,
            captured.width,
            form.width,
            filled(results),
            stamp if sharing else 0,
            captured.kinds,
            captured.bases,
            captured.firsts,
            captured.operands,
            known,
            stamps,
            record.origins,
        )
        record.calls = count - captured.count
        captured.add(record, form, record.calls)
