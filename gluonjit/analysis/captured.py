"""The nodes of a graph as flat arrays of integers, the input of every pass of the analysis.

A call that is split (`gluonjit.graph.kinds.Split`) is several of them: products of single arguments with weights, equal
ones once, and the rest. Capture does not know this: all products of a kind run in one step, for any depth of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gluonjit.analysis import flat
from gluonjit.analysis.forms import Index, KindForm, form_of
from gluonjit.compiled import filled, numbers, repeated, room, stored
from gluonjit.graph.kinds import Kind, Split
from gluonjit.graph.reading import read
from gluonjit.graph.recorder import Record

FEWEST = 7
"""The additions that one sum replaces, at least."""


Product = tuple[Kind, int]
"""The kind of a product, and the mode of the calls that have it."""


class _Calls(NamedTuple):
    """Products of one kind, of calls of one record: the rows of each's argument, the first one of its results, and
    where the rest reads these.
    """

    rows: Index
    bases: Index
    results: Index


class Captured:
    """Nodes by number, those of one record one after the other.

    Node n is of record `kinds[n]`, its result rows begin at `bases[n]`, the rows that it reads are `operands` from
    `firsts[n]` on, `alive[n]` says that it can be read, and `keep[n]` that it is to run. Of record k the nodes
    are those from `begins[k]` to `begins[k + 1]`; one reads `widths[k]` rows and yields `heights[k]`. `rows` is the
    number of rows of the graph, `given` are the records of its calls; `products`: for each record of products for
    which of the calls that have one its nodes were made.
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
        self.given = given
        self.products: list[Index] = []
        self.read(given)

    @property
    def count(self) -> int:
        """The number of nodes."""
        return self.begins[-1]  # type: ignore[no-any-return]

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

    @property
    def called(self) -> list[Record]:
        """Returns the records of calls, by number, and of nodes made in addition: their values are what is read."""
        return [*self.given, *self.records[len(self.given) :]]

    def split(self, sharing: bool) -> Captured:
        """Makes nodes of all that calls run as; returns itself. sharing: whether equal products are one."""
        wanted: dict[Any, list[_Calls]] = {}
        rests = []
        for number, record in enumerate(self.given):
            split = record.kind.split
            if split is not None:
                rests.append((number, split.rest, *self._split(number, split, wanted)))
        for (product, origins), calls in zip(products_of(self.given).items(), wanted.values()):
            self._add_products(product, origins, calls, sharing)
        for number, rest, bases, rows in rests:
            self.records[number] = self.records[number].like(rest)
            form = self.forms[number] = form_of(rest)
            self.widths[number], self.heights[number] = form.width, form.height
            self._put(number, self.width, bases, rows)
            self.width += rows.size
        self.tell([*[number for number, *_ in rests], *range(len(self.given), len(self.records))])
        return self

    def _split(self, number: int, split: Split, wanted: dict[Any, list[_Calls]]) -> tuple[Index, Index]:
        """Returns the first results of the rest of calls, and the rows it reads; their products go into `wanted`."""
        record, read, columns = self.records[number], self.rows_read(number), self.forms[number].columns
        bases = numbers(self.bases)[self.begins[number] : self.begins[number + 1]]
        rows = np.empty((len(bases), form_of(split.rest).width), np.int64)
        kept = [column for of in split.kept for column in range(columns[of], columns[of + 1])]
        rows[:, : len(kept)] = read[:, kept]
        at = len(kept)
        for argument, kind in split.products:
            end = at + sum([output.spec.rows for output in kind.outputs])
            given = read[:, columns[argument] : columns[argument + 1]]
            wanted.setdefault((kind, record.mode), []).append(_Calls(given, bases, rows[:, at:end]))
            bases, at = bases + kind.rows, end
        return bases, rows

    def _add_products(self, product: Product, origins: list[Any], calls: list[_Calls], sharing: bool) -> None:
        """Adds a record of products, and links the calls to them; those of equal rows are that of the first call."""
        rows, bases = np.concatenate([each.rows for each in calls]), np.concatenate([each.bases for each in calls])
        order = np.argsort(bases)
        times = first = np.arange(len(order))
        if sharing and rows.shape[1] == 1:
            read, known = rows[order, 0], np.empty(self.rows, np.int64)
            known[read[::-1]] = times[::-1]  # of equal numbers the last one stays
            first = known[read]
        made = np.empty_like(bases)
        made[order] = bases[order[first]]
        results = np.array([output.offset + row for output in product[0].outputs for row in range(output.spec.rows)])
        for each in calls:
            each.results[:], made = made[: len(each.bases), None] + results, made[len(each.bases) :]
        nodes, at = order[first == times], self.width
        self.products.append(nodes)
        number, begin = len(self.records), self.count
        self.add(product_record(product, origins, nodes), form_of(product[0]), len(nodes))
        self.kinds[begin : self.count] = repeated(number, len(nodes))
        self._put(number, at, bases[nodes], rows[nodes])

    def _put(self, number: int, at: int, bases: Index, rows: Index) -> None:
        """Gives nodes of a record these first results and operands, which stand from `at` on."""
        begin, end = self.begins[number], self.begins[number + 1]
        self.bases[begin:end] = stored(bases)
        self.firsts[begin:end] = stored(at + rows.shape[1] * np.arange(end - begin))
        self.operands[at : at + rows.size] = stored(rows)

    def tell(self, made: Iterable[int]) -> list[Record]:
        """Tells records that were made of calls which rows their nodes yield and read; returns all records."""
        for number in made:
            record = self.records[number]
            record.bases = numbers(self.bases)[self.begins[number] : self.begins[number + 1]]
            record.rows_read = self.rows_read(number).ravel()
        return self.records

    @cached_property
    def producer(self) -> Any:
        """Returns for each row the number of the node that yields it plus one, 0 if none does."""
        found = room(self.rows)
        flat.produced(self.count, self.heights, self.kinds, self.bases, self.keep, found)
        return found

    def prune(self) -> int:
        """Keeps only nodes that can be read or that are impure, and those they need; returns how many remain."""
        pure = filled([record.kind.pure for record in self.records])
        nodes = self.kinds, self.bases, self.firsts, self.operands, self.alive
        left: int = flat.needed(self.count, self.heights, self.widths, pure, *nodes, self.keep, self.producer)
        return left

    def depths(self) -> Index:
        """Returns the length of the longest path to each node to run, in nodes, itself included; 0 for others."""
        found, phase = room(self.count), (room(len(self.records)), room(1), filled((1,)))  # all in one
        nodes = self.widths, self.kinds, self.bases, self.firsts, self.operands
        flat.levels(*phase, *nodes, self.keep, self.producer, found)
        return numbers(found) + numbers(self.keep)[: self.count]

    def rows_read(self, record: int) -> Index:
        """The rows that the nodes of a record read, as an array (nodes, rows)."""
        begin, end = self.begins[record], self.begins[record + 1]
        width = self.forms[record].width
        first = self.firsts[begin] if end > begin else 0
        return numbers(self.operands)[first : first + (end - begin) * width].reshape(end - begin, width)


def products_of(given: Iterable[Record]) -> dict[Product, list[Any]]:
    """Returns the products of the calls of these records, each with the origins of all calls that have it."""
    found: dict[Product, list[Any]] = {}
    for record in given:
        for _, kind in () if record.kind.split is None else record.kind.split.products:
            found.setdefault((kind, record.mode), []).extend(record.origins)
    return found


def product_record(product: Product, origins: Sequence[Any], nodes: Index) -> Record:
    """Makes the record of a product, with nodes of these calls of those of `origins`."""
    record = Record(*product, 0.0)
    record.calls = len(nodes)
    record.origins.extend([origins[node] for node in nodes.tolist()])
    return record


def _room_for(record: Record) -> tuple[int, int]:
    """Returns the most nodes and operands of a record, once products are split from it and its sums are folded."""
    kind, count = record.kind, len(record)
    nodes, width = 1, form_of(kind).width
    if kind.split is not None:
        nodes += len(kind.split.products)
        width += sum([form_of(each).width for each in (kind.split.rest, *dict(kind.split.products).values())])
    if not kind.sum_of:
        return count * nodes, count * width
    # A chain of additions goes on from record to record.
    return count * nodes + count // FEWEST + 1, count * (width + form_of(kind).width)
