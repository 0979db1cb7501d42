"""Numbers of Python as operands: those of operators that keep differing (`h * dt`), and those of entries.

Few numbers of an operator are constants, each with a kind of its own; further ones are operands of one kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from mxnet.context import Context
from mxnet.ndarray import NDArray, array

from gluonjit.engines.mxnet.hooked import Attrs
from gluonjit.engines.mxnet.lookups import host_number
from gluonjit.engines.mxnet.modes import as_captured
from gluonjit.engines.mxnet.operators.symbols import operator_handle
from gluonjit.graph import Value
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.places import FEW_NUMBERS, vary
from gluonjit.hybrid.run.state import UNCAPTURED

_NAMED = ("maximum", "minimum", "power")  # alike in all interfaces
_SIGNS = {"plus": "add", "minus": "sub", "mul": "mul", "div": "div", **{name: name for name in _NAMED}}
_NUMPY_SIGNS = {name: name for name in ("add", "subtract", "multiply", "true_divide", *_NAMED)}
_OF_ARRAYS: dict[str, tuple[str, bool]] = {
    f"{begin}{reverse}{sign}_scalar": (f"{target}{name}", bool(reverse))
    for begin, signs, target in (("_", _SIGNS, "broadcast_"), ("_npi_", _NUMPY_SIGNS, "_npi_"))
    for sign, name in signs.items()
    for reverse in ("", "r")
}
"""By an operator of a number: that which gives the same for an array of it, and whether the number comes first."""


def with_operand(
    batch: Batch, name: str, arrays: Sequence[Any], attrs: Attrs, wrap: Callable[[Value], Any]
) -> tuple[int, list[Any]] | None:
    """An operator of arrays, its handle and its operands, for one of a number that keeps differing; None for others.

    wrap: makes a lazy array of a value.
    """
    target = _OF_ARRAYS.get(name)
    value = getattr(arrays[0], "_v", None)
    if target is None or value is None:
        return None
    spec, number = value.spec, dict(attrs)["scalar"]
    if spec.dtype != "float32" or not float(number):  # `0 + x`, with which `sum` begins, is no node
        return None  # and as float64 MXNet's own reading of a text may differ from Python's in the last bit
    if not vary(None, (name, len(spec.shape)), number, batch, FEW_NUMBERS):
        return None
    operand = wrap(host_number(batch, float(number), spec))
    other, reverse = target
    return operator_handle(other), [operand, arrays[0]] if reverse else [arrays[0], operand]


@lru_cache(maxsize=256)
def array_of(number: str, shape: tuple[int, ...], dtype: str, context: Context) -> NDArray:
    """An array of this shape filled with a number, given as text: 0.0 and -0.0 are equal."""
    with UNCAPTURED, as_captured(0), np.errstate(over="ignore"):
        return array(np.full(shape, float(number)).astype(dtype), ctx=context, dtype=dtype)


def clear_numbers() -> None:
    """Forgets arrays of numbers."""
    array_of.cache_clear()
