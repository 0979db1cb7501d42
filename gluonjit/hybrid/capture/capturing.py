"""Steps of a capture with any engine: an open batch, a sample in it, a node; and signatures, by which calls are known.

These say what distinguishes the calls of one cell, and what is known of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from types import FunctionType, ModuleType
from typing import Any

from gluonjit.graph import Kind, Record, Value
from gluonjit.hybrid.capture.guards.objects import Refused
from gluonjit.hybrid.capture.guards.variants import (
    LIBRARIES,
    Noted,
    holding,
    put_record,
    too_many,
    variant_key,
)
from gluonjit.hybrid.choose.pacing import TRACE
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import FULL, RUNNING, Batch
from gluonjit.hybrid.run.engine import Engine
from gluonjit.hybrid.run.failures import of_sample
from gluonjit.hybrid.run.state import LOCAL


def room_of(kind: Kind, options: Options) -> float:
    """Returns the fraction of a batch's room that a node of this kind takes."""
    return max(1.0 / options.max_nodes, kind.bytes / options.max_bytes)


def open_batch(engine: Engine, options: Options | None = None) -> Batch:
    """Returns the open batch of this thread, with room for one more node."""
    state = LOCAL.state
    batch = state.batch
    if batch is None or batch.engine is not engine:
        state.mode = engine.current_mode()
        batch = state.open(engine, options)
    if batch.room < 0:
        batch.flush(FULL)
    return batch


def captured(batch: Batch, record: Record, values: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the results of a call on these values: those of a new node, or if it is pure of an equal one."""
    rows = tuple([value.rows for value in values])
    depth = max([value.depth for value in values], default=0) + 1
    return record.capture(batch, batch.graph, rows, depth, batch.sharing)


def outermost_batch(engine: Engine, options: Options) -> Batch:
    """Returns the open batch for an outermost model with these options; in `batching` the scope's options hold."""
    state = LOCAL.state
    state.mode = engine.current_mode()
    batch = state.batch
    if batch is None or batch.engine is not engine or batch.room < 0:
        batch = open_batch(engine, options)
    if not batch.explicit and batch.options is not options and batch.options != options:
        batch.flush("another model has other options")
        state.close()
        batch = open_batch(engine, options)
    before_sample(batch)
    return batch


def before_sample(batch: Batch) -> None:
    """Looks at what an outermost call must know: whether one has failed before it, and what is patched in libraries."""
    if batch.failed >= 0:
        batch.number_anew()
    if not LIBRARIES.guards.hold():
        LIBRARIES.look(batch.records)


def run_eagerly(cell: Any, reason: str, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Runs a call that asks what only computed arrays can answer, with these; later ones of its model begin so."""
    state = LOCAL.state
    cell.asked[:] = [reason]
    if state.batch is not None:
        state.batch.report.unbatched[cell.name] = reason
    state.paused += 1
    state.eagerly += 1
    try:
        return run(*args, **kwargs)
    finally:
        state.paused -= 1
        state.eagerly -= 1


def sampled(batch: Batch, run: Callable[..., Any], *args: Any) -> Any:
    """Calls an outermost model on one sample: the calls of `run` are captured in the batch."""
    state = LOCAL.state
    begin = perf_counter()
    batch.begin_sample()
    state.inside += 1
    try:
        return run(*args)
    except Exception as error:
        raise of_sample(error, batch)  # noqa: B904 - which says what it comes of
    finally:
        state.inside -= 1
        batch.end_sample()
        batch.report.note(batch.sample - 1, "capture", begin, perf_counter())


MOST_KINDS = 4096
"""The signatures that one cell remembers."""


def new_record(
    cell: Any,
    batch: Batch,
    key: tuple[Any, ...],
    make: Callable[[Noted], Kind | str],
    current: Callable[[Kind], bool] = lambda kind: True,
) -> Record | str:
    """Returns the record of a signature that is new to the open batch, or why its calls are not one node.

    make: traces a call, and has its follower's facts noted; current: whether calls still run as a kind says.
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
