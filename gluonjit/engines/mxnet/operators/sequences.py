"""Operators with time first and the batch second: (T, B, ...).

The nodes' batches are laid side by side: (N, T, B, ...) becomes (T, N*B, ...), and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gluonjit.engines.mxnet.operators.linear import MAP
from gluonjit.engines.mxnet.operators.shapes import begins
from gluonjit.program.axes.along import Section, Turned
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.samples import Samples
from gluonjit.program.axes.values import Values
from gluonjit.program.axes.writer import Writer

_BATCHES = Samples(data=2, least=1)
_LAST, _FLIPPED = Section("axis", begins=begins), Turned("axis", many=True)


def _side_by_side(writer: Writer, val: Values) -> Values:
    """(T, B, ...) of each node as (T, N*B, ...)."""
    order = (1, 0, *range(2, val.rank + 1))
    turned = writer.put("permute", writer.each(val), order)
    return writer.put("shape", turned, (val.shape[0], -1, *val.shape[2:]))


def _apart(writer: Writer, val: Values) -> Values:
    """(T, N*B, ...) as (T, B, ...) of each node."""
    folded = writer.put("shape", val, (val.shape[0], -1, *val.shape[1:]))
    order = (1, 0, *range(2, val.rank + 1))
    return writer.put("permute", folded, order)._replace(lead=1, rest=val.shape)


def by_batches(ins: Sequence[int], *outs: int) -> Callable[[Application], list[Values]]:
    """A rule of an operator with the nodes' batches along these axes, each 0 or 1; -1 marks a parameter."""

    def rule(call: Application) -> list[Values]:
        writer, placed = call.writer, []
        for val, axis in zip(call.vals, ins):
            if axis < 0 and not val.shared:
                raise call.refuse("parameters that are not the same for all samples")
            placed.append(
                val if axis < 0 else _side_by_side(writer, val) if axis else writer.folded(writer.spread(val), 1)
            )
        found = call.made(call.again(placed), 1)
        return [_apart(writer, val) if axis else val for val, axis in zip(found, outs)]

    return rule


def sequence(call: Application) -> list[Values]:
    """SequenceMask, SequenceReverse and SequenceLast: `axis` is the time, the other one the batch."""
    val, axis, last = call.vals[0], int(call.get("axis", 0)), call.name == "SequenceLast"
    if val.shared:
        raise call.refuse("shared data with lengths per sample")
    if call.get("use_sequence_length"):
        return _BATCHES.lift(call) if axis else by_batches((1, 0), 0 if last else 1)(call)
    if last:  # which without lengths ends the process in MXNet
        attrs = {"axis": axis, "begin": -1, "end": None}
        shape = (*val.shape[:axis], 1, *val.shape[axis + 1 :])
        return _LAST.lift(call.on("slice_axis", attrs, [val], [(shape, val.dtype)]))
    if call.name == "SequenceMask":
        return MAP.lift(call.on("_copy", {}, [val], call.outs))
    return _FLIPPED.lift(call.on("reverse", {"axis": (axis,)}, [val], call.outs))


_LAYERS = by_batches((1, -1, 1, 1), 1, 1, 1)


def recurrent(call: Application) -> list[Values]:
    """RNN: fused recurrent layers over equally many steps; between layers nothing may be dropped."""
    if float(call.get("p", 0.0)) > 0.0:
        raise call.refuse("dropout between its layers")
    if call.get("use_sequence_length") or call.get("projection_size") is not None:
        raise call.refuse("sequence lengths or projections")
    return _LAYERS(call)
