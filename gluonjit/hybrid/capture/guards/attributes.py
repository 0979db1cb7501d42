"""Reads of attributes and names in a followed call: each is a fact, made of the container and what was found in it."""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NoReturn

import numpy as np

from gluonjit.hybrid.capture.guards.facts import (
    ABSENT,
    CLASS,
    ENTRY,
    SLOT,
    Fact,
    alike,
    class_attribute,
    is_plain,
    read_at,
)
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.owners import (
    LIBRARY,
    is_user_class,
    is_user_function,
    is_user_module,
    owner_of_module,
)

MOST_FACTS = 512
CONTAINERS = (list, dict, set, deque)
SIMPLE = (type(None), bool, int, float, complex, str, bytes, range, slice)


class AttributeReader:
    """Notes reads of attributes and names. `arguments`: those of the call; its signature covers their containers."""

    def __init__(self, known: FrameworkObjects, arguments: Any) -> None:
        self.known = known
        self.refusal = ""
        self.facts: dict[Any, Fact] = {}
        self.kept: list[Any] = []  # so that no other object gets an address that is watched
        self.names: dict[int, str] = {}
        self.made: dict[int, Any] = {}
        self.asked: list[Any] = []  # sizes of arrays that the program decides by
        self.read: set[tuple[int, str]] = set()  # attributes of blocks, before they were set
        self.set: dict[tuple[int, str], tuple[Any, str, Any]] = {}  # attributes of blocks: the block, name and value
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
        """Gives up: the call is not a node. The program's handlers may catch this, so it is noted as well."""
        self.refusal = self.refusal or reason
        raise Refused(self.refusal)

    def new(self, item: Any) -> Any:
        """Notes an object that the call itself has made, and may write to."""
        kind = type(item)
        if kind in CONTAINERS or isinstance(item, (*CONTAINERS, Iterator)):
            self.made[id(item)] = item
        return item

    def is_made(self, item: Any) -> bool:
        """Tells whether the call has made the object."""
        return id(item) in self.made

    def is_free(self, item: Any) -> bool:
        """Tells whether reads of a container follow from the call's arguments."""
        return id(item) in self.made or id(item) in self.given

    def named(self, item: Any, name: str) -> Any:
        """Returns the object, and notes the program's name for it, for reasons shown to users."""
        if not isinstance(item, SIMPLE):
            self.names.setdefault(id(item), name)
        return item

    def name_of(self, item: Any) -> str:
        """Names an object as the program does, or by its class."""
        return self.names.get(id(item), f"a {type(item).__name__}")

    def fact(self, way: int, container: Any, key: Any, found: Any, name: str) -> None:
        """Notes a value found in a container, once."""
        place = (way, id(container), key)
        before = self.facts.get(place)
        if before is None:
            if len(self.facts) >= MOST_FACTS:
                self.refuse(f"it reads more than {MOST_FACTS} values that outlive it, {name} among them")
            self.facts[place] = Fact(way, container, key, found, name)
        elif before.found is not found and not alike(before.found, found):
            self.refuse(f"{name} changes while it runs")

    def get(self, item: Any, name: str) -> Any:
        """item.name"""
        if isinstance(item, SIMPLE) or self.known.array(item) or isinstance(item, (Enum, np.ndarray)):
            if name in self.known.flags and not self.known.own(item):
                flag = self.known.flags[name]
                self.fact(SLOT, item, flag, read_at(SLOT, item, flag), f"{self.name_of(item)}.{name}")
            found = getattr(item, name)
            return self.known.sizes(found, self.asked) if self.known.own(item) else found
        if isinstance(item, ModuleType):
            return self._of_module(item, name)
        if isinstance(item, type):
            return self._of_class(item, name)
        if isinstance(item, super):
            return self._of_super(item, name)
        if isinstance(item, tuple) and isinstance(class_attribute(type(item), name), MemberDescriptorType):
            return self.named(getattr(item, name), f"{self.name_of(item)}.{name}")  # a part that stays as it is
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
        if self.known.block(item):
            found = self.set.get((id(item), name))
            if found is not None:
                return found[2]
            if self.known.is_result(item, name):
                self.refuse(f"it reads {self.name_of(item)}.{name}, which calls set")
            self.read.add((id(item), name))
        namespace = namespace_of(item)
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
        """Returns an attribute of the class, or computed by a descriptor."""
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
        """Checks an import in the body of a function."""
        found = sys.modules.get(module)
        if found is None:
            self.refuse(f"it imports {module}")
        if name is not None and is_user_module(found) and name in found.__dict__:
            self._entry(found.__dict__, name, f"{module}.{name}")

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Makes a call, through a follower."""
        raise NotImplementedError


def namespace_of(item: Any) -> Any:
    try:
        found = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None
