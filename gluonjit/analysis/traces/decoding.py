"""Reading JSON objects whose fields have to be of given types; what is not raises with its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from gluonjit.analysis.indices import Index

T = TypeVar("T")
_MOST = 2**31 - 1


class Damaged(Exception):
    """Something in a file is not as it has to be; the text says where and what was found."""


class Fields:
    """The fields of one object of a document; `where` says which. Fields that nobody asks for are not looked at."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Damaged(f"{where} is {_shown(value)}, not an object")
        self.where = where or "the document"
        self._prefix = f"{where}." if where else ""
        self._value = value

    def _get(self, name: str, kind: type[T], what: str) -> T:
        if name not in self._value:
            raise Damaged(f"{self._prefix}{name} is missing")
        found = self._value[name]
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise Damaged(f"{self._prefix}{name} is {_shown(found)}, not {what}")
        return found

    def text(self, name: str, *known: str) -> str:
        """A string, one of those known where there are such."""
        found = self._get(name, str, "a string")
        if known and found not in known:
            raise Damaged(f"{self._prefix}{name} is {found!r}, not one of {', '.join(map(repr, known))}")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A string or null."""
        return None if name in self._value and self._value[name] is None else self.text(name)

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._get(name, bool, "true or false")

    def number(self, name: str) -> int:
        """A whole number of at least 0."""
        found = self._get(name, int, "a whole number")
        if not 0 <= found <= _MOST:
            raise Damaged(f"{self._prefix}{name} is {found}, not from 0 to {_MOST}")
        return found

    def numbers(self, name: str, count: int | None = None, least: int = 0, most: int = _MOST) -> Index:
        """A list of whole numbers between two limits, and so many where `count` is given."""
        listed = self._get(name, list, "a list")
        if count is not None and len(listed) != count:
            raise Damaged(f"{self._prefix}{name} has {len(listed)} numbers, not {count}")
        wrong = next((item for item in listed if item.__class__ is not int or not least <= item <= most), None)
        if wrong is not None or None in listed:
            raise Damaged(f"{self._prefix}{name} holds {_shown(wrong)}, not only whole numbers from {least} to {most}")
        return np.array(listed, dtype=np.int64)

    def number_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Lists of whole numbers."""
        listed = self._get(name, list, "a list")
        inner = Fields({str(number): item for number, item in enumerate(listed)}, f"{self._prefix}{name}")
        return tuple(tuple(inner.numbers(str(number)).tolist()) for number in range(len(listed)))

    def object(self, name: str) -> Fields:
        """An object in this one."""
        return Fields(self._get(name, dict, "an object"), f"{self._prefix}{name}")

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        listed = self._get(name, list, "a list")
        return [Fields(value, f"{self._prefix}{name}[{number}]") for number, value in enumerate(listed)]

    def chosen(self, items: Sequence[T], number: int, name: str) -> T:
        """The item that a number in the field `name` stands for."""
        if number >= len(items):
            raise Damaged(f"{self._prefix}{name} names number {number} of {len(items)}")
        return items[number]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
