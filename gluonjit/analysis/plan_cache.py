"""Kept plans: a small batch whose calls depend on each other like those of an earlier batch reuses its plan.

A program that reads values in the middle of its samples runs the same few calls again and again, on other numbers.
Once a structure has come twice, everything that its plans share is kept: the order of the steps, the place of every
row, and what was derived from these (`Plan.common`). It consists of numbers only: kinds, which hold weights, are
identified by number and taken from the calls of each batch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Any

from gluonjit.analysis import flat
from gluonjit.analysis.captured import Captured, Product, product_record, products_of
from gluonjit.analysis.forms import form_of
from gluonjit.analysis.plan import LeafChunk, Live, LookupChunk, Place, Plan
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import Kind
from gluonjit.graph.reading import likeness
from gluonjit.graph.recorder import Record

MOST_NODES, MOST_ROWS = 256, 2048
"""Limits of a batch whose plan may be kept: in larger ones planning costs little, and structures rarely repeat."""
_MOST_PLANS, _MOST_SEEN = 512, 8192

_plans: dict[Hashable, KeptPlan] = {}
_seen: set[int] = set()  # hashes of structures that have come once


class KeptPlan:
    """The plan of a structure, without the parts that belong to one batch."""

    def __init__(self, plan: Plan, graph: Graph, given: Sequence[Record]) -> None:
        captured = plan.captured
        bare = copy(captured)
        bare.records, bare.forms, bare.given = [], [], []
        self._captured: Captured = bare
        self._laid = copied_laid(plan.laid, None)
        self._steps = flat.again(plan.steps, [None] * len(captured.records), self._laid)
        self._live = [(number, nodes) for number, _, nodes in plan.live]
        leaves = {id(leaf): number for number, leaf in enumerate(graph.leaves.values())}
        self._leaves: list[tuple[list[int], Place]] = []
        self._lookups: list[Place] = []
        for chunk in plan.inputs:
            if isinstance(chunk, LeafChunk):
                self._leaves.append(([leaves[id(leaf)] for leaf in chunk.leaves], chunk.place))
            else:
                self._lookups.append(chunk.place)
        self._plan = {**plan.__dict__, "inputs": (), "steps": (), "live": (), "called": (), "laid": None, "made": None}

    def again(self, graph: Graph, given: Sequence[Record]) -> Plan:
        """The plan of a graph of this structure, with these records."""
        made = products_of(given)
        kinds = [record.kind if record.kind.split is None else record.kind.split.rest for record in given]
        kinds += [kind for kind, _ in made]
        products: dict[str, int] = {}
        for kind, nodes in zip(kinds[len(given) :], self._captured.products):
            products[kind.name] = products.get(kind.name, 0) + len(nodes)
        splits = any([record.kind.split for record in given])
        laid = copied_laid(self._laid, (lambda: self._records(given, kinds, made)) if splits else given)
        leaves = list(graph.leaves.values())
        inputs: list[LeafChunk | LookupChunk] = [
            LeafChunk(tuple([leaves[number] for number in numbers]), place) for numbers, place in self._leaves
        ]
        for (table, entries), place in zip(graph.lookups.items(), self._lookups):
            inputs.append(LookupChunk(table, graph.lookup_specs[table], tuple(entries), place))
        found: Plan = object.__new__(Plan)
        found.__dict__ = {
            **self._plan,
            "called": given,
            "products": products,
            "laid": laid,
            "steps": flat.again(self._steps, kinds, laid),
            "inputs": tuple(inputs),
            "live": tuple([Live(number, given[number], nodes) for number, nodes in self._live]),
            "rewritten": [],
            "made": lambda: self._of(laid.found()),
        }
        return found

    def _of(self, records: list[Record]) -> Captured:
        """The nodes of these records."""
        found: Any = copy(self._captured)
        found.records, found.forms = records, [form_of(record.kind) for record in records]
        return found  # type: ignore[no-any-return]

    def _records(self, given: Sequence[Record], kinds: Sequence[Kind], made: dict[Product, list[Any]]) -> list[Record]:
        """Returns the records that calls run as, which only few ask for: to name a line, say."""
        found = [record if record.kind is kind else record.like(kind) for record, kind in zip(given, kinds)]
        told = [number for number, record in enumerate(found) if record is not given[number]]
        found += [product_record(*each, nodes) for each, nodes in zip(made.items(), self._captured.products)]
        return self._of(found).tell([*told, *range(len(given), len(found))])


def copied_laid(laid: flat.Laid, records: Any) -> flat.Laid:
    """The same arrays for other records."""
    found = flat.Laid(records)
    found.order, found.arities, found.cuts = laid.order, laid.arities, laid.cuts
    return found


def structure_of(graph: Graph, given: list[Record], sharing: bool) -> tuple[Any, ...] | None:
    """Returns the key of graphs that share a plan; None for a graph that is too large or cannot be read."""
    if graph.rows > MOST_ROWS:
        return None
    nodes = likeness(given, MOST_NODES)
    if nodes is None:
        return None
    leaves = [(leaf.base, leaf.spec) for leaf in graph.leaves.values()]
    specs = graph.lookup_specs
    lookups = [(specs[table], tuple(entries.values())) for table, entries in graph.lookups.items()]
    return sharing, graph.rows, nodes, tuple(leaves), tuple(lookups)


def kept_plan(structure: Hashable) -> KeptPlan | None:
    """The plan of a structure, if one is kept."""
    return _plans.get(structure)


def keep(structure: Hashable, plan: Plan, graph: Graph, given: Sequence[Record]) -> None:
    """Keeps a plan if its structure has come before, as most structures never repeat."""
    number = hash(structure)
    if number not in _seen:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        _seen.add(number)
        return
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans[structure] = KeptPlan(plan, graph, given)


def plan_count() -> int:
    """Returns the number of kept plans, 512 at most."""
    return len(_plans)


def clear_plans() -> None:
    """Forgets all kept plans."""
    _plans.clear()
    _seen.clear()
