"""Forms of calls: which operands may be those of children, according to the form of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from gluonjit.graph.kinds import family_key
from gluonjit.graph.values import Spec

Looks = tuple[Any, ...]
_MOST_OPERANDS = 5  # of one row each, of which any may be those of the only child


class CallForm(NamedTuple):
    """One way to read a call: the part common to calls with more or fewer children, and each child's operands.

    With `of_rows` there is one entry for all children, whose operands have a row for each of them.
    """

    common: Looks
    children: tuple[tuple[int, ...], ...]
    of_rows: bool = False


class _Argument(NamedTuple):
    """The form of an argument, and the operands in it, in order."""

    looks: Looks
    operands: tuple[int, ...]
    items: tuple[_Argument, ...] = ()


def forms(args: Sequence[Any], specs: Sequence[Spec], is_array: Callable[[Any], bool]) -> Iterator[CallForm]:
    """Returns the ways to read a call: its lists are the children, or its last arguments are."""
    numbers = iter(range(len(specs)))
    found = [_look(arg, specs, numbers, is_array) for arg in args]
    yield from _in_lists(found)
    for first in range(len(found)):
        last = found[first:]
        if last[0].operands and _alike(last):
            common = ("last", *[argument.looks for argument in found[:first]], last[0].looks)
            yield CallForm(common, tuple([argument.operands for argument in last]))


def forms_of_rows(specs: Sequence[Spec]) -> Iterator[CallForm]:
    """More ways to read a call: some operands have a row for each child. A single row may be one child's, or none's."""
    rows = [position for position, spec in enumerate(specs) if spec.mode == "rows"]
    counts = {specs[position].rows for position in rows}
    several = counts - {1}
    if len(several) > 1 or not rows:
        return
    if several:
        (count,) = several
        yield _of_rows(specs, tuple([position for position in rows if specs[position].rows == count]))
    elif len(rows) <= _MOST_OPERANDS:
        for size in range(len(rows), 0, -1):
            for chosen in combinations(rows, size):
                yield _of_rows(specs, chosen)


def _of_rows(specs: Sequence[Spec], chosen: tuple[int, ...]) -> CallForm:
    common = [family_key(spec) if position in chosen else spec for position, spec in enumerate(specs)]
    return CallForm(("rows", chosen, *common), (chosen,), True)


def _in_lists(found: Sequence[_Argument]) -> Iterator[CallForm]:
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
    yield CallForm(("lists", *common), tuple([sum([item.operands for item in child], ()) for child in items]))


def _look(arg: Any, specs: Sequence[Spec], numbers: Iterator[int], is_array: Callable[[Any], bool]) -> _Argument:
    if is_array(arg):
        number = next(numbers)
        return _Argument(("array", specs[number]), (number,))
    is_list = isinstance(arg, (list, tuple))
    if is_list or isinstance(arg, (dict, slice)):
        names: tuple[Any, ...] = tuple(arg) if isinstance(arg, dict) else ()
        parts = (arg.start, arg.stop, arg.step) if isinstance(arg, slice) else arg.values() if names else arg
        items = tuple([_look(item, specs, numbers, is_array) for item in parts])
        operands = tuple([operand for item in items for operand in item.operands])
        return _Argument((type(arg), names, *[item.looks for item in items]), operands, items if is_list else ())
    return _Argument(("constant", type(arg), arg), ())


def _alike(items: Sequence[_Argument]) -> bool:
    return bool(items) and all(item.looks == items[0].looks for item in items)
