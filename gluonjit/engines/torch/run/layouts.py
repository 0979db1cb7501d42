"""The strides that a pending tensor has eagerly: in a batch its rows lie one after the other, whatever those are."""

from __future__ import annotations

from typing import Any

import torch

from gluonjit.engines.torch.framework.arrays import zeros_of
from gluonjit.engines.torch.framework.originals import plain
from gluonjit.engines.torch.run.program import interpret, program_of
from gluonjit.graph import Graph, Kind, Spec, Value
from gluonjit.graph.reading import node_at


def strides_of(value: Value) -> tuple[int, ...] | None:
    """Runs what computes a value, on zeros that lie as eagerly, to see how it lies; None of what is not pending."""
    graph = value.graph
    if not isinstance(graph, Graph):
        return None
    known: dict[Any, Any] = {}
    wanted = [(value.rows, value.spec)]
    with plain():
        while wanted:
            key: tuple[Any, Spec] = wanted[-1]
            rows, spec = key
            node = None if isinstance(rows, tuple) or key in known else node_at(graph.records, rows)
            if node is None:
                known.setdefault(key, _like(graph, rows, spec))
                wanted.pop()
                continue
            record, number = node
            given = list(zip(record.operands_of(number), record.kind.operands))
            missing = [each for each in given if each not in known]
            wanted += missing
            if not missing:
                known[key] = _result(record.kind, rows - record.base(number), spec, [known[each] for each in given])
        return tuple(known[value.rows, value.spec].stride())


def _like(graph: Graph, rows: Any, spec: Spec) -> Any:
    """Zeros that lie as an input does, or one row after the other."""
    for leaf in graph.leaves.values():
        tensor = getattr(leaf.payload, "tensor", None)
        if (
            leaf.base == rows
            and leaf.spec.shape == spec.shape
            and tensor is not None
            and tuple(tensor.shape) == spec.shape
        ):
            return torch.zeros_like(tensor, device="cpu", requires_grad=False)
    return zeros_of(spec)


def _result(kind: Kind, offset: int, spec: Spec, operands: list[Any]) -> Any:
    numbers = [
        k for k, output in enumerate(kind.outputs) if output.offset == offset and output.spec.shape == spec.shape
    ]
    like = zeros_of(spec)
    if not numbers or kind.split is not None or len(program_of(kind).trace.operands) != len(operands):
        return like
    program = program_of(kind)
    try:
        return interpret(program.trace, operands, program.consts)[numbers[0]]
    except (RuntimeError, IndexError, ValueError):  # of zeros, which are none of the program's numbers
        return like
