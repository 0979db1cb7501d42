"""Patterns of calls with like arguments: whether another new signature is worth a trace."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch

from gluonjit.engines.torch.tracing.cell import ALL_CONSTANT, RAISED, Call, Pattern
from gluonjit.graph import Record
from gluonjit.hybrid.capture.structure import items_of

_ENOUGH = 2
_CHILDREN = 2
_MANY = 4
_NEW = (
    "its arguments have a new structure in each call, so that each would be traced for one call: the calls "
    "inside it are captured instead"
)


def _pattern_of(call: Call) -> Pattern:
    """Finds what calls of the cell with like arguments have come to."""
    looks = [torch.is_grad_enabled(), getattr(call.owner, "training", None)]
    if not _is_nested(call):  # in a list any number of tensors that are alike
        looks += [look for look, _ in groupby((value.spec.dtype, len(value.spec.shape)) for value in call.values)]
    elif not call.values:
        looks.append(ALL_CONSTANT)  # another with arguments of the same classes may have some
    key = (*looks, *map(type, call.args), *call.kwargs)
    found = call.cell.patterns.get(key)
    if found is None:
        found = call.cell.patterns[key] = Pattern()
    return found


def _is_nested(call: Call) -> bool:
    """True if an argument is nested: numbers in a list, or more than a list of some tensors of one shape."""
    given = (*call.args, *call.kwargs.values())
    nested = max(map(_depth, given), default=0) > _CHILDREN or any(map(_lists_numbers, given))
    return nested or any(map(_lists_lengths, given))


def _lists_lengths(arg: Any) -> bool:
    """True if a list has many tensors, or items with some, that differ in shapes, as the words of a text do."""
    if not isinstance(arg, (tuple, list)):
        return False
    shapes = [tuple([tensor.shape for tensor in items_of(item, torch.Tensor)]) for item in arg]
    return sum(map(len, shapes)) >= _MANY and len({*filter(None, shapes)}) > 1


def _lists_numbers(arg: Any) -> bool:
    """True if a list, a tuple or a dict holds numbers, at any depth."""
    if isinstance(arg, dict):
        arg = list(arg.values())
    return isinstance(arg, (tuple, list)) and any(_lists_numbers(item) or type(item) in (int, float) for item in arg)


def _depth(arg: Any) -> int:
    if isinstance(arg, dict):
        arg = list(arg.values())
    return 1 + max(map(_depth, arg), default=0) if isinstance(arg, (tuple, list)) else 0


def refused_before(call: Call, wanted: tuple[Any, ...]) -> str | None:
    """Says why a new signature is no node, if earlier ones tell."""
    if not call.cell.patterns or wanted in call.cell.variants:
        return None
    pattern = _pattern_of(call)
    if not pattern.never:
        few = len(pattern.records) >= _ENOUGH and not pattern.again and _is_nested(call)
        many = len(pattern.fresh) == pattern.fresh.maxlen and any(map(_depth, (*call.args, *call.kwargs.values())))
        records = pattern.records if few else pattern.fresh if many else ()
        if records and all(record.calls <= 1 for record in records):
            pattern.never = _NEW
            pattern.records.clear()
            pattern.fresh.clear()
    if pattern.never:
        call.batch.report.fine.add(call.cell.name)
    return pattern.never or None


def note_refusal(call: Call, reason: str) -> None:
    """Remembers why a signature is no node: where several are none for one reason, no other is tried."""
    if call.cell.operator or reason.startswith(RAISED):
        return
    pattern = _pattern_of(call)
    pattern.refused[reason] = pattern.refused.get(reason, 0) + 1
    if pattern.refused[reason] >= _ENOUGH and not pattern.records:
        pattern.never = reason
        if not call.cell.kinds and not call.cell.plain:  # nor is any other call: not even its arguments need a look
            call.cell.refused[torch.is_grad_enabled(), getattr(call.owner, "training", None)] = reason


def note_record(call: Call, record: Record, new: bool) -> None:
    """Remembers calls that are one node, whose structure may or may not come again."""
    pattern = _pattern_of(call)
    if new:
        pattern.fresh.append(record)
    else:
        pattern.fresh.clear()
    if any(other.kind.family is record.kind.family for other in pattern.records):
        pattern.again = True
    elif len(pattern.records) < _ENOUGH:
        pattern.records.append(record)
