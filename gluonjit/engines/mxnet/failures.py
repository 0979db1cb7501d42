"""Runs the nodes of a failed step one by one (see `gluonjit.hybrid.run.failures`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gluonjit.engines.mxnet.arrays import context_of, room_for
from gluonjit.engines.mxnet.inference import reason_of
from gluonjit.engines.mxnet.program import program_of
from gluonjit.engines.mxnet.segments import Segments
from gluonjit.graph import Record
from gluonjit.hybrid.explain.provenance import Provenance
from gluonjit.hybrid.run import failures
from gluonjit.hybrid.run.failures import Rows, gathered

_NEXT = "hybridize(dynamic_batch=False) runs the same code eagerly."


def failed(provenance: Provenance, rows: Rows, number: int, error: Exception, again: Callable[[], None]) -> Exception:
    """Returns the error of a step that failed: it names the first node that fails when run alone.

    again: runs the step once more.
    """
    alone = partial(_run_alone, provenance, rows)
    return failures.failed(provenance, number, error, alone, reason_of, _NEXT, again)


def _run_alone(provenance: Provenance, rows: Rows, record: Record, node: int) -> None:
    """Runs one node alone and waits for it."""
    kind = record.kind
    operands = gathered(provenance, rows, record, node)
    results = [room_for(output.spec, output.spec.rows) for output in kind.outputs]
    besides: list[Any] = []
    if kind.children:
        besides = Segments([np.array([kind.arity])], context_of(kind.operands[0].device)).of(0)
    program_of(kind)(operands, program_of(kind).consts, 1, results, besides)
    for result in results:
        result.wait_to_read()
