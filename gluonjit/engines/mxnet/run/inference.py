"""MXNet's inference: names of operators, shapes of their results, and the errors of calls that it refuses."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call, mx_uint, py_str

from gluonjit.engines.mxnet.framework.arrays import dtype_name
from gluonjit.engines.mxnet.framework.originals import Attrs, operator_handle, original_invoke, original_set_recording
from gluonjit.engines.mxnet.framework.semantics import SHAPES
from gluonjit.engines.mxnet.framework.symbols import RANDOM, STATEFUL, apply, canonical
from gluonjit.engines.mxnet.operators.table import ROWS_OF
from gluonjit.errors import CaptureError
from gluonjit.hybrid.capture.guards.sizes import plain
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.program.axes.values import Shaped

Shapes = tuple[Shaped, ...]
"""Shapes and dtypes of operands, or of results."""


class SizeError(mx.base.MXNetError, ValueError):  # type: ignore[misc]
    """Another number of elements: MXNet's operator raises its own error, and its arrays' method a ValueError."""


@cache
def _registered(handle: int) -> tuple[str, str]:
    """The registered name of an operator by its address, and the attribute that counts its inputs, if any."""
    name, text, counted = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_char_p()
    count, returned = mx_uint(), ctypes.c_char_p()
    names, types, texts = (ctypes.POINTER(ctypes.c_char_p)() for _ in range(3))
    check_call(
        _LIB.MXSymbolGetAtomicSymbolInfo(
            ctypes.c_void_p(handle),
            *map(ctypes.byref, (name, text, count, names, types, texts, counted, returned)),
        )
    )
    return canonical(str(py_str(name.value))), str(py_str(counted.value))


def operator_call(handle: int, inputs: int, keys: Sequence[str], vals: Sequence[Any]) -> tuple[str, Attrs]:
    """Name and attributes of an imperative operator call; the number of inputs becomes explicit."""
    name, counted = _registered(handle)
    attrs = [(key, _text(value)) for key, value in zip(keys, vals)]
    if counted and counted not in keys:
        attrs.append((counted, str(inputs)))
    return name, tuple(attrs)


def _text(value: Any) -> str:
    """An argument as MXNet takes it; a size of a trace is none that the program has asked for."""
    return str(value.__class__(map(plain, value)) if value.__class__ in (tuple, list) else plain(value))


def infer(name: str, attrs: Attrs, inputs: Shapes) -> Shapes:
    """Shapes and dtypes of an operator's results.

    Raises CaptureError if the operator does not take such inputs. MXNet 1.9.1 does not check whether a reshape keeps
    the number of elements, and for symbols not the shape of a condition.
    """
    return _infer(name, attrs, inputs, LOCAL.state.numpy & SHAPES)


def inferred_count() -> int:
    """Shapes in the cache: 10,000 at most."""
    return _infer.cache_info().currsize


def clear_inferred() -> None:
    """Forgets them."""
    _infer.cache_clear()


@lru_cache(maxsize=10_000)
def _infer(name: str, attrs: Attrs, inputs: Shapes, numpy: int) -> Shapes:
    """Infers what is not in the cache; `numpy` is the semantics in which MXNet does."""
    names = [f"operand{k}" for k in range(len(inputs))]
    fits = False
    try:
        symbol = apply(name, [mx.sym.var(operand) for operand in names], dict(attrs))
        # The public infer_shape prints what it raises.
        shapes = symbol._infer_shape_impl(False, **{operand: shape for operand, (shape, _) in zip(names, inputs)})[1]
        fits = True
        dtypes = symbol._infer_type_impl(False, **{operand: dtype for operand, (_, dtype) in zip(names, inputs)})[1]
    except (mx.base.MXNetError, TypeError, ValueError) as error:
        raise _refusal(name, attrs, inputs, reason_of(error), fits) from error
    if shapes is None or dtypes is None:
        outputs = _measured(name, attrs, inputs)
    else:
        outputs = tuple((tuple(shape), np.dtype(dtype).name) for shape, dtype in zip(shapes, dtypes))
    if canonical(name) in _RESHAPES and prod(outputs[0][0]) != prod(inputs[0][0]):
        said = f"the result {outputs[0][0]} has another number of elements"
        raise _refusal(name, attrs, inputs, said, theirs=SizeError)
    if canonical(name) == "where" and inputs[0][0] not in (outputs[0][0], outputs[0][0][:1]):
        raise _refusal(name, attrs, inputs, "the condition has another shape than what it chooses from")
    return outputs


def _measured(name: str, attrs: Attrs, inputs: Shapes) -> Shapes:
    """Shapes and dtypes of the results on zeros: a few operators, np.hstack for one, infer no shapes."""
    own = canonical(name)
    if own not in ROWS_OF or own in STATEFUL or own in RANDOM:
        raise _refusal(name, attrs, inputs, "the result's shape cannot be inferred")
    recording = original_set_recording(False)
    try:
        with UNCAPTURED:
            arrays = [mx.nd.zeros(shape, dtype=dtype) for shape, dtype in inputs]
            handle = operator_handle(name)
            keys, vals = [key for key, _ in attrs], [val for _, val in attrs]
            found = original_invoke(handle, arrays, keys, vals, None, False, True)
        return tuple((array.shape, dtype_name(array)) for array in found)
    except mx.base.MXNetError as error:
        raise _refusal(name, attrs, inputs, reason_of(error)) from error
    finally:
        original_set_recording(recording)


_RESHAPES = {"Reshape", "_np_reshape", "_npx_reshape", "reshape_like"}


def _refusal(
    name: str, attrs: Attrs, inputs: Shapes, why: str, fits: bool = False, theirs: Any = mx.base.MXNetError
) -> CaptureError:
    """Returns the error of an operator that does not take such operands; also MXNet's own error, as in eager execution.

    fits: whether the shapes are right, so that it has to be the dtypes.
    """
    operands = ", ".join(f"{shape} {dtype}" for shape, dtype in inputs)
    given = ", ".join(f"{key}={value}" for key, value in attrs)
    dtypes = sorted({dtype for _, dtype in inputs})
    if fits and len(dtypes) > 1:
        what = f"Their dtypes are {' and '.join(dtypes)}: convert one, as by x.astype({dtypes[0]!r})"
    else:
        what = "Check the shapes at this call"
    text = (
        f"{name}({given}) called on operands {operands}: {why}. {what}; hybridize(dynamic_batch=False) runs the same "
        f"code eagerly."
    )
    return refused(theirs, text)


def reason_of(error: Exception) -> str:
    """Says what an error of MXNet's says, without the places in its sources and the conditions that it checks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if any(mark in line for mark in _TELLING)] or lines
    if not told:
        return type(error).__name__
    text = told[-1].split("Error in operator")[-1].split("MXNetError: ")[-1].strip()
    checked = _CHECKED.match(text)
    if checked is not None and checked["message"]:
        text = checked["message"]
    return _NODE.sub("", text).rstrip(". ")


_TELLING = ("Error in operator", "Check failed", "Error: ")
_NODE = re.compile(r"^[a-z_]+\d+: ")
_CHECKED = re.compile(r".*?Check failed: .*?[^:]: (?P<message>.*)")
