"""Steps of a capture with any engine: an open batch, a sample in it, a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from gluonjit.graph import Kind, Record, Value
from gluonjit.hybrid.capture.guards.variants import LIBRARIES
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.batch import FULL, Batch
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
    if batch.failed >= 0:
        batch.number_anew()
    if not LIBRARIES.guards.hold():
        LIBRARIES.look(batch.records)
    return batch


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
