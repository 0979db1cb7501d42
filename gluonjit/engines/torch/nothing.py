"""Empty parts of captured results, and what is computed from them: backward gives zeros to all that they come from.

There is nothing to compute, so nothing runs: to autograd such a part is a function of the weights and inputs that the
captured calls before it use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.engines.torch.arrays import LEARNABLE, device_named, dtype_named
from gluonjit.engines.torch.hooked import applied
from gluonjit.engines.torch.lazy import LazyTensor
from gluonjit.engines.torch.operands import concrete, current
from gluonjit.engines.torch.program import program_of
from gluonjit.engines.torch.rules.table import WITHOUT_HISTORY
from gluonjit.graph import Graph, Kind, Value
from gluonjit.graph.modes import is_recorded
from gluonjit.graph.reading import node_at
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.trace import Trace

_SPLITTING = {
    getattr(place, name)
    for name in ("split", "split_with_sizes", "chunk", "tensor_split")
    for place in (torch, torch.Tensor)
}
"""Functions that cut a tensor along an axis, one of whose parts may be empty."""


class Nothing(torch.autograd.Function):  # type: ignore[misc]
    """The number 0, as a function of tensors on which it does not depend."""

    @staticmethod
    def forward(ctx: Any, like: Any, *sources: Any) -> Any:
        """Gives it."""
        ctx.sources = [(source.shape, source.dtype, source.device) for source in sources]
        return torch.zeros_like(like)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Gives zeros, one number in the memory for each source."""
        return None, *[
            torch.zeros((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in ctx.sources
        ]


def empty_of(value: Value, key: Any) -> Any:
    """Returns `tensor[key]` of a value of the open batch's graph, where that has no entries."""
    return _learning(_zeros(value)[key], [value])


def empty_from(batch: Batch, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns what a function gives of pending tensors, if that has no entries; None if it has some, or fails."""
    values: list[Value] = []

    def stand_in(item: Any) -> Any:
        if item.__class__ is not LazyTensor:
            return item
        value = current(item)
        if value.graph is not batch.graph:
            return concrete(item)
        values.append(value)
        return _zeros(value)

    given, named = map_structure((args, kwargs), stand_in)
    try:
        found = func(*given, **named)
    except (RuntimeError, IndexError, ValueError, TypeError):  # which it raises where it runs by itself
        return None
    parts = found if isinstance(found, (tuple, list)) else (found,)
    if not values or not all([isinstance(part, torch.Tensor) for part in parts]):
        return None
    if func in _SPLITTING and args and any([part.numel() for part in parts]):
        axis = args[2] if len(args) > 2 else kwargs.get("dim", 0)
        sizes = [part.shape[axis] for part in parts]
        return tuple([args[0].narrow(axis, sum(sizes[:k]), size) for k, size in enumerate(sizes)])
    if any([part.numel() for part in parts]):
        return None
    return map_structure(found, lambda part: _learning(part, values))


def _zeros(value: Value) -> Any:
    spec = value.spec
    return torch.zeros(spec.shape, dtype=dtype_named(spec.dtype), device=device_named(spec.device))


def _learning(found: Any, values: Sequence[Value]) -> Any:
    """A tensor without entries, which gives zeros to what these values of a graph come from."""
    taped = [value for value in values if value.taped and value.spec.dtype in LEARNABLE]
    if not taped or not found.is_floating_point() or not torch.is_grad_enabled():
        return found
    graph = taped[0].graph
    sources = _sources(graph, [row for value in taped for row in value.row_list()])
    made: dict[Any, Any] = vars(graph).setdefault("nothing", {})
    place = (found.dtype, found.device, *map(id, sources))
    if place not in made:  # one for all samples, so that zeros are added once
        made[place] = applied(Nothing, found.new_zeros(()), *sources) if sources else None
    return found.requires_grad_() if made[place] is None else found + made[place]


def _sources(graph: Graph, rows: Sequence[int]) -> list[Any]:
    """Finds the tensors that require gradients and from which rows of the graph come."""
    found: dict[int, Any] = {}
    known: dict[int, Any] = vars(graph).setdefault("origins", {})  # of rows that were met before
    pending, met = list(rows), set(rows)
    while pending:
        row = pending.pop()
        origin = known.get(row)
        if origin is None:
            origin = known[row] = _origin(graph, row)
        tensors, operands = origin
        found.update((id(tensor), tensor) for tensor in tensors if tensor.requires_grad)
        for taken in operands:
            more = set(taken) - met
            met |= more
            pending += more
    return list(found.values())


def _origin(graph: Graph, row: int) -> tuple[list[Any], list[Sequence[int]]]:
    """The tensors, and the rows of each operand, from which a row comes directly."""
    node = node_at(graph.records, row)
    if node is None:
        return _given(graph, row), []
    record, number = node
    if not is_recorded(record.mode):
        return [], []
    base, kind = record.base(number), record.kind
    output = next(k for k, each in enumerate(kind.outputs) if 0 <= row - base - each.offset < each.spec.rows)
    used: dict[Any, Any] = vars(graph).setdefault("used", {})
    if (id(kind), output) not in used:
        used[id(kind), output] = (kind, *_used(kind, output))
    _, roles, tensors = used[id(kind), output]
    operands: list[Sequence[int]] = [
        taken if isinstance(taken, tuple) else range(taken, taken + operand.rows)
        for k, (taken, operand) in enumerate(zip(record.operands_of(number), kind.operands))
        if (roles is None or k in roles) and operand.dtype in LEARNABLE
    ]
    return tensors, operands


def _given(graph: Graph, row: int) -> list[Any]:
    """The input, or the table, that a row is of."""
    for leaf in graph.leaves.values():
        if leaf.base <= row < leaf.base + leaf.spec.rows:
            return [leaf.payload.tensor] if leaf.taped else []
    return [table.weight for table, rows in graph.lookups.items() if table.taped and row in rows.values()]


def _used(kind: Kind, output: int) -> tuple[set[int] | None, list[Any]]:
    """The operands, by number, and weights through which gradients go from a result; None stands for all operands."""
    program = program_of(kind)
    traced = program.results and len(program.trace.operands) == len(kind.operands)
    if kind.split is not None or not traced:
        split = [] if kind.split is None else [program_of(product) for _, product in kind.split.products]
        return None, [tensor for each in (program, *split) for tensor in each.consts]
    reached = _reached(program.trace, program.results[output])
    weights = [tensor for position, tensor in program.trace.constants() if position in reached]
    return {k for k in reached if k < len(kind.operands)}, weights


def _reached(trace: Trace, result: int) -> set[int]:
    reached = {result}
    for op in reversed(trace.ops):
        learns = [position for position in op.outputs if trace.shapes[position][1] in LEARNABLE]
        if op.name not in WITHOUT_HISTORY and not reached.isdisjoint(learns):
            reached.update(op.inputs)
    return reached
