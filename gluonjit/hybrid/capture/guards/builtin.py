"""Builtins: those that a follower handles specially, and those that it trusts."""

from __future__ import annotations

import operator
from abc import ABCMeta
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from gluonjit.hybrid.capture.guards.facts import ABSENT, class_attribute
from gluonjit.hybrid.capture.guards.owners import LIBRARY, is_user_class, is_user_function, owner_of_module

BUILTIN = (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
    ClassMethodDescriptorType,
    np.ufunc,
)
UNBOUND = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)
_OPERATORS = {
    **{"Add": "add", "Sub": "sub", "Mult": "mul", "MatMult": "matmul", "Div": "truediv", "FloorDiv": "floordiv"},
    **{"Mod": "mod", "Pow": "pow", "LShift": "lshift", "RShift": "rshift"},
    **{"BitAnd": "and_", "BitOr": "or_", "BitXor": "xor"},
}
"""Names of functions of `operator`, by those that Python's syntax has."""
BINARY: dict[str, Callable[[Any, Any], Any]] = {syntax: getattr(operator, name) for syntax, name in _OPERATORS.items()}
"""Functions for `+` and the like."""
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    syntax: getattr(operator, f"i{name.rstrip('_')}") for syntax, name in _OPERATORS.items()
}
"""Functions for `+=` and the like."""
COMPARING: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}
"""Functions for comparisons, as Python's syntax names them."""


def is_hashable(function: Any) -> bool:
    return type(function) is BuiltinFunctionType


def is_trusted(function: Any, owner: Any) -> bool:
    """True if a function in C is a framework's or numpy's, or a method of a builtin class."""
    module = getattr(function, "__module__", None)
    if isinstance(owner, ModuleType):
        module = module or owner.__name__
    if isinstance(owner, type):
        module = owner.__module__
        if module == "builtins":
            return True
    if isinstance(function, np.ufunc):
        return True
    return module is not None and owner_of_module(module) == LIBRARY


def _getattr(follower: Any, item: Any, name: str, *default: Any) -> Any:
    try:
        return follower.get(item, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(follower: Any, item: Any, name: str) -> bool:
    return _getattr(follower, item, name, ABSENT) is not ABSENT


def _next(follower: Any, item: Any, *default: Any) -> Any:
    method = class_attribute(type(item), "__next__")
    return follower.call(method, item) if is_user_function(method) else next(follower.whole(item), *default)


def _isinstance(follower: Any, item: Any, kinds: Any) -> bool:
    known = follower.kind_of(item).__mro__
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, ABCMeta) and kind not in known and (is_user_class(kind) or is_user_class(known[0])):
            follower.refuse(f"it asks whether a {known[0].__name__} is registered as a {kind.__name__}")
    return isinstance(item, kinds)


def _id(follower: Any, item: Any) -> None:
    if follower.known.own(item):
        follower.asks(f"id({follower.name_of(item)})")
    follower.refuse("it calls id(), which differs from run to run")


def _entries(function: Any) -> Callable[..., None]:
    """`vars` and `dir`, which only the array itself can answer."""

    def special(follower: Any, *items: Any) -> None:
        if any(map(follower.known.own, items)):
            follower.asks(f"{function.__name__}({follower.name_of(items[0])})")
        follower.refuse(f"it calls {function.__name__}()")

    return special


SPECIAL: dict[Any, Callable[..., Any]] = {
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: lambda follower, item, name, value: setattr(follower.writable(item, name), name, value),
    delattr: lambda follower, item, name: delattr(follower.writable(item, name), name),
    iter: lambda follower, item, *rest: follower.new(iter(follower.iterate(item), *rest)),
    next: _next,
    len: lambda follower, item: follower.size(item),
    isinstance: _isinstance,
    id: _id,
    hash: lambda follower, item: follower.key(item) or hash(follower.whole(item)),
    issubclass: lambda follower, kind, kinds: issubclass(kind, kinds),
    callable: lambda follower, item: callable(item),
    dir: _entries(dir),
    vars: _entries(vars),
    operator.is_: lambda follower, left, right: follower.same(left, right),
    operator.is_not: lambda follower, left, right: not follower.same(left, right),
}
