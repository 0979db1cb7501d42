"""Owners of code: the user, whose code is followed, or a library."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from gluonjit.graph.frames import LIBRARIES

_ALSO = {"gluonnlp"}


def known_package(package: str) -> bool:
    """True if functions of a package are known to only return results: numpy's, and each engine's."""
    return package in LIBRARIES or package in _ALSO


USER, STANDARD, LIBRARY = "user", "standard", "library"

_STANDARD = tuple(sorted({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}))
_STANDARD_NAMES = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names)) | {"builtins"}
_OWN = str(Path(__file__).parents[3])  # the package
_GENERATED = ("__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__post_init__")


def owner_of(code: CodeType, namespace: dict[str, Any]) -> str:
    """Returns the owner of code: by its file, or for generated code by its module."""
    name = code.co_filename
    if name.startswith("<frozen "):
        return STANDARD
    if name.startswith("<"):
        module = str(namespace.get("__name__"))
        return LIBRARY if known_package(module.partition(".")[0]) or module.startswith("namedtuple_") else USER
    return owner_of_file(name)


@cache
def owner_of_file(name: str) -> str:
    if name.startswith(_OWN):
        return LIBRARY
    path = Path(name)
    for folder in _package_folders():
        if path.is_relative_to(folder):
            return LIBRARY
    parts = path.parts
    for part in ("site-packages", "dist-packages"):
        if part in parts:
            rest = parts[len(parts) - parts[::-1].index(part) :]
            return LIBRARY if rest and known_package(Path(rest[0]).stem) else USER
    return STANDARD if name.startswith(_STANDARD) else USER


def _package_folders() -> list[Path]:
    """Returns the folders of trusted packages, and the files of those that are one module."""
    modules = [sys.modules.get(name) for name in (LIBRARIES | _ALSO) - {"gluonjit"}]
    files = [Path(file) for module in modules if (file := getattr(module, "__file__", None))]
    return [file.parent if file.stem == "__init__" else file for file in files]


def is_user_function(function: Any) -> bool:
    """True if a function of Python is the user's."""
    return type(function) is FunctionType and owner_of(function.__code__, function.__globals__) == USER


def wraps_users(function: Any) -> bool:
    """True if a library's function wraps another that may be the user's, as a decorator does."""
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if inner is function or isinstance(inner, (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)):
        return False
    return type(inner) is not FunctionType or is_user_function(inner)


def is_steady(item: Any) -> bool:
    """True of a constant of a library: a module, a class, a function, or what is called like one."""
    if isinstance(item, (ModuleType, type, FunctionType, BuiltinFunctionType)):
        return True
    return callable(item) and owner_of_module(type(item).__module__) == LIBRARY


@cache
def _names_in(code: CodeType, namespace: str) -> tuple[tuple[dict[str, Any], str], ...]:
    space = sys.modules[namespace].__dict__
    modules = [space[name] for name in code.co_names if isinstance(space.get(name), ModuleType)]
    spaces = [space, *[module.__dict__ for module in modules if not is_user_module(module)]]
    return tuple((each, name) for each in spaces for name in code.co_names if name in each)


def names_of(function: FunctionType) -> list[tuple[dict[str, Any], str, Any]]:
    """Returns the functions and classes that a library's function names: where each is, its name, and itself."""
    namespace = function.__module__
    if getattr(sys.modules.get(namespace), "__dict__", None) is not function.__globals__:
        return []
    found = [(space, name, space.get(name)) for space, name in _names_in(function.__code__, namespace)]
    return [each for each in found if is_steady(each[2]) and not isinstance(each[2], ModuleType)]


def is_generated(function: Any) -> bool:
    """True if the standard library generated a function for a dataclass."""
    return (
        type(function) is FunctionType
        and function.__code__.co_filename == "<string>"
        and function.__name__ in _GENERATED
    )


def is_user_class(kind: type) -> bool:
    """True if a class, or one of its bases, is the user's."""
    return any(owner_of_module(base.__module__) == USER for base in kind.__mro__)


def owner_of_module(name: Any) -> str:
    """Returns the owner of a module, by its name."""
    top = str(name).partition(".")[0]
    if known_package(top):
        return LIBRARY
    return STANDARD if top in _STANDARD_NAMES else USER


def is_user_module(module: ModuleType) -> bool:
    """True if a module is the user's."""
    return owner_of_module(module.__name__) == USER
