"""From the first call of an operator with a signature to its kind: batched, or alone with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import mxnet as mx

from gluonjit.engines.mxnet.framework.originals import Attrs
from gluonjit.engines.mxnet.framework.symbols import (
    ALONE,
    AT_ONCE,
    NO_GRADIENT,
    STATEFUL,
    WITH_STATISTICS,
    Attributes,
    acts,
    apply,
    fails,
    listed,
    read,
)
from gluonjit.engines.mxnet.lengths.program import JOINER, typed
from gluonjit.engines.mxnet.operators.binding import OWNERS, SEGMENTS, segment_sum
from gluonjit.engines.mxnet.operators.table import KNOWN, work_of
from gluonjit.engines.mxnet.run.program import Batched, Program, build
from gluonjit.engines.mxnet.values.recorder import trace_op
from gluonjit.graph import Kind, Spec, Value, Work, family_key, intern_spec, outputs_of
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.capture.lengths.joining import without_sizes
from gluonjit.hybrid.choose.pacing import TRACE
from gluonjit.hybrid.run.batch import RUNNING, Batch
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.trace import Built, Trace, TraceBuilder, join_family

ADDITIONS = {"elemwise_add", "broadcast_add", "add_n", "_npi_add"}
_kinds: dict[Any, Kind] = {}
_families: dict[Any, Kind] = {}
_cells: dict[Any, OperatorCell] = {}
_MOST_KINDS = 4096


class OperatorCell:
    """An operator, calls of which may differ in lengths alone."""

    operator = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.joints: dict[Any, Any] = {}
        self.by_number = ""
        self.laid = self.keys = None

    @property
    def kinds(self) -> dict[Any, Kind]:
        """Those of all operators."""
        return _kinds

    @kinds.setter
    def kinds(self, kinds: dict[Any, Kind]) -> None:
        _kinds.update(kinds)


class OperatorCall(NamedTuple):
    """A call of an operator, and the values of its operands."""

    cell: OperatorCell
    values: Sequence[Value]
    batch: Batch
    noted: Noted


@lru_cache(maxsize=_MOST_KINDS)
def sum_kind(spec: Spec, count: int) -> Kind:
    """The kind that adds up `count` arrays of this spec, given as one operand of all their rows."""
    stacked = intern_spec((count * spec.rows, *spec.row_shape), spec.dtype, spec.device, "rows")
    inner = (count, *((spec.rows,) if spec.mode != "stack" else ()), *spec.row_shape)
    data = apply("Reshape", [mx.sym.var("group0")], {"shape": (-1, *inner)})
    total = apply("sum", [data], {"axis": 1})
    if spec.mode != "stack":
        total = apply("Reshape", [total], {"shape": (-1, *spec.row_shape)})
    program = Batched([total], ["group0"], [])
    outputs, rows = outputs_of([spec])
    elements = float(prod(stacked.shape))
    work = Work(program.operators, elements, stacked.bytes + spec.bytes)
    builder, apart = TraceBuilder([stacked]), (count, *spec.shape)
    terms = builder.op("Reshape", (("shape", str(apart)),), [0], [(apart, spec.dtype)])
    call = builder.finish(builder.op("sum", (("axis", "0"),), terms, [(spec.shape, spec.dtype)]))
    return Kind(f"add_n of {count}", (stacked,), outputs, rows, program, sum_of=count, work=work, call=call)


def operator_kind(
    batch: Batch,
    signature: Any,
    handle: int,
    name: str,
    attrs: Attrs,
    sources: Sequence[Any],
    values: Sequence[Value],
    mode: int,
) -> Kind | None:
    """The kind of an operator call: batched, or alone with the reason."""
    cache = batch.report.cache
    without = batch.options.without
    signature = (without, signature)
    kind = _kinds.get(signature)
    if kind is not None:
        cache["hits"] += 1
        return kind
    cache["misses"] += 1
    batch.report.missed, batch.report.anew = name, ""
    devices = {str(source.device) for source in sources if isinstance(source, Spec)}
    if len(devices) > 1:
        text = (
            f"{name} called on operands on several devices: {', '.join(sorted(devices))}. "
            f"Move them to one with as_in_context."
        )
        raise refused(mx.base.MXNetError, text)
    with RUNNING, TRACE:
        kind = _of_any_length(batch, handle, name, attrs, sources, values, mode)
    if kind is not None:
        if len(_kinds) >= _MOST_KINDS:
            clear_kinds()
        _kinds[signature] = kind
    return kind


def known_kind(batch: Batch, signature: Any) -> Kind | None:
    """The kind of an operator call that was met before."""
    return _kinds.get((batch.options.without, signature))


def _of_any_length(
    batch: Batch, handle: int, name: str, attrs: Attrs, sources: Sequence[Any], values: Sequence[Value], mode: int
) -> Kind | None:
    """The kind of a new call, which may be that of calls with other lengths."""
    if name in AT_ONCE:
        return None
    without = batch.options.without
    own = [source if isinstance(source, Spec) else id(source) for source in sources]
    cell = _cells.setdefault(without_sizes((without, handle, mode, LOCAL.state.numpy, *own)), OperatorCell(name))
    call = OperatorCall(cell, values, batch, Noted())
    call.noted.signature = attrs
    kind = JOINER.derived(call)
    if kind is not None:
        return kind
    trace = trace_op(name, attrs, sources, mode)
    sized = typed(trace)
    kind = JOINER.of_other_lengths(call, sized, None)
    if kind is not None:
        return kind
    kind = _make_kind(trace, handle, name, attrs, sources, without)
    if kind is None or kind.lone or kind.sum_of or JOINER.runs_in_c(kind):
        return kind  # a step in C for each length takes less than one for all
    return JOINER.join(call, kind, sized)


def _make_kind(
    trace: Trace, handle: int, name: str, attrs: Attrs, sources: Sequence[Any], without: tuple[str, ...]
) -> Kind | None:
    if any(0 in shape for shape, _ in trace.shaped_results()):  # arrays without elements run at once
        return None
    if name in STATEFUL and name in ALONE and not trace.operands:
        return None
    try:
        built = build(trace)
    except NotBatchable as refusal:
        reason = str(refusal).removeprefix(f"{name}: ")
    else:
        specs = trace.operands
        adds = name in ADDITIONS and len(set(specs)) == 1 and len(specs) == len(sources)
        adds = adds and built.outputs[0].spec is specs[0] and specs[0].dtype != "bool"
        kind = built.kind(name, trace, work_of, operator=True, sum_of=len(specs) if adds else 0)
        if kind.poly:
            general = (
                without,
                name,
                attrs,
                trace.training,
                LOCAL.state.numpy,
                *[family_key(s) if isinstance(s, Spec) else id(s) for s in sources],
            )
            join_family(_families, general, kind)
        elif name == "sum" and "arity" not in without and _sums_rows(kind, read(attrs)):
            return _in_segments(kind)
        return kind
    if len(trace.ops) > 1:  # parts of weights
        return None
    known = read(attrs)
    lone = Program(list(trace.consts), name not in KNOWN or fails(name, known))
    lone.running = _running(name, known, sources) if trace.training else ()
    lone.momentum = float(known.get("momentum", 0.9))
    reads = {place for k, place in enumerate(trace.ops[0].inputs) if k not in NO_GRADIENT.get(name, ())}
    lone.used = [place in reads for place in (*range(len(trace.operands)), *[place for place, _ in trace.constants()])]
    outputs, rows = trace.outputs()
    lone.depends = [{k for k, used in enumerate(lone.used) if used} for _ in outputs]
    pure = name in KNOWN and not acts(name, known)
    return Built(lone, outputs, rows, False, pure).kind(name, trace, work_of, lone=reason, operator=True)


def _running(name: str, attrs: Attributes, sources: Sequence[Any]) -> tuple[int, ...]:
    """The positions among the constants of what an operator mixes its statistics into."""
    fixed = [not isinstance(source, Spec) for source in sources]
    if name not in WITH_STATISTICS or attrs.get("use_global_stats") or not all(fixed[3:5]):
        return ()
    before = sum(fixed[:3])
    return before, before + 1


def _sums_rows(kind: Kind, attrs: Attributes) -> bool:
    """True if an operator adds up the rows of its operand, and nothing inside of them."""
    (spec,), result = kind.operands, kind.outputs[0].spec
    axis = listed(attrs.get("axis"))
    along = axis == (0,) if spec.row_shape else axis in ((), (0,))
    same = result.rows == 1 and result.row_shape == spec.row_shape
    return spec.mode == "rows" and spec.dtype == "float32" and along and same and not attrs.get("exclude")


def _in_segments(kind: Kind) -> Kind:
    """The same sum as a sum over segments: one kind for any number of rows."""
    (spec,), output = kind.operands, kind.outputs[0]
    key = ("segments", spec.row_shape, spec.dtype, spec.device, output.spec)
    first = _families.get(key)
    if first is None:
        flat = apply("Reshape", [mx.sym.var("group0")], {"shape": (-1, max(prod(spec.row_shape), 1))})
        total = apply("Reshape", [segment_sum(flat)], {"shape": (-1, *spec.row_shape)})
        program = Batched([total], ["group0"], [], (OWNERS, SEGMENTS))
        first = _families[key] = replace(kind, program=program, children=((0,),), family=None)
    return replace(kind, program=first.program, children=((0,),), family=first)


def clear_kinds() -> None:
    """Forgets every operator's kind."""
    sum_kind.cache_clear()
    _kinds.clear()
    _families.clear()
    _cells.clear()


def kind_count() -> int:
    """Operators' kinds in the cache, and those of sums."""
    return len(_kinds) + sum_kind.cache_info().currsize
