"""Values of all nodes of a step, and the labels of their axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Shape = tuple[Any, ...]
Shaped = tuple[Shape, str]
"""Shape and dtype of a value."""


class Size(NamedTuple):
    """An integer that is not known while a program is written."""

    name: str


ROWS = Size("rows")
"""As `Values.lead`: a node has any number of rows, which an operator has to leave as they are."""
COUNT = Size("#")
"""The number of nodes, among the arguments of an instruction."""
NODES = "count"
"""As `Instruction.counts`: the number of nodes."""


class Values(NamedTuple):
    """A value of every node, or one that is the same for all (lead None).

    shape: of one node's value; slot: its place in the program. The tensor there has `lead` rows of shape `rest` for
    each node, one node after the other: (nodes * lead, *rest) holds the elements of (nodes, *shape) in their order.
    """

    slot: int
    shape: Shape
    dtype: str
    lead: Any  # a number, ROWS or None
    rest: Shape

    @property
    def rank(self) -> int:
        """The number of axes of one node's value."""
        return len(self.shape)

    @property
    def shared(self) -> bool:
        """True if it is the same for all nodes."""
        return self.lead is None

    @property
    def packed(self) -> bool:
        """True if nodes have different numbers of rows."""
        return self.lead.__class__ is Size


class Instruction(NamedTuple):
    """One call of the program. `text` says what it does: equal programs have equal texts and slots."""

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    text: str
    counts: str = ""  # an expression for the number of nodes, or of children, which is passed first


class Labels(NamedTuple):
    """A label for each axis of each operand and result, None for one that is broadcast; which of them are free."""

    ins: list[list[Any]]
    outs: list[list[Any]]
    free: set[Any]
