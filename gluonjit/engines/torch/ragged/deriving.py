"""Traces for new lengths, derived from traced calls without another run of the program.

A program that has asked the same of sizes in several traces, and read the same, does the same at any length: PyTorch's
operators run on examples of the new sizes, and tell the shapes. What differs among the traced calls has to follow: a
number from a size, a constant by its beginning. The program itself is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from gluonjit.engines.torch.arrays import dtype_named, name_of_dtype
from gluonjit.engines.torch.ragged.form import Form
from gluonjit.engines.torch.rules.table import operator_named
from gluonjit.engines.torch.trace import Operand, Trace, TraceOp
from gluonjit.graph import Spec

ENOUGH = 3
"""The traced calls that have to agree before others are derived from them."""


class NotDerivable(Exception):
    """Something that differs among traced calls, and follows from nothing known here."""


class SizedCall(NamedTuple):
    """A traced call: its trace and the sizes that differ, what it has read of Python's state, and asked of sizes."""

    trace: Trace
    lengths: tuple[int, ...]
    facts: tuple[Any, ...]
    kept: tuple[Any, ...]
    asked: tuple[int, ...]


def agree(calls: Sequence[SizedCall]) -> bool:
    """Tells whether the program has read and asked the same in all of these calls."""
    first = calls[0]
    return all(call.asked == first.asked and _places(call) == _places(first) for call in calls)


def _places(call: SizedCall) -> list[Any]:
    return [(fact.way, id(fact.container), fact.key, id(fact.found)) for fact in call.facts]


def derived(form: Form, calls: Sequence[SizedCall], operands: Sequence[Spec]) -> tuple[Trace, tuple[int, ...]]:
    """The trace of a call of a form with these operands, and its lengths. Raises NotDerivable."""
    known: dict[int, int] = {}
    trace = Trace(operands)
    trace.device = form.trace.device
    values: dict[int, Any] = {}
    for position, spec in enumerate(operands):
        _learn(form, known, position, spec.shape)
        values[position] = torch.zeros(spec.shape, dtype=dtype_named(spec.dtype), device=spec.device)
    trace.shapes = list(form.trace.shapes)
    trace.shapes[: len(operands)] = [(spec.shape, spec.dtype) for spec in operands]
    for number, (position, tensor) in enumerate(form.trace.consts):
        own = tensor if position not in form.own else _beginning(form, calls, number, known)
        trace.consts.append((position, own))
        trace.shapes[position] = tuple(own.shape), name_of_dtype(own.dtype)
        values[position] = own
    for number, op in enumerate(form.trace.ops):
        attrs = op.attrs if number not in form.numbered else _numbers(calls, number, known)
        found = _run(op, attrs, values)
        for position, result in zip(op.outputs, found):
            _learn(form, known, position, result.shape)
            values[position] = result
            trace.shapes[position] = tuple(result.shape), name_of_dtype(result.dtype)
        trace.ops.append(op._replace(attrs=attrs))
    return trace, tuple([known.get(number, 0) for number in range(form.lengths)])


def _learn(form: Form, known: dict[int, int], position: int, shape: Sequence[int]) -> None:
    """Note the lengths that show in a shape. Raises NotDerivable if it has others than such a call."""
    before = form.trace.shapes[position][0]
    if len(before) != len(shape):
        raise NotDerivable
    for axis, size in enumerate(shape):
        number = form.sizes.get((position, axis))
        if (known.setdefault(number, size) if number is not None else before[axis]) != size or size < 2 <= before[axis]:
            raise NotDerivable


def _run(op: TraceOp, attrs: Any, values: dict[int, Any]) -> Sequence[Any]:
    given = {name: _given(value, op.inputs, values) for name, value in attrs}
    try:
        found = operator_named(op.name)(**given)
    except (RuntimeError, IndexError, ValueError) as error:
        raise NotDerivable from error  # the program itself will say what is wrong
    return found if isinstance(found, (list, tuple)) else (found,)


def _given(value: Any, inputs: Sequence[int], values: dict[int, Any]) -> Any:
    if value.__class__ is Operand:
        return values[inputs[value]]
    return [_given(item, inputs, values) for item in value] if isinstance(value, tuple) else value


def _beginning(form: Form, calls: Sequence[SizedCall], number: int, known: dict[int, int]) -> Any:
    """The constant of a call that has its own: the beginning of the longest one, as those of all others are."""
    position = form.trace.consts[number][0]
    given = [call.trace.consts[number][1] for call in calls]
    longest = max(given, key=lambda tensor: tensor.numel())
    if not form.axes(position) or not all(_begins(longest, tensor) for tensor in given):
        raise NotDerivable
    sizes = list(longest.shape)
    for axis in form.axes(position):
        size = known.get(form.sizes[position, axis])
        if size is None or size > sizes[axis]:
            raise NotDerivable
        sizes[axis] = size
    return longest[tuple(map(slice, sizes))].contiguous()


def _begins(longest: Any, tensor: Any) -> bool:
    part = longest[tuple(map(slice, tensor.shape))]
    return part.shape == tensor.shape and bool(torch.equal(part, tensor))


def _numbers(calls: Sequence[SizedCall], number: int, known: dict[int, int]) -> Any:
    """The arguments of an operator whose numbers follow from sizes."""
    given = [call.trace.ops[number].attrs for call in calls]
    return _follow(given, [call.lengths for call in calls], known)


def _follow(values: Sequence[Any], lengths: Sequence[tuple[int, ...]], known: dict[int, int]) -> Any:
    first = values[0]
    if isinstance(first, tuple):
        return tuple([_follow(items, lengths, known) for items in zip(*values)])
    if all(repr(value) == repr(first) for value in values):
        return first
    if type(first) is not int:
        raise NotDerivable
    for number, size in known.items():
        sizes = [each[number] for each in lengths]
        low, high = sizes.index(min(sizes)), sizes.index(max(sizes))
        if sizes[low] == sizes[high]:
            continue
        slope, rest = divmod(values[high] - values[low], sizes[high] - sizes[low])
        begin = values[low] - slope * sizes[low]
        if not rest and all(slope * each + begin == value for each, value in zip(sizes, values)):
            return slope * size + begin
    raise NotDerivable
