"""From a captured graph to the plan of its flush: fold sums, drop dead nodes, schedule, lay out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gluonjit.analysis.layout import Layout, output_rows, place_inputs
from gluonjit.analysis.liveness import live_nodes, needed_nodes
from gluonjit.analysis.nodes import Group, Nodes
from gluonjit.analysis.operands import operand_matrices
from gluonjit.analysis.plan import Index, Part, Plan, Step
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.sums import SumKind, fold_sums
from gluonjit.graph import Graph, Record


def make_plan(graph: Graph, sum_kind: SumKind, scheduler: str = "depth") -> Plan:
    """The plan of everything captured in `graph`. `sum_kind(spec, n)` gives the kind that adds up n arrays."""
    schedule = SCHEDULERS[scheduler]
    records = [record for record in graph.records.values() if record.bases]
    captured = sum(len(record.bases) for record in records)
    operands = {record: operand_matrices(record) for record in records}
    live = {record: live_nodes(record) for record in records}
    keep = fold_sums(graph, operands, live, sum_kind)
    groups = schedule(Nodes(keep, operands, graph.rows))
    live = {record: mask & keep[record] for record, mask in live.items()}
    needed = needed_nodes(groups, keep, operands, live, graph.rows)
    if needed is not None:
        groups = schedule(Nodes(needed, operands, graph.rows))
    layout = Layout(graph.rows)
    inputs = place_inputs(graph, layout)
    steps = tuple(_step(group, operands, layout) for group in groups)
    nodes = sum(step.count for step in steps)
    return Plan(
        arenas=layout.arenas(),
        inputs=inputs,
        steps=steps,
        arena=layout.arena,
        position=layout.position,
        live=tuple(Part(record, np.flatnonzero(mask)) for record, mask in live.items()),
        nodes=nodes,
        dropped=captured - nodes,
    )


def _step(group: Group, operands: Mapping[Record, list[Index]], layout: Layout) -> Step:
    kind, mode = group[0].record.kind, group[0].record.mode
    rows = [
        _joined([operands[record][position][nodes].ravel() for position in positions for record, nodes in group])
        for positions in kind.groups
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
    return Step(kind, mode, tuple(group), count, gathers, places)


def _joined(parts: list[Index]) -> Index:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
