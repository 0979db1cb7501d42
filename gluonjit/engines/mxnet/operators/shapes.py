"""Rules of operators that change shapes: parts, joins, repeats, diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from gluonjit.engines.mxnet.framework.symbols import listed
from gluonjit.program.axes.along import Along, PerAxis, Reduce, Section
from gluonjit.program.axes.row import Application
from gluonjit.program.axes.shapes import Join, Reshape
from gluonjit.program.axes.values import Shape, Vals, Values, is_sized

Rule = Callable[[Application], Vals]
_VIEW = Reshape()
_SLICED = PerAxis(rest={"begin": None, "end": None, "step": None})
_REPEATED, _TILED = Along("axis"), PerAxis(rest={"reps": 1})
_PADDED = PerAxis(rest={"pad_width": (0, 0)})


def axis_of(call: Application, key: str, default: int, more: int = 0) -> int:
    """An axis of the first operand, or of one with this many axes more, counted from the front."""
    return int(call.get(key, default)) % (call.vals[0].rank + more)


def shaped(call: Application, val: Values, shape: Shape) -> Values:
    """The same elements in another shape."""
    if val.shape == shape:
        return val
    if val.packed:
        raise call.refuse("it does not keep the number of rows, which varies")
    return _VIEW.lift(call.on(call.name, {}, [val], [(shape, val.dtype)]))[0]


# -- the same elements -------------------------------------------------------------------------------------


def reshape_keeps(call: Application) -> bool:
    """True if a Reshape's codes leave axis 0 alone, for any number of rows.

    A leading 0 copies it, as does -2 in npx.reshape. A leading -1 stands for it if the other codes do not depend on it:
    each is a literal, or, but for numpy, speaks of later axes.
    """
    codes = listed(call.get("shape", call.get("newshape")))
    if not codes or call.get("reverse"):
        return False
    first, rest = codes[0], codes[1:]
    if call.name == "Reshape":
        return first == 0 or (first == -1 and -1 not in rest)
    return (first, call.name) == (-2, "_npx_reshape") or (first == -1 and min(rest, default=1) > 0)


def squeeze_keeps(call: Application) -> bool:
    """True if axis 0 is not among those that go."""
    axes = listed(call.get("axis"))
    return bool(axes) and all(axis % call.vals[0].rank for axis in axes)


def at_least(call: Application) -> Vals:
    """Each operand with axes of length 1 put in; in MXNet no gradient comes back through it."""
    vals = [shaped(call, val, shape) for val, (shape, _) in zip(call.vals, call.outs)]
    return [call.writer.result("BlockGrad", {}, [val]) for val in vals]


# -- repeats -----------------------------------------------------------------------------------------------


def repeated(call: Application) -> Vals:
    """Entries along an axis, each of them several times."""
    if call.get("axis") == 0 and is_sized(call.shape[:1]):
        return [_rows_again(call, call.vals[0], True)]
    return _REPEATED.lift(call)


def _rows_again(call: Application, val: Values, each: bool) -> Values:
    """The rows of each node several times, of which there are any number then."""
    writer, count = call.writer, call.shape[0]
    if writer.padded:
        raise call.mixed_rows
    places = writer.need("repeated", val.shape[0], count, each)
    slot = writer.emit("pick", [writer.rows_of(val, 1), places])
    return val._replace(slot=slot, shape=(count, *val.shape[1:]), lead=count, rest=val.shape[1:])


def tiled(call: Application) -> Vals:
    """One axis after the other: the gradient of several at once takes twice as many axes, which may be too many."""
    val, reps = call.vals[0], listed(call.get("reps"))
    reps = (1,) * (val.rank - len(reps)) + reps
    val = val._replace(shape=(1,) * (len(reps) - val.rank) + val.shape)
    for axis, times in enumerate(reps):
        if times == 1:
            continue
        if axis == 0 and is_sized(call.shape[:1]):
            val = _rows_again(call, val, False)
        else:
            along = tuple(times if other == axis else 1 for other in range(len(reps)))
            shape = (*val.shape[:axis], val.shape[axis] * times, *val.shape[axis + 1 :])
            (val,) = _TILED.lift(call.on("tile", {"reps": along}, [val], [(shape, val.dtype)]))
    return [val]


# -- parts -------------------------------------------------------------------------------------------------


def _takes_all(size: Any, begin: Any, end: Any, step: Any) -> bool:
    """True if begin:end:step is the whole axis; for a varying length only if no number says where it ends."""
    if begin not in (None, 0) or step not in (None, 1):
        return False
    return end is None or end == size or (not is_sized((size, end)) and end >= size)


def sliced(call: Application) -> Vals:
    """begin:end:step of the first axes."""
    begin, end = listed(call.attrs["begin"]), listed(call.attrs["end"])
    step = listed(call.get("step")) or (None,) * len(begin)
    return _cut(call, list(zip(begin, end, step)))


def sliced_like(call: Application) -> Vals:
    """Cuts to the known shape of the other value."""
    if any(val.packed for val in call.vals) and not call.writer.sized:
        raise call.refuse("rows of varying length")
    return _cut(call, [(0, size, None) for size in call.shape])


def _cut(call: Application, ends: Sequence[tuple[Any, Any, Any]]) -> Vals:
    val, none, keys = call.vals[0], (None, None, None), ("begin", "end", "step")
    each = [none if _takes_all(size, *entry) else entry for size, entry in zip(val.shape, ends)]
    each += [none] * (val.rank - len(each))
    for axis, entry in enumerate(each):
        if call.writer.sized and entry != none and is_sized((val.shape[axis], call.shape[axis])):
            outs = [((*val.shape[:axis], call.shape[axis], *val.shape[axis + 1 :]), val.dtype)]
            cut = call.on("slice", {**dict(zip(keys, entry)), "axis": axis}, [val], outs)
            val, each[axis] = _PART.chosen(cut, val, axis), none
    if each == [none] * len(each):
        return [val]
    attrs = dict(zip(keys, zip(*each)))
    return _SLICED.lift(call.on("slice", attrs, [call.writer.spread(val)], call.outs))


def begins(call: Application) -> tuple[Any, int]:
    """The beginning of a part of an axis, None if it is its end, and one in how many it takes."""
    begin, step = call.get("begin"), call.get("step", 1)
    if begin is None:
        return (0 if step > 0 else -1), step
    if is_sized(begin) or begin < 0:
        if call.get("end") not in (None, call.vals[0].shape[axis_of(call, "axis", 0)]) or (step != 1 and begin != -1):
            raise call.refuse("of numbers that differ")
        return (None, 1) if step == 1 else (begin, step)
    return begin, step


class SliceAxis(Section):
    """slice_axis: all of an axis is the operand."""

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        val = call.vals[0]
        whole = _takes_all(val.shape[axis_of(call, "axis", 0)], call.get("begin"), call.get("end"), None)
        return [val] if whole else super().lift(call)


_PART = Section("axis", 0, begins=begins)


def splitting(axis: int) -> Rule:
    """hsplit and dsplit: split_v2 along a fixed axis, for hsplit of vectors the only one."""

    def rule(call: Application) -> Vals:
        attrs = {**call.attrs, "axis": min(axis, call.vals[0].rank - 1)}
        return _PART.lift(call.on("_split_v2", attrs, call.vals, call.outs))

    return rule


def padded(call: Application) -> Vals:
    """np.pad: so many entries before and behind, for each axis."""
    widths = tuple(tuple(each) for each in call.attrs["pad_width"])
    return _PADDED.lift(call.on(call.name, {**call.attrs, "pad_width": widths}, call.vals, call.outs))


# -- joins -------------------------------------------------------------------------------------------------


def joining(dtype: str) -> tuple[str, str]:
    """The operator that joins arrays of this dtype, and what it calls the axis: Concat knows no truth values."""
    return ("_npi_concatenate", "axis") if dtype == "bool" else ("Concat", "dim")


_JOIN = {key: Join(key) for key in ("axis", "dim")}


def _joined(call: Application, vals: Sequence[Values], axis: int) -> Vals:
    name, key = joining(vals[0].dtype)
    return _JOIN[key].lift(call.on(name, {key: axis, "num_args": len(vals)}, vals, call.outs))


class Concat(Join):
    """One after the other along an axis; np.concatenate without one of all elements."""

    def lift(self, call: Application) -> Vals:
        """Writes down the call."""
        if call.attrs.get(self.key, self.default) is None:
            return _joined(call, [shaped(call, val, (prod(val.shape),)) for val in call.vals], 0)
        return _joined(call, call.vals, self.axis(call))


def stacking(axis: int, look: Callable[[Shape], Shape]) -> Rule:
    """vstack and others: values get another shape first, then join along an axis, vectors along the only one."""

    def rule(call: Application) -> Vals:
        vals = [shaped(call, val, look(val.shape)) for val in call.vals]
        return _joined(call, vals, min(axis, vals[0].rank - 1))

    return rule


def as_column(shape: Shape) -> Shape:
    """A vector or a number as a column."""
    return shape if len(shape) > 1 else (*(shape or (1,)), 1)


def with_axes(shape: Shape, least: int) -> Shape:
    """Pads a shape like numpy: up to two axes in front, a third one behind."""
    shape = (1,) * (min(least, 2) - len(shape)) + shape
    return shape if len(shape) >= least else (*shape, 1)


# -- orders and diagonals ----------------------------------------------------------------------------------


def turned(call: Application, rank: int) -> Sequence[int]:
    """The order of transpose."""
    return listed(call.get("axes")) or range(rank)[::-1]


def swapped(call: Application, rank: int) -> Sequence[int]:
    """The order of SwapAxis."""
    order = list(range(rank))
    one, other = call.get("dim1", 0), call.get("dim2", 0)
    order[one], order[other] = order[other], order[one]
    return order


def moved(call: Application, rank: int) -> Sequence[int]:
    """The order of np.moveaxis."""
    source, destination = [[axis % rank for axis in listed(call.get(key))] for key in ("source", "destination")]
    order = [axis for axis in range(rank) if axis not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return order


def diagonal(call: Application) -> Vals:
    """A diagonal over two axes."""
    axes = {key: axis_of(call, key, default) + 1 for key, default in (("axis1", 0), ("axis2", 1))}
    return call.made(call.again(call.stacked(*call.vals), axes))


def diag(call: Application) -> Vals:
    """A diagonal, or a matrix from a vector."""
    older = call.on("diag", call.attrs, call.vals, call.outs)  # than np.diag
    return diagflat(older) if call.vals[0].rank == 1 else diagonal(older)


def diagflat(call: Application) -> Vals:
    """A matrix from all elements."""
    val = call.vals[0]
    if val.dtype not in ("float32", "float64"):
        raise call.refuse(f"a vector of {val.dtype}")
    flat = call.writer.form(val, 1, (prod(val.shape),))
    return call.made(call.writer.call("_linalg_makediag", {"offset": call.get("k", 0)}, [flat]))


def trace(call: Application) -> Vals:
    """np.trace: sums a diagonal."""
    if call.vals[0].rank > 2:
        return diagonal(call)
    attrs = {"k": call.get("offset", 0), "axis1": 1, "axis2": 2}
    entries = call.writer.result("diag", attrs, call.stacked(*call.vals))
    return call.lying(call.writer.call("_np_sum", {"axis": 1}, [entries]), 1, ())


_NORM = Reduce("axis", many=True, keep="keepdims")


def numpy_norm(call: Application) -> Vals:
    """Roots of sums of squares, by the older operator; `flag` is how numpy's arguments arrive."""
    val, flag = call.vals[0], call.get("flag", -1)
    axes = listed(call.get("axis")) or tuple(range(val.rank))
    squares = flag in (-2, 1) or (flag == -1 and call.get("ord", 2.0) == 2.0 and len(axes) == 1)
    if not squares or not axes:
        raise call.refuse("of a matrix, or of another order than 2")
    whole = len(axes) == val.rank and not call.shape
    if len(axes) > 2 and not whole:
        raise call.refuse("over more than two axes")
    attrs = {"ord": 2, "axis": None if whole else axes, "keepdims": bool(call.get("keepdims"))}
    return _NORM.lift(call.on("norm", attrs, call.vals, call.outs))
