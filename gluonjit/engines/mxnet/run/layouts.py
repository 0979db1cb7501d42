"""Kinds that give a value with its rows as a mode has them, where that is not the natural way for its shape."""

from __future__ import annotations

from functools import lru_cache

import mxnet as mx

from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.engines.mxnet.operators.table import work_of
from gluonjit.engines.mxnet.run.program import Batched
from gluonjit.graph import Kind, Output, Record, Spec, Value
from gluonjit.hybrid.capture.capturing import captured, room_of
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.trace import TraceBuilder


def computed(batch: Batch, value: Value, spec: Spec) -> Value:
    """Returns one node's result: the same numbers in rows as `spec` has them, which has the value's shape."""
    key = ("layout", value.spec, spec, LOCAL.state.mode)
    record = batch.records.get(key)
    if record is None:
        kind = _kind(value.spec, spec)
        record = batch.records[key] = Record(kind, LOCAL.state.mode, room_of(kind, batch.options))
    return captured(batch, record, [value])[0]


@lru_cache(maxsize=4096)
def _kind(before: Spec, after: Spec) -> Kind:
    rows = apply("Reshape", [mx.sym.var("group0")], {"shape": (-1, *after.row_shape)})
    builder = TraceBuilder([before])
    attrs = (("shape", str(after.shape)),)
    trace = builder.finish(builder.op("Reshape", attrs, [0], [(after.shape, after.dtype)]))
    outputs, work = (Output(after, 0),), work_of(trace, 1)
    program = Batched([rows], ["group0"], [])
    return Kind("Reshape", (before,), outputs, after.rows, program, operator=True, work=work, call=trace)
