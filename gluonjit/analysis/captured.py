"""The nodes of a graph as flat arrays of integers, the input of every pass of the analysis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gluonjit.analysis import flat
from gluonjit.analysis.forms import KindForm, form_of
from gluonjit.analysis.indices import Index
from gluonjit.compiled import filled, numbers, repeated, room
from gluonjit.graph.reading import read
from gluonjit.graph.recorder import Record

FEWEST = 7
"""The additions that one sum replaces, at least."""


class Captured:
    """Nodes by number, those of one record one after the other.

    Node n is of record `kinds[n]`, its result rows begin at `bases[n]`, the rows that it reads are `operands` from
    `firsts[n]` on, `alive[n]` says that it can be read, and `keep[n]` that it is to run. Of record k the nodes
    are those from `begins[k]` to `begins[k + 1]`; one reads `widths[k]` rows and yields `heights[k]`. `rows` is the
    number of rows of the graph, `given` are the records of its calls, `untold` those of `records` that were made of
    calls and do not know yet which rows they have.
    """

    def __init__(self, records: Iterable[Record], rows: int) -> None:
        self.rows = rows
        self.records: list[Record] = []
        self.forms: list[KindForm] = []
        self.begins = filled((0,))
        self.widths = filled(())
        self.heights = filled(())
        self.width = 0  # of `operands`, as far as they are used
        given = list(records)
        nodes = width = 0
        for record in given:
            more, wider = _room_for(record)
            nodes += more
            width += wider
        self.kinds = room(nodes)
        self.bases = room(nodes)
        self.firsts = room(nodes)
        self.alive = room(nodes)
        self.operands = room(width)
        self.keep = repeated(1, nodes)
        self._producer: Any = None
        self.given = given
        self.untold: Sequence[int] = ()
        self.read(given)

    @property
    def count(self) -> int:
        """The number of nodes."""
        count: int = self.begins[-1]
        return count

    def read(self, records: Sequence[Record]) -> None:
        """Adds the nodes of records. Raises ValueError if an operand has the wrong number of rows."""
        forms = [form_of(record.kind) for record in records]
        sizes = [form.sizes for form in forms]
        first, count, width = len(self.records), self.count, self.width
        read(
            list(records),
            sizes,
            first,
            count,
            width,
            self.kinds,
            self.bases,
            self.firsts,
            self.operands,
            self.alive,
        )
        for record, form in zip(records, forms):
            self.add(record, form, len(record))

    def add(self, record: Record, form: KindForm, count: int) -> None:
        """Starts the nodes of a record."""
        self.records.append(record)
        self.forms.append(form)
        self.begins.append(self.begins[-1] + count)
        self.widths.append(form.width)
        self.heights.append(form.height)
        self.width += count * form.width

    def replace(self, number: int, record: Record, form: KindForm) -> None:
        """Moves the nodes of a record to another one with as many nodes."""
        self.records[number], self.forms[number] = record, form
        self.widths[number], self.heights[number] = form.width, form.height

    @property
    def called(self) -> list[Record]:
        """Returns the records of calls, by number, and of nodes made in addition: their values are what is read."""
        return [*self.given, *self.records[len(self.given) :]] if self.untold else self.records

    def told(self) -> list[Record]:
        """Returns all records, after those made of calls know which rows their nodes yield and read."""
        untold, self.untold = self.untold, ()
        if untold:
            bases, operands = numbers(self.bases), numbers(self.operands)
            for number in untold:
                record, begin, end = self.records[number], self.begins[number], self.begins[number + 1]
                record.bases = bases[begin:end]
                first = self.firsts[begin]
                record.rows_read = operands[first : first + (end - begin) * self.forms[number].width]
        return self.records

    @property
    def producer(self) -> Any:
        """Returns for each row the number of the node that yields it plus one, 0 if none does."""
        if self._producer is None:
            self._producer = room(self.rows)
            flat.produced(self.count, self.heights, self.kinds, self.bases, self.keep, self._producer)
        return self._producer

    def prune(self) -> int:
        """Keeps only nodes that can be read or that are impure, and those they need; returns how many remain."""
        pure = filled([record.kind.pure for record in self.records])
        nodes = self.kinds, self.bases, self.firsts, self.operands, self.alive
        left: int = flat.needed(self.count, self.heights, self.widths, pure, *nodes, self.keep, self.producer)
        return left

    def depths(self) -> Any:
        """Returns the length of the longest path to each node to run, in nodes, itself included; 0 for others."""
        found = room(self.count)
        flat.depths(self.widths, self.kinds, self.bases, self.firsts, self.operands, self.keep, self.producer, found)
        return found

    def rows_read(self, record: int) -> Index:
        """The rows that the nodes of a record read, as an array (nodes, rows)."""
        begin, end = self.begins[record], self.begins[record + 1]
        width = self.forms[record].width
        first = self.firsts[begin] if end > begin else 0
        return numbers(self.operands)[first : first + (end - begin) * width].reshape(end - begin, width)


def _room_for(record: Record) -> tuple[int, int]:
    """Returns the most nodes and operands of a record, once products are split from it and its sums are folded."""
    kind, count = record.kind, len(record)
    form = form_of(kind)
    nodes, width = 1, form.width
    if form.cut is not None:
        nodes += form.cut.nodes
        width += form.cut.width
    if not kind.sum_of:
        return count * nodes, count * width
    # A chain of additions goes on from record to record.
    return count * nodes + count // FEWEST + 1, count * (width + form.width)
