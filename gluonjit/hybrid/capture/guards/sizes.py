"""Sizes of arrays as a followed call sees them: whole numbers that note where the program decides by them.

If a program has asked the same of sizes in several calls, its trace for one size tells that for another. A size plus,
minus or times a whole number asks nothing, nor does a size given to the framework; to compare a size, to divide it, or
to count up to it does. Of a comparison with a whole number it matters how it came out, of other questions the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gluonjit.program.sizes import Comparison


class TracedSize(int):
    """A size, or a number computed of sizes, its `roots`; `asked` collects those that the program decides by."""

    asked: list[Any]
    roots: tuple[int, ...]

    def __reduce__(self) -> Any:
        return int, (plain(self),)


def traced(size: int, asked: list[Any], roots: tuple[int, ...] = ()) -> TracedSize:
    """Makes a number that notes what is asked of it."""
    found = TracedSize(size)
    found.asked, found.roots = asked, roots or (size,)
    return found


def plain(size: Any) -> Any:
    """The number itself, without a note."""
    return int.__index__(size) if size.__class__ is TracedSize else size


def note(items: Iterable[Any], asked: list[Any]) -> None:
    """Notes the sizes among what the program may decide by."""
    for item in items:
        if item.__class__ is TracedSize:
            asked.extend(item.roots)
        elif isinstance(item, (tuple, list)):
            note(item, asked)
        elif item.__class__ is slice:
            note((item.start, item.stop, item.step), asked)


def _asking(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def ask(self: TracedSize, *args: Any) -> Any:
        note((self, *args), self.asked)
        return method(plain(self), *map(plain, args))

    return ask


def _comparing(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def compare(self: TracedSize, other: Any) -> Any:
        found = method(plain(self), plain(other))
        if found is NotImplemented or not isinstance(other, int):
            note((self, other), self.asked)
        else:
            self.asked.append(Comparison(name, plain(self), plain(other), found))
        return found

    return compare


def _computing(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def compute(self: TracedSize, *args: Any) -> Any:
        found = method(plain(self), *map(plain, args))
        if found.__class__ is int and all(item.__class__ is int for item in args):
            return traced(found, self.asked, self.roots)
        note((self, *args), self.asked)
        return found

    return compute


_COMPARE = "__eq__ __ne__ __lt__ __le__ __gt__ __ge__"
_ASK = (
    "__bool__ __hash__ __int__ __float__ __round__ __str__ __repr__ "
    "__format__ __lshift__ __rlshift__ __rshift__ __rrshift__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ "
    "__pow__ __rpow__ __divmod__ __rdivmod__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __truediv__ __rtruediv__ "
    "__abs__ __invert__ __trunc__ __floor__ __ceil__ bit_length conjugate to_bytes"
)
_COMPUTE = "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __neg__ __pos__"
LINEAR = {"Add", "Sub", "Mult"}
"""Operators, as Python's syntax names them, whose results follow a size along a line."""
for _name in _ASK.split():
    setattr(TracedSize, _name, _asking(_name))
for _name in _COMPARE.split():
    setattr(TracedSize, _name, _comparing(_name))
for _name in _COMPUTE.split():
    setattr(TracedSize, _name, _computing(_name))
