"""Sizes of arrays as a followed call sees them: whole numbers that note where the program decides by them.

If a program has asked the same of sizes in several calls, its trace for one size tells that for another. Arithmetic
with sizes, and sizes given to the framework, ask nothing; comparing them, or counting up to them, does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class TracedSize(int):
    """A size, or a number computed of sizes, its `roots`; `asked` collects those that the program decides by."""

    asked: list[int]
    roots: tuple[int, ...]

    def __reduce__(self) -> Any:
        return int, (plain(self),)


def traced(size: int, asked: list[int], roots: tuple[int, ...] = ()) -> TracedSize:
    """Makes a number that notes what is asked of it."""
    found = TracedSize(size)
    found.asked, found.roots = asked, roots or (size,)
    return found


def plain(size: Any) -> Any:
    """The number itself, without a note."""
    return int.__index__(size) if size.__class__ is TracedSize else size


def note(items: Iterable[Any], asked: list[int]) -> None:
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


def _computing(name: str) -> Callable[..., Any]:
    method = getattr(int, name)

    def compute(self: TracedSize, *args: Any) -> Any:
        found = method(plain(self), *map(plain, args))
        if found.__class__ is not int:
            return found
        roots = [root for item in (self, *args) if item.__class__ is TracedSize for root in item.roots]
        return traced(found, self.asked, tuple(roots))

    return compute


_ASK = (
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __bool__ __hash__ __int__ __float__ __round__ __str__ __repr__ "
    "__format__ __lshift__ __rshift__ __and__ __or__ __xor__ __pow__ __rpow__ __divmod__ __rdivmod__ bit_length"
)
_COMPUTE = (
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __neg__ __pos__ "
    "__abs__ __truediv__ __rtruediv__"
)
for _name in _ASK.split():
    setattr(TracedSize, _name, _asking(_name))
for _name in _COMPUTE.split():
    setattr(TracedSize, _name, _computing(_name))
