"""Signatures: what distinguishes the calls of one cell, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from gluonjit.graph import Kind, Record
from gluonjit.hybrid.capture.capturing import room_of
from gluonjit.hybrid.capture.guards.objects import Refused
from gluonjit.hybrid.capture.guards.variants import Noted, Variant, holding, put_record, too_many, variant_key
from gluonjit.hybrid.choose.pacing import TRACE
from gluonjit.hybrid.run.batch import RUNNING, Batch
from gluonjit.hybrid.run.state import LOCAL

MOST_KINDS = 4096
"""The signatures that one cell remembers."""


class Signatures:
    """Knowledge of the calls of one cell, by their signatures: kinds, and why some are not one node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds: dict[Any, Kind] = {}
        self.variants: dict[Any, list[Variant]] = {}  # of each signature, by what they read of Python's state
        self.expanded: dict[Any, str] = {}

    def clear(self) -> None:
        """Forgets all of it."""
        self.kinds.clear()
        self.variants.clear()
        self.expanded.clear()

    def record(self, batch: Batch, key: tuple[Any, ...], make: Callable[[Noted], Kind | str]) -> Record | str:
        """Returns the record of a signature in the open batch, or why its calls are not one node.

        `make` traces a call whose signature is new, and has its follower's facts noted.
        """
        record = batch.records.get(key)
        if record is not None and (record.guards is None or record.guards.hold()):
            return record
        return new_record(self, batch, key, make)


def new_record(
    cell: Any,
    batch: Batch,
    key: tuple[Any, ...],
    make: Callable[[Noted], Kind | str],
    current: Callable[[Kind], bool] = lambda kind: True,
) -> Record | str:
    """Returns the record of a signature that is new to the open batch, or why its calls are not one node.

    cell: `Signatures`, or what has the same; make: traces a call; current: whether calls still run as a kind says.
    """
    wanted = (batch.options.without, *key)
    reason: str | None = cell.expanded.get(wanted)
    if reason is not None:
        return reason
    known = cell.variants.setdefault(wanted, [])
    variant = holding(known)
    kind = None if variant is None else cell.kinds.get(variant.key)
    if kind is not None and current(kind):
        batch.report.cache["hits"] += 1
    else:
        batch.report.cache["misses"] += 1
        noted = Noted()
        made: Kind | str = too_many(known) if variant is None else ""
        if not made:
            with RUNNING, TRACE:
                made = make(noted)
        if len(cell.kinds) + len(cell.expanded) >= MOST_KINDS:
            cell.clear()
        if isinstance(made, str):
            cell.expanded[wanted] = made
            return made
        if variant is not None and variant in known:
            known.remove(variant)
        known = cell.variants.setdefault(wanted, known)
        taken = {item.key for item in known}
        number = next(number for number in range(len(known) + 1) if variant_key(wanted, number) not in taken)
        variant = noted.variant(variant_key(wanted, number))
        known.append(variant)
        kind = cell.kinds[variant.key] = made
    assert variant is not None
    return put_record(batch.records, key, kind, variant, LOCAL.state.mode, room_of(kind, batch.options))


class Same:
    """An object compared by identity, such as a weight, in a signature or as a table."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.item is self.item

    def __hash__(self) -> int:
        return id(self.item)


_CONSTANTS = (type(None), bool, int, float, str, bytes, type, type(Ellipsis), FunctionType, ModuleType)


def signature_of(item: Any, known: Callable[[Any], Any]) -> list[Any]:
    """Returns the signature of these arguments, nested in lists, tuples, dictionaries and slices.

    `known` gives what stands for an array, or for another object of the framework, and None for anything else: plain
    constants stand for themselves. Raises Refused for what is neither.
    """
    found = known(item)
    if found is not None:
        return [found]
    kind = type(item)
    if isinstance(item, (list, tuple, dict)):
        parts = [part for pair in item.items() for part in pair] if isinstance(item, dict) else item
        return [kind, *[each for part in parts for each in signature_of(part, known)], None]
    if kind is slice:
        return [kind, *[each for part in (item.start, item.stop, item.step) for each in signature_of(part, known)]]
    if isinstance(item, _CONSTANTS):
        return [(kind, item if item or kind is not float else str(item))]  # 0.0 == -0.0
    raise Refused(f"an argument is a {kind.__name__}, which is neither an array nor a plain constant")
