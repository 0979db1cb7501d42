"""Reach: what the gradients of a program's results depend on, found by one small run on zeros."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from gluonjit.engines.torch.arrays import device_named, room_for
from gluonjit.engines.torch.hooked import plain, run_backward
from gluonjit.engines.torch.program import program_of
from gluonjit.graph import Kind

_SOME = 2  # nodes of the run


class Dependencies(NamedTuple):
    """The reach of one result: operands that gradients go on to, in the order of `pieces`, and constants."""

    operands: tuple[int, ...]
    consts: tuple[int, ...]


_known: WeakKeyDictionary[Any, dict[Any, tuple[Dependencies | None, ...]]] = WeakKeyDictionary()


def reach_of(kind: Kind, learned: tuple[tuple[bool, ...], ...]) -> tuple[Dependencies | None, ...]:
    """The reach of each result where these operands of each group learn; None of one that depends on none."""
    program = program_of(kind)
    known = _known.setdefault(program, {})
    key = (learned, tuple([tensor.requires_grad for tensor in program.consts]))
    if key not in known:
        with plain(True):
            known[key] = _found(kind, learned)
    return known[key]


def _found(kind: Kind, learned: tuple[tuple[bool, ...], ...]) -> tuple[Dependencies | None, ...]:
    given: list[Any] = []
    of_operand: dict[int, Any] = {}
    for group, learning in zip(kind.groups, learned):
        spec = kind.operands[group[0][0]]
        wide = group[0] in kind.children or (kind.poly and spec.mode == "rows")
        for learns in learning:
            rows = room_for(spec, _SOME * (1 if wide else spec.rows)).zero_()
            if learns:
                of_operand[len(given)] = rows.requires_grad_()
            given.append(rows)
    consts = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in program_of(kind).consts]
    of_const = {number: tensor for number, tensor in enumerate(consts) if tensor.requires_grad}
    inputs = (*of_operand.values(), *of_const.values())
    besides = (torch.arange(_SOME, device=device_named(kind.operands[0].device)),) if kind.children else ()
    found: list[Dependencies | None] = []
    for result in program_of(kind)(given, consts, _SOME, besides):
        if not result.requires_grad:
            found.append(None)
            continue
        got = run_backward((result,), (torch.zeros_like(result),), True, False, inputs, True, False)
        reached = [gradient is not None for gradient in got]
        operands = tuple([number for number, hit in zip(of_operand, reached) if hit])
        found.append(Dependencies(operands, tuple([n for n, hit in zip(of_const, reached[len(of_operand) :]) if hit])))
    return tuple(found)
