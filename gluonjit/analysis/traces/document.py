"""The document of a trace: a captured graph without numbers of arrays. docs/traces.md describes its file format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gluonjit.analysis.indices import Index, Mask
from gluonjit.graph.kinds import Output, Work
from gluonjit.graph.values import Spec, intern_spec

NO_SAMPLE = -1
"""The sample number of a node that was captured outside of any sample, as losses are."""


class TraceLeaf(NamedTuple):
    """An array from before the batch: `spec.rows` rows from `base` on."""

    base: int
    spec: Spec


class TracedTable(NamedTuple):
    """A table in which rows are looked up, each like `spec`; `rows` are the numbers of its entries' rows."""

    spec: Spec
    rows: Index


@dataclass(frozen=True)
class TraceKind:
    """All nodes of one signature and mode (2 * recording + training); otherwise as in `graph.Kind`.

    alone: why its nodes run alone, if they do; family: kinds of equal number run together; calls: how often it was
    called, shared calls included.
    """

    name: str
    mode: int
    operands: tuple[Spec, ...]
    outputs: tuple[Output, ...]
    rows: int
    pure: bool
    alone: str | None
    operator: bool
    poly: bool
    sum_of: int
    family: int
    calls: int
    work: Work
    children: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class TraceNodes:
    """The nodes of one kind, in the order of capture.

    bases: the first result row of each; depths: as captured; samples: numbers, or NO_SAMPLE; live: whether somebody
    can still read a result; operands: (nodes, rows that a node reads, operand after operand).
    """

    bases: Index
    depths: Index
    samples: Index
    live: Mask
    operands: Index


@dataclass(frozen=True, eq=False)
class BatchTrace:
    """The calls a batch had captured and not yet run. Rows are numbered from 0 to `rows` in the order of capture.

    granularity: "cell" or "op", as captured; sharing: whether equal calls were one node; nodes: those of each kind.
    """

    granularity: str
    sharing: bool
    rows: int
    leaves: tuple[TraceLeaf, ...]
    tables: tuple[TracedTable, ...]
    kinds: tuple[TraceKind, ...]
    nodes: tuple[TraceNodes, ...]

    @property
    def count(self) -> int:
        """The number of nodes."""
        return sum(len(nodes.bases) for nodes in self.nodes)

    def in_order(self) -> list[tuple[int, int]]:
        """All nodes in the order of capture: the number of the kind, and the position among its nodes."""
        listed = [
            (base, kind, position)
            for kind, nodes in enumerate(self.nodes)
            for position, base in enumerate(nodes.bases.tolist())
        ]
        return [(kind, position) for _, kind, position in sorted(listed)]


def addition(spec: Spec, count: int, mode: int = 0, family: int = 0) -> TraceKind:
    """The kind that adds up `count` arrays of this spec, given as one operand of all their rows."""
    operand = intern_spec((count * spec.rows, *spec.row_shape), spec.dtype, spec.device, "rows")
    return TraceKind(
        name=f"add_n of {count}",
        mode=mode,
        operands=(operand,),
        outputs=(Output(spec, 0),),
        rows=spec.rows,
        pure=True,
        alone=None,
        operator=False,
        poly=False,
        sum_of=count,
        family=family,
        calls=0,
        work=Work(ops=2, flops=count * spec.rows, bytes=operand.bytes + spec.bytes),
    )
