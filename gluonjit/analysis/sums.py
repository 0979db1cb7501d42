"""Chains of additions run as one sum.

`sum(losses)` captures a chain as deep as the minibatch is large. If nobody can read the partial sums, the chain is one
node that adds all its terms; the order of summation is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gluonjit.analysis import flat
from gluonjit.analysis.captured import FEWEST, Captured
from gluonjit.compiled import filled
from gluonjit.graph.kinds import Kind
from gluonjit.graph.recorder import Record
from gluonjit.graph.values import Spec

SumKind = Callable[[Spec, int], Kind]


def fold_sums(captured: Captured, sum_kind: SumKind) -> None:
    """Replaces chains of additions by sums, one new node each; their nodes are no longer kept.

    Shorter chains run as they are: sums of few terms would be of many kinds.
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
