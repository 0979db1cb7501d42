"""From a flushed value to its numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Place
from gluonjit.engines.mxnet.history import Seed
from gluonjit.engines.mxnet.hooked import slice_rows
from gluonjit.engines.mxnet.semantics import as_shape, piece
from gluonjit.graph import Value
from gluonjit.hybrid.run.session import placed, results_of, rows_of


class Imported(NamedTuple):
    """The payload of a leaf that an earlier flush computed."""

    array: NDArray
    value: Value
    tape: Any


def numbers_of(value: Value) -> NDArray:
    """A flushed value as an array without history."""
    if value.result is not None:
        return piece(value.result.chunk, value.spec, value.result.row)
    rows: NDArray = rows_of(value)
    return rows if value.spec.mode == "rows" else as_shape(rows, value.spec.shape)


def tape_of(value: Value) -> Any:
    """The `Tape` of a flushed value, if it was captured under recording."""
    return history_of(value) if value.taped else None


def history_of(value: Value) -> Any:
    """The `Tape` of the batch that a flushed value is of."""
    return value.result.tape if value.result is not None else results_of(value).session.tape


def places_of(value: Value) -> list[Place]:
    """The places of a flushed value's rows in its batch: one for all, or one for each row."""
    if value.result is not None:
        begin = value.result.position
        return [Place(value.result.arena, begin, begin + value.spec.rows)]
    arena, positions = placed(value, results_of(value))
    begin, end = positions[0], positions[0] + len(positions)
    if positions == list(range(begin, end)):
        return [Place(arena, begin, end)]
    return [Place(arena, position, position + 1) for position in positions]


def spent(value: Value, tape: Any) -> bool:
    """Tells whether backward went through this flushed value already and freed its history."""
    return tape.freed or all(tape.spent.reaches_all(place) for place in places_of(value))


def has_history(value: Value) -> bool:
    """Tells whether gradients of an array of this value, whose batch has run, go back into that batch."""
    tape = tape_of(value)
    return tape is not None and not spent(value, tape)


def seed_of(value: Value, gradient: NDArray) -> list[Seed]:
    """Finds where a gradient of a flushed value enters its batch."""
    spec = value.spec
    if gradient.shape != (spec.rows, *spec.row_shape):
        gradient = gradient.reshape((spec.rows, *spec.row_shape))
    places = places_of(value)
    if len(places) == 1:
        return [(places[0], gradient)]
    return [(place, slice_rows(gradient, k, k + 1)) for k, place in enumerate(places)]
