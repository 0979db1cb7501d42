"""Stages of a form: operators that run for the rows of all nodes, and operators that mix the rows of a node."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from gluonjit.program.axes.values import Values


class Packed(NamedTuple):
    """A value of all nodes: its axis that is packed, the number of that length, and how it lies.

    Of a value whose size is the same for all nodes axis and length are None; it lies in any form, or is shared.
    """

    val: Values
    axis: int | None = None
    length: int | None = None


class RowStage(NamedTuple):
    """Operators on the rows of all nodes: a function of (count, *inputs), and the slots that it takes and gives."""

    run: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Source(NamedTuple):
    """A value that the nodes of one length are given: its position, and how it lies where it is packed or in rows."""

    position: int
    packed: Packed | None


class LengthStage(NamedTuple):
    """Operators on the nodes of one length: which values they take, and the results, with where they are put.

    number: of this stage among all such; places: of the operators in the trace; lengths: those that their shapes depend
    on; numbered: the places of operators among them with numbers that differ; own: the constants among what they take
    that each member has for itself; elements: of all results of a node, times and the lengths they are multiplied by.
    """

    number: int
    places: tuple[int, ...]
    sources: tuple[Source, ...]
    results: tuple[Source, ...]
    lengths: tuple[int, ...]
    numbered: tuple[int, ...]
    own: tuple[int, ...]
    elements: tuple[tuple[int, tuple[int, ...]], ...]

    def size(self, lengths: Sequence[int]) -> int:
        """The number of elements of all results of a node."""
        return sum([times * prod([lengths[length] for length in each]) for times, each in self.elements])
