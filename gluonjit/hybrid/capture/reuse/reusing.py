"""Calls of a model with the option `reuse`: captured once, and then captured again without running the model.

The first call of a key is captured in isolation, so that only its own captures and reads are visible; these are
removed, and captured again from its template, as later calls are. A call for which this is impossible is captured as
usual.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from operator import itemgetter
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import numpy as np

from gluonjit.errors import OptionError, ReuseError
from gluonjit.graph import Leaf, Value, line_of
from gluonjit.graph.values import natural_mode
from gluonjit.hybrid.capture.reuse.cache import (
    Apart,
    CaptureTemplate,
    NotReusable,
    Recordings,
    Reference,
    ReuseRefusal,
    made,
    renumbered,
)
from gluonjit.hybrid.capture.reuse.here import Here
from gluonjit.hybrid.capture.reuse.replaying import Node, packed, rows_in, unpacked
from gluonjit.hybrid.capture.reuse.reusable import (
    ArraySource,
    PlainResult,
    Returned,
    Reusing,
    TemplateSignature,
    layout_of,
)
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.batch import FULL, Batch

_PLAIN = (type(None), bool, int, float, str)


@dataclass
class TemplateMaker:
    """Makes the template of a call with these arrays among its arguments: in numbers independent of a batch."""

    reusing: Reusing
    batch: Batch
    here: Here
    arrays: list[Any]

    def template(self, apart: Apart, structure: Any, lazies: list[Any]) -> CaptureTemplate:
        """Returns the template of the captures since, and of these arrays."""
        found, kinds = self._nodes(apart)
        values = [of for _, _, of, _ in found]
        own = {row: number for number, (base, rows, *_) in enumerate(found) for row in range(base, base + rows)}
        results = [_result(array._v, values, own) for array in lazies]
        reads = [rows for *_, node in found for rows in node.operands]
        reads += [result.rows for result in results if isinstance(result, Reference)]
        lookups, leaves, order, size = self._inputs([row for row in rows_in(reads) if row not in own])
        if _held(apart, lazies, results, values):
            raise NotReusable("the program holds a value that it has captured and does not return")
        local = {row: place for place, row in enumerate([*order, *own])}
        code = packed([node for *_, node in found], local)
        moved = tuple([_moved(result, local) for result in results])
        copied = {local[row] for rows in apart.graph.copies[apart.copies :] for row in rows if row in own}
        overwritten = apart.graph.overwritten[apart.written :]
        written = tuple(
            [(local[row], count, local.get(new, new if new < 0 else -1)) for row, count, new in overwritten]
        )
        numbers = {id(array): number for number, array in enumerate(lazies)}
        of = [numbers.get(id(array._b)) for array in lazies]
        views = tuple([(number, base, lazies[number]._k) for number, base in enumerate(of) if base is not None])
        size += 500 + 4 * len(code) + 32 * (len(order) + len(copied))
        return CaptureTemplate(
            code, lookups, leaves, moved, structure, kinds, tuple(sorted(copied)), written, views, size
        )

    def described(self, item: Any, lazies: list[Any]) -> Any:
        """A result: an array's place among those that the call returns, or what it is."""
        if isinstance(item, _PLAIN):
            return PlainResult(item)
        if not isinstance(item, self.reusing.lazy):
            raise NotReusable(
                f"it returns a {type(item).__name__}, which is neither a captured value nor a plain constant"
            )
        value = self.reusing.value_of(item, self.batch)
        if value is None or not value.depth:
            raise NotReusable("it returns a value that existed before it")
        for number, lazy in enumerate(lazies):
            if lazy is item:
                return Returned(number, type(item))
        lazies.append(item)
        return Returned(len(lazies) - 1, type(item))

    def _nodes(self, apart: Apart) -> tuple[list[tuple[int, int, tuple[Value, ...], Node]], tuple[int, ...]]:
        """First row, number of rows, values and Node of each new node, in order of capture; and the kinds' numbers."""
        shared = self.here.shared
        found: list[tuple[int, int, tuple[Value, ...], Node]] = []
        kinds = []
        origins: dict[int, int] = {}
        for key, record, first in apart.records():
            if not record.kind.pure or not record.kind.outputs:
                raise NotReusable(f"{record.kind.name} draws at random, or changes something")
            signature = self.reusing.signature(self.batch, key, record)
            known = TemplateSignature(signature, layout_of(record.kind), record.mode, record.kind.name)
            number = shared.kinds.number(known[:2], known)
            kinds.append(number)
            calls = apart.calls(record)
            for node in range(first, len(record)):
                origin = record.origins[node]
                place = origins.get(id(origin))
                if place is None:
                    place = shared.origins.number(origin and (id(origin[0]), origin[1]), origin)
                    origins[id(origin)] = place
                told = Node(number, calls, record.depth(node), place, record.operands_of(node))
                found.append((record.base(node), record.kind.rows, record.values(node), told))
                calls = 0
        found.sort(key=itemgetter(0))
        return found, tuple(sorted(kinds))  # the batch may have met them in another order

    def _inputs(self, rows: list[int]) -> tuple[Any, tuple[ArraySource, ...], list[int], int]:
        """Look-ups and leaves of these rows, the rows in that order, and the bytes of arrays that are kept for them."""
        batch, tables = self.batch, self.here.shared.tables
        self.here.take_in(batch)
        found: dict[int, dict[int, int]] = {}  # by the number of a table: its entries by row
        arrays: dict[int, Leaf] = {}
        for row in rows:
            source = self.here.sources.get(row)
            if source is None:
                raise NotReusable("it uses a value that was captured before it")
            if isinstance(source, Leaf):
                arrays[source.base] = source
                continue
            table, index = source
            weight, *rest = known = table.key
            number = tables.number((id(weight), *rest), (known, batch.graph.lookup_specs[table]))
            found.setdefault(number, {})[row] = index
        lookups = tuple([(number, tuple(entries.values())) for number, entries in found.items()])
        order = [row for entries in found.values() for row in entries]
        leaves = [self._source(leaf) for leaf in arrays.values()]
        order += [row for leaf in arrays.values() for row in range(leaf.base, leaf.base + leaf.spec.rows)]
        held = sum(leaf.spec.bytes for leaf, source in zip(arrays.values(), leaves) if source.way == "array")
        return lookups, tuple(leaves), order, held

    def _source(self, leaf: Leaf) -> ArraySource:
        """Returns the source where later calls find an array that this one has read, and how its rows lie."""
        source, spec = self.reusing.source(self.batch, leaf.payload), leaf.spec
        if spec.mode != natural_mode(spec.shape):
            source = source._replace(mode=spec.mode)
        for place, given in enumerate(self.arrays):
            if given is source.what:
                return source._replace(way="argument", what=place)
        if source.way == "array":
            self.reusing.keeps(self.batch, source.what)
        return source


def _result(value: Value, values: list[tuple[Value, ...]], own: dict[int, int]) -> Any:
    """Describes what a call returns: a value of a node, or a reference to rows of nodes."""
    nodes = tuple(sorted({own[row] for row in value.row_list() if row in own}))
    if not nodes:
        raise NotReusable("it returns a value that was captured before it")
    of = values[nodes[0]]
    which = next((place for place in range(len(of)) if of[place] is value), None)
    return Reference(value.rows, value.spec, value.taped, nodes) if which is None else (nodes[0], which)


def _moved(result: Any, local: dict[int, int]) -> Any:
    if not isinstance(result, Reference):
        return result
    return result._replace(rows=renumbered(result.rows, local.__getitem__))


def _held(apart: Apart, lazies: list[Any], results: list[Any], values: list[tuple[Value, ...]]) -> bool:
    """True if anything but these arrays refers to new nodes."""
    for array in lazies:
        array._v = None
    _forget_bases(lazies)
    try:
        held = apart.holds()
        if held and apart.traced:  # a trace may leave errors behind, whose frames hold what they were given
            gc.collect()
            held = apart.holds()
        return held
    finally:
        # Nodes of a recording that is being made, the rows of which are those of the graph.
        found: Any = SimpleNamespace(row=int, values=values.__getitem__, value=lambda node, k: values[node][k])
        for array, result in zip(lazies, results):
            array._v = made(result, found, apart.graph)


def _forget_bases(views: list[Any]) -> None:
    """Drops the bases of views that nothing else holds."""
    for view in views:
        base, view._b = view._b, None
        others = sum(other._b is base for other in views)
        if base is not None and getrefcount(base) - 2 > others:  # 2: of this function
            view._b = base


def first_difference(one: CaptureTemplate, other: CaptureTemplate) -> tuple[int, Node | None, Node | None] | None:
    """Returns the number of the first differing node, and both nodes; source lines do not count."""
    for number, both in enumerate(zip_longest(unpacked(one.code), unpacked(other.code))):
        was, now = both
        if was is None or now is None or was._replace(origin=0) != now._replace(origin=0):
            return number, was, now
    return None


def equal(one: CaptureTemplate, other: CaptureTemplate, reusing: Reusing) -> bool:
    """True if two calls captured the same."""
    if one._replace(code=other.code, leaves=other.leaves, bytes=other.bytes) != other:
        return False
    if first_difference(one, other) is not None:
        return False
    alike = [
        look == other_look and (what is known or (reusing.alike(what, known) if look[0] == "array" else what == known))
        for (what, *look), (known, *other_look) in zip(one.leaves, other.leaves)
    ]
    return len(one.leaves) == len(other.leaves) and all(alike)


def reused(
    reusing: Reusing, batch: Batch, net: Any, cache: Recordings, args: Any, name: Any, run: Callable[[], Any]
) -> Any:
    """Returns the result of a call of a model with these arguments and the key `name`: run, or from its template."""
    if batch.room < 0:
        batch.flush(FULL)
    here = batch.reused.get(cache)
    if here is None or not here.holds(batch, cache):
        here = batch.reused[cache] = Here(reusing, batch, net, cache)
    arrays: list[Any] = []
    lazy = not here.gather(args, arrays)
    key = (name, reusing.modes(), here.scope, *(_looks(reusing, arrays) if arrays else ()))
    known = None if lazy or here.why else _known(cache, key, here, net, name)
    if isinstance(known, CaptureTemplate) and not cache.due():
        try:
            here.capture(batch, known, arrays)
        except NotReusable:  # what it was recorded with is no more
            cache.drop(key)
            known = None
        else:
            batch.report.reuse.hits += 1
            return here.returned(batch, known)
    reason = (
        known.reason if isinstance(known, ReuseRefusal) else "an argument is a captured value" if lazy else here.why
    )
    if reason:
        _refuse(batch, reason)
        return run()
    assert not isinstance(known, ReuseRefusal)
    return _Call(reusing, batch, net, cache, arrays, key, here, known).outcome(run)


def _looks(reusing: Reusing, arrays: list[Any]) -> list[Any]:
    """Returns the part of a key made from array arguments: the spec of each, and which are identical."""
    places = list(map(id, arrays))
    same = tuple(map(places.index, places)) if len(set(places)) < len(places) else ()
    return [same, *map(reusing.key_of, arrays)]


def _known(cache: Recordings, key: Any, here: Here, net: Any, name: Any) -> CaptureTemplate | ReuseRefusal | None:
    """Returns the template or refusal of calls of this key. Raises OptionError if it cannot be a key."""
    try:
        return cache.get(key, here.shared)
    except TypeError as error:
        raise OptionError(
            f"{type(net).__name__}(...) with hybridize(dynamic_batch=True, reuse=...): reuse returned the key "
            f"{name!r}, which cannot be a key: {error}. Return a number, a string or a tuple of these, or None "
            "for a call that should not be reused."
        ) from error


def _refuse(batch: Batch, reason: str) -> None:
    """Counts a call that is not reused."""
    refused = batch.report.reuse.refused
    refused[reason] = refused.get(reason, 0) + 1


def _generators() -> tuple[Any, ...]:
    """The states of Python's and numpy's own generators of random numbers."""
    found: Any = np.random.get_state()
    return random.getstate(), found[1].tobytes(), found[2]


@dataclass
class _Call:
    """One call that runs and is recorded, to be reused or compared with the template `known`."""

    reusing: Reusing
    batch: Batch
    net: Any
    cache: Recordings
    arrays: list[Any]
    key: Any
    here: Here
    known: CaptureTemplate | None

    def __post_init__(self) -> None:
        if self.known is not None:
            self.batch.report.reuse.checked += 1
        self._drawn = _generators()  # the states of Python's generators before it
        self.apart = Apart(self.batch)

    def outcome(self, run: Callable[[], Any]) -> Any:
        """Returns the result of the call."""
        try:
            with self.reusing.watched(self.batch, self.net, self.arrays):
                out = run()
            return self._end(out)
        finally:
            self.apart.keep()

    def _end(self, out: Any) -> Any:
        """Records the captures of the call, which returns `out`, and returns its result."""
        apart, report = self.apart, self.batch.report.reuse
        lazies: list[Any] = []
        try:
            self._look(apart)
            maker = TemplateMaker(self.reusing, self.batch, self.here, self.arrays)
            structure = map_structure(out, lambda item: maker.described(item, lazies))
            new = maker.template(apart, structure, lazies)
            self.here.find(self.batch, new)  # while what was captured can be kept
        except NotReusable as unfit:
            apart.keep()
            if self.batch.reason != FULL or not apart.ran:
                self.cache.store(self.key, ReuseRefusal(str(unfit)), self.here.shared)
            _refuse(self.batch, str(unfit))
            return out
        if self.known is not None and not equal(new, self.known, self.reusing):
            apart.keep()
            self.cache.drop(self.key)
            raise ReuseError(
                f"reuse: calls with the key {self.key[0]!r} capture different things: {self._difference(new)}. "
                "Let the key distinguish everything that a call depends on except parameters, or return None for "
                "calls that should not be reused."
            )
        apart.undo()
        self.here.capture(self.batch, new, self.arrays)
        for number, array in enumerate(lazies):
            array._v = self.here.result(self.batch, new, number)
        if self.known is None:
            report.misses += 1
            self.cache.store(self.key, new, self.here.shared)
        else:
            report.hits += 1
        return out

    def _look(self, apart: Apart) -> None:
        """Raises NotReusable if something is known to have interfered."""
        if apart.ran:
            raise NotReusable(f"the batch ran in the middle of it: {self.batch.reason}")
        if apart.reason or self.reusing.modes() != self.key[1]:
            raise NotReusable(apart.reason or "it changes whether autograd records or trains")
        why = self.reusing.why_not(self.net)
        if why:
            raise NotReusable(why)
        if _generators() != self._drawn:
            raise NotReusable("it draws random numbers")
        if any(id(array) in self.batch.parameters for array in self.arrays):
            raise NotReusable("an argument is a parameter")

    def _difference(self, new: CaptureTemplate) -> str:
        """Returns the first difference between a template and the one that would have been reused."""
        assert self.known is not None
        found = first_difference(self.known, new)
        if found is not None:
            number, was, now = found
            return f"node {number} was {self._told(was)}, and now is {self._told(now)}"
        return "they look up other entries, read other arrays, or return something else"

    def _told(self, node: Node | None) -> str:
        if node is None:
            return "not there"
        line = line_of(self.here.shared.origins.things[node.origin])
        return f"{self.here.shared.kinds.things[node.record].name} of {node.operands}" + (f" at {line}" if line else "")
