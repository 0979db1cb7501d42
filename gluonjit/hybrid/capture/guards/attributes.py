"""Reads of attributes and names in a followed call: each is a fact, made of the container and what was found in it."""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cached_property
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from gluonjit.hybrid.capture.guards import pure
from gluonjit.hybrid.capture.guards.facts import (
    ABSENT,
    CLASS,
    ENTRY,
    KIND,
    OF_LIBRARY,
    SLOT,
    Fact,
    alike,
    class_attribute,
    is_plain,
    read_at,
)
from gluonjit.hybrid.capture.guards.objects import Eagerly, FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.owners import (
    USER,
    is_steady,
    is_user_class,
    is_user_function,
    is_user_module,
    owner_of_module,
)
from gluonjit.hybrid.capture.guards.sizes import TracedSize
from gluonjit.hybrid.capture.guards.sources import line

MOST_FACTS = 512
CONTAINERS = (list, dict, set, deque)
SIMPLE = (type(None), bool, int, float, complex, str, bytes, range, slice)
_GUARDED = ("__dict__", "__class__")
"""Attributes that `kind_of` guards."""


class AttributeReader:
    """Notes reads of attributes and names. `arguments`: those of the call; its signature covers their containers.

    * `call(function, *args, **kwargs)`: makes a call, through a follower.
    """

    call: Callable[..., Any]

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

    def refuse(self, reason: str, eagerly: bool = False) -> NoReturn:
        """Gives up: the call is not a node. The program's handlers may catch this, so it is noted as well.

        eagerly: what it calls is none either.
        """
        self.refusal = self.refusal or (Eagerly(reason) if eagerly else reason)
        raise Refused(self.refusal)

    def new(self, item: Any) -> Any:
        """Notes an object that the call itself has made, and may write to."""
        kind = type(item)
        if kind in CONTAINERS or isinstance(item, (*CONTAINERS, Iterator)):
            self.made[id(item)] = item
        return item

    def is_made(self, item: Any) -> bool:
        """True if the call has made the object."""
        return id(item) in self.made

    def is_free(self, item: Any) -> bool:
        """True if reads of a container follow from the call's arguments."""
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
        """Notes a value found in a container, once; not what stands there only while a call is traced."""
        if way == OF_LIBRARY and any([found is other for other in self.known.instead.values()]):
            return
        place = (way, id(container), None if way == KIND else key)
        before = self.facts.get(place)
        if before is None:
            if len(self.facts) >= MOST_FACTS:
                self.refuse(f"it reads more than {MOST_FACTS} values that outlive it, {name} among them")
            self.facts[place] = Fact(way, container, key, found, name)
        elif before.found is not found and not alike(before.found, found):
            self.refuse(f"{name} changes while it runs")

    def get(self, item: Any, name: str) -> Any:
        """item.name"""
        kind = type(item)
        if kind in SIMPLE or kind is TracedSize or isinstance(item, pure.CONSTANT) or self.known.constant(item):
            return getattr(item, name)
        if self.known.array(item):
            return self._of_array(item, name)
        if isinstance(item, Enum) and name in ("name", "value"):
            return getattr(item, name)
        if isinstance(item, ModuleType):
            return self._of_module(item, name)
        if isinstance(item, type):
            return self._of_class(item, name)
        if isinstance(item, super):
            return self._of_super(item, name)
        if kind is MethodType and class_attribute(kind, name) is ABSENT:
            return self.get(item.__func__, name)
        return self._of_object(item, kind, name)

    def unknown(self, item: Any, name: str) -> NoReturn:
        """Refuses an attribute that nothing guards."""
        self.refuse(
            f"{line()} reads {self.name_of(item)}.{name}, and nothing tells of a {type(item).__name__} when that "
            "changes: read it before the call and pass it as an argument, or keep it as an attribute of an object of "
            "your own"
        )

    def _of_array(self, item: Any, name: str) -> Any:
        own, whose = self.known.own(item), self.name_of(item)
        if name in self.known.flags and not own:
            flag = self.known.flags[name]
            self.fact(SLOT, item, flag, read_at(SLOT, item, flag), f"{whose}.{name}")
            return getattr(item, name)
        if not self.known.answers(item, name):
            if own:
                self.asks(f"{whose}.{name}")
            space = namespace_of(item)
            if space is None or (name not in space and class_attribute(type(item), name) is not ABSENT):
                self.unknown(item, name)
            self._entry(space, name, f"{whose}.{name}")
        found = getattr(item, name)
        return self.known.sizes(found, self.asked) if own else found

    def asks(self, question: str) -> NoReturn:
        """Refuses a question that an array itself could answer, and not what stands for it in a trace."""
        self.refuse(
            f"{line()} asks for {question}, which only the array itself could answer: pass what it decides as an "
            "argument of its own",
            eagerly=True,
        )

    def _of_module(self, module: ModuleType, name: str) -> Any:
        whose = f"{module.__name__}.{name}"
        if name in module.__dict__:
            return self._global(module.__dict__, name, whose)
        fallback = module.__dict__.get("__getattr__")
        if is_user_function(fallback) and class_attribute(type(module), name) is ABSENT:
            return self.call(self._entry(module.__dict__, "__getattr__", f"{module.__name__}.__getattr__"), name)
        found = getattr(module, name)
        if not is_steady(found):
            self.unknown(module, name)
        return found

    def _global(self, space: dict[str, Any], name: str, whose: str) -> Any:
        """An entry of a module: of a library's, a function or a class is another only where somebody patches it."""
        found = space[name]
        if owner_of_module(space.get("__name__")) != USER and not is_plain(found) and is_steady(found):
            self.fact(OF_LIBRARY, space, name, found, whose)
            return self.named(found, whose)
        return self._entry(space, name, whose)

    def _of_class(self, kind: type, name: str) -> Any:
        found, meta = class_attribute(kind, name), type(kind)
        of_meta = class_attribute(meta, name)
        if of_meta is not ABSENT and (found is ABSENT or hasattr(type(of_meta), "__set__")):
            return self._of_descriptor(kind, meta, name, of_meta)
        if found is ABSENT:
            if class_attribute(meta, "__getattr__") is not ABSENT:
                self.unknown(kind, name)
            return getattr(kind, name)
        self._class_fact(kind, name, found)
        getter = class_attribute(type(found), "__get__")
        if is_user_function(getter):
            return self.call(getter, found, None, kind)
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
        """Notes what a class has; a library's changes only where somebody patches it."""
        way = CLASS if is_user_class(kind) else OF_LIBRARY
        self.fact(way, kind, name, found, f"{kind.__name__}.{name}")

    def kind_of(self, item: Any) -> type:
        """type(item), and where its attributes are: a fact about an object that outlives the call."""
        kind = type(item)
        fixed = kind in SIMPLE or isinstance(item, (*pure.CONSTANT, ModuleType, FunctionType, type))
        if fixed or self.is_free(item) or self.known.array(item) or self.known.watched(item):
            return kind
        space = namespace_of(item)
        if space is not None or is_user_class(kind):
            self.fact(KIND, item, space, kind, f"type({self.name_of(item)})")
        return kind

    def _of_object(self, item: Any, kind: type, name: str) -> Any:
        block = self.known.block(item)
        if not block:
            if is_user_function(class_attribute(kind, "__getattribute__")):
                self.refuse(f"{kind.__name__} has its own __getattribute__")
            if not pure.has_plain_attributes(kind):
                self.unknown(item, name)
        self.kind_of(item)
        of_class = class_attribute(kind, name)
        if of_class is not ABSENT and hasattr(type(of_class), "__set__"):
            return self._of_descriptor(item, kind, name, of_class)
        if block:
            found = self.set.get((id(item), name))
            if found is not None:
                return found[2]
            if self.known.is_result(item, name):
                self.refuse(f"it reads {self.name_of(item)}.{name}, which calls set")
            self.read.add((id(item), name))
        namespace = namespace_of(item)
        whose = self.name_of(item)
        if namespace is not None and name in namespace:
            if self.is_made(item) or (name in self.known.counters and block):
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
        found = getattr(item, name)
        if fallback is not ABSENT and not block and not self.is_made(item) and not is_steady(found):
            self.unknown(item, name)
        return found

    def _of_descriptor(self, item: Any, kind: type, name: str, found: Any) -> Any:
        """Returns an attribute of the class, or computed by a descriptor."""
        whose = f"{self.name_of(item)}.{name}"
        self._class_fact(kind, name, found)
        if isinstance(found, property) and is_user_function(found.fget):
            return self.call(found.fget, item)
        if isinstance(found, cached_property):
            self.refuse(f"{whose} is a cached_property, which keeps its value")
        getter = class_attribute(type(found), "__get__")
        if is_user_function(getter):
            return self.call(getter, found, item, kind)
        value = getattr(item, name)
        if self.is_made(item) or self.known.block(item) or getter is ABSENT:
            return self.named(value, whose)
        steady = isinstance(found, pure.METHODS) or name in _GUARDED
        if isinstance(item, tuple) or isinstance(value, np.ndarray):  # a part that stays as it is, or a view
            steady = steady or isinstance(found, pure.PARTS) or isinstance(item, np.ndarray)
        if not steady:
            same = is_plain(value) or value is getattr(item, name)
            if not isinstance(found, MemberDescriptorType) and not (isinstance(item, pure.READABLE) and same):
                self.unknown(item, name)
            self.fact(SLOT, item, found, value, whose)
        return self.named(value, whose)

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
            return self._global(space, name, name)
        if name not in builtins.__dict__:
            raise NameError(f"name {name!r} is not defined")
        return self._global(builtins.__dict__, name, name)

    def imports(self, module: str, name: str | None) -> None:
        """Checks an import in the body of a function."""
        found = sys.modules.get(module)
        if found is None:
            self.refuse(f"it imports {module}")
        if name is not None and is_user_module(found) and name in found.__dict__:
            self._entry(found.__dict__, name, f"{module}.{name}")


def namespace_of(item: Any) -> Any:
    try:
        found = object.__getattribute__(item, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None
