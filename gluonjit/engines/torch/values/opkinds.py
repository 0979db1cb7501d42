"""Kinds that the library makes itself: sums, and values whose rows lie otherwise than is natural for their shape.

The latter are what operands of calls of any length are to be.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import torch

from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.operators.table import work_of
from gluonjit.engines.torch.run.program import Batched
from gluonjit.engines.torch.tracing.cell import MADE, Call
from gluonjit.engines.torch.values.operands import leaf
from gluonjit.graph import Kind, Output, Spec, Value, Work, intern_spec, outputs_of
from gluonjit.graph.joining import same_rows
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.axes.values import Operand, Values
from gluonjit.program.trace import TraceBuilder


@lru_cache(maxsize=4096)
def sum_kind(spec: Spec, count: int) -> Kind:
    """The kind that adds up `count` tensors of this spec, given as one operand of all their rows."""
    stacked = intern_spec((count * spec.rows, *spec.row_shape), spec.dtype, spec.device, "rows")
    rest = spec.row_shape

    def total(rows: Any) -> Any:
        return rows.view(-1, count, spec.rows, *rest).sum(1).reshape(-1, *rest)

    builder, apart = TraceBuilder([stacked]), (count, *spec.shape)
    terms = builder.op("view.default", (("self", Operand(0)), ("size", apart)), [0], [(apart, spec.dtype)])
    attrs = (("self", Operand(0)), ("dim", (0,)))
    trace = builder.finish(builder.op("sum.dim_IntList", attrs, terms, [(spec.shape, spec.dtype)]))
    writer = Writer(1)
    finals = writer.add(total, [0], f"sum of {count} times {spec}")
    program = Batched(trace, writer, 1, finals)
    outputs, rows = outputs_of([spec])
    work = Work(1, float(prod(stacked.shape)), stacked.bytes + spec.bytes)
    return Kind(f"add_n of {count}", (stacked,), outputs, rows, program, sum_of=count, work=work, call=trace)


def laid(batch: Batch, value: Value, spec: Spec) -> Value | None:
    """A value as one of this spec, which has its shape; None where its rows would have to be computed."""
    own = value.spec
    if own is spec:
        return value
    if own.row_shape == spec.row_shape:
        return same_rows(value, spec, value.rows)
    tensor = value.base
    if value.depth or tensor.__class__ is not torch.Tensor:
        return None  # computed
    place = id(tensor), value.rows, spec
    if place not in batch.created:
        natural = leaf(batch, tensor)
        before, after = [natural if natural.spec is each else leaf(batch, tensor, each.mode) for each in (own, spec)]
        if before.rows == value.rows:
            batch.created[place] = after
    return batch.created.get(place)  # None of a tensor that has been written to since


def laid_out(tensor: Any, mode: str) -> Any:
    """One node: the same numbers in rows as a mode has them."""
    raise NotImplementedError


def _kind(call: Call) -> Kind:
    before = call.values[0].spec
    after = intern_spec(before.shape, before.dtype, before.device, call.args[1])
    builder = TraceBuilder([before])
    attrs = (("self", Operand(0)), ("size", after.shape))
    trace = builder.finish(builder.op("view.default", attrs, [0], [(after.shape, after.dtype)]))
    writer = Writer(1)
    val = Values(0, before.shape, before.dtype, before.rows, before.row_shape)
    program = Batched(trace, writer, 1, [writer.form(val, after.rows, after.row_shape).slot])
    program.fused = "its rows lie otherwise than is natural"
    return Kind(
        "view", (before,), (Output(after, 0),), after.rows, program, operator=True, work=work_of(trace, 1), call=trace
    )


MADE[laid_out] = _kind
