"""One node of a step that failed, by itself (see `gluonjit.hybrid.failures`)."""

from __future__ import annotations

from functools import partial

import torch

from gluonjit.engines.torch.arrays import device_named
from gluonjit.engines.torch.program import interpret, piece, pieces
from gluonjit.graph import Record
from gluonjit.hybrid import failures
from gluonjit.hybrid.failures import Rows, gathered
from gluonjit.hybrid.provenance import Provenance

_NEXT = "gluonjit.hybridize(net, dynamic_batch=False) lets the same code run eagerly."


def failed(provenance: Provenance, rows: Rows, number: int, error: Exception) -> Exception:
    """The error to raise for a step that failed: it names the first of its nodes that fails by itself."""
    alone = partial(_run_alone, provenance, rows)
    return failures.failed(provenance, number, error, alone, str, _NEXT)


def _run_alone(provenance: Provenance, rows: Rows, record: Record, node: int) -> None:
    """Run the traced call as it is; for any number of children, whose trace is of another number, the batched one."""
    kind, program = record.kind, record.kind.program
    operands = pieces(kind.groups, gathered(provenance, rows, record, node))
    if kind.children:
        owners = torch.zeros(kind.arity, dtype=torch.int64, device=device_named(kind.operands[0].device))
        program(operands, program.consts, 1, (owners,))
    else:
        listed = [position for group in kind.groups for (position,) in group]
        single = {position: piece(rows, kind.operands[position], 0) for position, rows in zip(listed, operands)}
        interpret(program.trace, program.results, [single[position] for position in sorted(single)], program.consts)
