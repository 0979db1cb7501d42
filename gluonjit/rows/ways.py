"""The ways in which a batched program is called in C: assembled once each, and kept with the program."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gluonjit.compiled import ROWS
from gluonjit.graph import Kind
from gluonjit.rows.assembly import CallingConvention, Compiled, compiled
from gluonjit.rows.program import NotFusable, RowProgram
from gluonjit.rows.running import Template

MOST_WAYS = 256  # in which one program is called: which operands lie together, and which learn
_MOST_ASSEMBLIES = 1024


class Learning(NamedTuple):
    """Parts of a recorded step that learn.

    weights: the constants that gradients go on to; results: those that have a gradient; marks: those whose rows learn;
    learns: whether gradients go through the step.
    """

    weights: Collection[int] = ()
    results: Collection[int] = ()
    marks: Collection[int] = ()
    learns: bool = False


class Way(NamedTuple):
    """A way in which a program is called, for as long as that is kept.

    forward, backward: forms of blocks, the second None where nothing is learned; reached: the operands that learn and
    that the backward pass adds gradients to; read_again: the constants whose numbers it reads.
    """

    forward: Template
    backward: Template | None
    reached: frozenset[int]
    learning: Learning
    read_again: tuple[int, ...]


@lru_cache(maxsize=_MOST_ASSEMBLIES)
def _assembled(program: RowProgram, way: CallingConvention, numbers: bytes) -> Compiled:
    """Assembles a program once for all kinds that have it, as equal layers do; `numbers` tells 0.0 from -0.0."""
    return compiled(program, way, ROWS.OPS)


def assembly_count() -> int:
    """Assemblies in the cache: 1,024 at most, of some kilobytes each."""
    return _assembled.cache_info().currsize


def clear_assemblies() -> None:
    """Forgets them."""
    _assembled.cache_clear()


class Fused:
    """A batched program in C: its ways of being called, each with its assembly or the reason why there is none."""

    def __init__(self, program: RowProgram) -> None:
        self.program = program
        self.ways: dict[Any, Way | str] = {}
        self.sources: dict[tuple[int, ...], tuple[frozenset[int], frozenset[int]]] = {}  # of gradients, by results

    def way(self, look: bytes, learning: Learning, consts: Sequence[Any]) -> Way | str:
        """Assembles a way of calling the program, given its signs (see `Blocks.choose`); or says why there is none."""
        direct, operands = (frozenset([k for k, sign in enumerate(look[1:]) if sign & flag]) for flag in (1, 2))
        weights, results = frozenset(learning.weights), frozenset(learning.results)
        numbers = array("d", [instr.number for instr in self.program.code]).tobytes()
        try:
            found = _assembled(self.program, CallingConvention(direct, operands, weights, results), numbers)
        except NotFusable as reason:
            return str(reason)
        forward = Template(found.forward, found.saved, consts)
        backward = None if found.backward is None else Template(found.backward, found.saved, consts)
        return Way(forward, backward, found.reached & operands, learning, found.read_again)


def sources(kind: Kind, results: tuple[int, ...]) -> tuple[frozenset[int], frozenset[int]]:
    """The operands and constants of a kind that gradients of these results go to."""
    fused: Fused = kind.program.fused
    if results not in fused.sources:
        fused.sources[results] = fused.program.sources(results)
    return fused.sources[results]


def fused_of(kind: Kind, make: Callable[[Kind], RowProgram]) -> Fused:
    program = kind.program
    if program.fused is None:
        try:
            program.fused = Fused(make(kind))
        except NotFusable as reason:
            program.fused = str(reason)
    found: Fused | str = program.fused
    if isinstance(found, str):
        raise NotFusable(found)
    return found
