"""A table of builtin functions, and of the standard library's."""

from __future__ import annotations

import builtins
import collections
import contextlib
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import pathlib
import re
import types
import typing
import uuid
import weakref
from typing import Any

import numpy as np

FRESH = (
    list,
    dict,
    set,
    bytearray,
    collections.OrderedDict,
    collections.defaultdict,
    collections.deque,
    collections.Counter,
)
"""Classes of containers that a program makes, and may then write to."""

_PURE = (
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format "
    "frozenset hash hex int isinstance issubclass iter len list map max min next object oct ord pow property range "
    "repr reversed round set slice sorted staticmethod classmethod str sum tuple type zip super memoryview"
)
_BUILTINS = {getattr(builtins, name) for name in _PURE.split()}

EFFECTS = {
    "print": "it prints",
    "input": "it reads from the terminal",
    "open": "it opens a file",
    "eval": "it evaluates code",
    "exec": "it executes code",
    "compile": "it compiles code",
    "globals": "it calls globals()",
    "locals": "it calls locals()",
    "__import__": "it imports",
    "breakpoint": "it stops at a breakpoint",
}
"""Builtins that a node cannot call, and why."""

MODULES = {*"math cmath operator _operator itertools _collections _struct struct _functools".split()}
"""Modules of the standard library whose functions in C give what follows from their arguments."""

UNSTEADY = {
    "time": "it reads the clock",
    "datetime": "it reads the clock",
    "random": "it draws random numbers in Python",
    "_random": "it draws random numbers in Python",
    "numpy.random": "it draws random numbers in Python",
    "logging": "it logs",
    "warnings": "it warns",
    "os": "it queries the operating system",
    "posix": "it queries the operating system",
    "sys": "it queries the interpreter",
    "io": "it reads or writes a file",
    "_io": "it reads or writes a file",
    "tqdm": "it displays progress",
    "gc": "it queries the garbage collector",
    "threading": "it uses threads",
    "_thread": "it uses threads",
    "weakref": "it uses weak references",
    "_weakref": "it uses weak references",
    "inspect": "it reads frames",
}
"""Modules whose functions a node cannot call, and why."""

_STANDARD: set[Any] = {
    copy.copy,
    copy.deepcopy,
    dataclasses.replace,
    dataclasses.fields,
    dataclasses.is_dataclass,
    dataclasses.astuple,
    dataclasses.asdict,
    functools.partial,
    functools.reduce,
    contextlib.nullcontext,
    contextlib.suppress,
    contextlib._GeneratorContextManager,
    collections.namedtuple,
    types.SimpleNamespace,
    typing.cast,
    fractions.Fraction,
    decimal.Decimal,
}

_READING = {
    list: "__len__ copy count index __contains__ __getitem__ __iter__ __add__ __mul__ __eq__ __reversed__",
    dict: "__len__ copy get items keys values __contains__ __getitem__ __iter__ __eq__ __or__ fromkeys __reversed__",
    set: "__len__ copy difference intersection union isdisjoint issubset issuperset symmetric_difference __contains__ "
    "__iter__ __and__ __or__ __sub__ __eq__ __xor__",
    collections.deque: "__len__ copy count index __contains__ __getitem__ __iter__",
    collections.Counter: "most_common elements total",
}
READING = {kind: frozenset(names.split()) for kind, names in _READING.items()}
"""Methods of containers that only read."""

METHODS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    staticmethod,
    classmethod,
    type,
)
"""Classes of what a class has that makes a method, or is itself."""

PARTS = (types.MemberDescriptorType, type(vars(collections.namedtuple("_Named", "item"))["item"]))
"""Classes of what gives a part of a tuple by its name."""

READABLE = (
    types.FunctionType,
    types.MethodType,
    types.CodeType,
    types.CellType,
    type,
    functools.partial,
    BaseException,
    np.ndarray,
    collections.defaultdict,
    collections.deque,
)
"""Classes in C whose attributes may be read again and compared."""

CONSTANT = (
    np.generic,
    np.dtype,
    np.finfo,
    np.iinfo,
    fractions.Fraction,
    decimal.Decimal,
    datetime.date,
    datetime.timedelta,
    pathlib.PurePath,
    re.Pattern,
    re.Match,
    uuid.UUID,
    type(NotImplemented),
)
"""Classes of objects that never change."""

IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, range, slice, type(Ellipsis))


_PLAIN = ("builtins", "collections", "functools", "numpy")
"""Modules of which classes in C have attributes like any other."""


def has_plain_attributes(kind: type) -> bool:
    """True if attributes of objects are those of their dict and their class: a thread's own state is in neither."""
    of = next(base for base in kind.__mro__ if "__getattribute__" in base.__dict__)
    return of.__module__ in _PLAIN and not issubclass(of, weakref.ProxyTypes)


def reads_only(container: Any, name: str) -> bool:
    """True if a method of a container only reads it."""
    return any(name in names for kind, names in READING.items() if isinstance(container, kind))


def effect_of(function: Any) -> str:
    """Returns why a node cannot call a library function; "" if nothing speaks against it."""
    module = getattr(function, "__module__", None) or getattr(getattr(function, "__objclass__", None), "__module__", "")
    if module == "builtins" and not isinstance(function, type):
        return EFFECTS.get(getattr(function, "__name__", ""), "")
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type):
        module = getattr(type(owner), "__module__", module) if type(owner).__name__ != "module" else owner.__name__
    while module:
        if module in UNSTEADY:
            return UNSTEADY[module]
        module = module.rpartition(".")[0]
    return ""


def is_pure(function: Any) -> bool:
    """True if the result of a builtin, or a standard function, depends only on its arguments."""
    try:
        if function in _BUILTINS or function in _STANDARD:
            return True
    except TypeError:  # it cannot be hashed
        return False
    if isinstance(function, type) and (
        function in FRESH or function in IMMUTABLE or issubclass(function, BaseException)
    ):
        return True
    module = getattr(function, "__module__", None)
    owner = getattr(function, "__self__", None)
    if module is None and owner is not None and type(owner).__name__ == "module":
        module = owner.__name__
    return module in MODULES
