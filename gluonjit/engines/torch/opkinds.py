"""Kinds that the library makes itself."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from gluonjit.engines.torch.operators.binding import Writer
from gluonjit.engines.torch.program import Batched
from gluonjit.graph import Kind, Spec, Work, intern_spec, outputs_of
from gluonjit.program.axes.values import Operand
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
