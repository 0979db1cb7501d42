"""From a flushed value to its numbers."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Place
from gluonjit.engines.mxnet.history import LIVING, History, Seed
from gluonjit.engines.mxnet.hooked import slice_rows
from gluonjit.engines.mxnet.semantics import as_shape, piece
from gluonjit.graph import Value
from gluonjit.hybrid.run.session import has_run, placed, results_of, rows_of


class Imported(NamedTuple):
    """The payload of a leaf that an earlier flush computed."""

    array: NDArray
    value: Value
    tape: History | None


def numbers_of(value: Value) -> NDArray:
    """A flushed value as an array without history."""
    if value.result is not None:
        return piece(value.result.chunk, value.spec, value.result.row)
    rows: NDArray = rows_of(value)
    return rows if value.spec.mode == "rows" else as_shape(rows, value.spec.shape)


def tape_of(value: Value) -> Any:
    """The `Tape` of a flushed value, if it was captured under recording."""
    return _history(value) if value.taped else None


def _history(value: Value) -> Any:
    return value.result.tape if value.result is not None else results_of(value).session.tape


def _placed(value: Value) -> tuple[int, list[int]]:
    """The arena of a flushed value's rows, and their positions there."""
    if value.result is None:
        return placed(value, results_of(value))
    begin = value.result.position
    return value.result.arena, list(range(begin, begin + value.spec.rows))


def places_of(value: Value) -> list[Place]:
    """The places of a flushed value's rows in its batch: one for all, or one for each row."""
    arena, positions = _placed(value)
    begin, end = positions[0], positions[0] + len(positions)
    if positions == list(range(begin, end)):
        return [Place(arena, begin, end)]
    return [Place(arena, position, position + 1) for position in positions]


def spent(value: Value, tape: History) -> bool:
    """Tells whether backward went through this flushed value already and freed its history."""
    return tape.freed or all(tape.spent.reaches_all(place) for place in places_of(value))


def is_entered(value: Value, before: float = inf) -> bool:
    """Tells whether the history of a batch that ran, and was not differentiated since, holds an array of this value.

    `before` leaves out batches from this number on.
    """
    if not has_run(value):
        return False
    tape = _history(value)
    if tape is None or spent(value, tape):
        return False
    arena, positions = _placed(value)
    return tape.has_entered(arena, positions, is_entered) or _entered_later(tape, arena, positions, before)


def _entered_later(tape: History, arena: int, positions: list[int], before: float) -> bool:
    """Tells whether these rows of a batch have entered a graph with calls of a later one, which have read them."""
    for later in [found for found in list(tape.later) if found.number < before]:
        for source in later.sources:
            if source.value is None or tape_of(source.value) is not tape or later.spent.reaches(source.place):
                continue
            there, rows = _placed(source.value)
            if there == arena and set(positions) <= set(rows):
                at = [source.place.begin + rows.index(position) for position in positions]
                if later.has_entered(source.place.arena, at, is_entered):
                    return True
    return False


def is_read(array: NDArray) -> bool:
    """Tells whether the history of a batch that ran, and was not differentiated since, holds this array of the program.

    Arrays that learn are left out: autograd knows these itself.
    """
    return any(tape.holds(array, is_entered) for tape in list(LIVING))


def seed_of(value: Value, gradient: NDArray) -> list[Seed]:
    """Finds where a gradient of a flushed value enters its batch."""
    spec = value.spec
    if gradient.shape != (spec.rows, *spec.row_shape):
        gradient = gradient.reshape((spec.rows, *spec.row_shape))
    places = places_of(value)
    if len(places) == 1:
        return [(places[0], gradient)]
    return [(place, slice_rows(gradient, k, k + 1)) for k, place in enumerate(places)]
