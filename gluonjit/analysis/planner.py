"""From a captured graph to the plan of its flush: fold sums, drop dead nodes, schedule, lay out; or take a kept one.

A plan has one arena for each shape of rows, filled in the order in which rows are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from gluonjit.analysis import flat
from gluonjit.analysis.captured import FEWEST, Captured
from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.plan import Arena, LeafChunk, Live, LookupChunk, Place, Plan
from gluonjit.analysis.plan_cache import keep, kept_plan, structure_of
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.table import BREADTH
from gluonjit.compiled import filled, numbers, repeated, room
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import Kind
from gluonjit.graph.recorder import Leaf, Record
from gluonjit.graph.values import Spec

SumKind = Callable[[Spec, int], Kind]


def fold_sums(captured: Captured, sum_kind: SumKind) -> None:
    """Replaces chains of additions by sums, one new node each; their nodes are no longer kept.

    `sum(losses)` captures a chain as deep as the minibatch is large. If nobody can read the partial sums, the chain is
    one node that adds all its terms; the order of summation is not kept. Shorter chains run as they are: sums of few
    terms would be of many kinds.
    """
    adders = [number for number, record in enumerate(captured.records) if record.kind.sum_of]
    if sum(captured.begins[number + 1] - captured.begins[number] for number in adders) < FEWEST:
        return
    likeness: dict[Any, int] = {}  # additions of equal arrays under equal modes
    like = [0] * len(captured.records)
    for number in adders:
        record = captured.records[number]
        like[number] = likeness.setdefault((record.kind.outputs[0].spec, record.mode), len(likeness) + 1)
    found = flat.chains(
        captured.count,
        captured.rows,
        FEWEST + 1,
        filled(like),
        captured.heights,
        captured.widths,
        captured.kinds,
        captured.bases,
        captured.firsts,
        captured.operands,
        captured.alive,
        captured.keep,
    )
    sums: dict[Any, Record] = {}
    for node, terms in found:
        number = captured.kinds[node]
        _add_sum(sums, captured.records[number], node - captured.begins[number], terms, sum_kind)
    captured.read(list(sums.values()))


def _add_sum(sums: dict[Any, Record], record: Record, node: int, rows: tuple[int, ...], sum_kind: SumKind) -> None:
    """Adds a node that sums the terms of a chain, given by their rows, into the result of its last addition."""
    kind = sum_kind(record.kind.outputs[0].spec, len(rows) // record.kind.rows)
    key = (kind, record.mode)
    target = sums.get(key)
    if target is None:
        target = sums[key] = Record(kind, record.mode, 0.0)
    target.put((rows,), record.depth(node), record.base(node), record.origins[node], record.values(node))


def lay_out(graph: Graph, captured: Captured, schedule: Schedule, dropped: int) -> Plan:
    """Returns the plan of a schedule of the nodes of a graph, of which `dropped` were dropped."""
    arenas = _Arenas()
    inputs, given = _inputs(graph, arenas)
    results: list[Any] = [None] * len(captured.records)
    for record, count in flat.first_records(schedule.starts, schedule.order, captured.kinds).items():
        outputs = captured.records[record].kind.outputs
        results[record] = tuple([arenas.number(output.spec, count) for output in outputs])
    arena, position, sizes = repeated(-1, captured.rows), room(captured.rows), room(len(arenas.specs))
    flat.place_inputs(given, sizes, arena, position)
    forms, form_at = filled(()), filled(())
    for form in captured.forms:
        form_at.append(len(forms) + 1)
        forms += form.numbers
    indices, arities = room(captured.width), room(schedule.starts[-1])
    laid = flat.Laid(captured.records)
    index: list[Any] = []
    steps = flat.lay_out(
        schedule.starts,
        schedule.order,
        captured.begins,
        captured.kinds,
        captured.bases,
        captured.firsts,
        captured.operands,
        forms,
        form_at,
        results,
        sizes,
        arena,
        position,
        indices,
        arities,
        laid,
        index,
    )
    laid.order, laid.arities = numbers(schedule.order), numbers(arities)
    index.append(numbers(indices))
    called = captured.called
    return Plan(
        arenas=arenas.filled(sizes),
        inputs=inputs,
        steps=steps,
        arena=numbers(arena),
        position=numbers(position),
        live=_live(captured, called),
        nodes=schedule.starts[-1],
        dropped=dropped,
        called=called,
        laid=laid,
        made=captured,
    )


class _Arenas:
    """Arenas by the spec of their rows."""

    def __init__(self) -> None:
        self.specs: list[Spec] = []
        self._places: list[int] = []
        self._by_spec: dict[Spec, int] = {}
        self._by_look: dict[Any, int] = {}

    def number(self, spec: Spec, count: int = 1) -> int:
        """Returns the number of the arena for rows like those of `spec`, with room for this many more places."""
        found = self._by_spec.get(spec)
        if found is None:
            look = spec.row_shape, spec.dtype, spec.device
            found = self._by_spec[spec] = self._by_look.setdefault(look, len(self.specs))
            if found == len(self.specs):
                self.specs.append(spec)
                self._places.append(0)
        self._places[found] += count
        return found

    def filled(self, sizes: Any) -> tuple[Arena, ...]:
        """All arenas, with their final sizes."""
        return tuple([Arena(*of) for of in zip(self.specs, sizes, [places == 1 for places in self._places])])


def _inputs(graph: Graph, arenas: _Arenas) -> tuple[tuple[LeafChunk | LookupChunk, ...], list[tuple[int, list[int]]]]:
    """Groups the inputs: leaves with equal rows, then one group per table; and the rows of each."""
    alike: dict[Any, list[Leaf]] = {}
    for leaf in graph.leaves.values():
        alike.setdefault(leaf.spec, []).append(leaf)
    groups = alike
    if len(alike) > 1:
        groups = {}
        for spec, leaves in alike.items():
            groups.setdefault((spec.row_shape, spec.dtype, spec.device, spec.mode), []).extend(leaves)
    inputs: list[LeafChunk | LookupChunk] = []
    given: list[tuple[int, list[int]]] = []
    sizes: dict[int, int] = {}

    def place(spec: Spec, rows: list[int]) -> Place:
        number = arenas.number(spec)
        begin = sizes.get(number, 0)
        sizes[number] = begin + len(rows)
        given.append((number, rows))
        return Place(number, begin, sizes[number])

    for leaves in groups.values():
        rows = list(chain.from_iterable([range(leaf.base, leaf.base + leaf.spec.rows) for leaf in leaves]))
        inputs.append(LeafChunk(tuple(leaves), place(leaves[0].spec, rows)))
    for table, entries in graph.lookups.items():
        spec = graph.lookup_specs[table]
        inputs.append(LookupChunk(table, spec, tuple(entries), place(spec, list(entries.values()))))
    return tuple(inputs), given


def _live(captured: Captured, called: Sequence[Record]) -> tuple[Live, ...]:
    """The nodes that run and that can be read."""
    found = room(captured.count)
    parts = flat.living(captured.begins, captured.alive, captured.keep, found)
    nodes = numbers(found)
    return tuple([Live(record, called[record], nodes[begin:end]) for record, begin, end in parts])


def make_plan(graph: Graph, sum_kind: SumKind, scheduler: str = "depth") -> Plan:
    """Returns the plan of everything captured in `graph`. `sum_kind(spec, n)` returns the kind that sums n arrays."""
    return Planner(graph, sum_kind).plan(scheduler)


class Planner:
    """Makes plans of one captured graph; folding sums and finding dead nodes is done once for all of them.

    sharing: whether equal products that are cut out of calls are one; see `gluonjit.analysis.captured`. breadth: of the
        scheduler `beam`.
    """

    _nodes: Nodes | None = None
    _folded = False
    _dropped = 0

    def __init__(self, graph: Graph, sum_kind: SumKind, sharing: bool = True, breadth: int = BREADTH) -> None:
        self._graph, self._sum_kind, self._sharing, self._breadth = graph, sum_kind, sharing, breadth
        self._given = [record for record in graph.records.values() if len(record)]
        self._structure = structure_of(graph, self._given, sharing)

    @property
    def made(self) -> Sequence[Record]:
        """Returns the captured records, and those made of them, if any."""
        return () if self._nodes is None else self._nodes.captured.records

    def plan(self, scheduler: str = "depth") -> Plan:
        """Plans by one of `SCHEDULERS`."""
        if self._structure is None:
            return self._plan(scheduler)
        structure = scheduler, self._breadth, *self._structure
        known = kept_plan(structure)
        if known is not None:
            return known.again(self._graph, self._given)
        plan = self._plan(scheduler)
        if not self._folded:
            keep(structure, plan, self._graph, self._given)
        return plan

    def _plan(self, scheduler: str) -> Plan:
        if self._nodes is None:
            self._nodes = self._read()
        return lay_out(self._graph, self._nodes.captured, SCHEDULERS[scheduler](self._nodes), self._dropped)

    def _read(self) -> Nodes:
        """The nodes to schedule."""
        captured = Captured(self._given, self._graph.rows).split(self._sharing)
        before, records = captured.count, len(captured.records)
        fold_sums(captured, self._sum_kind)
        self._folded = len(captured.records) > records
        self._dropped = before - captured.prune()
        return Nodes(captured, captured.keep, self._breadth)
