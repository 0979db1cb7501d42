"""Checks whether the parts of a trace fit together, so that whatever is planned from it is no nonsense."""

from __future__ import annotations

from typing import Any

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.traces.decoding import Damaged
from gluonjit.analysis.traces.document import Trace, TraceKind
from gluonjit.graph.kinds import family_key
from gluonjit.graph.values import Spec


def check(trace: Trace) -> None:
    """Raise Damaged where rows are made twice, read before they are made, or are not what a kind says."""
    for number, (kind, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        _check_kind(kind, f"kinds[{number}]")
        if not len(nodes.bases):
            raise Damaged(f"kinds[{number}].nodes has none")
    _check_families(trace)
    depths, looks = _made(trace)
    for number, (kind, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        where = f"kinds[{number}].nodes"
        read = nodes.operands
        if (read >= np.minimum(nodes.bases, trace.rows)[:, None]).any():
            raise Damaged(f"{where}.operands reads rows that are made later")
        if (depths[read] < 0).any():
            raise Damaged(f"{where}.operands reads rows that nothing makes")
        if (depths[read] >= nodes.depths[:, None]).any():
            raise Damaged(f"{where}.depths has nodes that are not deeper than their operands")
        wanted = np.array([looks.number(spec) for spec in kind.operands for _ in range(spec.rows)], dtype=np.int64)
        if (looks.rows[read] != wanted).any():
            raise Damaged(f"{where}.operands reads rows of another shape, dtype or device")


class _Looks:
    """For each row how it looks, as a number."""

    def __init__(self, rows: int) -> None:
        self.rows: Index = np.full(rows, -1, dtype=np.int64)
        self._known: dict[Any, int] = {}

    def number(self, spec: Spec) -> int:
        return self._known.setdefault((spec.row_shape, spec.dtype, spec.device), len(self._known))


def _made(trace: Trace) -> tuple[Index, _Looks]:
    """For each row the depth of what makes it (inputs: 0; nothing: -1), and how it looks."""
    total = sum(leaf.spec.rows for leaf in trace.leaves) + sum(len(table.rows) for table in trace.tables)
    total += sum(len(nodes.bases) * kind.rows for kind, nodes in zip(trace.kinds, trace.nodes))
    if not total <= trace.rows <= 2 * total + 1000:  # an interrupted capture leaves rows that nothing makes
        raise Damaged(f"rows is {trace.rows}, but {total} are made")
    inputs = np.zeros(1, dtype=np.int64)
    parts: list[tuple[str, Index, Spec, Index]] = []
    for number, leaf in enumerate(trace.leaves):
        parts.append((f"leaves.bases[{number}]", np.arange(leaf.base, leaf.base + leaf.spec.rows), leaf.spec, inputs))
    parts += [(f"tables[{number}].rows", table.rows, table.spec, inputs) for number, table in enumerate(trace.tables)]
    for number, (kind, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        for output in kind.outputs:
            rows = (nodes.bases + output.offset)[:, None] + np.arange(output.spec.rows)
            depths = np.repeat(nodes.depths, output.spec.rows)
            parts.append((f"kinds[{number}].nodes.bases", rows.ravel(), output.spec, depths))
    depth: Index = np.full(trace.rows, -1, dtype=np.int64)
    looks = _Looks(trace.rows)
    for where, rows, spec, depths in parts:
        if (rows >= trace.rows).any():
            raise Damaged(f"{where} has rows up to {rows.max()}, but there are {trace.rows}")
        if (depth[rows] >= 0).any() or len(np.unique(rows)) != len(rows):
            raise Damaged(f"{where} makes rows that are made already")
        depth[rows] = depths
        looks.rows[rows] = looks.number(spec)
    return depth, looks


def _check_kind(kind: TraceKind, where: str) -> None:
    if not kind.outputs or any(output.offset + output.spec.rows > kind.rows for output in kind.outputs):
        raise Damaged(f"{where}.outputs do not fit into its {kind.rows} rows")
    if kind.mode > 3:
        raise Damaged(f"{where}.mode is {kind.mode}, not 2 * recording + training")
    _check_children(kind, where)
    if kind.sum_of:
        terms = sum(spec.rows for spec in kind.operands)
        if len(kind.outputs) != 1 or terms != kind.sum_of * kind.rows:
            raise Damaged(f"{where}.sum_of is {kind.sum_of}, but its operands have {terms} rows")


def _check_children(kind: TraceKind, where: str) -> None:
    """Each role of children has as many operands, all alike."""
    listed = [position for role in kind.children for position in role]
    if any(position >= len(kind.operands) for position in listed) or len(set(listed)) != len(listed):
        raise Damaged(f"{where}.children are {kind.children}, not different ones of {len(kind.operands)} operands")
    if len({len(role) for role in kind.children}) > 1 or any(
        len({kind.operands[position] for position in role}) != 1 for role in kind.children
    ):
        raise Damaged(f"{where}.children are {kind.children}, not as many operands of one shape for each role")


def _check_families(trace: Trace) -> None:
    """Kinds that run together have operands and results that can be put together."""
    first: dict[int, TraceKind] = {}
    for number, kind in enumerate(trace.kinds):
        if _form(kind) != _form(first.setdefault(kind.family, kind)):
            raise Damaged(f"kinds[{number}].family is {kind.family}, as that of {first[kind.family].name!r}, unlike it")


def _form(kind: TraceKind) -> tuple[Any, ...]:
    of_children = {position for role in kind.children for position in role[1:]}  # a node may have any number of them
    first = {role[0] for role in kind.children if role}
    keys: list[Any] = [
        family_key(spec) if kind.poly or position in first else spec
        for position, spec in enumerate(kind.operands)
        if position not in of_children
    ]
    keys += [(output.spec.row_shape, output.spec.dtype, output.spec.device) for output in kind.outputs]
    return kind.alone, kind.poly, len(kind.outputs), *keys
