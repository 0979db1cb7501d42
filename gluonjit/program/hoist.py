"""Hoisting: what a cell computes from one operand from outside the recursion runs before it.

Such an operand is a row of an input: a word's vector, say. What is computed from it and from weights alone becomes a
separate node, one for equal rows, and all of them run in one step, for any depth in the recursion. (The first call of a
cell decides this. If a later call passes a computed value there, the product runs right after it: one launch more, the
same result.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gluonjit.program.trace import Trace

Named = Callable[[str], bool]
"""Tells something of an operator by its name."""


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


def cut(trace: Trace, leaves: Sequence[bool], is_product: Named, may_be_cut: Named) -> Cut | None:
    """Cuts what is computed of leaf operands out of a trace; None if there is none of it, or nothing else.

    leaves: which operands are rows of inputs; is_product, may_be_cut: of operators, what is worth it, and what may be
    part of it: not what makes more rows of one, as a node does for its children.
    """
    wanted = {k for k, leaf in enumerate(leaves) if leaf and trace.operands[k].rows == 1}
    of = _owners(trace, wanted, may_be_cut)
    pieces = [piece for operand in sorted(wanted) for piece in _pieces(trace, of, operand, is_product)]
    gone = {piece.operand for piece in pieces}
    kept = tuple([operand for operand in range(len(leaves)) if operand not in gone])
    if not pieces:
        return None
    rest = trace.part([*kept, *[position for piece in pieces for position in piece.results]], trace.results)
    if not any(is_product(op.name) for op in rest.ops):
        return None  # all of it is computed of inputs: there is no recursion
    return Cut(rest, kept, tuple(pieces))


def used_alone(trace: Trace) -> Cut | None:
    """The trace without operands that no result depends on, to which no gradient goes; None if there are none."""
    used = trace.used()
    kept = tuple([position for position in range(len(trace.operands)) if position in used])
    return None if len(kept) == len(trace.operands) else Cut(trace.part(kept, trace.results), kept, ())


def _owners(trace: Trace, wanted: set[int], may_be_cut: Named) -> dict[int, int | None]:
    """Finds the leaf operand that each position is computed from, None for constants alone; others are left out."""
    of: dict[int, int | None] = {position: None for position, _ in trace.constants()}
    of.update({operand: operand for operand in wanted})
    for op in trace.ops:
        found = {of.get(position, -1) for position in op.inputs} - {None}
        if len(found) <= 1 and -1 not in found and (not found or may_be_cut(op.name)):
            of.update(dict.fromkeys(op.outputs, found.pop() if found else None))
    return of


def _pieces(trace: Trace, of: dict[int, int | None], operand: int, is_product: Named) -> list[Piece]:
    """Finds what is computed of an operand, if there are products among it and nothing else uses the operand."""
    mine = [op for op in trace.ops if of.get(op.outputs[0]) == operand]
    others = [op for op in trace.ops if of.get(op.outputs[0], -1) not in (operand, None)]
    used = {position for op in others for position in op.inputs}.union(trace.results)
    made = [position for op in mine for position in op.outputs if position in used]
    if operand in used or not made or not any(is_product(op.name) for op in mine):
        return []
    return [Piece(operand, trace.part([operand], made), tuple(made))]
