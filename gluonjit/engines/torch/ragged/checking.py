"""Compares a program for any length with those for each length, on random numbers, before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gluonjit.engines.torch.program import as_rows, interpret, piece, program_of
from gluonjit.engines.torch.rules.table import draws, operator_named
from gluonjit.engines.torch.variadic.checking import NODES, are_near, on_random_rows, tolerance_of
from gluonjit.graph import Kind
from gluonjit.program.trace import Operand, Trace, TraceOp


def undrawn(trace: Trace) -> Trace:
    """The trace with ones in place of what is drawn at random."""
    ops = [
        TraceOp("ones_like.default", (("self", Operand(0)),), op.inputs[:1], op.outputs)
        if op.inputs and len(op.outputs) == 1 and draws(operator_named(op.name), dict(op.attrs))
        else op
        for op in trace.ops
    ]
    return replace(trace, ops=tuple(ops), built={})


def agrees(kinds: Sequence[Kind]) -> bool:
    """Tells whether kinds that run together give what their traces give, node by node."""
    tried = on_random_rows([kind.operands for kind in kinds], lambda numbers: _alone(kinds, numbers))
    if tried is None:
        return False
    numbers, expected = tried
    programs = [program_of(kind) for kind in kinds]
    together = [torch.cat(parts) for parts in zip(*numbers)]
    parts = [(program, NODES) for program in programs]
    try:
        actual = programs[0](together, programs[0].consts, NODES * len(kinds), (parts,))
    except RuntimeError:  # an operator that runs on each node refuses all together
        return False
    tolerance = tolerance_of(programs)
    pairs = list(zip(actual, expected))
    return all([one.shape == two.shape for one, two in pairs]) and all([are_near(*pair, tolerance) for pair in pairs])


def _alone(kinds: Sequence[Kind], numbers: Sequence[Sequence[Any]]) -> list[Any]:
    """The rows of each result of all nodes, one node after the other."""
    expected: list[list[Any]] = [[] for _ in kinds[0].outputs]
    for kind, rows in zip(kinds, numbers):
        program = program_of(kind)
        for node in range(NODES):
            given = [piece(chunk, spec, node * spec.rows) for chunk, spec in zip(rows, kind.operands)]
            results = interpret(program.trace, given, program.trace.consts)
            for found, output, result in zip(expected, kind.outputs, results):
                found.append(as_rows(result, output.spec))
    return [torch.cat(parts) for parts in expected]
