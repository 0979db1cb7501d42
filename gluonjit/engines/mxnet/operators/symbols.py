"""Emits any registered operator as a classic Symbol, or runs it on arrays, by its registered name; reads attributes.

These arrive as strings: "(0, -1)", "[1,2]", "None", "True", "1", "float32".
"""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import Any

import mxnet as mx
from mxnet.base import _LIB, SymbolHandle, c_handle_array, c_str, c_str_array, check_call, mx_uint, py_str
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.hooked import run_operator

Attributes = Mapping[str, Any]
"""The attributes of one call as Python values; who reads one gives the default that the operator documents."""


def read(attrs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Attributes:
    """Attributes as Python values; None where it says so."""
    return {key: literal(str(value)) for key, value in dict(attrs).items()}


def written(attrs: Iterable[tuple[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Attributes as MXNet takes them."""
    return tuple([(key, str(value)) for key, value in attrs])


def listed(given: Any) -> tuple[Any, ...]:
    """An attribute that is one value or several, or none, as a tuple."""
    return () if given is None else given if isinstance(given, tuple) else (given,)


@lru_cache(maxsize=1024)  # Python's compiler reads them
def literal(text: str) -> Any:
    """The Python value of an attribute's text; words that are no literal stay text."""
    if not text:
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(value) if isinstance(value, list) else value


@cache
def operator_handle(name: str) -> int:
    """The registry's address of an operator; ValueError if there is none of this name."""
    handle = ctypes.c_void_p()
    try:
        check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    except mx.base.MXNetError as error:
        raise ValueError(f"MXNet has no operator {name!r}") from error
    return int(handle.value or 0)


@cache
def canonical(name: str) -> str:
    """The one name of an operator that may have many: `_Plus` and `_add` are `elemwise_add`."""
    real = ctypes.c_char_p()
    check_call(_LIB.MXSymbolGetAtomicSymbolName(ctypes.c_void_p(operator_handle(name)), ctypes.byref(real)))
    return str(py_str(real.value))


def apply(name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], arrays: bool = False) -> Any:
    """The operator `name` on classic symbols, or its results on `arrays`, of which these are some.

    The generated functions of `mx.sym` insist on numpy symbols for numpy operators; underneath there is
    no such difference, and here every symbol is a classic one.
    """
    if arrays or (inputs and isinstance(inputs[0], NDArray)):
        found = run_operator(operator_handle(name), inputs, written(attrs.items()))
        return found[0] if len(found) == 1 else found
    handle = SymbolHandle()
    check_call(
        _LIB.MXSymbolCreateAtomicSymbol(
            ctypes.c_void_p(operator_handle(name)),
            mx_uint(len(attrs)),
            c_str_array(list(attrs)),
            c_str_array([str(value) for value in attrs.values()]),
            ctypes.byref(handle),
        )
    )
    symbol = mx.sym.Symbol(handle)
    check_call(
        _LIB.NNSymbolCompose(handle, c_str(_fresh(name)), mx_uint(len(inputs)), None, c_handle_array(list(inputs)))
    )
    return symbol


def _fresh(name: str) -> str:
    """Makes a unique name; using MXNet's counter would change the names of blocks that the program makes later."""
    return f"{name.lower().lstrip('_')}{next(_numbers)}"


_numbers = count()
