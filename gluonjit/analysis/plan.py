"""The plan of a flush: frozen once made. Chunks are numbered: leaves and look-ups first, then step outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gluonjit.graph import Kind, Leaf, Record, Spec

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Part(NamedTuple):
    """Some nodes of one record: `nodes` are their positions in the record's lists."""

    record: Record
    nodes: Index


@dataclass(frozen=True)
class Gather:
    """Where an operand's rows lie: positions in the concatenation of chunks; None means all of it, in order."""

    sources: tuple[int, ...]
    index: Index | None


@dataclass(frozen=True)
class Step:
    """One batched launch: nodes of one kind (or family of kinds) and mode."""

    kind: Kind
    mode: int
    parts: tuple[Part, ...]
    count: int
    gathers: tuple[Gather, ...]
    chunks: tuple[int, ...]  # one a result


class LeafChunk(NamedTuple):
    """Leaves with equal rows, concatenated in this order."""

    leaves: tuple[Leaf, ...]


class LookupChunk(NamedTuple):
    """Entries of one table, in this order."""

    table: Any
    spec: Spec
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """What to run, in order, and where every row will lie: row r is row `position[r]` of chunk `chunk[r]`."""

    inputs: tuple[LeafChunk | LookupChunk, ...]
    steps: tuple[Step, ...]
    chunk: Index
    position: Index
    live: tuple[Part, ...]  # nodes somebody can still read
    nodes: int
    dropped: int
    ends: int  # live results captured under recording that no other node uses: where backward can begin
