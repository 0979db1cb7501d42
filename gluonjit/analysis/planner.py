"""From a captured graph to the plan of its flush: fold sums, drop dead nodes, schedule, lay out; or take a kept one."""

from __future__ import annotations

from collections.abc import Sequence

from gluonjit.analysis.again import keep, kept_plan, structure_of
from gluonjit.analysis.captured import Captured
from gluonjit.analysis.layout import lay_out
from gluonjit.analysis.nodes import Nodes
from gluonjit.analysis.plan import Plan
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.sums import SumKind, fold_sums
from gluonjit.graph.graph import Graph
from gluonjit.graph.recorder import Record


def make_plan(graph: Graph, sum_kind: SumKind, scheduler: str = "depth") -> Plan:
    """Returns the plan of everything captured in `graph`. `sum_kind(spec, n)` returns the kind that sums n arrays."""
    return Planner(graph, sum_kind).plan(scheduler)


class Planner:
    """Makes plans of one captured graph; folding sums and finding dead nodes is done once for all of them.

    sharing: whether equal products that are cut out of calls are one; see `gluonjit.analysis.captured`.
    """

    def __init__(self, graph: Graph, sum_kind: SumKind, sharing: bool = True) -> None:
        self._graph, self._sum_kind, self._sharing = graph, sum_kind, sharing
        self._given = [record for record in graph.records.values() if len(record)]
        self._structure = structure_of(graph, self._given, sharing)
        self._nodes: Nodes | None = None
        self._folded = False
        self._dropped = 0

    @property
    def made(self) -> Sequence[Record]:
        """Returns the captured records, and those made of them, if any."""
        return () if self._nodes is None else self._nodes.captured.records

    def plan(self, scheduler: str = "depth") -> Plan:
        """Plans by one of `SCHEDULERS`."""
        if self._structure is None:
            return self._plan(scheduler)
        structure = scheduler, *self._structure
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
        return Nodes(captured, captured.keep)
