"""How MXNet's rule cases batch, by the engine's own way from a trace to a program."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import gluon
from operator_cases import CASES as PROGRAMS
from operator_cases import Case as Program
from rule_runs import draw, is_numpy, run_one

import gluonjit
from batched.cases import ALONE, ANY_ROWS, ONE_LAUNCH, rows_of
from batched.committed import Rows
from experiments.conformance.rule_cases import CASES, Case
from gluonjit.engines.mxnet.run.program import build
from gluonjit.graph import intern_spec, natural_mode
from gluonjit.graph.modes import mode_of
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.trace import Trace, TraceBuilder

CPU = "cpu(0)"


def rows() -> Rows:
    """Return how each case runs; programs, of operators that are captured one by one, are of one row."""
    rules = [(test.op, str(test).removeprefix(test.op), how(test)) for test in CASES]
    return rows_of([*rules, *[("program", f" {test.name}", how_captured(test)) for test in PROGRAMS]])


def how(test: Case) -> str:
    """Return how a case runs for several samples."""
    with mx.util.np_shape(is_numpy(test.op)):
        sample = draw(test, 1)[0]
        outputs = test.outputs or [(tuple(one.shape), np.dtype(one.dtype).name) for one in run_one(test, sample)]
        for added in (False, True):
            with suppress(NotBatchable):
                build(trace_of(test, sample, outputs, False, added))
                return ANY_ROWS if build(trace_of(test, sample, outputs, True, added)).poly else ONE_LAUNCH
    return ALONE


def trace_of(test: Case, sample: list[Any], outputs: list[Any], rows: bool, added: bool) -> Trace:
    """Return the trace of a call whose operands lie as free arrays do, or all as `rows`.

    added: its results are added to an operand, as no program gives what is the same for all samples.
    """
    own = [number for number, arg in enumerate(test.args) if not arg.shared]
    specs = [_spec(test.args[number].shape, test.args[number].dtype, rows) for number in own]
    ones = [_spec((1,) * len(shape), dtype, rows) for shape, dtype in outputs] if added else []
    builder = TraceBuilder([*specs, *ones], CPU, mode_of(test.training, test.training))
    places = dict(zip(own, range(len(own))))
    for number, arg in enumerate(test.args):
        if arg.shared:
            places[number] = builder.constant(sample[number], (arg.shape, arg.dtype))
    inputs = [places[number] for number in range(len(test.args))]
    results = builder.op(test.op, tuple(test.attrs.items()), inputs, outputs)
    for number in range(len(ones)):
        sums = builder.op("broadcast_add", (), [results[number], len(specs) + number], [outputs[number]])
        results = (*results[:number], *sums, *results[number + 1 :])
    return builder.finish(results)


def _spec(shape: tuple[int, ...], dtype: str, rows: bool) -> Any:
    return intern_spec(shape, dtype, CPU, "rows" if rows and shape else natural_mode(shape))


class Captured(gluon.Block):
    """A program whose operators are nodes."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run
        self.hybridize(dynamic_batch=True, granularity="op", scheduler="depth", sharing=False)

    def forward(self, *arrays: Any) -> Any:
        return self.run(mx.nd, *arrays)


def how_captured(test: Program) -> str:
    """Return how the operators of a program run, for any rows where they mean the same with any."""
    alike = launches(test, [2, 2, 2] if test.rows else [None] * 3)
    if alike is None:
        return ALONE
    apart = launches(test, [2, 1, 3]) if test.rows else None
    return ONE_LAUNCH if apart is None or apart > max(alike, 1) else ANY_ROWS


def launches(test: Program, rows: list[Any]) -> int | None:
    """Count the launches for samples of so many rows; None where an operator has several, or runs alone."""
    net = Captured(test.run)
    with gluonjit.batching() as batch:
        results = [net(*test.sample(number, count)) for number, count in enumerate(rows)]
    report = batch.report
    assert len(results) == len(rows)  # they are all there until the batch has run
    several = any(step.launches != 1 for step in report.steps)
    return None if report.alone or report.unbatched or several else report.launches
