"""How PyTorch's rule cases batch, by the engine's own way from a trace to a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch_rule_cases import CASES, Case
from torch_rule_runs import arguments, draw, run_one, with_tensors

from batched.cases import ALONE, ANY_ROWS, ONE_LAUNCH, rows_of
from batched.committed import Rows
from gluonjit.engines.torch.framework.arrays import name_of_dtype
from gluonjit.engines.torch.run.program import build
from gluonjit.graph import intern_spec, natural_mode
from gluonjit.program.axes.values import NotBatchable, Operand
from gluonjit.program.trace import Trace, TraceBuilder


def rows() -> Rows:
    """Return how each case runs."""
    with torch.no_grad():
        return rows_of((test.op, str(test).removeprefix(test.op), how(test)) for test in CASES)


def how(test: Case) -> str:
    """Return how a case runs for several samples."""
    sample = draw(test, 1)[0]
    outputs = [(tuple(one.shape), name_of_dtype(one.dtype)) for one in run_one(test, sample)]
    try:
        build(trace_of(test, sample, outputs, False))
        return ANY_ROWS if build(trace_of(test, sample, outputs, True)).poly else ONE_LAUNCH
    except NotBatchable:
        return ALONE


def trace_of(test: Case, sample: list[Any], outputs: list[Any], rows: bool) -> Trace:
    """Return the trace of a call whose operands lie as free tensors do, or all as `rows`."""
    args = arguments(test)
    own = [number for number, arg in enumerate(args) if not arg.shared]
    builder = TraceBuilder([_spec(args[number], rows) for number in own], "cpu")
    places = dict(zip(own, range(len(own))))
    for number, arg in enumerate(args):
        if arg.shared:
            places[number] = builder.constant(sample[number], (arg.shape, arg.dtype))
    given = with_tensors(test, list(_operands(len(args))), tuple)
    made = builder.op(test.op, tuple(given.items()), [places[number] for number in range(len(args))], outputs)
    return builder.finish(made[: test.compared])


def _spec(arg: Any, rows: bool) -> Any:
    return intern_spec(arg.shape, arg.dtype, "cpu", "rows" if rows and arg.shape else natural_mode(arg.shape))


def _operands(count: int) -> Iterator[Operand]:
    return map(Operand, range(count))
