"""Small rewritings of a traced program before it is batched: the same results by faster operators.

Each is a row of `PEEPHOLES`, takes a trace and returns the operators that run instead; `docs/peepholes.md` has the
gains. A row keeps the positions of every result that is used outside of what it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from gluonjit.engines.mxnet.rules.attributes import Attributes
from gluonjit.engines.mxnet.trace import Recorder
from gluonjit.program.trace import TraceOp

Rewrite = Callable[[Recorder, Sequence[int]], "list[TraceOp]"]


class Peephole(NamedTuple):
    """One rewriting; `name` is that of the switch that leaves it out (see `gluonjit.hybrid.options.SWITCHES`)."""

    name: str
    rewrite: Rewrite


def improved(trace: Recorder, results: Sequence[int], without: Collection[str]) -> Recorder:
    """The trace with all rewritings made but those left out; the trace given stays as it is."""
    for name, rewrite in PEEPHOLES:
        if name not in without:
            made = Recorder(trace.operands, trace.mode, trace.constant)
            made.shapes, made.consts, made.known = list(trace.shapes), trace.consts, trace.known
            made.ops = trace.ops
            made.ops = rewrite(made, results)
            trace = made
    return trace


# --- activations -------------------------------------------------------------------------------------------------

_ACTIVATIONS = {"tanh": "tanh", "_npi_tanh": "tanh", "sigmoid": "sigmoid", "_npx_sigmoid": "sigmoid"}
# Activation gives 0 instead of what is less than 1.7e-38, which these make visible.
_ENLARGING = ("log", "div", "reciprocal", "rsqrt", "rcbrt", "power", "digamma", "gamma")


def _activations(trace: Recorder, results: Sequence[int]) -> list[TraceOp]:
    """Runs sigmoid and tanh by oneDNN, in float32. (relu stays: Activation makes 0 of a NaN.)"""
    if not trace.device.startswith("cpu"):
        return trace.ops
    users = _users(trace.ops)
    return [_activation(trace, op, users.get(op.outputs[0], []), results) for op in trace.ops]


def _activation(trace: Recorder, op: TraceOp, users: Sequence[TraceOp], results: Sequence[int]) -> TraceOp:
    kind = _ACTIVATIONS.get(op.name)
    shape, dtype = trace.shapes[op.outputs[0]]
    if kind is None or dtype != "float32" or not shape:
        return op
    enlarged = op.outputs[0] in results or any(part in user.name for user in users for part in _ENLARGING)
    if kind == "sigmoid" and enlarged:
        return op
    return TraceOp("Activation", (("act_type", kind),), op.inputs, op.outputs)


# --- splits ------------------------------------------------------------------------------------------------------

_MOST_SLICES = 8


def _splits(trace: Recorder, results: Sequence[int]) -> list[TraceOp]:
    """Cuts rows of gates apart in blocks.

    MXNet's SliceChannel along the last axis goes elementwise. Without backward a slice_axis for each part is
    faster; with it, a SliceChannel of blocks: slices write one gradient of the whole for each part, and add them up.
    """
    made: list[TraceOp] = []
    gone: set[tuple[int, ...]] = set()
    for op in trace.ops:
        if op.outputs in gone:
            continue
        parts = _parts(trace, op)
        if parts and not (trace.training or len(parts) > _MOST_SLICES):
            width = trace.shapes[op.inputs[0]][0][1] // len(parts)
            made += [_slice(op.inputs[0], part, number * width, width) for number, part in enumerate(parts)]
            continue
        if not parts and trace.training:
            slices = _cover(trace, op)
            parts = tuple(other.outputs[0] for other in slices)
            gone.update(other.outputs for other in slices)
        made += _blocks(trace, op.inputs[0], parts) if parts else [op]
    return made


def _parts(trace: Recorder, op: TraceOp) -> tuple[int, ...]:
    """The results of a split of (rows, columns) into equal parts of the columns."""
    if op.name != "SliceChannel" or len(trace.shapes[op.inputs[0]][0]) != 2 or len(op.outputs) < 2:
        return ()
    attrs = Attributes(dict(op.attrs))
    along = attrs.integer("axis", 1) in (1, -1) and not attrs.flag("squeeze_axis")
    return op.outputs if along else ()


def _slice(data: int, part: int, begin: int, width: int) -> TraceOp:
    attrs = (("axis", "1"), ("begin", str(begin)), ("end", str(begin + width)))
    return TraceOp("slice_axis", attrs, (data,), (part,))


def _blocks(trace: Recorder, data: int, parts: tuple[int, ...]) -> list[TraceOp]:
    (rows, columns), dtype = trace.shapes[data]
    count = len(parts)
    apart = len(trace.shapes)
    trace.shapes.append(((rows, count, columns // count), dtype))
    reshape = TraceOp("Reshape", (("shape", str((0, count, columns // count))),), (data,), (apart,))
    attrs = (("num_outputs", str(count)), ("axis", "1"), ("squeeze_axis", "True"))
    return [reshape, TraceOp("SliceChannel", attrs, (apart,), parts)]


def _cover(trace: Recorder, op: TraceOp) -> list[TraceOp]:
    """The slices that cut what this one cuts into equal parts, in order, if this is the first of such."""
    if _columns(trace, op) is None:
        return []
    slices: dict[tuple[int, int], TraceOp] = {}
    for other in trace.ops:
        if other.inputs == op.inputs:
            columns = _columns(trace, other)
            if columns is not None:
                if columns in slices:
                    return []
                slices[columns] = other
    (begin, end), total = min(slices), trace.shapes[op.inputs[0]][0][1]
    width = end - begin
    even = sorted(slices) == [(first, first + width) for first in range(0, total, width)]
    return [slices[columns] for columns in sorted(slices)] if even and total % width == 0 and len(slices) > 1 else []


def _columns(trace: Recorder, op: TraceOp) -> tuple[int, int] | None:
    """Finds the columns that a slice of (rows, columns) takes, if it takes all rows."""
    if op.name not in ("slice_axis", "slice") or len(trace.shapes[op.inputs[0]][0]) != 2:
        return None
    attrs = Attributes(dict(op.attrs))
    if op.name == "slice_axis":
        if attrs.integer("axis", 0) not in (1, -1):
            return None
        ends = attrs.optional_integer("begin", 0), attrs.optional_integer("end", None)
    else:
        begin, end, step = (attrs.entries(key) or () for key in ("begin", "end", "step"))
        if len(begin) != 2 or len(end) != 2 or (begin[0], end[0]) != (None, None) or not {None, 1}.issuperset(step):
            return None
        ends = begin[1], end[1]
    first, last, _ = slice(*ends).indices(trace.shapes[op.inputs[0]][0][1])
    return (first, last) if last > first else None


def _users(ops: Iterable[TraceOp]) -> dict[int, list[TraceOp]]:
    """The operators that read each position."""
    users: dict[int, list[TraceOp]] = {}
    for op in ops:
        for position in op.inputs:
            users.setdefault(position, []).append(op)
    return users


PEEPHOLES: tuple[Peephole, ...] = (
    Peephole("activations", _activations),
    Peephole("splits", _splits),
)
"""In the order in which they are made."""
