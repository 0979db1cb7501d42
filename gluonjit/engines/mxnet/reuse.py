"""Calls of a block with the option `reuse`: captured once, and from then on captured again without running the block.

The first call of a key is captured apart from all others, so that nothing but what it captured and read is seen; that
is taken back, and captured again from its recording, as later calls are. A call that cannot be done so stays as it is.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from mxnet import gluon
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.arrays import spec_of
from gluonjit.engines.mxnet.cell import Cell
from gluonjit.engines.mxnet.dynamic import blocks_of
from gluonjit.engines.mxnet.lazy import Lazy, wrap
from gluonjit.engines.mxnet.lazy_np import wrap_np
from gluonjit.engines.mxnet.lookups import host_table, table_of
from gluonjit.engines.mxnet.operands import leaf, made_from_nothing
from gluonjit.engines.mxnet.recording import Here, Plain, TemplateMaker, described, equal
from gluonjit.engines.mxnet.trace import map_structure
from gluonjit.errors import OptionError, ReuseError
from gluonjit.graph import Value, line_of
from gluonjit.graph.recorder import replay
from gluonjit.hybrid import FULL, LOCAL, Batch
from gluonjit.hybrid.capture.replaying import Node, unpacked
from gluonjit.hybrid.capture.reuse import Apart, CaptureTemplate, Refusal, Unfit, made

MISSED = object()
"""The answer for a call that has to run."""


class ReusableCall:
    """One call that may be reused."""

    def __init__(self, block: gluon.Block, cell: Cell, args: tuple[Any, ...], key: Any) -> None:
        self.block, self.cache = block, cell.recordings
        self.arrays: list[NDArray] = []
        self.lazy = not _gather(args, self.arrays)
        self.name = key
        self.known: CaptureTemplate | None = None  # to compare with
        self.apart: Apart | None = None

    def begin(self, batch: Batch) -> Any:
        """Gives what the call gives, captured from its recording; or MISSED, and what it captures is recorded."""
        if batch.room < 0:
            batch.flush(FULL)
        state, cache, report = LOCAL.state, self.cache, batch.report.reuse
        self.batch = batch
        self.shared = shared = cache.shared
        here = batch.reused.get(shared.kinds)
        self.here = here = here or batch.reused.setdefault(shared.kinds, Here(batch, shared))
        specs = [spec_of(array) for array in self.arrays]
        self.mode = state.mode
        self.key = (self.name, state.mode, state.numpy, here.scope, *specs)
        if self.lazy:
            return self._refused("an argument is a captured value")
        try:
            known = cache.get(self.key, shared)
        except TypeError as error:
            raise OptionError(
                f"{type(self.block).__name__}(...) with hybridize(dynamic_batch=True, reuse=...): reuse gave the key "
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
                    found = [made(result, values, table, batch.graph) for result in known.results]
                    return map_structure(known.structure, lambda place: _wrapped(place, found))
        self.apart = Apart(batch)
        return MISSED

    def end(self, out: Any) -> Any:
        """Record what the call has captured, as it returns `out`; gives what the call gives."""
        apart, report = self.apart, self.batch.report.reuse
        if apart is None:
            return out
        lazies: list[Any] = []
        try:
            self._look(apart)
            structure = map_structure(out, lambda item: described(item, apart.graph, lazies))
            new = TemplateMaker(self.batch, self.shared, self.here, self.arrays).recording(apart, structure, lazies)
        except Unfit as unfit:
            apart.keep()
            if self.batch.reason != FULL or not apart.ran:
                self.cache.put(self.key, Refusal(str(unfit)), self.shared)
            self._refused(str(unfit))
            return out
        if self.known is not None and not equal(new, self.known):
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

    def close(self) -> None:
        """The call has ended, be it by an exception."""
        if self.apart is not None:
            self.apart.keep()

    def _look(self, apart: Apart) -> None:
        """Raise Unfit where something is known to have come between."""
        if apart.ran:
            raise Unfit(f"the batch ran in the middle of it: {self.batch.reason}")
        if apart.reason or LOCAL.state.mode != self.mode:
            raise Unfit(apart.reason or "it changes whether autograd records or trains")
        if any(inner._forward_hooks or inner._forward_pre_hooks for inner in blocks_of(self.block)):
            raise Unfit("a block in it has forward hooks, which run for each call")

    def _refused(self, reason: str) -> Any:
        refused = self.batch.report.reuse.refused
        refused[reason] = refused.get(reason, 0) + 1
        return MISSED

    def _replay(self, recording: CaptureTemplate) -> tuple[list[tuple[Value, ...]], list[int]]:
        """Capture a recording: the values of its nodes, and the rows that its numbers stand for."""
        batch, here, shared = self.batch, self.here, self.shared
        for number in recording.kinds:
            if number not in here.records:
                here.resolve(batch, number, shared.kinds.things[number])
        table: list[int] = []
        for number, indices in recording.lookups:
            if number not in here.tables:
                (weight, *rest), spec = shared.tables.things[number]
                found = host_table(batch, *rest) if weight is None else table_of(batch, weight, *rest)
                here.tables[number] = found, spec
            known, spec = here.tables[number]
            table.extend(batch.graph.lookup_rows(known, spec, indices))
        for way, what in recording.leaves:
            array = self.arrays[what] if way == "argument" else what
            value = leaf(batch, made_from_nothing(batch, what) if way == "made" else array)
            assert isinstance(value.rows, int)
            table.extend(range(value.rows, value.rows + value.spec.rows))
        origins = shared.origins.things
        return replay(batch, batch.graph, batch.sharing, here.records, origins, recording.code, table), table

    def _difference(self, new: CaptureTemplate) -> str:
        """Finds where a recording first differs from that which would have been reused."""
        assert self.known is not None
        for number, (was, now) in enumerate(zip_longest(unpacked(self.known.code), unpacked(new.code))):
            if was != now:
                return f"node {number} was {self._told(was)}, and now is {self._told(now)}"
        return "they look up other entries, read other arrays, or return something else"

    def _told(self, node: Node | None) -> str:
        if node is None:
            return "not there"
        line = line_of(self.shared.origins.things[node.origin])
        return f"{self.shared.kinds.things[node.record].name} of {node.operands}" + (f" at {line}" if line else "")


def _gather(item: Any, arrays: list[NDArray]) -> bool:
    """Append the arrays in nested arguments; False where one of them was captured."""
    if isinstance(item, NDArray):
        arrays.append(item)
        return not isinstance(item, Lazy)
    if isinstance(item, dict):
        item = tuple(item.values())
    return not isinstance(item, (list, tuple)) or all([_gather(part, arrays) for part in item])


def _wrapped(place: Any, values: list[Value]) -> Any:
    if isinstance(place, Plain):
        return place.value
    return wrap(values[place]) if place >= 0 else wrap_np(values[~place])
