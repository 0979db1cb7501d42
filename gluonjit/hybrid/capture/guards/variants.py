"""Variants of a signature: one trace for each value of the state that it reads, with its guards.

Of cache hits one in a thousand is traced again and compared with the cached trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

from gluonjit.compiled import FAST
from gluonjit.errors import StateError
from gluonjit.graph.kinds import Kind
from gluonjit.graph.recorder import Record
from gluonjit.hybrid.capture.guards.facts import CLASS, CODE, KIND, OF_LIBRARY, Fact, Guards, read_at
from gluonjit.hybrid.run.batch import RUNNING, Batch

MOST_VARIANTS = 16
_STEADY = (CLASS, CODE, KIND, OF_LIBRARY)


class Variant(NamedTuple):
    """One trace of a signature: `guards` is None if it reads nothing that may change; `libraries` likewise.

    key: what its kind is found by in its cell; kept: objects whose addresses are part of what is watched.
    """

    key: Any
    guards: Any
    facts: tuple[Fact, ...]
    kept: tuple[Any, ...]
    traced: Any  # what the engine has traced, to compare with
    libraries: Any = None

    def holds(self) -> bool:
        """True if a trace would give the same now."""
        own, libraries = self.guards, self.libraries
        return (own is None or own.hold()) and (libraries is None or libraries.hold())


class _Never:
    """The guards of a stale trace."""

    def hold(self) -> bool:
        """False: no call matches."""
        return False


NEVER = _Never()


class _Libraries:
    """Facts that traces have found in libraries, which somebody may patch: compared once a sample, for all traces."""

    def __init__(self) -> None:
        self._facts: dict[Any, tuple[int, Any, Any, Any]] = {}
        self.guards: Any = NEVER

    def note(self, facts: Sequence[Fact]) -> None:
        """Watches what facts are about."""
        for fact in facts:
            place = (id(fact.container), fact.key)
            if place not in self._facts:
                self._facts[place] = fact[:4]
                self.guards = NEVER

    def look(self, records: Mapping[Any, Record]) -> None:
        """Looks again: where something was patched, no record is found before its variant was looked at."""
        if self.guards is NEVER:
            self.guards = Guards([*self._facts.values()])
        if self.guards.hold():
            return
        for place, (way, container, key, _) in self._facts.items():
            self._facts[place] = way, container, key, read_at(way, container, key)
        self.guards = NEVER
        for record in records.values():
            record.guards = NEVER


LIBRARIES = _Libraries()


class Noted:
    """The reads of a trace, for its variant.

    asked: the sizes of arrays that the program has decided by, in order; signature: the call's, but for sizes; specs:
    those of the signature; set: attributes of blocks that the call sets, each with the block, its name and the value.
    """

    facts: tuple[Fact, ...] = ()
    kept: tuple[Any, ...] = ()
    asked: tuple[Any, ...] = ()
    signature: Any = None
    specs: Sequence[Any] = ()
    traced: Any = None

    def __init__(self) -> None:
        self.set: list[tuple[Any, str, Any]] = []

    def steady(self, *steady: type) -> bool:
        """True if only functions of classes, which modules names stand for, and `steady` objects were read."""
        return all(fact.way in _STEADY or isinstance(fact.found, (ModuleType, *steady)) for fact in self.facts)

    def variant(self, key: Any) -> Variant:
        """The variant, the kind of which is found by this key."""
        libraries = [fact for fact in self.facts if fact.way == OF_LIBRARY]
        LIBRARIES.note(libraries)
        own = [fact for fact in self.facts if fact.way != OF_LIBRARY]
        guards, others = [Guards([fact[:4] for fact in facts]) if facts else None for facts in (own, libraries)]
        return Variant(key, guards, self.facts, self.kept, self.traced, others)


def variant_key(wanted: Any, number: int) -> Any:
    """The key by which the kind of a signature's variant of this number is found."""
    return (*wanted, "variant", number) if number else wanted


def holding(variants: Sequence[Variant]) -> Variant | None:
    """Returns the first variant that a trace would give now."""
    for variant in variants:
        if variant.holds():
            return variant
    return None


def too_many(variants: Sequence[Variant]) -> str:
    """Returns why a call with these variants, none of which holds, is not a node; "" if one more may be traced."""
    if len(variants) < MOST_VARIANTS:
        return ""
    name = next((fact.name for fact in variants[-1].facts if not fact.holds()), "what it reads")
    return (
        f"{name} had {MOST_VARIANTS} values, each of which would be a separate program: pass it as an argument, "
        "as a tensor, or change it less often"
    )


def put_record(records: dict[Any, Record], key: Any, kind: Kind, variant: Variant, mode: int, share: float) -> Record:
    """Makes the record of a variant the one that its signature finds in an open batch."""
    before = records.get(key)
    if before is not None and before.kind is not kind:
        del records[key]
        records[(*key, "variant", id(before.kind))] = before
        before = records.pop((*key, "variant", id(kind)), None)
    record = Record(kind, mode, share) if before is None else before
    record.guards = variant.guards
    records[key] = record
    return record


EVERY = 1000
_SHARE = 0.003


class Again:
    """Selects the calls that are traced again: one in a thousand, in at most 0.3 % of the time."""

    found = 0
    resting = 0.0  # until when none is, in seconds of `perf_counter`

    def due(self) -> bool:
        """Counts a cache hit, and tells whether to trace it again; C counts its own hits."""
        self.found += 1
        if self.found < EVERY and not (FAST is not None and FAST.due()):
            return False
        self.found = 0
        return perf_counter() >= self.resting

    def timed(self, trace: Callable[[], Any]) -> Any:
        """Runs and times a trace; None if the recursion is too deep, which says nothing about its result.

        What it finds it has to find twice: the collector of garbage may have run the program's code in between.
        """
        begin = perf_counter()
        try:
            return trace() and trace()
        except RecursionError:
            return None
        finally:
            now = perf_counter()
            self.resting = now + (now - begin) / _SHARE


AGAIN = Again()


def retrace(cell: Any, wanted: Any, record: Record, batch: Batch, difference: Callable[[Any], str]) -> None:
    """Compares the trace of a call that was found with its present one. Raises StateError where that is another."""
    variants = cell.variants.get(wanted, ())
    variant = next((variant for variant in variants if variant.guards is record.guards), None)
    if variant is None or variant.traced is None:
        return
    batch.report.retraced += 1
    with RUNNING:
        found = AGAIN.timed(lambda: difference(variant.traced))
    if found:
        cell.clear()
        batch.changes += 1
        record.guards = NEVER  # it is no longer found
        raise StateError(
            f"{cell.name}: a call that was traced before now does something else: {found}. It depends on something "
            "that gluonjit does not see; results since that changed may be wrong. Pass it as an argument, or expand "
            f"the call: hybridize(dynamic_batch=True, expand=({cell.name!r},))."
        )


def first_difference(one: Any, other: Any) -> str:
    """Returns the first difference of two traces, each given as a list of its parts; "" if they are equal."""
    for before, now in zip(one, other):
        if repr(before) != repr(now):
            return f"it was {before!r} and is {now!r}"[:300]
    if len(one) != len(other):
        return f"it had {len(one)} parts and has {len(other)}"
    return ""
