"""The graph of one open batch: for each signature a record of its nodes as flat lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import _getframe
from time import perf_counter
from typing import Any, NamedTuple

from gluonjit.graph.kinds import Kind
from gluonjit.graph.origins import Mark, Origin, origin_of
from gluonjit.graph.values import Rows, Spec, Value


class Leaf(NamedTuple):
    """An array that was there before the batch: its first row, how it looks, and the engine's payload.

    `taped` says that it was met under recording.
    """

    base: int
    spec: Spec
    payload: Any
    taped: bool


class Record:
    """All nodes of one signature in one graph.

    `memo` maps a node's operand rows to its values: an equal call on equal operands finds them there. Node k
    has operand rows `operands[k]`, depth `depths[k]`, first result row `bases[k]`, and was called at `origins[k]`.
    """

    __slots__ = (
        "base_rows",
        "bases",
        "calls",
        "depths",
        "guards",
        "kind",
        "memo",
        "mode",
        "operands",
        "origins",
        "rows_read",
        "share",
        "values",
    )

    def __init__(self, kind: Kind, mode: int, share: float) -> None:
        self.kind = kind
        self.mode = mode
        self.guards: Any = None  # what has to hold for a call to be one of these, where something has
        self.share = share  # of the room of a batch that one node takes
        self.memo: dict[tuple[Rows, ...], tuple[Value, ...]] = {}
        self.operands: list[tuple[Rows, ...]] = []
        self.depths: list[int] = []
        self.bases: list[int] = []
        self.origins: list[Origin] = []
        self.values: list[tuple[Value, ...]] = []
        self.calls = 0
        self.base_rows: Any = None  # the analysis's copy of `bases`, so that a step costs only its own nodes
        self.rows_read: Any = None  # the analysis's `operands`, row by row and node by node, of nodes made of calls

    def complete(self) -> None:
        """Forget half a node, which an interrupt (Ctrl-C) in the middle of a capture has left."""
        whole = len(self.values)
        if len(self.operands) != whole:
            for listed in (self.operands, self.depths, self.bases, self.origins):
                del listed[whole:]


class Graph:
    """Rows, leaves and records of one open batch.

    Rows are numbered in the order of capture. A leaf's payload is the engine's: an array, or the result of an
    earlier flush. `lookups` maps a table (an embedding's weight, or the host's integers) to the rows of its
    entries. `begun` is what `clock` said at the first capture, 0 before it.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "lookups",
        "rows",
        "single_rows",
    )

    def __init__(self, owner: Any = None, clock: Callable[[], float] = perf_counter) -> None:
        self.owner = owner
        self.clock = clock
        self.begun = 0.0
        self.records: dict[Any, Record] = {}
        self.rows = 0
        self.leaves: dict[Any, Leaf] = {}
        self.lookups: dict[Any, dict[int, int]] = {}
        self.lookup_specs: dict[Any, Spec] = {}
        self.marks: list[Mark] = []  # where samples begin and end
        self.copies: list[Sequence[int]] = []  # rows that arrays with memory of their own refer to, as `stack` gives
        self.overwritten: list[int] = []  # rows of nodes whose backward pass needs what was written over since
        self.single_rows: dict[Any, Value] = {}  # one-row slices of inputs, so that equal ones are the same value
        # (the row's number for x[i:i+1], ~number for x[i])

    def add_node(self, record: Record, operands: tuple[Rows, ...], depth: int, above: int = 1) -> tuple[Value, ...]:
        """Append a node at `depth` and return its values.

        At least `above - 1` frames of libraries lie between here and the user's line: not to look at them saves time.
        """
        return self.append(record, operands, depth, origin_of(_getframe(above)))

    def append(self, record: Record, operands: tuple[Rows, ...], depth: int, origin: Origin) -> tuple[Value, ...]:
        """As `add_node`, for a node that was called at `origin`."""
        base = self.rows
        kind = record.kind
        taped = record.mode >= 2
        values = tuple([Value(base + output.offset, depth, output.spec, self, taped) for output in kind.outputs])
        self.rows = base + kind.rows
        record.operands.append(operands)
        record.depths.append(depth)
        record.bases.append(base)
        record.origins.append(origin)
        record.values.append(values)
        return values

    def add_leaf(self, key: Any, payload: Any, spec: Spec, taped: bool = False) -> Leaf:
        """The leaf of this key, made when the key is new. `payload` keeps an address used as key from being reused."""
        leaf = self.leaves.get(key)
        if leaf is None:
            self.begin()
            leaf = self.leaves[key] = Leaf(self.rows, spec, payload, taped)
            self.rows += spec.rows
        return leaf

    def lookup_rows(self, table: Any, spec: Spec, indices: Sequence[int]) -> tuple[int, ...]:
        """Rows of these entries of a table; equal entries are equal rows."""
        entries = self.lookups.get(table)
        if entries is None:
            self.begin()
            entries = self.lookups[table] = {}
            self.lookup_specs[table] = spec
        known = tuple(map(entries.get, indices))
        if None not in known:
            return known  # type: ignore[return-value]
        rows = []
        for index in indices:
            row = entries.get(index)
            if row is None:
                row = entries[index] = self.rows
                self.rows += 1
            rows.append(row)
        return tuple(rows)

    def begin(self) -> None:
        """Note the time of the first capture."""
        if not self.begun:
            self.begun = self.clock()

    @property
    def nodes(self) -> int:
        """Distinct nodes captured."""
        return sum(len(record.operands) for record in self.records.values())

    @property
    def calls(self) -> int:
        """Calls captured, shared ones included."""
        return sum(record.calls for record in self.records.values())
