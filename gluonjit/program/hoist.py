"""Hoisting: what a cell computes from one operand from outside the recursion runs before it.

Such an operand is a row of an input: a word's vector, say. What is computed from it and from weights alone becomes a
separate node, one for equal rows, and all of them run in one step, for any depth in the recursion. (The first call of a
cell decides this. If a later call passes a computed value there, the product runs right after it: one launch more, the
same result.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gluonjit.program.axes.elementwise import Map
from gluonjit.program.axes.shapes import Keep, Permute, Reshape
from gluonjit.program.trace import Trace
from gluonjit.program.work import CallOf, call_in

_ALIKE = Map, Keep, Permute, Reshape
"""The classes of operators, beside products, that give one row for one."""


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
        return tuple((operand, sources[:number].count(operand)) for number, operand in enumerate(sources))


def cut(trace: Trace, leaves: Sequence[bool], call_of: CallOf) -> Cut | None:
    """Cuts what is computed of leaf operands out of a trace; None if there are no products in it, or no others.

    leaves: which operands are rows of inputs. What makes more rows of one, as a node does for its children, stays.
    """
    wanted = {k for k, leaf in enumerate(leaves) if leaf and trace.operands[k].rows == 1}
    rows = {op.outputs[0]: call_in(trace, op, call_of)[0] for op in trace.ops} if wanted else {}
    products = {position for position, row in rows.items() if row is not None and row.kind == "product"}
    apart = products.union([position for position, row in rows.items() if isinstance(row, _ALIKE)])
    of = _owners(trace, wanted, apart)
    pieces = [piece for operand in sorted(wanted) for piece in _pieces(trace, of, operand, products)]
    gone = {piece.operand for piece in pieces}
    kept = tuple(operand for operand in range(len(leaves)) if operand not in gone)
    if not pieces or all(of.get(position) in gone for position in products):
        return None  # or all of it is computed of inputs: there is no recursion
    rest = trace.part([*kept, *[position for piece in pieces for position in piece.results]], trace.results)
    return Cut(rest, kept, tuple(pieces))


def uncut(trace: Trace) -> Cut:
    """The trace as it is."""
    return Cut(trace, tuple(range(len(trace.operands))), ())


def used_alone(trace: Trace) -> Cut:
    """The trace without operands that no result depends on, to which no gradient goes."""
    used = trace.used()
    kept = tuple(position for position in range(len(trace.operands)) if position in used)
    return uncut(trace) if len(kept) == len(trace.operands) else Cut(trace.part(kept, trace.results), kept, ())


def _owners(trace: Trace, wanted: set[int], apart: set[int]) -> dict[int, int | None]:
    """Finds the leaf operand that each position is computed from, None for constants alone; others are left out."""
    of: dict[int, int | None] = {position: None for position, _ in trace.constants()}
    of.update({operand: operand for operand in wanted})
    for op in trace.ops:
        found = {of.get(position, -1) for position in op.inputs} - {None}
        if len(found) <= 1 and -1 not in found and (not found or op.outputs[0] in apart):
            of.update(dict.fromkeys(op.outputs, found.pop() if found else None))
    return of


def _pieces(trace: Trace, of: dict[int, int | None], operand: int, products: set[int]) -> list[Piece]:
    """Finds what is computed of an operand, if there are products among it and nothing else uses the operand."""
    mine = [op for op in trace.ops if of.get(op.outputs[0]) == operand]
    others = [op for op in trace.ops if of.get(op.outputs[0], -1) not in (operand, None)]
    used = {position for op in others for position in op.inputs}.union(trace.results)
    made = [position for op in mine for position in op.outputs if position in used]
    if operand in used or not made or products.isdisjoint([op.outputs[0] for op in mine]):
        return []
    return [Piece(operand, trace.part([operand], made), tuple(made))]
