"""Following a call: the user's functions run as twins, and a table classifies what they call."""

from __future__ import annotations

import functools
import gc
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from gluonjit.hybrid.capture.functions import CellFunction
from gluonjit.hybrid.capture.guards import pure
from gluonjit.hybrid.capture.guards.builtin import (
    BINARY,
    BUILTIN,
    CHANGES,
    COMPARING,
    SPECIAL,
    UNBOUND,
    is_hashable,
    is_trusted,
)
from gluonjit.hybrid.capture.guards.facts import (
    ABSENT,
    CELL,
    CODE,
    DEFAULTS,
    ENTRY,
    OF_LIBRARY,
    class_attribute,
    read_at,
)
from gluonjit.hybrid.capture.guards.interrupts import (
    PASSED,
    is_interrupted,
    pass_over,
    profile_again,
    watch,
)
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.owners import (
    LIBRARY,
    STANDARD,
    USER,
    is_generated,
    is_steady,
    is_user_function,
    names_of,
    owner_of,
    owner_of_module,
    wraps_users,
)
from gluonjit.hybrid.capture.guards.reading import MOST_ITEMS, Reader
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable
from gluonjit.hybrid.capture.guards.sizes import LINEAR, TracedSize, note, plain, traced
from gluonjit.hybrid.capture.guards.sources import is_twin, line, twin_of
from gluonjit.hybrid.capture.guards.variants import Noted
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.replaced import code_of


class _Within:
    """The follower as seen by the twin of one function, with the globals of that function."""

    def __init__(self, follower: Follower, space: dict[str, Any]) -> None:
        self.name: Callable[[str], Any] = functools.partial(follower.name, space)
        self._follower = follower

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._follower, name)
        self.__dict__[name] = found
        return found


class _Managed:
    """A context manager of the user's, entered and left through the follower."""

    def __init__(self, follower: Follower, manager: Any) -> None:
        self._follower, self._manager = follower, manager

    def __enter__(self) -> Any:
        return self._follower.call(self._follower.get(self._manager, "__enter__"))

    def __exit__(self, *error: Any) -> Any:
        return self._follower.call(self._follower.get(self._manager, "__exit__"), *error)


_FRAMES = 4
"""The frames of Python's that a followed call takes, at most, where the call itself takes one."""


class _Settable:
    """A block whose attributes are set: noted, and done when the call is captured."""

    follower: Follower
    block: Any

    def __init__(self, follower: Follower, block: Any) -> None:
        self.__dict__.update(follower=follower, block=block)

    def __setattr__(self, name: str, value: Any) -> None:
        self.follower.set[id(self.block), name] = (self.block, name, value)

    def __delattr__(self, name: str) -> None:
        self.follower.refuse(f"it deletes {self.follower.name_of(self.block)}.{name}")


class Follower(Reader):
    """Follows one call while it is traced."""

    def __init__(self, known: FrameworkObjects, arguments: Any) -> None:
        super().__init__(known, arguments)
        self._twins: dict[int, tuple[Any, FunctionType]] = {}
        asked = [
            getattr(type(known), name).__code__ for name in ("array", "own", "block", "watched", "spaces", "state")
        ]
        self._trusted: dict[int, Any] = {id(code): code for code in asked}
        self.slice = slice

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs a call. Raises Refused if it is not a node; then nothing that outlives it has changed."""
        before = sys.getprofile()
        deep = sys.getrecursionlimit()
        sys.setrecursionlimit(_FRAMES * deep)
        notice = self._notice  # held until the end: Python may be about to call it where it lets go of it
        collects = gc.isenabled()
        try:
            gc.disable()  # what it frees may run code of the program, such as the end of a generator
            watch(notice)
            result = self.call(function, *args, **kwargs)
        finally:
            sys.setprofile(None)
            if collects:
                gc.enable()
            sys.setrecursionlimit(deep)
            profile_again(before)
            if self.refusal:
                raise Refused(self.refusal)
        return result

    def watch(self) -> None:
        """Notices calls of the user's functions again, where that was suspended."""
        watch(self._notice)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspends following: work that the framework does once for all calls is not state of the program."""
        trace = LOCAL.state.trace
        follower, notice = trace.follower, sys.getprofile()
        sys.setprofile(None)
        trace.follower = None
        try:
            yield
        finally:
            trace.follower = follower
            if notice is not None:  # the trace has not ended
                watch(notice)

    def _notice(self, frame: Any, event: str, arg: Any) -> None:
        """Ends the trace before the first line of a user function that is not a twin."""
        if event != "call":
            return
        code = frame.f_code
        if id(code) in PASSED or is_twin(code):
            return
        library = owner_of(code, frame.f_globals) != USER
        if library and not code.co_filename.startswith("<"):
            pass_over(code)
            return
        if id(code) in self._trusted:
            return
        generated = code.co_filename == "<string>" and code.co_name.startswith("__")
        if library or generated or code.co_name == "__del__":
            self._trusted[id(code)] = code
            return
        if is_interrupted(frame):
            return
        sys.setprofile(None)
        self.refuse(f"{code.co_name} of the program is called by something other than the program itself")

    # Writing

    def writable(self, item: Any, name: str | None) -> Any:
        """Returns the object, if it may be written to."""
        if name is not None and self.known.own(item) and class_attribute(type(item), name) is ABSENT:
            self.refuse(f"{line()} sets {name!r} of an array: return it as a result of its own")
        if self.is_made(item) or (self.known.array(item) and (name is None or self.known.own(item))):
            return item
        if name is not None and (id(item), name) not in self.read and self.known.settable(item, name):
            return _Settable(self, item)
        whose = self.name_of(item)
        if id(item) in self.given:
            self.refuse("it writes to an argument")
        self.refuse(f"it writes to {whose}" if name is None else f"it sets {whose}.{name}")

    def change(self, name: str, now: Any, value: Any) -> Any:
        """now += value, and the like"""
        if not self.known.array(now):
            method = class_attribute(type(now), {"Div": "__itruediv__"}.get(name, f"__i{name.lower()}__"))
            if is_user_function(method):
                return self.call(method, now, value)
            if isinstance(now, (list, dict, set, bytearray, np.ndarray)) or isinstance(now, deque):
                self.writable(now, None)
            self.operand(value)
        self.operand(now) if type(now) is Decimal else None
        if TracedSize in (now.__class__, value.__class__):
            return self.binary(name, now, value)
        return self.new(CHANGES[name](now, value))

    def binary(self, name: str, left: Any, right: Any) -> Any:
        """left + right, and the like"""
        self.operand(left)
        self.operand(right)
        if TracedSize in (left.__class__, right.__class__):
            arrays = self.known.array(left) or self.known.array(right)
            if not arrays and not (name in LINEAR and {left.__class__, right.__class__} == {int, TracedSize}):
                return self.new(BINARY[name](self.compared(left), self.compared(right)))
        return self.new(BINARY[name](left, right))

    def operand(self, item: Any) -> Any:
        """The operand of arithmetic."""
        if type(item) is Decimal:
            self.refuse(f"{line()} computes with {self.name_of(item)}, a Decimal, by a context: convert it to a float")
        return self.whole(item)

    def compared(self, item: Any) -> Any:
        """The operand of a comparison, or of what else the program may decide by."""
        note((item,), self.asked)
        return plain(self.whole(item))

    def compare(self, name: str, left: Any, right: Any) -> Any:
        """The result of one comparison; between a size and a whole number only that is a decision."""
        if TracedSize in (left.__class__, right.__class__) and isinstance(left, int) and isinstance(right, int):
            return COMPARING[name](traced(plain(left), self.asked), plain(right))
        return COMPARING[name](self.compared(left), self.compared(right))

    def manage(self, manager: Any) -> Any:
        """Returns the context manager of a `with` statement."""
        kind = type(manager)
        if is_user_function(class_attribute(kind, "__enter__")):
            return _Managed(self, manager)
        if owner_of_module(kind.__module__) == LIBRARY or kind.__module__ == "contextlib":
            return manager
        self.refuse(f"it enters a {kind.__name__}")

    def decorator(self, function: Any) -> Any:
        """Returns a decorator of a function defined in the call."""
        return functools.partial(self.call, function)

    # Calling

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """function(*args, **kwargs)"""
        if self.refusal:
            raise Refused(self.refusal)
        kind = type(function)
        if kind is MethodType:
            return self.call(function.__func__, function.__self__, *args, **kwargs)
        if kind is FunctionType:
            return self._call_function(function, args, kwargs)
        if kind is CellFunction:
            return self.call(function.function, *args, **kwargs)
        if kind is functools.partial:
            func, first, keywords = [self.get(function, name) for name in ("func", "args", "keywords")]
            if not self.is_made(function):
                self._contents(keywords, len(keywords), MOST_ITEMS)
            return self.call(func, *first, *args, **{**keywords, **kwargs})
        if isinstance(function, functools._lru_cache_wrapper):
            self.refuse(f"it calls {function.__name__}, whose results are cached (lru_cache)")
        if isinstance(function, type):
            return self._make(function, args, kwargs)
        if isinstance(function, BUILTIN):
            return self._builtin(function, args, kwargs)
        method = class_attribute(kind, "__call__")
        if is_user_function(method):
            self._class_fact(self.kind_of(function), "__call__", method)
            return self.call(method, function, *args, **kwargs)
        if self.known.block(function):
            if not self.known.watched(function) and not self.is_made(function):
                self.state_of(function)
            return function(*args, **kwargs)
        if owner_of_module(kind.__module__) == LIBRARY:
            if not self.is_made(function) and not is_steady(function):
                self.whole(function)
            return self._native(function, args, kwargs)
        if isinstance(function, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
            return self.picked(function, *args)
        self.refuse(f"it calls {self.name_of(function)}, which gluonjit does not know")

    def _call_function(self, function: Any, args: Any, kwargs: Any) -> Any:
        if is_twin(function.__code__):
            return function(*args, **kwargs)
        effect = pure.effect_of(function)
        if effect:
            self.refuse(f"{effect} ({function.__name__})")
        owner = owner_of(function.__code__, function.__globals__)
        if is_generated(function):
            return self._native(function, args, kwargs)
        if owner == USER or wraps_users(function) or function in self.known.followed:
            return self.followed(function, args)(*args, **kwargs)
        if owner == STANDARD and not pure.is_pure(function):
            self.refuse(f"it calls {function.__module__}.{function.__name__}, which gluonjit does not know")
        if function not in self.known.instead:
            self.of_library(function)
            if owner == LIBRARY and not args and not kwargs and function not in self.known.modes:
                return self._answer(function)
        return self._native(self.known.instead.get(function, function), args, kwargs)

    def _answer(self, function: Any) -> Any:
        """Calls a library's function without arguments: an array that it makes, or an answer that may change."""
        found = self._native(function, (), {})
        if not self.known.array(found) and not self.known.constant(found):
            self.refuse(
                f"{line()} asks {function.__module__}.{function.__name__}(), and nothing tells when its answer "
                "changes: call it before, and pass the answer as an argument"
            )
        return found

    def of_library(self, function: Any) -> None:
        """Notes which functions a library's function calls: they are others where somebody patches them."""
        for space, name, found in names_of(function) if type(function) is FunctionType else ():
            self.fact(OF_LIBRARY, space, name, found, name)

    def followed(self, function: Any, args: Any = ()) -> FunctionType:
        """Returns the twin of a function; its outside values count as read."""
        known = self._twins.get(id(function))
        if known is not None:
            return known[1]
        notice = sys.getprofile()
        sys.setprofile(None)  # nothing of the user's runs, and noticing it takes longer than that
        try:
            twin = twin_of(function, _Within(self, function.__globals__))
        except Unfollowable as reason:
            self.refuse(f"{function.__name__} cannot be followed: {reason}")
        finally:
            if notice is not None:
                watch(notice)
        self._twins[id(function)] = function, twin
        code = code_of(function)
        self.fact(CODE, function, None, code, f"{function.__name__}.__code__")
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            if name != "__class__":
                found = read_at(CELL, cell, None)
                self.fact(CELL, cell, None, found, name)
                self.named(found, name)
        for name in ("__defaults__", "__kwdefaults__"):
            found = getattr(function, name)
            if found is not None:
                self.fact(DEFAULTS, function, name, found, f"{function.__name__}.{name}")
        for name, found in (function.__kwdefaults__ or {}).items():
            self.fact(ENTRY, function.__kwdefaults__, name, found, name)
        if args and code.co_argcount:
            self.named(args[0], code.co_varnames[0])
        return twin

    def _back(self, item: Any) -> Any:
        """Wraps a function that other code will call, and that has to be followed."""
        if type(item) is MethodType and is_user_function(item.__func__) and not is_twin(item.__func__.__code__):
            return MethodType(self.followed(item.__func__, (item.__self__,)), item.__self__)
        if is_user_function(item) and not is_twin(item.__code__):
            return self.followed(item)
        if item is type or type(item) is functools.partial or (is_hashable(item) and item in SPECIAL):
            return functools.partial(self.call, item)
        return item

    def _native(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Calls a function that is known to only return a result."""
        self.whole((args, tuple(kwargs.values())))
        operates = self.known.operates(function)
        if not operates:
            note((*args, *kwargs.values()), self.asked)
        given = args if function is functools.partial else [self._back(arg) for arg in args]  # else once it is called
        named = {name: self._back(arg) for name, arg in kwargs.items()}
        before = self.known.writes(kwargs.get("out"))
        result = function(*given, **named)
        if any(map(operator.eq, before, self.known.writes(kwargs.get("out")))):  # it is lost where PyTorch composes it
            self.refuse(f"out= of {self.name_of(function)} is not written to by operators")
        if operates:
            result = self.known.sizes(result, self.asked)
        if isinstance(result, np.ndarray):
            if not any(result is arg for arg in args) and result.base is None:
                self.made[id(result)] = result
            return result
        return result if any(result is arg for arg in args) else self.new(result)

    def _make(self, kind: type, args: Any, kwargs: Any) -> Any:
        """Creates an object of a class."""
        if kind is type and len(args) == 1:
            return self.type(args[0])
        effect = pure.effect_of(kind)
        if effect:
            self.refuse(f"{effect} ({kind.__name__})")
        init = class_attribute(kind, "__init__")
        new = class_attribute(kind, "__new__")
        if is_user_function(getattr(new, "__func__", new)) and not is_generated(getattr(new, "__func__", new)):
            self.refuse(f"{kind.__name__} has its own __new__")
        if is_user_function(class_attribute(type(kind), "__call__")):
            self.refuse(f"{kind.__name__} has its own metaclass")
        if is_user_function(init) and not is_generated(init) and not issubclass(kind, (tuple, BaseException)):
            item = kind.__new__(kind)
            self.made[id(item)] = item
            self._class_fact(kind, "__init__", init)
            self.call(init, item, *args, **kwargs)
            return item
        if owner_of_module(kind.__module__) == STANDARD and not pure.is_pure(kind):
            self.refuse(f"it creates a {kind.__module__}.{kind.__name__}, which gluonjit does not know")
        item = self._native(kind, args, kwargs)
        if type(item) is kind and not isinstance(item, pure.IMMUTABLE) and not any(item is arg for arg in args):
            self.made[id(item)] = item
        return item

    def _builtin(self, function: Any, args: Any, kwargs: Any) -> Any:
        special = SPECIAL.get(function) if is_hashable(function) else None
        if special is not None:
            return special(self, *args, **kwargs)
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        effect = pure.effect_of(function)
        if effect:
            self.refuse(f"{effect} ({name})")
        if isinstance(function, UNBOUND) and args:
            return self._method(args[0], name, function, args, kwargs)
        if owner is not None and not isinstance(owner, (ModuleType, type)):
            return self._method(owner, name, function, args, kwargs)
        if pure.is_pure(function) or is_trusted(function, owner):
            if not args and not kwargs and not isinstance(owner, type) and function not in self.known.modes:
                return self._answer(function)
            return self._native(self.known.instead.get(function, function), args, kwargs)
        self.refuse(f"it calls {name}, which gluonjit does not know")

    def _method(self, owner: Any, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """Calls a method, in C, of an object."""
        rest = args if getattr(function, "__self__", None) is owner else args[1:]
        if self.known.array(owner):
            if name.rstrip("_") in self.known.flags and not self.known.own(owner):
                self.refuse(f"it sets {self.name_of(owner)}.{name.rstrip('_')}")
            return self._native(function, args, kwargs)
        if isinstance(owner, (*pure.IMMUTABLE, *pure.CONSTANT)) or self.known.constant(owner):
            self.operand(owner)
            note((owner,), self.asked)
            return self._native(function, args, kwargs)
        if isinstance(owner, pure.FRESH):
            if name in ("remove", "index", "count", "__contains__", "discard"):
                self.seek(rest[0], owner)
            if name == "get" and isinstance(owner, dict) and not self.is_free(owner) and rest:
                return self.item(owner, rest[0]) if self.contains(rest[0], owner) else (*rest, None)[1]
            if name == "__getitem__" and not self.is_free(owner):
                return self.item(owner, rest[0])
            if name not in ("__init__", "__new__"):
                if pure.reads_only(owner, name):
                    self.whole(owner)
                else:
                    self.writable(owner, None)
            result = function(*args, **kwargs)  # which may keep its arguments in the container
            if name in ("copy", "items", "keys", "values", "__iter__", "elements", "most_common"):
                self.made[id(result)] = result
            return result
        if name in ("__init__", "__init_subclass__", "__new__", "__eq__", "__ne__", "__hash__", "__repr__", "__str__"):
            return self._native(function, args, kwargs)
        if name == "__setattr__":
            return setattr(self.writable(owner, rest[0]), *rest)
        if name in ("__getattribute__", "__getattr__"):
            return self.get(owner, rest[0])
        if isinstance(owner, np.ndarray):
            if name in ("fill", "sort", "put", "itemset", "resize", "setflags", "partition", "__setitem__", "byteswap"):
                self.writable(owner, None)
            return self._native(function, args, kwargs) if self.whole(owner) is not None else None
        if isinstance(owner, Iterator):
            self.whole(owner)
            return function(*args, **kwargs)
        if owner_of_module(type(owner).__module__) == LIBRARY:
            return self._native(function, args, kwargs)
        self.refuse(f"it calls {self.name_of(owner)}.{name}, which gluonjit does not know")


def follow(
    trace: Any, follower: Follower, run: Callable[..., Any], args: Any, kwargs: dict[str, Any], noted: Noted
) -> Any:
    """Runs a call while `trace` records it, notes its reads, and returns its result. Raises Refused for no node.

    `args` and `kwargs` are the call's with stand-ins in place of arrays; the trace has an attribute `follower`.
    """
    trace.follower = follower
    state = LOCAL.state
    outer, state.trace = state.trace, trace
    try:
        result = follower.run(run, args, kwargs)
    finally:
        state.trace = outer
    noted.facts, noted.kept = tuple(follower.facts.values()), tuple(follower.kept)
    noted.asked, noted.set = tuple(follower.asked), list(follower.set.values())
    return result
