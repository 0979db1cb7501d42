"""From a captured graph to the plan of its flush: fold sums, drop dead nodes, schedule, lay out."""

from __future__ import annotations

from gluonjit.analysis.layout import lay_out
from gluonjit.analysis.nodes import Nodes
from gluonjit.analysis.plan import Plan
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.splitting import Sharing, captured_nodes
from gluonjit.analysis.structures import by_structure
from gluonjit.analysis.sums import SumKind, fold_sums
from gluonjit.graph.graph import Graph


def make_plan(graph: Graph, sum_kind: SumKind, scheduler: str = "depth", granularity: str = "cell") -> Plan:
    """Return the plan of everything captured in `graph`. `sum_kind(spec, n)` returns the kind that sums n arrays."""
    return Planner(graph, sum_kind).plan(scheduler, granularity)


class Planner:
    """Makes plans of one captured graph, which may be many: folding sums and finding dead nodes is done once.

    sharing: how far equal products that are cut out of calls are one; see `gluonjit.analysis.splitting`. records: what
    was captured, and what was made of it.
    """

    def __init__(self, graph: Graph, sum_kind: SumKind, sharing: Sharing = "batch") -> None:
        self._graph = graph
        captured = self._captured = captured_nodes(graph, sharing)
        before = captured.count
        fold_sums(captured, sum_kind)
        self._dropped = before - captured.prune()
        self._nodes = Nodes(captured, captured.keep)
        self.records = captured.records

    def plan(self, scheduler: str = "depth", granularity: str = "cell") -> Plan:
        """A plan by one of `SCHEDULERS`; with granularity "graph" samples of one structure run as one, if they can."""
        found = None
        if granularity == "graph":
            found = by_structure(self._nodes, self._graph.marks, SCHEDULERS[scheduler])
        if found is None:
            found = SCHEDULERS[scheduler](self._nodes)
        return lay_out(self._graph, self._captured, found, self._dropped)
