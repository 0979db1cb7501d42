"""Differences that keep calls of one name apart: a length, a shape, a constant or a weight, with what to type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gluonjit.graph.kinds import Kind

_FEW, _SHOWN = 4, 3  # kinds of one name that need no reason, and values that are shown
_LENGTH = "a function marked @gluonjit.cell around such calls runs for all lengths at once"
_SHAPE = "give them one shape, or pad them and use masked_fill"
_CONSTANT = "pass the number as an array"
_WEIGHT = "stack the weights, and take each call's from the stack by its index"


def apart(kinds: Iterable[Kind]) -> dict[str, str]:
    """The reason why calls of one name ran as several kinds, by name, for names of more than a few."""
    found: dict[str, dict[int, Kind]] = {}
    for kind in kinds:
        found.setdefault(kind.name, {}).setdefault(id(kind.family or kind), kind)
    return {
        name: f"{len(each)} kinds, as {_difference(list(each.values()))}"
        for name, each in found.items()
        if len(each) >= _FEW
    }


def _difference(kinds: Sequence[Kind]) -> str:
    """The first thing in which kinds differ, with some of its values and what to type instead."""
    if len({len(kind.operands) for kind in kinds}) > 1:
        return f"they have {_some(len(kind.operands) for kind in kinds)} operands"
    for number, specs in enumerate(zip(*[kind.operands for kind in kinds]), 1):
        shapes = [spec.shape for spec in specs]
        if len(set(shapes)) < 2:
            continue
        axes = [axis for axis, sizes in enumerate(zip(*shapes)) if len(set(sizes)) > 1]
        if len(set(map(len, shapes))) > 1 or len(axes) != 1:
            return f"the shape of operand {number} differs ({_some(shapes)}): {_SHAPE}"
        sizes = _some(shape[axes[0]] for shape in shapes)
        return f"the size of axis {axes[0]} of operand {number} differs ({sizes}): {_LENGTH}"
    attrs = [[value for op in getattr(kind.call, "ops", ()) for value in op.attrs] for kind in kinds]
    for values in zip(*attrs):
        if len(set(map(repr, values))) > 1:
            return f"{values[0][0]} differs ({_some(value for _, value in values)}): {_CONSTANT}"
    return f"each has weights of its own: {_WEIGHT}"


def _some(values: Iterable[Any]) -> str:
    """Some of the values that differ, in order."""
    listed = list(dict.fromkeys(map(repr, values)))
    return ", ".join(listed[:_SHOWN]) + (", ..." if len(listed) > _SHOWN else "")
