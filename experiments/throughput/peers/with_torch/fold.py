"""Dynamic batching as in torchfold: samples add operations to a fold, which runs operations of one depth together.

This reimplements the idea: the package itself dates from 2018 and needs the PyTorch of that time. An operation added
again with the same operands returns the existing one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

import torch
from torch import Tensor


class Node(NamedTuple):
    """One operation: `place` counts those of its name and depth."""

    name: str
    depth: int
    place: int


Operand = Union[Node, int]


class Fold:
    """The operations of a minibatch; each gives one row."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Node] = {}
        self._steps: list[dict[str, list[tuple[Operand, ...]]]] = []

    def add(self, name: str, *operands: Operand) -> Node:
        """Add an operation on the rows of others and on integers."""
        key = (name, *operands)
        node = self._known.get(key)
        if node is None:
            depth = max((operand.depth + 1 for operand in operands if isinstance(operand, Node)), default=0)
            while len(self._steps) <= depth:
                self._steps.append({})
            rows = self._steps[depth].setdefault(name, [])
            node = self._known[key] = Node(name, depth, len(rows))
            rows.append(operands)
        return node

    def run(self, functions: dict[str, Callable[..., Tensor]], wanted: Sequence[Node], device: str) -> Tensor:
        """Run all; return the rows of the wanted operations. Numbers come to functions as a tensor of them."""
        values: dict[tuple[int, str], Tensor] = {}
        for depth, step in enumerate(self._steps):
            for name, rows in step.items():
                columns = [_column(values, column, device) for column in zip(*rows)]
                values[depth, name] = functions[name](*columns)
        return _gathered(values, wanted, device)


def _column(values: dict[tuple[int, str], Tensor], operands: Sequence[Any], device: str) -> Tensor:
    if isinstance(operands[0], Node):
        return _gathered(values, operands, device)
    return torch.tensor(operands, device=device)


def _gathered(values: dict[tuple[int, str], Tensor], nodes: Sequence[Node], device: str) -> Tensor:
    """Return the rows of nodes, whatever steps they come from."""
    sources: dict[tuple[int, str], list[int]] = {}
    order: list[list[int]] = []
    for at, node in enumerate(nodes):
        source = (node.depth, node.name)
        if source not in sources:
            sources[source] = []
            order.append([])
        sources[source].append(node.place)
        order[list(sources).index(source)].append(at)
    parts = [values[source].index_select(0, torch.tensor(rows, device=device)) for source, rows in sources.items()]
    if len(parts) == 1:
        return parts[0]
    back = torch.empty(len(nodes), dtype=torch.int64)
    back[torch.tensor([at for part in order for at in part])] = torch.arange(len(nodes))
    return torch.cat(parts).index_select(0, back.to(device))
