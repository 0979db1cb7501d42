"""The open graph as the templates of one model see it: the current values of their numbers. See `reusing`."""

from __future__ import annotations

from itertools import islice
from typing import Any

from gluonjit.graph import Leaf
from gluonjit.graph.replay import ARRAY, LAZY, LISTED, NAMED, OTHER, Replay, gather
from gluonjit.hybrid.capture.reuse.cache import CaptureTemplate, NotReusable, Recordings, made
from gluonjit.hybrid.capture.reuse.reusable import PlainResult, Returned, Reusing, layout_of
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.batch import Batch


class Here:
    """The data of the open graph that templates of one model need, until the model changes.

    why: the reason why no call can be reused, if there is one.
    """

    def __init__(self, reusing: Reusing, batch: Batch, net: Any, cache: Recordings) -> None:
        self.reusing = reusing
        self.shared = cache.hold_for(reusing.parts(net))  # which another thread may forget
        self.changes, self.parts, self.setting = batch.changes, batch.parts, batch.setting
        self.why = reusing.why_not(net)
        ways = batch.options.without, batch.options.expand, self.setting.granularity, self.setting.sharing
        scope = *ways, reusing.flags(net)
        self.scope = self.shared.scopes.number(scope, scope)
        self.sources: dict[int, Any] = {}  # where each row of an input is from: (table, index), or a Leaf
        self._replay = Replay(batch.graph, self.shared.origins.things)
        self._seen: dict[Any, int] = {}
        self._ways: dict[type, int] = {}

    def holds(self, batch: Batch, cache: Recordings) -> bool:
        """True if the model is unchanged."""
        return (
            self.changes == batch.changes
            and self.parts == batch.parts
            and self.setting is batch.setting
            and self.shared is cache.shared
        )

    def gather(self, item: Any, arrays: list[Any]) -> bool:
        """Appends the arrays in nested arguments; False if one of them was captured."""
        return gather(item, self._ways, self._way_of, arrays)  # type: ignore[no-any-return]

    def _way_of(self, kind: type) -> int:
        if issubclass(kind, self.reusing.array):
            return LAZY if issubclass(kind, self.reusing.lazy) else ARRAY
        if issubclass(kind, dict):
            return NAMED
        return LISTED if issubclass(kind, (list, tuple)) else OTHER

    def capture(self, batch: Batch, template: CaptureTemplate, arrays: list[Any]) -> None:
        """Captures a template, for a call with these arrays among its arguments. Raises NotReusable."""
        replay = self._replay
        self.find(batch, template)
        for source in template.leaves:
            if source.way == "argument":
                source = source._replace(way="array", what=arrays[source.what])
            value = self.reusing.leaf(batch, source)
            assert isinstance(value.rows, int)
            replay.add(value.rows, value.spec.rows)
        replay.capture(batch, template.code)
        if template.copies:
            batch.graph.copies.append([replay.row(number) for number in template.copies])
        for number, count, new in template.written:
            batch.graph.overwrite(replay.row(number), count, new if new < 0 else replay.row(new))

    def result(self, batch: Batch, template: CaptureTemplate, number: int) -> Any:
        """Returns the value of an array that the last captured call returns."""
        return made(template.results[number], self._replay, batch.graph)

    def returned(self, batch: Batch, template: CaptureTemplate) -> Any:
        """Returns the result of that call."""
        structure, wrapped = template.structure, self.reusing.wrapped
        if structure.__class__ is Returned:
            result = template.results[0]
            value = self._replay.value(*result) if result.__class__ is tuple else self.result(batch, template, 0)
            return wrapped(value, structure.kind)
        arrays: list[Any] = []

        def part(item: Any) -> Any:
            if item.__class__ is PlainResult:
                return item.value
            assert isinstance(item, Returned)
            if item.number < len(arrays):
                return arrays[item.number]
            arrays.append(wrapped(self.result(batch, template, item.number), item.kind))
            return arrays[-1]

        found = map_structure(structure, part)
        for number, base, key in template.views:
            self.reusing.link(arrays[number], arrays[base], key)
        return found

    def find(self, batch: Batch, template: CaptureTemplate) -> None:
        """Finds the records of a template's kinds, and its tables, in this graph. Raises NotReusable."""
        kinds, lookups = template.kinds, template.lookups
        for _ in range(1 + len(kinds) + len(lookups)):
            place = self._replay.begin(kinds, lookups)
            if place < 0:
                return
            if place < len(kinds):
                self._find_record(batch, kinds[place])
            else:
                self._find_table(batch, lookups[place - len(kinds)][0])
        raise NotReusable("its inputs change while it is captured")

    def _find_record(self, batch: Batch, number: int) -> None:
        """Finds the record of a kind. Raises NotReusable if calls of this signature now are of another kind."""
        known = self.shared.kinds.things[number]
        record = self.reusing.record(batch, known)
        if record is None or layout_of(record.kind) != known.layout:
            raise NotReusable("an object that it was recorded with no longer exists")
        _put(self._replay.records, number, record)

    def _find_table(self, batch: Batch, number: int) -> None:
        """Finds the rows of a table's entries."""
        known, spec = self.shared.tables.things[number]
        entries = batch.graph.entries(self.reusing.found_table(batch, known), spec)
        _put(self._replay.entries, number, entries)

    def take_in(self, batch: Batch) -> None:
        """Notes new inputs since the last time."""
        graph = batch.graph
        for table, entries in graph.lookups.items():
            new = len(entries) - self._seen.get(table, 0)
            self._seen[table] = len(entries)
            self.sources.update([(row, (table, index)) for index, row in islice(reversed(entries.items()), new)])
        new = len(graph.leaves) - self._seen.get(Leaf, 0)
        self._seen[Leaf] = len(graph.leaves)
        for known in islice(reversed(graph.leaves.values()), new):
            self.sources.update(dict.fromkeys(range(known.base, known.base + known.spec.rows), known))


def _put(things: list[Any], number: int, thing: Any) -> None:
    """Sets the object of a number."""
    things.extend([None] * (number + 1 - len(things)))
    things[number] = thing
