"""The plan of a flush. It is immutable once made, except for the record of what the program has overwritten since.

Rows of one shape lie in one arena, in the order in which they are made: leaves and look-ups first, then the results of
one step after the other. `flat/placing.py` defines steps and their gathers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.flat import Gather, Laid, Part, Place, Step
from gluonjit.analysis.forms import Index, form_of
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.recorder import Leaf, Record
from gluonjit.graph.values import Spec


def rows_read(record: Record, node: int) -> list[list[int]]:
    """Returns the row numbers of each operand of a node."""
    if record.rows_read is not None:
        form = form_of(record.kind)
        read, columns = record.rows_read[node * form.width : (node + 1) * form.width].tolist(), form.columns
        return [read[begin:end] for begin, end in zip(columns, columns[1:])]
    operands = zip(record.operands_of(node), record.kind.operands)
    return [list(rows if isinstance(rows, tuple) else range(rows, rows + spec.rows)) for rows, spec in operands]


def base_rows(record: Record) -> Index:
    """The first result row of each node, as an array that is made once."""
    known: Index | None = record.base_rows
    if known is None or len(known) != len(record):
        known = record.base_rows = np.array(record.bases, dtype=np.int64)
    return known


__all__ = ["Arena", "Common", "Gather", "LeafChunk", "Live", "LookupChunk", "Part", "Place", "Plan", "Step"]


class Arena(NamedTuple):
    """Room for this many rows like those of `spec`; `sole` if a single input fills it."""

    spec: Spec
    rows: int
    sole: bool


class LeafChunk(NamedTuple):
    """Leaves with equal rows, one after the other."""

    leaves: tuple[Leaf, ...]
    place: Place

    def emptied(self) -> LeafChunk:
        """The same without the arrays and their keys."""
        first = self.leaves[0]
        return LeafChunk((Leaf(first.base, first.spec, None, first.taped),) * len(self.leaves), self.place)


class LookupChunk(NamedTuple):
    """Entries of one table, in this order."""

    table: Any
    spec: Spec
    indices: tuple[int, ...]
    place: Place

    def emptied(self) -> LookupChunk:
        """The same without the table."""
        return LookupChunk(None, self.spec, self.indices, self.place)


class Live(NamedTuple):
    """The nodes of a record, by its number, that can still be read: their positions in its lists."""

    number: int
    record: Record
    nodes: Index


class Common:
    """Findings about plans of one structure, by who needs them first; nothing that a batch or a model has of its own.

    Findings of type `Any` belong to packages that this one does not import.
    """

    launches: int | None = None
    recorded: list[bool] | None = None
    bound: int | None = None  # the fewest launches
    flags: list[tuple[int, int]] | None = None  # first row and end of each arena, if all lie one after the other
    makers: dict[Place, int] | None = None  # the step whose result lies in a place, by number
    counted: Any = None  # by reports
    by_operators: bool | None = None  # whether operators are nodes, many of them in a step
    read: Any = None  # steps that may run in C
    checked = False  # whether all programs have been compared with their traces, forward and backward

    def __init__(self) -> None:
        self.places: dict[int, tuple[list[int], list[Place]]] = {}  # first rows and places, by arena


@dataclass(eq=False)  # frozen it would take three times as long to make
class Plan:
    """The steps to run, in order, and the place of every row: row r is row `position[r]` of arena `arena[r]`.

    called: the records of calls, by the numbers of `Step.numbers` and `Live`, and of what was made of them but for
    `products`, of which it has the nodes by name; laid: what the steps have in common.
    made: all nodes of the graph, with those that do not run, or what finds them.
    common: the same object in plans of one structure.
    rewritten: arena, first row and number of rows, the numbers of which the program has written over since, and the
    row of the graph that has the new ones, or -1.
    copied: the graph's rows of which arrays with memory of their own were made, as `cat` makes.
    """

    arenas: tuple[Arena, ...]
    inputs: tuple[LeafChunk | LookupChunk, ...]
    steps: tuple[Step, ...]
    arena: Index
    position: Index
    live: tuple[Live, ...]  # nodes that can still be read
    nodes: int
    dropped: int
    called: Sequence[Record] = field(repr=False)
    laid: Laid = field(repr=False)
    made: Captured | Callable[[], Captured] | None = field(repr=False)
    products: dict[str, int] = field(default_factory=dict, repr=False)
    common: Common = field(default_factory=Common, repr=False)
    rewritten: list[tuple[int, int, int, int]] = field(default_factory=list)
    copied: Sequence[Iterable[int]] = ()

    @property
    def captured(self) -> Captured:
        """All nodes of the graph, with those that do not run."""
        if callable(self.made):
            self.made = self.made()
        assert self.made is not None
        return self.made

    @property
    def launches(self) -> int:
        """The launches of all steps: one each, or one per node if they run alone."""
        found = self.common.launches
        if found is None:
            found = self.common.launches = sum(map(launches, self.steps))
        return found

    @property
    def recorded(self) -> list[bool]:
        """Tells of each step whether it is recorded."""
        found = self.common.recorded
        if found is None:
            found = self.common.recorded = [is_recorded(step.mode) for step in self.steps]
        return found

    def without_inputs(self) -> Plan:
        """The same plan without its input arrays: only their places and numbers remain."""
        found = object.__new__(Plan)  # `dataclasses.replace` takes ten times as long
        found.__dict__.update(self.__dict__, inputs=tuple([chunk.emptied() for chunk in self.inputs]))
        return found

    def indices(self, steps: Sequence[int]) -> dict[str, list[tuple[int, int, Index]]]:
        """Returns by device the indices of these steps' gathers, each with its step and its number in that."""
        found: dict[str, list[tuple[int, int, Index]]] = {}
        for number in steps:
            for position, gather in enumerate(self.steps[number].gathers):
                if gather.is_copied:
                    device = self.arenas[gather.place.arena].spec.device
                    found.setdefault(device, []).append((number, position, gather.index))
        return found

    def reads(self, arena: int, rows: Index) -> bool:
        """True if any step gathers any of these rows of an arena."""
        for gather in [gather for step in self.steps for gather in step.gathers]:
            place, index = gather.place, gather.index
            if place.arena == arena:
                found = (rows >= place.begin) & (rows < place.end) if index is None else np.isin(rows, index)
                if found.any():
                    return True
        return False


def launches(step: Step) -> int:
    """Launches of a step: one, or one per node if its nodes run alone."""
    return step.count if step.kind.lone else 1


def gathers(step: Step) -> int:
    """Gathers launches of a step; contiguous operands need none."""
    return sum([gather.is_copied for gather in step.gathers])


def gathered_bytes(plan: Plan, step: Step) -> int:
    """Bytes of a step's operands that are copied by gathers."""
    return sum(
        [gather.rows * row_bytes(plan.arenas[gather.place.arena].spec) for gather in step.gathers if gather.is_copied]
    )


def arena_bytes(plan: Plan) -> int:
    """Bytes of all rows: inputs and results of one flush, forward."""
    return sum(arena.rows * row_bytes(arena.spec) for arena in plan.arenas)


def row_bytes(spec: Spec) -> int:
    """Bytes of one row."""
    return spec.bytes // spec.rows if spec.rows else 0


def node_operands(
    step: Step, rows: Sequence[Any], piece: Callable[[Any, Spec, int], Any]
) -> Iterator[tuple[Any, list[Any]]]:
    """The nodes of a step, each with its operands, which `piece` cuts out of the rows of all, given by role."""
    begun = [0] * len(rows)
    for record, nodes in step.parts:
        kind = record.kind
        roles = [role for group in kind.groups for role in group]
        for _ in range(len(nodes)):
            given: dict[int, Any] = {}
            for k, role in enumerate(roles):
                for position in role:
                    spec = kind.operands[position]
                    given[position] = piece(rows[k], spec, begun[k])
                    begun[k] += spec.rows
            yield kind, [given[k] for k in range(len(given))]
