"""Values of all nodes of a step, and the labels of their axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

Shape = tuple[Any, ...]
Shaped = tuple[Shape, str]
"""Shape and dtype of a value."""


class Size:
    """An integer that is not known while a program is written: a number times lengths, which have names.

    Products of sizes and numbers are sizes; those of the same number and lengths are equal.
    """

    __slots__ = ("lengths", "times")

    def __init__(self, *lengths: Any, times: int = 1) -> None:
        self.times = times
        self.lengths = tuple(sorted(lengths, key=str))

    def __mul__(self, other: Any) -> Any:
        if other.__class__ is Size:
            return Size(*self.lengths, *other.lengths, times=self.times * other.times)
        return Size(*self.lengths, times=self.times * other) if other else 0

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and (self.times, self.lengths) == (other.times, other.lengths)

    def __hash__(self) -> int:
        return hash((self.times, self.lengths))

    def __repr__(self) -> str:
        return "*".join([*([str(self.times)] if self.times != 1 else []), *map(str, self.lengths)])

    def at(self, lengths: Mapping[Any, Any]) -> Any:
        """The integer, or an array of one for each node, for lengths by their names."""
        return prod([lengths[each] for each in self.lengths], start=self.times)


@dataclass(frozen=True)
class Number:
    """A number among the arguments of an operator that each node has for itself."""

    leaf: Any


def is_sized(value: Any) -> bool:
    """True if an argument or a shape holds a size, or a number of each node."""
    return value.__class__ in (Size, Number) or (value.__class__ is tuple and any(map(is_sized, value)))


def at_sizes(value: Any, lengths: Mapping[Any, Any]) -> Any:
    """An argument or a shape with integers in the place of sizes."""
    if value.__class__ is Size:
        return value.at(lengths)
    return tuple(at_sizes(item, lengths) for item in value) if value.__class__ is tuple else value


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
    A size in `lead` is packed: there are as many rows as each node has. One in `rest` is padded: as long as the longest
    of all nodes. What is behind a node's own entries is harmless, unless `fill` says that it is a number, and along
    which of the axes of any size.
    """

    slot: int
    shape: Shape
    dtype: str
    lead: Any  # a number, a size or None
    rest: Shape
    fill: tuple[Any, frozenset[int]] | None = None

    @property
    def sized_axes(self) -> list[int]:
        """The axes of any size."""
        return [axis for axis, size in enumerate(self.shape) if size.__class__ is Size]

    def sized(self, axes: Sequence[int] | None = None) -> frozenset[int]:
        """The axes of any size, or those among them that are given, counted among themselves."""
        return frozenset(k for k, axis in enumerate(self.sized_axes) if axes is None or axis in axes)

    def holds(self, number: Any, axes: Sequence[int]) -> bool:
        """True if padding along axes is known to be a number."""
        return self.fill is not None and bool(self.fill[0] == number) and self.sized(axes) <= self.fill[1]

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

    @property
    def padded(self) -> bool:
        """True if it has padding."""
        return is_sized(self.rest)


Vals = list[Values]
"""Values of operands, or of results, in their order."""


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


PREFIX = "prefix"
"""As `Row.fill`: what is behind entries changes nothing before them."""


class NotBatchable(Exception):
    """A call that must run for each sample alone; the text says why."""


class Operand(int):
    """An argument in attributes that is the input of this number."""

    def __repr__(self) -> str:
        return f"input {int(self)}"


def placed(value: Any, inputs: Sequence[Any], listed: Callable[[list[Any]], Any] = tuple) -> Any:
    """Returns an argument with values in place of inputs, its tuples as `listed` makes them."""
    if value.__class__ is Operand:
        return inputs[value]
    return listed([placed(item, inputs, listed) for item in value]) if isinstance(value, tuple) else value


def numbered(value: Any, kind: Any, found: list[Any]) -> Any:
    """Returns an argument with operands in place of values of a class, which are added to `found`."""
    if isinstance(value, kind):
        found.append(value)
        return Operand(len(found) - 1)
    return tuple(numbered(item, kind, found) for item in value) if isinstance(value, (list, tuple)) else value


def counted(rank: int, dim: int) -> int:
    """A dimension counted from the front."""
    if not rank:
        raise NotBatchable("along a dimension of a tensor that has none")
    return dim % rank
