"""Calls of a model with the option `reuse`: captured once, and from then on captured again without running the model.

The first call of a key is captured apart from all others, so that nothing but what it captured and read is seen; that
is taken back, and captured again from its template, as later calls are. A call that cannot be done so stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from gluonjit.errors import OptionError, ReuseError
from gluonjit.graph import Value, line_of
from gluonjit.graph.recorder import replay
from gluonjit.hybrid.capture.replaying import Node
from gluonjit.hybrid.capture.reusable import Plain, Returned, Reusing, Source
from gluonjit.hybrid.capture.reuse import Apart, CaptureTemplate, Recordings, Refusal, Shared, Unfit, made
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.capture.templates import Here, TemplateMaker, equal, first_difference, replayed_copies
from gluonjit.hybrid.run.batch import FULL, Batch

_MISSED = object()
"""The answer for a call that has to run."""


def reused(
    reusing: Reusing, batch: Batch, net: Any, cache: Recordings, args: Any, name: Any, run: Callable[[], Any]
) -> Any:
    """The result of a call of a model with these arguments, whose key is `name`: run, or captured from its template."""
    call = _Call(reusing, batch, net, cache, args, name)
    try:
        found = call.begin()
        if found is not _MISSED:
            return found
        if call.apart is None:
            return run()
        with reusing.watched(batch, net, call.arrays):
            out = run()
        return call.end(out)
    finally:
        if call.apart is not None:
            call.apart.keep()


def _generators() -> tuple[Any, ...]:
    """The states of Python's and numpy's own generators of random numbers."""
    found: Any = np.random.get_state()
    return random.getstate(), found[1].tobytes(), found[2]


class _Call:
    """One call that may be reused."""

    def __init__(self, reusing: Reusing, batch: Batch, net: Any, cache: Recordings, args: Any, name: Any) -> None:
        if batch.room < 0:
            batch.flush(FULL)
        self.reusing, self.batch, self.net, self.cache, self.name = reusing, batch, net, cache, name
        self.arrays: list[Any] = []
        self.lazy = not self._gather(args)
        self.here, self.shared = self._here()
        self.modes = reusing.modes()
        places = list(map(id, self.arrays))
        same = tuple(map(places.index, places)) if len(set(places)) < len(places) else ()
        self.key = (name, self.modes, self.here.scope, same, *map(reusing.look, self.arrays))
        self.known: CaptureTemplate | None = None  # to compare with
        self.apart: Apart | None = None
        self._drawn: Any = None  # the states of Python's generators before it

    def _here(self) -> tuple[Here, Shared]:
        """The open graph, as templates see it, and what these have in common, which another thread may forget."""
        batch, shared = self.batch, self.cache.shared
        here = batch.reused.get(shared.kinds)
        if here is None or here.changes != (batch.changes, batch.parts):
            shared = self.cache.hold_for(self.reusing.parts(self.net))
            flags, why = self.reusing.flags(self.net), self.reusing.why_not(self.net)
            here = batch.reused[shared.kinds] = Here(batch, shared, flags, why)
        return here, shared

    def _gather(self, item: Any) -> bool:
        """Append the arrays in nested arguments; False where one of them was captured."""
        if isinstance(item, self.reusing.array):
            self.arrays.append(item)
            return not isinstance(item, self.reusing.lazy)
        if isinstance(item, dict):
            item = tuple(item.values())
        return not isinstance(item, (list, tuple)) or all([self._gather(part) for part in item])

    def begin(self) -> Any:
        """Gives what the call gives, captured from its template; or _MISSED, and what it captures is recorded."""
        cache, report = self.cache, self.batch.report.reuse
        if self.lazy:
            return self._refused("an argument is a captured value")
        if self.here.why:
            return self._refused(self.here.why)
        try:
            known = cache.get(self.key, self.shared)
        except TypeError as error:
            raise OptionError(
                f"{type(self.net).__name__}(...) with hybridize(dynamic_batch=True, reuse=...): reuse gave the key "
                f"{self.name!r}, which can be none: {error}. Let it give a number, a string or a tuple of these, or "
                f"None for a call that is not to be reused."
            ) from error
        if isinstance(known, Refusal):
            return self._refused(known.reason)
        if known is not None:
            if cache.due():
                self.known = known
                report.checked += 1
            else:
                try:
                    values, table = self._replay(known)
                except Unfit:  # what it was recorded with is no more
                    cache.drop(self.key)
                else:
                    report.hits += 1
                    return self._returned(known, values, table)
        self._drawn = _generators()
        self.apart = Apart(self.batch)
        return _MISSED

    def _returned(self, known: CaptureTemplate, values: list[tuple[Value, ...]], table: Any) -> Any:
        """The result of the call."""
        arrays = []

        def part(item: Any) -> Any:
            if item.__class__ is Plain:
                return item.value
            assert isinstance(item, Returned)
            value = made(known.results[item.number], values, table, self.batch.graph)
            arrays.append(self.reusing.wrapped(value, item.kind))
            return arrays[-1]

        found = map_structure(known.structure, part)
        for number, base, key in known.views:
            self.reusing.link(arrays[number], arrays[base], key)
        return found

    def end(self, out: Any) -> Any:
        """Record what the call has captured, as it returns `out`; gives what the call gives."""
        apart, report = self.apart, self.batch.report.reuse
        assert apart is not None
        lazies: list[Any] = []
        try:
            self._look(apart)
            maker = TemplateMaker(self.reusing, self.batch, self.shared, self.here, self.arrays)
            structure = map_structure(out, lambda item: maker.described(item, lazies))
            new = maker.template(apart, structure, lazies)
        except Unfit as unfit:
            apart.keep()
            if self.batch.reason != FULL or not apart.ran:
                self.cache.put(self.key, Refusal(str(unfit)), self.shared)
            self._refused(str(unfit))
            return out
        if self.known is not None and not equal(new, self.known, self.reusing):
            apart.keep()
            self.cache.drop(self.key)
            raise ReuseError(
                f"reuse: calls with the key {self.name!r} capture different things: {self._difference(new)}. Let the "
                f"key tell apart all that a call depends on but parameters, or give None for what is not to be reused."
            )
        apart.undo()
        values, table = self._replay(new)
        for array, result in zip(lazies, new.results):
            array._v = made(result, values, table, self.batch.graph)
        if self.known is None:
            report.misses += 1
            self.cache.put(self.key, new, self.shared)
        else:
            report.hits += 1
        return out

    def _look(self, apart: Apart) -> None:
        """Raise Unfit where something is known to have come between."""
        if apart.ran:
            raise Unfit(f"the batch ran in the middle of it: {self.batch.reason}")
        if apart.reason or self.reusing.modes() != self.modes:
            raise Unfit(apart.reason or "it changes whether autograd records or trains")
        why = self.reusing.why_not(self.net)
        if why:
            raise Unfit(why)
        if _generators() != self._drawn:
            raise Unfit("it draws random numbers")
        if any(id(array) in self.batch.parameters for array in self.arrays):
            raise Unfit("an argument is a parameter")

    def _refused(self, reason: str) -> Any:
        refused = self.batch.report.reuse.refused
        refused[reason] = refused.get(reason, 0) + 1
        return _MISSED

    def _replay(self, template: CaptureTemplate) -> tuple[list[tuple[Value, ...]], list[int]]:
        """Capture a template: the values of its nodes, and the rows that its numbers stand for."""
        batch, here, shared = self.batch, self.here, self.shared
        for number in template.kinds:
            record = here.records.get(number)
            if record is None or (record.guards is not None and not record.guards.hold()):
                here.resolve(batch, number, shared.kinds.things[number], self.reusing)
        table: list[int] = []
        for number, indices in template.lookups:
            if number not in here.tables:
                known, spec = shared.tables.things[number]
                here.tables[number] = self.reusing.found_table(batch, known), spec
            found, spec = here.tables[number]
            table.extend(batch.graph.lookup_rows(found, spec, indices))
        for source in template.leaves:
            if source.way == "argument":
                source = Source("array", self.arrays[source.what])
            value = self.reusing.leaf(batch, source)
            assert isinstance(value.rows, int)
            table.extend(range(value.rows, value.rows + value.spec.rows))
        origins = shared.origins.things
        values = replay(batch, batch.graph, batch.sharing, here.records, origins, template.code, table)
        batch.graph.copies += replayed_copies(template, table)
        return values, table

    def _difference(self, new: CaptureTemplate) -> str:
        """Finds where a template first differs from that which would have been reused."""
        assert self.known is not None
        found = first_difference(self.known, new)
        if found is not None:
            number, was, now = found
            return f"node {number} was {self._told(was)}, and now is {self._told(now)}"
        return "they look up other entries, read other arrays, or return something else"

    def _told(self, node: Node | None) -> str:
        if node is None:
            return "not there"
        line = line_of(self.shared.origins.things[node.origin])
        return f"{self.shared.kinds.things[node.record].name} of {node.operands}" + (f" at {line}" if line else "")
