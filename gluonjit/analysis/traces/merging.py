"""Sharing, done to a trace as at capture: an equal call on equal operands is the node that is there already."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gluonjit.analysis.traces.document import Trace, TraceNodes


def merged(trace: Trace) -> Trace:
    """The trace with equal nodes of pure kinds merged, in the order of capture."""
    same = np.arange(trace.rows)  # for each row the one that stands for it
    keep = [np.ones(len(nodes.bases), dtype=bool) for nodes in trace.nodes]
    live = [nodes.live.copy() for nodes in trace.nodes]
    first: dict[tuple[int, bytes], int] = {}
    for kind, position in trace.in_order():
        if not trace.kinds[kind].pure:
            continue
        nodes = trace.nodes[kind]
        key = (kind, same[nodes.operands[position]].tobytes())
        known = first.setdefault(key, position)
        if known != position:
            begin, original = int(nodes.bases[position]), int(nodes.bases[known])
            rows = trace.kinds[kind].rows
            same[begin : begin + rows] = np.arange(original, original + rows)
            keep[kind][position] = False
            live[kind][known] |= live[kind][position]
    return replace(
        trace,
        sharing=True,
        nodes=tuple(
            TraceNodes(
                bases=nodes.bases[kept],
                depths=nodes.depths[kept],
                samples=nodes.samples[kept],
                live=alive[kept],
                operands=same[nodes.operands[kept]],
            )
            for nodes, kept, alive in zip(trace.nodes, keep, live)
        ),
    )
