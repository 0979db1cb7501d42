"""Compares a program over children with those for each number of children, on random numbers, before it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gluonjit.engines.torch.arrays import device_named, dtype_named
from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.program import Built, pieces, program_of
from gluonjit.graph import Kind
from gluonjit.hybrid.capture.variadic.roles import Roles

NODES = 2  # of each kind
_TOLERANCE = 1e-4
_HALVES = {"float16": 4e-3, "bfloat16": 3e-2}
"""Four units in the last place: what a sum in another order, and the steps after it, may be off by."""


def agrees(built: Built, members: Sequence[tuple[Kind, Roles]]) -> bool:
    """Tells whether the program gives what the kinds' own programs give."""
    kinds = [kind for kind, _ in members]
    tolerance = tolerance_of([program_of(kind) for kind in kinds])
    with plain():
        tried = on_random_rows([kind.operands for kind in kinds], lambda numbers: _all_alone(kinds, numbers))
        if tried is None:
            return False
        numbers, expected = tried
        actual = _together(built, members, numbers)
        near = [are_near(found, wanted, tolerance) for found, wanted in zip(actual, expected)]
        return bool(torch.stack(near).all())  # read once: a device is waited for


_Numbers = list[list[Any]]


def on_random_rows(
    operands: Sequence[Sequence[Any]], run: Callable[[_Numbers], list[Any]]
) -> tuple[_Numbers, list[Any]] | None:
    """Rows of operands of these looks, and what `run` gives for them; None if it is made for other numbers."""
    draw = torch.Generator().manual_seed(0)
    numbers = [[random_rows(draw, spec) for spec in specs] for specs in operands]
    positive = [[rows.abs() if rows.is_floating_point() else rows for rows in of] for of in numbers]
    # Roots and logarithms want these, and so does what wants probabilities; others, numbers of words that are no 0 and
    # masks that leave something, which not each random one does, or the only row of a table.
    decided = ((1, None), (1, False), (1, True), (0, None))
    for given in (numbers, positive, *[_decided_by(numbers, whole, truth) for whole, truth in decided]):
        try:
            found = run(given)
        except (RuntimeError, IndexError):  # of an operator that looks at its numbers, as `binary_cross_entropy` does
            continue
        if not bool(torch.stack([rows.isnan().any() for rows in found]).any()):  # read once, too
            return given, found
    return None


def _decided_by(numbers: _Numbers, whole: int, truth: bool | None) -> _Numbers:
    """The same with this whole number for all, and this truth value, if one is given."""

    def of(rows: Any) -> Any:
        if rows.dtype is torch.bool:
            return rows if truth is None else torch.full_like(rows, truth)
        return rows if rows.is_floating_point() or rows.is_complex() else torch.full_like(rows, whole)

    return [[of(rows) for rows in each] for each in numbers]


def tolerance_of(programs: Sequence[Any]) -> float:
    """The relative difference that sums in another order may have, by the dtypes of programs."""
    dtypes = {dtype for program in programs for _, dtype in program.trace.shapes}
    return max(_HALVES.get(dtype, _TOLERANCE) for dtype in dtypes)


def are_near(found: Any, wanted: Any, tolerance: float) -> Any:
    """Tells whether results agree, as a tensor: to read it waits for the device."""
    if not wanted.is_floating_point() and not wanted.is_complex():
        return (found == wanted).all()
    scale = wanted.abs().max().double().clamp(min=1e-6)
    return (found - wanted).abs().max().double() <= tolerance * scale


def random_rows(draw: Any, spec: Any) -> Any:
    """Rows of `NODES` operands: of whole numbers 0 and 1, which most tables have."""
    drawn = torch.rand((NODES * spec.rows, *spec.row_shape), generator=draw) * 2 - 1
    dtype = dtype_named(spec.dtype)
    if not dtype.is_floating_point and not dtype.is_complex:
        drawn = drawn > 0
    return drawn.to(dtype).to(device_named(spec.device))


def _all_alone(kinds: Sequence[Kind], numbers: _Numbers) -> list[Any]:
    """The rows of each result of all kinds, each by its own program."""
    expected = [_alone(kind, own) for kind, own in zip(kinds, numbers)]
    return [torch.cat(parts) for parts in zip(*expected)]


def _alone(kind: Kind, numbers: Sequence[Any]) -> list[Any]:
    """The results of a kind's nodes by its own program."""
    operands = [torch.cat([numbers[position] for role in group for position in role]) for group in kind.groups]
    found: list[Any] = program_of(kind)(pieces(kind.groups, operands), program_of(kind).consts, NODES, ())
    return found


def _together(built: Built, members: Sequence[tuple[Kind, Roles]], numbers: Sequence[Sequence[Any]]) -> list[Any]:
    """The results of the nodes of all kinds by one program."""
    kinds = [
        Kind(kind.name, kind.operands, built.outputs, built.rows, built.program, children=roles.roles)
        for kind, roles in members
    ]
    operands = []
    for number, group in enumerate(kinds[0].groups):
        parts = []
        for role in range(len(group)):
            for kind, own in zip(kinds, numbers):
                rows = [
                    own[position].view(NODES, -1, *kind.operands[position].row_shape)
                    for position in kind.groups[number][role]
                ]
                parts.append(torch.cat(rows, 1).flatten(0, 1))
        operands.append(torch.cat(parts))
    arities = torch.tensor([kind.arity for kind in kinds for _ in range(NODES)])
    owners = torch.arange(len(arities)).repeat_interleave(arities).to(operands[0].device)
    found: list[Any] = built.program(pieces(kinds[0].groups, operands), built.program.consts, len(arities), (owners,))
    return found
