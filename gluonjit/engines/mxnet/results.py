"""From a flushed value to its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

from mxnet.ndarray import NDArray

from gluonjit.analysis.plan import Place
from gluonjit.engines.mxnet.history import LIVING, History, Seed
from gluonjit.engines.mxnet.hooked import slice_rows
from gluonjit.engines.mxnet.semantics import as_shape, piece
from gluonjit.graph import Value
from gluonjit.hybrid.run.session import Results, placed, results_of, rows_of


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
    if not value.taped:
        return None
    return value.result.tape if value.result is not None else results_of(value).session.tape


def places_of(value: Value) -> list[Place]:
    """The places of a flushed value's rows in its batch: one for all, or one for each row."""
    if value.result is not None:
        begin = value.result.position
        return [Place(value.result.arena, begin, begin + value.spec.rows)]
    arena, positions = placed(value, results_of(value))
    if positions == list(range(positions[0], positions[0] + len(positions))):
        return [Place(arena, positions[0], positions[0] + len(positions))]
    return [Place(arena, position, position + 1) for position in positions]


def spent(value: Value, tape: History) -> bool:
    """Tells whether backward went through this flushed value already and freed its history."""
    return tape.freed or all(tape.spent.reaches_all(place) for place in places_of(value))


def is_entered(value: Value, before: float = inf) -> bool:
    """Tells whether the history of a batch that ran, and was not differentiated since, holds an array of this value.

    `before` leaves out batches from this number on.
    """
    positions: Sequence[int]
    if value.result is not None:
        result = value.result
        tape, arena = result.tape, result.arena
        positions = range(result.position, result.position + value.spec.rows)
    elif value.graph is not None and isinstance(value.graph.owner, Results):
        results = results_of(value)
        tape = results.session.tape
        arena, positions = placed(value, results)
    else:
        return False
    if tape is None or spent(value, tape):
        return False
    return tape.has_entered(arena, list(positions), is_entered) or _entered_later(tape, arena, positions, before)


def _entered_later(tape: History, arena: int, positions: Sequence[int], before: float) -> bool:
    """Tells whether these rows of a batch have entered a graph with calls of a later one, which have read them."""
    for later in [found for found in list(tape.later) if found.number < before]:
        for source in later.sources:
            if source.value is None or tape_of(source.value) is not tape or later.spent.reaches(source.place):
                continue
            rows = [
                row
                for place in places_of(source.value)
                if place.arena == arena
                for row in range(place.begin, place.end)
            ]
            if set(positions) <= set(rows):
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
        return [Seed(places[0].arena, places[0].begin, gradient)]
    return [Seed(place.arena, place.begin, slice_rows(gradient, k, k + 1)) for k, place in enumerate(places)]
