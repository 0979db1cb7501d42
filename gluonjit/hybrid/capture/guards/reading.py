"""Reads of items and whole objects in a followed call."""

from __future__ import annotations

import functools
import operator
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

import numpy as np

from gluonjit.hybrid.capture.functions import CellFunction
from gluonjit.hybrid.capture.guards import pure
from gluonjit.hybrid.capture.guards.attributes import CONTAINERS, SIMPLE, AttributeReader, namespace_of
from gluonjit.hybrid.capture.guards.facts import ABSENT, CONTENTS, ITEM, SIZE, class_attribute, contents
from gluonjit.hybrid.capture.guards.owners import LIBRARY, is_user_class, is_user_function, owner_of_module
from gluonjit.hybrid.capture.guards.sizes import note, plain
from gluonjit.hybrid.capture.guards.sources import line

MOST_ITEMS = 256
_MOST_BYTES = 4096


class Reader(AttributeReader):
    """Notes reads of attributes, names, items and whole objects.

    * `writable(item, name)`: returns the object, if it may be written to.
    """

    writable: Callable[..., Any]

    def item(self, item: Any, key: Any) -> Any:
        """item[key]"""
        if isinstance(item, tuple) and not is_user_function(class_attribute(type(item), "__getitem__")):
            return self.named(item[key], f"{self.name_of(item)}[{key!r}]") if _is_key(key) else item[key]
        if self.known.array(item):
            return item[key]
        self.key(key)
        if isinstance(item, SIMPLE) or self.is_free(item):
            new = type(item) is defaultdict and key not in item
            if new and id(item) not in self.made:
                self.refuse("it writes to an argument")
            found = item[key]
            if new and type(found) in (list, dict, set):
                self.made[id(found)] = found
            return found
        method = class_attribute(type(item), "__getitem__")
        if is_user_function(method):
            return self.call(method, item, key)
        name = f"{self.name_of(item)}[{key!r}]" if _is_key(key) else f"{self.name_of(item)}[...]"
        if isinstance(item, list):
            if type(key) in (int, bool):
                found = self.named(item[key], name)
                self.fact(ITEM, item, key, found, name)
                return found
            return self.new(self.whole(item, deep=False)[key])
        if isinstance(item, dict):
            found = self._entry(item, key, name)
            if found is ABSENT and hasattr(type(item), "__missing__"):
                self.refuse(f"{name} is created when it is read")
            return item[key] if found is ABSENT else found
        if isinstance(item, np.ndarray):
            return self.whole(item)[key]
        if isinstance(item, type) or owner_of_module(type(item).__module__) == LIBRARY:
            return self.whole(item)[key]
        self.refuse(f"it reads {name}, an item of a {type(item).__name__}")

    def key(self, key: Any) -> None:
        """Notes that a program decides by a key; an array is one by who it is."""
        note((key,), self.asked)
        if self.known.own(key):
            self.asks(f"{self.name_of(key)} as a key")

    def new(self, item: Any) -> Any:
        """Notes an object that the call itself has made, and may write to."""
        if isinstance(item, (dict, set)):
            for key in item:
                self.key(key)
        return super().new(item)

    def same(self, left: Any, right: Any) -> bool:
        """left is right"""
        if left is not right and self.known.array(left) and self.known.array(right):
            if self.known.own(left) or self.known.own(right):
                self.asks(f"whether {self.name_of(left)} is {self.name_of(right)}")
        return left is right

    def type(self, item: Any) -> type:
        """type(item)"""
        if self.known.own(item):
            self.asks(f"type({self.name_of(item)})")
        return self.kind_of(plain(item))

    def seek(self, element: Any, container: Any) -> None:
        """Notes that a program looks for something among others: an array is one by who it is."""
        if not isinstance(container, (list, tuple, deque)):
            self.key(element)
        elif self.known.array(element):
            for other in container:
                self.same(element, other)

    def contains(self, element: Any, container: Any) -> bool:
        """element in container"""
        self.seek(element, container)
        note((element,), self.asked)
        method = class_attribute(type(container), "__contains__")
        if is_user_function(method):
            return bool(self.call(method, container, element))
        if isinstance(container, dict) and not self.is_free(container):
            name = repr(element) if _is_key(element) else "..."  # an array's takes long, an object's is the user's code
            return self._entry(container, element, f"{self.name_of(container)}[{name}]") is not ABSENT
        return element in self.whole(container)

    def size(self, item: Any) -> int:
        """len(item)"""
        method = class_attribute(type(item), "__len__")
        if is_user_function(method):
            self._class_fact(self.kind_of(item), "__len__", method)
            return int(self.call(method, item))
        if isinstance(item, CONTAINERS) and not self.is_free(item):
            self.fact(SIZE, item, None, len(item), f"len({self.name_of(item)})")
        elif not isinstance(item, (*CONTAINERS, *SIMPLE, tuple, frozenset)):
            self.whole(item, deep=False)
        return self.known.sizes(len(item), self.asked) if self.known.own(item) else len(item)

    def whole(self, item: Any, deep: bool = True) -> Any:
        """The same, all of which counts from here on: it is compared, added up, or given to somebody else.

        What objects in it have as attributes does so too, unless the program itself reads them (not `deep`).
        """
        kind = type(item)
        if kind in SIMPLE or self.known.array(item):
            return item
        if isinstance(item, tuple):
            for part in item:
                self.whole(part, deep)
        elif isinstance(item, CONTAINERS):
            if not self.is_free(item):
                self._contents(item, len(item), MOST_ITEMS)
            for part in list(item.values()) if isinstance(item, dict) else list(item):
                self.whole(part, deep)
        elif isinstance(item, np.ndarray):
            if not self.is_made(item):
                self._contents(item, item.nbytes, _MOST_BYTES)
        elif isinstance(item, Iterator) and not self.is_made(item):
            self.refuse(f"{self.name_of(item)} continues from where it was")
        elif deep and not self.is_made(item):
            self._object(item)
        elif not deep and not (is_user_class(kind) or self._is_fixed(item) or self.is_made(item)):
            self._object(item)
        return item

    def _is_fixed(self, item: Any) -> bool:
        """True of what has nothing that may change, or whose parts are read by name."""
        fixed = (*SIMPLE, Enum, type, ModuleType, FunctionType, CellFunction, *pure.CONSTANT)
        return isinstance(item, fixed) or self.known.constant(item) or self.known.block(item)

    def _object(self, item: Any) -> None:
        """Notes an object that other code reads: all its attributes count."""
        if self._is_fixed(item) or item is sys.exc_info()[1]:
            return
        if isinstance(item, (MethodType, BuiltinFunctionType, MethodWrapperType)):
            owner = item.__self__
            if isinstance(item, MethodType) and is_user_function(item.__func__):
                return  # followed
            if isinstance(owner, CONTAINERS) and not self.is_free(owner) and not pure.reads_only(owner, item.__name__):
                self.writable(owner, None)
            self.whole(owner)
            return
        if isinstance(item, functools.partial):
            for name in ("func", "args", "keywords"):
                self.whole(self.get(item, name))
            return
        if callable(item) and type(item).__module__ == "operator":
            return
        if isinstance(item, BaseException):
            self.whole(self.get(item, "args"))
        space = namespace_of(item)
        if space is None:
            if not isinstance(item, pure.METHODS):
                self.refuse(
                    f"{line()} gives {self.name_of(item)} to something other than the program, and nothing tells of a "
                    f"{type(item).__name__} when it changes: pass what is in it as an argument, or as a list or a tuple"
                )
            return
        self.kind_of(item)
        if (CONTENTS, id(space), None) not in self.facts:
            self.named(space, self.name_of(item))
            self._contents(space, len(space), MOST_ITEMS)
            for part in list(space.values()):
                self.whole(part)

    def _contents(self, item: Any, size: int, most: int) -> None:
        name = self.name_of(item)
        if size > most:
            self.refuse(f"it reads all of {name}, which is long ({size})")
        self.fact(CONTENTS, item, None, contents(item), name)

    def iterate(self, item: Any) -> Any:
        """Returns the iterable of a loop."""
        if self.known.array(item) or isinstance(item, (str, bytes, range)):
            if self.known.own(item):
                self.asked.append(len(item))
            return item
        method = class_attribute(type(item), "__iter__")
        if is_user_function(method):
            return self.iterate(self.call(method, item))
        return self.whole(item, deep=False)

    def picked(self, function: Any, item: Any) -> Any:
        """Returns the result of an `operator.attrgetter`, `itemgetter` or `methodcaller`."""
        made, names = function.__reduce__()
        if isinstance(function, operator.methodcaller):
            first, named = (names[0], {}) if made is operator.methodcaller else (made.args[0], made.keywords)
            rest = names[1:] if made is operator.methodcaller else names
            return self.call(self.get(item, first), *rest, **named)
        if isinstance(function, operator.itemgetter):
            found = tuple([self.item(item, key) for key in names])
        else:
            found = tuple([functools.reduce(self.get, name.split("."), item) for name in names])
        return found if len(found) > 1 else found[0]


def _is_key(key: Any) -> bool:
    return type(key) in (int, str, bool)
