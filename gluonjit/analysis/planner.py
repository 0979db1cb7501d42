"""From a captured graph to the plan of its flush: fold sums, drop dead nodes, schedule, lay out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.layout import Layout, output_rows, place_inputs
from gluonjit.analysis.liveness import live_nodes, needed_nodes
from gluonjit.analysis.nodes import Group, Nodes
from gluonjit.analysis.operands import operand_matrices
from gluonjit.analysis.plan import Part, Plan, Step
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.splitting import Sharing, split_records
from gluonjit.analysis.structures import Structured, by_structure
from gluonjit.analysis.sums import SumKind, fold_sums
from gluonjit.graph import Graph, Record


def make_plan(graph: Graph, sum_kind: SumKind, scheduler: str = "depth", granularity: str = "cell") -> Plan:
    """The plan of everything captured in `graph`. `sum_kind(spec, n)` gives the kind that adds up n arrays."""
    return Planner(graph, sum_kind).plan(scheduler, granularity)


class Planner:
    """Makes plans of one captured graph, which may be many: folding sums and finding dead nodes is done once.

    sharing: how far equal products that are cut out of calls are one; see `gluonjit.analysis.splitting`. records: what
    was captured, and what was made of it.
    """

    def __init__(self, graph: Graph, sum_kind: SumKind, sharing: Sharing = "batch") -> None:
        self._graph = graph
        records = split_records(graph, sharing)
        self._captured = sum(len(record.bases) for record in records)
        self._operands = {record: operand_matrices(record) for record in records}
        live = {record: live_nodes(record) for record in records}
        keep = fold_sums(graph, self._operands, live, sum_kind)
        self.records = list(keep)
        self._live = {record: mask & keep[record] for record, mask in live.items()}
        self._nodes = Nodes(keep, self._operands, graph.rows)
        self._pruned = False

    def plan(self, scheduler: str = "depth", granularity: str = "cell") -> Plan:
        """A plan by one of `SCHEDULERS`; with granularity "graph" samples of one structure run as one, if they can."""
        found = self._schedule(scheduler, granularity)
        if not self._pruned:
            self._pruned = True
            needed = needed_nodes(found.schedule, self._nodes.keep, self._operands, self._live, self._graph.rows)
            if needed is not None:
                self._nodes = Nodes(needed, self._operands, self._graph.rows)
                found = self._schedule(scheduler, granularity)
        layout = Layout(self._graph.rows)
        inputs = place_inputs(self._graph, layout)
        steps = tuple(_step(group, self._operands, layout) for group in found.schedule)
        nodes = sum(step.count for step in steps)
        return Plan(
            arenas=layout.arenas(),
            inputs=inputs,
            steps=steps,
            arena=layout.arena,
            position=layout.position,
            live=tuple(Part(record, np.flatnonzero(mask)) for record, mask in self._live.items()),
            nodes=nodes,
            dropped=self._captured - nodes,
            units=found.units or nodes,
            groups=found.groups or len(steps),
        )

    def _schedule(self, scheduler: str, granularity: str) -> Structured:
        schedule = SCHEDULERS[scheduler]
        if granularity == "graph":
            found = by_structure(self._nodes, self._graph.marks, schedule)
            if found is not None:
                return found
        return Structured(schedule(self._nodes), 0, 0)


def _step(group: Group, operands: Mapping[Record, list[Index]], layout: Layout) -> Step:
    kind, mode = group[0].record.kind, group[0].record.mode
    rows = [
        _joined(
            [
                _rows_of_role([operands[record][position] for position in record.kind.groups[number][role]], nodes)
                for role in range(len(roles))
                for record, nodes in group
            ]
        )
        for number, roles in enumerate(kind.groups)
    ]
    gathers = tuple(layout.gather(index) for index in rows)
    places = tuple(
        layout.place(
            _joined([output_rows(record, nodes, record.kind.outputs[number]) for record, nodes in group]),
            output.spec,
        )
        for number, output in enumerate(kind.outputs)
    )
    count = sum(len(nodes) for _, nodes in group)
    arities = _joined([np.full(len(nodes), record.kind.arity) for record, nodes in group]) if kind.children else None
    return Step(kind, mode, tuple(group), count, gathers, places, arities)


def _rows_of_role(matrices: list[Index], nodes: Index) -> Index:
    """The rows of one role, node by node."""
    parts = [matrix[nodes] for matrix in matrices]
    found: Index = (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)).ravel()
    return found


def _joined(parts: list[Index]) -> Index:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
