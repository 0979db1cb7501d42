"""Rules of layers, of operators with parameters, of those that draw, and of those with time first: (T, B, ...).

Of the last, the nodes' batches are laid side by side: (N, T, B, ...) becomes (T, N*B, ...), and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from gluonjit.engines.mxnet.framework.symbols import listed
from gluonjit.engines.mxnet.operators.binding import Writer as SymbolWriter
from gluonjit.engines.mxnet.operators.linear import MAP, added
from gluonjit.engines.mxnet.operators.shapes import begins
from gluonjit.program.axes.along import Along, Section, Turned
from gluonjit.program.axes.elementwise import Map
from gluonjit.program.axes.row import Application, Row
from gluonjit.program.axes.samples import Samples
from gluonjit.program.axes.values import ROWS, Labels, Vals, Values, is_sized
from gluonjit.program.axes.writer import Writer

_SAME = Map(casts=None, equal=True, smooth=True)
_DROPPED = Along("axes", many=True)


def batch_not_first(call: Application) -> str | None:
    """Says so of a layer whose samples are not along the first axis."""
    layout = str(call.get("layout", "N"))
    return None if layout.startswith("N") else f"layout {layout} does not begin with the batch"


def divided_by_batch(call: Application) -> str | None:
    """Says so of a loss whose gradient depends on the number of samples."""
    how = call.get("normalization", "null")
    return None if how == "null" else f"its gradient is divided by the batch ({how})"


def statistics_of_batch(call: Application) -> str | None:
    """Says so of a norm that looks at all samples."""
    assert isinstance(call.writer, SymbolWriter)
    if call.writer.learning and not call.get("use_global_stats"):
        return "in training its statistics are those of the batch, and so is what its gradient uses"
    if call.get("axis", 1) not in (1, 2, 3, 4, -1):
        return "the channels may lie along the batch"
    return "returns the statistics too" if call.get("output_mean_var") else None


def upsampled(call: Application) -> Vals:
    """UpSampling: with bilinear the weight is the same for all."""
    return Samples(least=4, data=1 if call.get("sample_type") == "bilinear" else 99).lift(call)


def dropout(call: Application) -> Vals:
    """Draws for every element; along `axes` one draw is shared."""
    return (_DROPPED if call.get("axes") else MAP).lift(call)


class Total(Map):
    """add_n: the sum of what differs by node, and once of what is shared."""

    said = "operands that all samples share are added once"

    def adds(self, call: Application) -> bool:
        """True, as it does nothing else."""
        return True

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        mine, constant = call.mine, [val for val in call.vals if val.shared]
        (found,) = _SAME.lift(call.on("add_n", {"num_args": len(mine)}, mine, call.outs))
        if not constant:
            return [found]
        if found.packed and not call.writer.sized:
            raise call.refuse("an operand of a fixed number of rows, where others vary")
        return added(call, found, call.writer.result("add_n", {"num_args": len(constant)}, constant))


def where(call: Application) -> Vals:
    """Picks between two; the condition has the data's shape, or one entry for each of its rows."""
    condition, one, _ = call.vals
    if condition.rank == one.rank:
        return _SAME.lift(call)
    return call.made(call.again([call.writer.folded(call.writer.spread(val), 1) for val in call.vals]), 1)


def leaky(call: Application) -> Vals:
    """LeakyReLU: x where x > 0, else the channel's slope times x, if slopes are learned.

    These are spelled out, because inside a graph MXNet's own backward of prelu writes the gradient of the data over
    the data before it has read them for the gradient of the slope.
    """
    kind = call.get("act_type", "leaky")
    if kind == "rrelu":
        raise call.refuse("rrelu draws random slopes")
    if kind != "prelu":
        return MAP.lift(call)
    data, slope = call.vals
    if not slope.shared or data.rank < 2 or data.shared or slope.rank != 1:
        raise call.refuse("prelu needs data of two axes or more and one slope for all samples")
    writer = call.writer
    rows = writer.folded(data, 1)
    channels = writer.put("shape", slope, (1, -1, *(1,) * (data.rank - 2)))
    scaled = writer.result("broadcast_mul", {}, [rows, channels])
    positive = writer.result("_greater_scalar", {"scalar": 0}, [rows])
    return call.made(writer.call("where", {}, [positive, rows, scaled]), 1)


def multicast(call: Application) -> Vals:
    """Each operand cast to the widest dtype of all; shapes and layouts need not agree."""
    if any(val.shared for val in call.vals):
        raise call.refuse("shared and batched values together")
    pairs = zip(call.vals, call.again(call.vals), call.outs)
    return [val._replace(slot=slot, dtype=dtype) for val, slot, (_, dtype) in pairs]


def first(call: Application) -> Vals:
    """Copies the first operand: the second only says what it should look like."""
    return MAP.lift(call.on("_copy", {}, [call.writer.spread(call.vals[0])], call.outs))


def cross_entropy(call: Application) -> Vals:
    """softmax_cross_entropy: adds up the whole batch, so the sum is taken for each node."""
    data, label = [call.writer.folded(call.writer.spread(val), 1) for val in call.vals]
    if ROWS in (data.lead, label.lead):
        raise call.refuse("sums over rows of varying length")
    writer, rows = call.writer, data.shape[0]
    logs = writer.result("log_softmax", {"axis": 1}, [data])
    picked = writer.result("pick", {"axis": 1}, [logs, label])._replace(shape=(rows,), rest=())
    each = writer.result("sum", {"axis": 1}, [writer.stack(picked)])
    return call.lying(writer.call("negative", {}, [each]), 1, ())


def behind(call: Application) -> float | None:
    """The number of which a softmax makes nothing; none where each sample says how many it is over."""
    return None if len(call.vals) > 1 else -inf


def _neutral(call: Application) -> float | None:
    """The number that changes no window, if there is one."""
    kind = call.get("pool_type", "max")
    if kind == "max":
        return -inf
    whole = call.get("pooling_convention", "valid") == "valid" and call.get("count_include_pad", True)
    return 0 if whole and kind in ("avg", "sum") else None


class Pooling(Samples):
    """The largest number, the sum or the mean of windows; `whole` are the rows of those of all that there is."""

    whole: Mapping[str, Row]
    fill, after, refill = staticmethod(_neutral), 0, True

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        val, adaptive = call.vals[0], "Adaptive" in call.name
        kind = call.get("pool_type", "avg" if adaptive else "max")
        whole = set(listed(call.attrs.get("output_size"))) <= {1} if adaptive else call.get("global_pool")
        each = self.whole.get(kind) if whole else None
        if not (call.writer.sized and is_sized(val.shape)) or (each is None and not adaptive):
            return super().lift(call)
        if each is None:
            raise call.refuse("windows of several sizes")
        name = {"avg": "mean"}.get(kind, kind)
        attrs = {"axis": tuple(range(2, val.rank)), "keepdims": True}
        return each.lift(call.on(name, attrs, call.vals, call.outs))

    def run(self, call: Application, vals: Vals, labels: Labels, shift: int) -> Sequence[int]:
        """Adds the operator: oneDNN's gradient of the largest numbers is wrong where they are a part of an array."""
        return call.again([call.writer.result("_copy", {}, vals)] if call.writer.sized else vals)


_BATCHES = Samples(data=2, least=1)
_LAST, _FLIPPED = Section("axis", begins=begins), Turned("axis", many=True)


def side_by_side(writer: Writer, val: Values) -> Values:
    """(T, B, ...) of each node as (T, N*B, ...)."""
    order = (1, 0, *range(2, val.rank + 1))
    turned = writer.put("permute", writer.each(val), order)
    return writer.put("shape", turned, (val.shape[0], -1, *val.shape[2:]))


def apart(writer: Writer, val: Values) -> Values:
    """(T, N*B, ...) as (T, B, ...) of each node."""
    folded = writer.put("shape", val, (val.shape[0], -1, *val.shape[1:]))
    order = (1, 0, *range(2, val.rank + 1))
    return writer.put("permute", folded, order)._replace(lead=1, rest=val.shape)


def by_batches(ins: Sequence[int], *outs: int) -> Callable[[Application], Vals]:
    """A rule of an operator with the nodes' batches along these axes, each 0 or 1; -1 marks a parameter."""

    def rule(call: Application) -> Vals:
        writer, placed = call.writer, []
        for val, axis in zip(call.vals, ins):
            if axis < 0 and not val.shared:
                raise call.refuse("parameters that are not the same for all samples")
            placed.append(
                val if axis < 0 else side_by_side(writer, val) if axis else writer.folded(writer.spread(val), 1)
            )
        found = call.made(call.again(placed), 1)
        return [apart(writer, val) if axis else val for val, axis in zip(found, outs)]

    return rule


def aligned(call: Application) -> Vals:
    """CTCLoss: of any number of outputs, of which it is told how many there are, and of labels, which have an end."""
    data, label, *lengths = call.vals
    writer, several, changes = call.writer, label.shape[0], {}
    if is_sized(several):
        raise call.mixed_rows
    if is_sized(label.shape[1]) and not call.get("use_label_lengths"):
        label = writer.filled(label, [1], -1 if call.get("blank_label") == "last" else 0)
    placed = [side_by_side(writer, data), *[writer.folded(writer.spread(val), 1) for val in (label, *lengths)]]
    if is_sized(data.shape[0]) and not call.get("use_data_lengths"):
        changes = {"use_data_lengths": True}
        counts = writer.need("counts", data.shape[0], data.dtype)
        placed.insert(2, writer.result("repeat", {"repeats": several}, [counts]))
    return call.made(call.again(placed, changes), 1)


def sequence(call: Application) -> Vals:
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
