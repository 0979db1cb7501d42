"""Reads of a followed call: each is a fact, made of the container and what was found in it."""

from __future__ import annotations

import builtins
import operator
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, reduce
from types import FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from gluonjit.hybrid.capture.guards.facts import (
    ABSENT,
    CLASS,
    CONTENTS,
    ENTRY,
    ITEM,
    SIZE,
    SLOT,
    Fact,
    alike,
    class_attribute,
    contents,
    is_plain,
    read_at,
)
from gluonjit.hybrid.capture.guards.owners import (
    LIBRARY,
    is_user_class,
    is_user_function,
    is_user_module,
    owner_of_module,
)

MOST_FACTS = 512
MOST_ITEMS = 256
_MOST_BYTES = 4096
_CONTAINERS = (list, dict, set, deque)
_SIMPLE = (type(None), bool, int, float, complex, str, bytes, range, slice)


class Refused(BaseException):
    """The reason why a call is not a node; it passes the program's handlers for `Exception`."""


class FrameworkObjects:
    """The engine's knowledge of objects that a program uses. An engine derives from this class.

    followed: functions of the framework that call the user's, and are followed for that. counters: attributes in which
    the framework's blocks count calls, for names of operators: no result depends on them. flags: what arrays that
    outlive the call have beside numbers, by name, as their class has it.
    """

    followed: frozenset[Any] = frozenset()
    counters: frozenset[str] = frozenset()
    flags: Mapping[str, Any] = {}

    def array(self, item: Any) -> bool:
        """Tells whether this is an array of the framework's, whose operations the engine sees itself."""
        raise NotImplementedError

    def own(self, item: Any) -> bool:
        """Tells whether this array stands for a value of the trace."""
        raise NotImplementedError

    def block(self, item: Any) -> bool:
        """Tells whether this is a module or block, whose calls come back to the follower."""
        return False

    def watched(self, item: Any) -> bool:
        """Tells whether changes of this object's attributes are detected anyway."""
        return False

    def spaces(self, item: Any) -> Sequence[dict[str, Any]]:
        """Returns the containers of attributes of a framework's object other than its __dict__."""
        return ()

    def state(self, item: Any) -> Iterator[tuple[dict[str, Any], str]]:
        """Returns the attributes that a module or block of the framework's own reads when it is called."""
        return iter(())


class Reader:
    """Notes reads. `arguments`: those of the call; its signature covers their containers."""

    def __init__(self, known: FrameworkObjects, arguments: Any) -> None:
        self.known = known
        self.refusal = ""
        self.facts: dict[Any, Fact] = {}
        self.kept: list[Any] = []  # so that no other object gets an address that is watched
        self.names: dict[int, str] = {}
        self.made: dict[int, Any] = {}
        self.given: dict[int, Any] = {}
        self._give(arguments)

    def _give(self, item: Any) -> None:
        if isinstance(item, dict):
            self.given[id(item)] = item
            item = list(item.values())
        if isinstance(item, (list, tuple)):
            self.given[id(item)] = item
            for part in item:
                self._give(part)

    def refuse(self, reason: str) -> NoReturn:
        """Give up: the call is not a node. The program's handlers may catch this, so it is noted as well."""
        self.refusal = self.refusal or reason
        raise Refused(self.refusal)

    # What there is

    def new(self, item: Any) -> Any:
        """Note an object that the call itself has made, and may write to."""
        kind = type(item)
        if kind in _CONTAINERS or isinstance(item, (*_CONTAINERS, Iterator)):
            self.made[id(item)] = item
        return item

    def is_made(self, item: Any) -> bool:
        """Tells whether the call has made the object."""
        return id(item) in self.made

    def is_free(self, item: Any) -> bool:
        """Tells whether reads of a container follow from the call's arguments."""
        return id(item) in self.made or id(item) in self.given

    def named(self, item: Any, name: str) -> Any:
        """Return the object, and note the program's name for it, for reasons shown to users."""
        if not isinstance(item, _SIMPLE):
            self.names.setdefault(id(item), name)
        return item

    def name_of(self, item: Any) -> str:
        """Names an object as the program does, or by its class."""
        return self.names.get(id(item), f"a {type(item).__name__}")

    def fact(self, way: int, container: Any, key: Any, found: Any, name: str) -> None:
        """Note a value found in a container, once."""
        place = (way, id(container), key)
        before = self.facts.get(place)
        if before is None:
            if len(self.facts) >= MOST_FACTS:
                self.refuse(f"it reads more than {MOST_FACTS} values that outlive it, {name} among them")
            self.facts[place] = Fact(way, container, key, found, name)
        elif before.found is not found and not alike(before.found, found):
            self.refuse(f"{name} changes while it runs")

    # Attributes

    def get(self, item: Any, name: str) -> Any:
        """item.name"""
        if isinstance(item, _SIMPLE) or self.known.array(item) or isinstance(item, (Enum, np.ndarray)):
            if name in self.known.flags and not self.known.own(item):
                flag = self.known.flags[name]
                self.fact(SLOT, item, flag, read_at(SLOT, item, flag), f"{self.name_of(item)}.{name}")
            return getattr(item, name)
        if isinstance(item, ModuleType):
            return self._of_module(item, name)
        if isinstance(item, type):
            return self._of_class(item, name)
        if isinstance(item, super):
            return self._of_super(item, name)
        return self._of_object(item, type(item), name)

    def _of_module(self, module: ModuleType, name: str) -> Any:
        if name in module.__dict__ and is_user_module(module):
            return self._entry(module.__dict__, name, f"{module.__name__}.{name}")
        return getattr(module, name)

    def _of_class(self, kind: type, name: str) -> Any:
        found = class_attribute(kind, name)
        if found is not ABSENT:
            self._class_fact(kind, name, found)
        return self.named(getattr(kind, name), f"{kind.__name__}.{name}")

    def _of_super(self, item: Any, name: str) -> Any:
        kinds = item.__self_class__.__mro__
        for base in kinds[kinds.index(item.__thisclass__) + 1 :]:
            if name in base.__dict__:
                found = base.__dict__[name]
                self._class_fact(base, name, found)
                if isinstance(found, property) and is_user_function(found.fget):
                    return self.call(found.fget, item.__self__)
                break
        return getattr(item, name)

    def _class_fact(self, kind: type, name: str, found: Any) -> None:
        """A library's classes do not change."""
        if is_user_class(kind) and not (isinstance(found, FunctionType) and not is_user_function(found)):
            self.fact(CLASS, kind, name, found, f"{kind.__name__}.{name}")

    def _of_object(self, item: Any, kind: type, name: str) -> Any:
        if is_user_function(class_attribute(kind, "__getattribute__")):
            self.refuse(f"{kind.__name__} has its own __getattribute__")
        of_class = class_attribute(kind, name)
        if of_class is not ABSENT and hasattr(type(of_class), "__set__"):
            return self._of_descriptor(item, kind, name, of_class)
        namespace = _namespace(item)
        whose = self.name_of(item)
        if namespace is not None and name in namespace:
            if self.is_made(item) or (name in self.known.counters and self.known.block(item)):
                return namespace[name]
            if self.known.watched(item):
                found = self.named(namespace[name], f"{whose}.{name}")
                if not is_plain(found) and not self.known.array(found) and not self.known.watched(found):
                    self.kept.append(found)
                return found
            return self._entry(namespace, name, f"{whose}.{name}")
        if namespace is not None and not (self.is_made(item) or self.known.watched(item)):
            self.fact(ENTRY, namespace, name, ABSENT, f"{whose}.{name}")
        if of_class is not ABSENT:
            return self._of_descriptor(item, kind, name, of_class)
        for space in () if self.known.watched(item) or self.is_made(item) else self.known.spaces(item):
            if name in space:
                return self._entry(space, name, f"{whose}.{name}")
        fallback = class_attribute(kind, "__getattr__")
        if is_user_function(fallback):
            return self.call(fallback, item, name)
        return getattr(item, name)

    def _of_descriptor(self, item: Any, kind: type, name: str, found: Any) -> Any:
        """Return an attribute of the class, or computed by a descriptor."""
        self._class_fact(kind, name, found)
        if isinstance(found, property):
            return self.call(found.fget, item) if is_user_function(found.fget) else getattr(item, name)
        if isinstance(found, cached_property):
            self.refuse(f"{self.name_of(item)}.{name} is a cached_property, which keeps its value")
        if isinstance(found, MemberDescriptorType):
            value = read_at(SLOT, item, found)
            if value is not ABSENT and not self.is_made(item):
                self.fact(SLOT, item, found, value, f"{self.name_of(item)}.{name}")
            return self.named(getattr(item, name), f"{self.name_of(item)}.{name}")
        getter = class_attribute(type(found), "__get__")
        if is_user_function(getter):
            return self.call(getter, found, item, kind)
        return self.named(getattr(item, name), f"{self.name_of(item)}.{name}")

    def _entry(self, container: Any, key: Any, name: str) -> Any:
        found = dict.get(container, key, ABSENT)
        self.fact(ENTRY, container, key, found, name)
        return self.named(found, name)

    def state_of(self, block: Any) -> None:
        """Returns what a module or block of the framework's own reads of itself."""
        for space, name in self.known.state(block):
            self._entry(space, name, f"{self.name_of(block)}.{name}")

    def name(self, space: dict[str, Any], name: str) -> Any:
        """A global of a function's module, or a builtin."""
        if name in space:
            if owner_of_module(space.get("__name__")) == LIBRARY:
                return space[name]
            return self._entry(space, name, name)
        try:
            return getattr(builtins, name)
        except AttributeError:
            raise NameError(f"name {name!r} is not defined") from None

    def imports(self, module: str, name: str | None) -> None:
        """Check an import in the body of a function."""
        found = sys.modules.get(module)
        if found is None:
            self.refuse(f"it imports {module}")
        if name is not None and is_user_module(found) and name in found.__dict__:
            self._entry(found.__dict__, name, f"{module}.{name}")

    # Items

    def item(self, item: Any, key: Any) -> Any:
        """item[key]"""
        if isinstance(item, tuple) and not is_user_function(class_attribute(type(item), "__getitem__")):
            return self.named(item[key], f"{self.name_of(item)}[{key!r}]") if _is_key(key) else item[key]
        if self.known.array(item) or isinstance(item, _SIMPLE) or self.is_free(item):
            return item[key]
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
            return item[key]
        self.refuse(f"it reads {name}, an item of a {type(item).__name__}")

    def contains(self, element: Any, container: Any) -> bool:
        """element in container"""
        method = class_attribute(type(container), "__contains__")
        if is_user_function(method):
            return bool(self.call(method, container, element))
        if isinstance(container, dict) and not self.is_free(container):
            return self._entry(container, element, f"{self.name_of(container)}[{element!r}]") is not ABSENT
        return element in self.whole(container)

    def size(self, item: Any) -> int:
        """len(item)"""
        method = class_attribute(type(item), "__len__")
        if is_user_function(method):
            return int(self.call(method, item))
        if isinstance(item, _CONTAINERS) and not self.is_free(item):
            self.fact(SIZE, item, None, len(item), f"len({self.name_of(item)})")
        return len(item)

    def whole(self, item: Any, deep: bool = True) -> Any:
        """The same, all of which counts from here on: it is compared, added up, or given to somebody else.

        What objects in it have as attributes does so too, unless the program itself reads them (not `deep`).
        """
        kind = type(item)
        if kind in _SIMPLE or self.known.array(item):
            return item
        if isinstance(item, tuple):
            for part in item:
                self.whole(part, deep)
        elif isinstance(item, _CONTAINERS):
            if not self.is_free(item):
                self._contents(item, len(item), MOST_ITEMS)
            for part in list(item.values()) if isinstance(item, dict) else list(item):
                self.whole(part, deep)
        elif isinstance(item, np.ndarray):
            if not self.is_made(item):
                self._contents(item, item.nbytes, _MOST_BYTES)
        elif isinstance(item, Iterator) and not self.is_made(item) and not self.known.array(item):
            self.refuse(f"{self.name_of(item)} continues from where it was")
        elif deep and (is_user_class(kind) or kind is SimpleNamespace) and not self.is_made(item):
            self._object(item)
        return item

    def _object(self, item: Any) -> None:
        """Note a user object that other code reads: all its attributes count."""
        if isinstance(item, (Enum, BaseException, type)) or self.known.block(item):
            return
        space = _namespace(item)
        if space is None:
            self.refuse(f"{self.name_of(item)}, which has no __dict__, is read by something other than the program")
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
            found = tuple([reduce(self.get, name.split("."), item) for name in names])
        return found if len(found) > 1 else found[0]

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call, through a follower."""
        raise NotImplementedError


def _is_key(key: Any) -> bool:
    return type(key) in (int, str, bool)


def _namespace(item: Any) -> Any:
    try:
        found = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None
