"""Which operands of a call may be those of children, told by how its arguments look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mxnet.ndarray import NDArray

from gluonjit.graph import Spec

Looks = tuple[Any, ...]


class Form(NamedTuple):
    """One way to read a call: what calls with more or fewer children have in common, and each child's operands."""

    common: Looks
    children: tuple[tuple[int, ...], ...]


class _Argument(NamedTuple):
    """How an argument looks, and the operands in it, in order."""

    looks: Looks
    operands: tuple[int, ...]
    items: tuple[_Argument, ...] = ()


def forms(args: Sequence[Any], specs: Sequence[Spec]) -> Iterator[Form]:
    """The ways to read a call: its lists are the children, or its last arguments are."""
    numbers = iter(range(len(specs)))
    found = [_look(arg, specs, numbers) for arg in args]
    yield from _in_lists(found)
    for first in range(len(found)):
        last = found[first:]
        if last[0].operands and _alike(last):
            common = ("last", *[argument.looks for argument in found[:first]], last[0].looks)
            yield Form(common, tuple([argument.operands for argument in last]))


def _in_lists(found: Sequence[_Argument]) -> Iterator[Form]:
    """Every list of equal items is a list with one for each child; all are equally long."""
    lists = [argument for argument in found if argument.operands and _alike(argument.items)]
    if not lists or len({len(argument.items) for argument in lists}) > 1:
        return
    listed = {id(argument) for argument in lists}
    common = [
        ("any number", argument.looks[0], argument.items[0].looks) if id(argument) in listed else argument.looks
        for argument in found
    ]
    items = zip(*[argument.items for argument in lists])
    yield Form(("lists", *common), tuple([sum([item.operands for item in child], ()) for child in items]))


def _look(arg: Any, specs: Sequence[Spec], numbers: Iterator[int]) -> _Argument:
    if isinstance(arg, NDArray):
        number = next(numbers)
        return _Argument(("array", specs[number]), (number,))
    if isinstance(arg, (list, tuple)):
        items = tuple([_look(item, specs, numbers) for item in arg])
        operands = tuple([operand for item in items for operand in item.operands])
        return _Argument((type(arg), *[item.looks for item in items]), operands, items)
    return _Argument(("constant", type(arg), arg), ())


def _alike(items: Sequence[_Argument]) -> bool:
    return bool(items) and all(item.looks == items[0].looks for item in items)
