"""Recordings of calls with their own numbering: existing rows first, then those of their nodes, in order.

A recording can be captured again in any graph: `graph.replay` looks up each node among the existing ones, and appends
it if it is new, as the call itself would.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from gluonjit.graph import Rows


class Node(NamedTuple):
    """One node. `record` and `origin` are numbers of what the recordings of a block have in common.

    operands: what it reads, by which equal calls are found; calls: to be counted.
    """

    record: int
    calls: int
    depth: int
    origin: int
    operands: tuple[Rows, ...]


def packed(nodes: Iterable[Node], local: Mapping[int, int]) -> array[int]:
    """Nodes as integers: four, then the operands with their number before them; so have tuples, below zero.

    `local` has the numbers of rows in the recording. Raises KeyError for a row without one.
    """
    code: list[int] = []
    for *head, operands in nodes:
        code += head
        code.append(len(operands))
        for rows in operands:
            if isinstance(rows, tuple):
                code.append(-len(rows))
                code += [local[row] for row in rows]
            else:
                code.append(local[rows])
    return array("i", code)


def unpacked(code: array[int]) -> Iterator[Node]:
    """Returns the nodes packed into these numbers."""
    numbers = iter(code)

    def operands(count: int) -> tuple[Rows, ...]:
        heads = (next(numbers) for _ in range(count))
        return tuple([head if head >= 0 else tuple([next(numbers) for _ in range(-head)]) for head in heads])

    for record in numbers:
        calls, depth, origin = next(numbers), next(numbers), next(numbers)
        yield Node(record, calls, depth, origin, operands(next(numbers)))


def rows_in(operands: Iterable[Rows]) -> Iterator[int]:
    """Yields all rows of operands, one by one."""
    return chain.from_iterable([rows if isinstance(rows, tuple) else (rows,) for rows in operands])
