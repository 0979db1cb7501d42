"""Hoisting: what a cell computes from one operand from outside the recursion runs before it.

Such an operand is a row of an input: a word's vector, say. What is computed from it and from weights alone becomes a
separate node, one for equal rows, and all of them run in one step, for any depth in the recursion. (The first call of a
cell decides this. If a later call passes a computed value there, the product runs right after it: one launch more, the
same result.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from gluonjit.engines.torch.rules.table import operator_named
from gluonjit.program.trace import Trace

_PRODUCTS = {"mm.default", "addmm.default", "mv.default"}
_VIEWS = {"view.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.dim", "t.default"}


class Piece(NamedTuple):
    """A piece computed of one operand alone; `results` are those of its trace by their positions in the whole one."""

    operand: int
    trace: Trace
    results: tuple[int, ...]


class Cut(NamedTuple):
    """The rest of a trace, which of its operands that still needs, and what was cut out."""

    rest: Trace
    kept: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def origins(self) -> tuple[tuple[int, int], ...]:
        """The source of each operand of the rest, which it is or comes from, and how many such stand before it."""
        sources = [*self.kept, *[piece.operand for piece in self.pieces for _ in piece.results]]
        return tuple([(operand, sources[:number].count(operand)) for number, operand in enumerate(sources)])


def cut(trace: Trace, leaves: Sequence[bool]) -> Cut | None:
    """Cuts what is computed of leaf operands out of a trace; None if there is none of it, or nothing else.

    `leaves` says which operands are rows of inputs.
    """
    wanted = {k for k, leaf in enumerate(leaves) if leaf and trace.operands[k].rows == 1}
    of = _owners(trace, wanted)
    pieces = []
    for operand in sorted(wanted):
        found = _piece(trace, of, operand)
        if found is not None:
            pieces.append(found)
    if not pieces:
        return None
    gone = {piece.operand for piece in pieces}
    kept = tuple([operand for operand in range(len(leaves)) if operand not in gone])
    rest = trace.part([*kept, *[position for piece in pieces for position in piece.results]], trace.results)
    if not any(op.name in _PRODUCTS for op in rest.ops):
        return None  # all of it is computed of inputs: there is no recursion
    return Cut(rest, kept, tuple(pieces))


def used_alone(trace: Trace) -> Cut | None:
    """The trace without operands that no result depends on, to which no gradient goes; None if there are none."""
    used = trace.used()
    kept = tuple([position for position in range(len(trace.operands)) if position in used])
    if len(kept) == len(trace.operands):
        return None
    return Cut(trace.part(kept, trace.results), kept, ())


def _owners(trace: Trace, wanted: set[int]) -> dict[int, int | None]:
    """Finds the leaf operand that each position is computed from, None for constants alone; others are left out."""
    of: dict[int, int | None] = {position: None for position, _ in trace.constants()}
    of.update({operand: operand for operand in wanted})
    for op in trace.ops:
        found = {of.get(position, -1) for position in op.inputs} - {None}
        if len(found) <= 1 and -1 not in found and (not found or _may_be_cut(op.name)):
            of.update(dict.fromkeys(op.outputs, found.pop() if found else None))
    return of


def _may_be_cut(name: str) -> bool:
    """Tells whether an operator may be cut out: not if it makes more rows of one, as a node does for its children."""
    return name in _PRODUCTS | _VIEWS or torch.Tag.pointwise in operator_named(name).tags


def _piece(trace: Trace, of: dict[int, int | None], operand: int) -> Piece | None:
    """Finds what is computed of an operand, if there are products among it and nothing else uses the operand."""
    mine = [op for op in trace.ops if of.get(op.outputs[0]) == operand]
    others = [op for op in trace.ops if of.get(op.outputs[0], -1) not in (operand, None)]
    used = {position for op in others for position in op.inputs}.union(trace.results)
    if operand in used or not any(op.name in _PRODUCTS for op in mine):
        return None
    made = [position for op in mine for position in op.outputs if position in used]
    if not made:
        return None
    return Piece(operand, trace.part([operand], made), tuple(made))
