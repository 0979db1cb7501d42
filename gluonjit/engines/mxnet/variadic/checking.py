"""Compares a program over children with those for each number of children, on random numbers, before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
import numpy as np

from gluonjit.engines.mxnet.arrays import context_of, room_for
from gluonjit.engines.mxnet.modes import as_captured
from gluonjit.engines.mxnet.program import Built
from gluonjit.engines.mxnet.segments import Segments
from gluonjit.engines.mxnet.semantics import shapes
from gluonjit.graph import Kind
from gluonjit.graph.modes import TRAINING
from gluonjit.hybrid.run.state import LOCAL

_NODES = 2  # of each kind
_TOLERANCE = 1e-4
Member = tuple[Kind, tuple[tuple[int, ...], ...]]


def agrees(built: Built, members: Sequence[Member]) -> bool:
    """Tells whether the program gives what the kinds' own programs give."""
    random = np.random.RandomState(0)
    numbers = [[_random(random, spec.row_shape, spec.dtype) for spec in kind.operands] for kind, _ in members]
    with as_captured(LOCAL.state.mode & TRAINING), shapes(built.program.numpy):
        expected = [_alone(kind, own) for (kind, _), own in zip(members, numbers)]
        actual = _together(built, members, numbers)
    for number, found in enumerate(actual):
        wanted = np.concatenate([results[number] for results in expected])
        scale = max(float(np.abs(wanted).max(initial=0.0)), 1e-6)
        if not float(np.abs(found - wanted).max(initial=0.0)) <= _TOLERANCE * scale:
            return False
    return True


def _random(random: np.random.RandomState, shape: tuple[int, ...], dtype: str) -> Any:
    return random.uniform(-1, 1, (_NODES, *shape)).astype(dtype)


def _alone(kind: Kind, numbers: Sequence[Any]) -> list[Any]:
    """The results of a kind's nodes by its own program."""
    context = context_of(kind.operands[0].device)
    operands = []
    for group in kind.groups:
        parts = [numbers[position] for role in group for position in role]
        operands.append(mx.nd.array(np.concatenate(parts), context, parts[0].dtype))
    return _run(kind, kind.program, operands, _NODES, ())


def _together(built: Built, members: Sequence[Member], numbers: Sequence[Sequence[Any]]) -> list[Any]:
    """The results of the nodes of all kinds by one program."""
    kinds = [
        Kind(kind.name, kind.operands, built.outputs, built.rows, built.program, children=roles)
        for kind, roles in members
    ]
    context = context_of(kinds[0].operands[0].device)
    operands = []
    for number, group in enumerate(kinds[0].groups):
        parts = []
        for role in range(len(group)):
            for kind, own in zip(kinds, numbers):
                stacked = np.stack([own[position] for position in kind.groups[number][role]], axis=1)
                parts.append(stacked.reshape((-1, *stacked.shape[2:])))
        operands.append(mx.nd.array(np.concatenate(parts), context, parts[0].dtype))
    arities = np.repeat([kind.arity for kind in kinds], _NODES)
    return _run(kinds[0], built.program, operands, len(arities), Segments([arities], context).of(0))


def _run(kind: Kind, program: Any, operands: Sequence[Any], count: int, besides: Sequence[Any]) -> list[Any]:
    results = [room_for(output.spec, count * output.spec.rows) for output in kind.outputs]
    program(operands, program.consts, count, results, besides)
    return [result.asnumpy() for result in results]
