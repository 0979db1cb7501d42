"""Parts of weights that samples take, and their transposes: made once a graph, constants of calls as weights are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from mxnet.ndarray import NDArray
from mxnet.numpy import ndarray

from gluonjit.engines.mxnet.framework import originals
from gluonjit.engines.mxnet.values.lazy import wrap
from gluonjit.engines.mxnet.values.recorder import WeightPart
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.places import FEW_NUMBERS, vary
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED

SHAPING = frozenset("transpose SwapAxis slice slice_axis expand_dims squeeze Reshape Flatten".split())
"""Operators whose results of weights alone are parts of these."""
_MOST = 4096
_parts: dict[Any, WeightPart] = {}


def clear_parts() -> None:
    """Forgets all of them."""
    _parts.clear()


def part_of(array: Any, key: Hashable, take: Callable[[Any], Any]) -> Any:
    """Takes a part of a weight, or of a part of one, by a key of its own; None where many are taken, or of others.

    It has a history where MXNet records.
    """
    state = LOCAL.state
    batch: Any = state.batch
    source = None if batch is None else batch.parameters.get(id(array))
    if source is None or array.__class__ is not NDArray:
        return None
    place = id(source), key, is_recorded(state.mode), state.numpy
    known = batch.taken.get(place)
    if known is not None:
        return known
    if vary(None, ("part", id(source)), key, batch, FEW_NUMBERS):
        return None
    with UNCAPTURED:
        made = take(array)
    if made.__class__ is not NDArray or not made.size or id(made) in batch.parameters:
        return made
    if len(_parts) >= _MOST:  # each keeps its weight alive
        _parts.clear()
    part = _parts.setdefault(place, WeightPart(source, take, wrap, place[2]))
    batch.taken[place], batch.parameters[id(made)] = made, part
    return made


def getitem(self: NDArray, key: Any) -> Any:
    """NDArray.__getitem__."""
    state = LOCAL.state
    if state.trace is not None and self.__class__ is NDArray and not state.paused:
        lazy = state.trace.stand_in(self, wrap)
        if lazy is not None:
            return lazy[key]
    elif state.inside and not state.paused:
        place = _place(key)
        found = None if place is None else part_of(self, place, lambda array: array[key])
        if found is not None:
            return found
    return originals.original_getitem(self, key)


def reshape(self: NDArray, *shape: Any, **kwargs: Any) -> Any:
    """NDArray.reshape outside of a trace."""
    if LOCAL.state.inside and not LOCAL.state.paused and not kwargs:
        target = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if all(type(size) is int for size in target):
            found = part_of(self, ("reshape", target), lambda array: array.reshape(target))
            if found is not None:
                return found
    return originals.original_reshape(self, *shape, **kwargs)


def _place(key: Any) -> Hashable:
    """A key of `[]` as one of tables: slices without a step; None for others, and for numbers, which samples choose."""
    kind = type(key)
    if kind is slice:
        if key.step is None and all(each is None or type(each) is int for each in (key.start, key.stop)):
            return ":", key.start, key.stop
        return None
    if kind is not tuple:
        return None
    found = tuple(map(_place, key))
    return None if None in found else found


def is_constant(batch: Batch, array: Any) -> bool:
    """True if an array is a weight, or a part of one: not if that was taken without recording, and MXNet records."""
    held = batch.parameters.get(id(array))
    if held.__class__ is WeightPart and is_recorded(LOCAL.state.mode) and not held.recorded:
        del batch.parameters[id(array)]  # compiled code takes what is there for a constant
        return False
    return held is not None


class WeightArgument:
    """A weight among the arguments of a call: a constant of it, and no operand. Not a tuple, which is a structure."""

    __slots__ = ("array", "held")

    def __init__(self, array: NDArray, held: Any) -> None:
        self.array = array
        self.held = held  # the weight itself, or how this is taken of one

    @classmethod
    def of(cls, cell: Any, batch: Batch, arg: Any) -> Any:
        """Returns an argument, a weight as one: unless calls have had many of its shape, which are operands."""
        if arg.__class__ in (NDArray, ndarray) and is_constant(batch, arg):
            held = batch.parameters[id(arg)]
            return arg if vary(cell, ("weight", arg.shape), id(held), batch) else cls(arg, held)
        return arg
