"""Calls of a model with the option `reuse`: captured once, and then captured again without running the model.

The first call of a key is captured in isolation, so that only its own captures and reads are visible; these are
removed, and captured again from its template, as later calls are. A call for which this is impossible is captured as
usual.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gluonjit.errors import OptionError, ReuseError
from gluonjit.graph import line_of
from gluonjit.hybrid.capture.reuse.cache import Apart, CaptureTemplate, NotReusable, Recordings, ReuseRefusal
from gluonjit.hybrid.capture.reuse.here import Here
from gluonjit.hybrid.capture.reuse.replaying import Node
from gluonjit.hybrid.capture.reuse.reusable import Reusing
from gluonjit.hybrid.capture.reuse.templates import TemplateMaker, equal, first_difference
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.batch import FULL, Batch


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
    reason = "an argument is a captured value" if lazy else here.why
    if isinstance(known, ReuseRefusal):
        reason = known.reason
    if reason or isinstance(known, ReuseRefusal):
        _refuse(batch, reason)
        return run()
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
