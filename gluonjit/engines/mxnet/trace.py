"""A cell's program: the operators it calls, recorded once on placeholders of known shape."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call, mx_uint, py_str

from gluonjit.engines.mxnet.arrays import dtype_name
from gluonjit.engines.mxnet.hooked import Attrs, original_invoke, original_set_recording
from gluonjit.engines.mxnet.rules.symbols import apply, canonical, operator_handle
from gluonjit.engines.mxnet.rules.table import RULES
from gluonjit.engines.mxnet.semantics import SHAPES
from gluonjit.errors import CaptureError
from gluonjit.graph import Spec, Value, intern_spec, natural_mode
from gluonjit.graph.modes import is_recorded, is_training
from gluonjit.hybrid.capture import structure
from gluonjit.hybrid.run.failures import refused
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED
from gluonjit.program import trace
from gluonjit.program.trace import NeedsValue, Shaped, TraceOp


class SizeError(mx.base.MXNetError, ValueError):  # type: ignore[misc]
    """Another number of elements: MXNet's operator raises its own error, and its arrays' method a ValueError."""


class CallOperators(NamedTuple):
    """The operators of one call of a kind, on operands and constants, by position."""

    ops: Sequence[TraceOp]
    consts: Sequence[tuple[int, Any]]
    results: Sequence[int]


class Recorder:
    """Records one program. Operands come first, then constants and results as they appear.

    `constant(array)` says whether an array from outside is the same in every call, as a parameter is.
    """

    def __init__(
        self, operands: Sequence[Spec], mode: int, constant: Callable[[Any], bool] = lambda array: True
    ) -> None:
        self.device = operands[0].device if operands else "cpu(0)"
        self.mode = mode
        self.training = is_training(mode)
        self.constant = constant
        self.operands = tuple(operands)
        self.shapes: list[Shaped] = [(spec.shape, spec.dtype) for spec in operands]
        self.consts: list[tuple[int, Any]] = []
        self.known: dict[int, int] = {}
        self.ops: list[TraceOp] = []
        self.follower: Any = None  # what sees to Python's state, where the user's code is traced

    def placeholder(self, position: int, spec: Spec) -> Value:
        """The value that stands for position `position`."""
        return Value(position, 0, spec, self, False)

    def call(self, results: Sequence[int]) -> CallOperators:
        """Returns what was recorded, with these results."""
        return CallOperators(tuple(self.ops), tuple(self.consts), tuple(results))

    def constants(self) -> list[tuple[int, Any]]:
        """The constants with their positions."""
        return self.consts

    def finished(self, results: Sequence[int]) -> trace.Trace:
        """The trace with these results."""
        builder = trace.TraceBuilder(self.operands, self.device, self.mode)
        builder.shapes, builder.consts, builder.ops = self.shapes, dict(self.consts), list(self.ops)
        return builder.finish(results, whole=True)

    def position(self, array: Any) -> int:
        """The position of an operator's input; an array from outside becomes a constant."""
        value = getattr(array, "_v", None)
        if value is not None and value.graph is self:
            return int(value.rows)
        found = self.known.get(id(array))
        if found is None:
            if not self.constant(array):
                raise NeedsValue()
            found = self.include(array)
        return found

    def include(self, array: Any) -> int:
        """The position of an array that is the same in every call."""
        found = self.known.get(id(array))
        if found is None:
            found = self.known[id(array)] = len(self.shapes)
            self.shapes.append((array.shape, dtype_name(array)))
            self.consts.append((found, array))
        return found

    def op(self, name: str, attrs: Attrs, inputs: Sequence[Any]) -> list[Value]:
        """Records an operator and returns its results."""
        rule = RULES.get(name)
        if rule is not None and rule.at_once:
            raise NeedsValue()
        positions = tuple([self.position(array) for array in inputs])
        outputs = infer(name, attrs, tuple([self.shapes[position] for position in positions]))
        first = len(self.shapes)
        self.shapes.extend(outputs)
        self.ops.append(TraceOp(name, attrs, positions, tuple(range(first, first + len(outputs)))))
        return [
            self.placeholder(first + k, intern_spec(shape, dtype, self.device, natural_mode(shape)))
            for k, (shape, dtype) in enumerate(outputs)
        ]

    def op_in(self, mode: int, name: str, attrs: Attrs, inputs: Sequence[Any]) -> list[Value]:
        """Records an operator that the program calls in a mode of its own, as in `autograd.pause()`."""
        if mode == self.mode:
            return self.op(name, attrs, inputs)
        rule = RULES.get(name)
        same = rule is not None and not (rule.random or rule.random_if or rule.trained or rule.stateful)
        if (is_training(mode) != self.training and not same) or (is_recorded(mode) and not is_recorded(self.mode)):
            raise NeedsValue()
        values = self.op(name, attrs, inputs)
        if is_recorded(mode) == is_recorded(self.mode):
            return values
        return [self.op("BlockGrad", (), [_Placeholder(value)])[0] for value in values]


@contextmanager
def tracing(trace: Recorder) -> Any:
    """Operators called in this region are recorded in `trace`."""
    state = LOCAL.state
    outer, state.trace = state.trace, trace
    try:
        yield trace
    finally:
        state.trace = outer


def trace_op(name: str, attrs: Attrs, operands: Sequence[Spec | Any], mode: int) -> tuple[Recorder, list[int]]:
    """The program of a single operator; an operand is a Spec, or an array that is the same for all samples."""
    specs = [operand for operand in operands if isinstance(operand, Spec)]
    trace = Recorder(specs, mode)
    positions = iter(range(len(specs)))
    inputs = [
        _Placeholder(trace.placeholder(next(positions), operand)) if isinstance(operand, Spec) else operand
        for operand in operands
    ]
    return trace, [_position(value) for value in trace.op(name, attrs, inputs)]


def _position(value: Value) -> int:
    assert isinstance(value.rows, int)  # a trace numbers its values one by one
    return value.rows


class _Placeholder:
    """A placeholder: what `Recorder.position` needs of a lazy array."""

    def __init__(self, value: Value) -> None:
        self._v = value


@cache
def _operator(handle: int) -> tuple[str, str]:
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
    name, counted = _operator(handle)
    attrs = [(key, str(value)) for key, value in zip(keys, vals)]
    if counted and counted not in keys:
        attrs.append((counted, str(inputs)))
    return name, tuple(attrs)


_inferred: dict[Any, tuple[Shaped, ...]] = {}


def infer(name: str, attrs: Attrs, inputs: tuple[Shaped, ...]) -> tuple[Shaped, ...]:
    """Shapes and dtypes of an operator's results.

    Raises CaptureError if the operator does not take such inputs. MXNet 1.9.1 does not check whether a reshape keeps
    the number of elements, and for symbols not the shape of a condition.
    """
    key = (name, attrs, inputs, LOCAL.state.numpy & SHAPES)
    outputs = _inferred.get(key)
    if outputs is None:
        if len(_inferred) > 10_000:
            _inferred.clear()
        outputs = _inferred[key] = _infer(name, attrs, inputs)
    return outputs


def inferred_count() -> int:
    """Shapes in the cache: 10,000 at most."""
    return len(_inferred)


def clear_inferred() -> None:
    """Forgets them."""
    _inferred.clear()


def _infer(name: str, attrs: Attrs, inputs: tuple[Shaped, ...]) -> tuple[Shaped, ...]:
    names = [f"operand{k}" for k in range(len(inputs))]
    fits = False
    try:
        symbol = apply(name, [mx.sym.var(operand) for operand in names], dict(attrs))
        # The public infer_shape prints what it raises.
        shapes = symbol._infer_shape_impl(False, **{operand: shape for operand, (shape, _) in zip(names, inputs)})[1]
        fits = True
        dtypes = symbol._infer_type_impl(False, **{operand: dtype for operand, (_, dtype) in zip(names, inputs)})[1]
    except (mx.base.MXNetError, TypeError, ValueError) as error:
        raise _refused(name, attrs, inputs, reason_of(error), fits) from error
    if shapes is None or dtypes is None:
        outputs = _measured(name, attrs, inputs)
    else:
        outputs = tuple((tuple(shape), np.dtype(dtype).name) for shape, dtype in zip(shapes, dtypes))
    if canonical(name) in _RESHAPES and prod(outputs[0][0]) != prod(inputs[0][0]):
        said = f"the result {outputs[0][0]} has another number of elements"
        raise _refused(name, attrs, inputs, said, theirs=SizeError)
    if canonical(name) == "where" and inputs[0][0] not in (outputs[0][0], outputs[0][0][:1]):
        raise _refused(name, attrs, inputs, "the condition has another shape than what it chooses from")
    return outputs


def _measured(name: str, attrs: Attrs, inputs: tuple[Shaped, ...]) -> tuple[Shaped, ...]:
    """Shapes and dtypes of the results on zeros: a few operators, np.hstack for one, infer no shapes."""
    rule = RULES.get(canonical(name))
    if rule is None or rule.stateful or rule.random or rule.kind == "alone":
        raise _refused(name, attrs, inputs, "the result's shape cannot be inferred")
    recording = original_set_recording(False)
    try:
        with UNCAPTURED:
            arrays = [mx.nd.zeros(shape, dtype=dtype) for shape, dtype in inputs]
            handle = operator_handle(name)
            keys, vals = [key for key, _ in attrs], [val for _, val in attrs]
            found = original_invoke(handle, arrays, keys, vals, None, False, True)
        return tuple((array.shape, dtype_name(array)) for array in found)
    except mx.base.MXNetError as error:
        raise _refused(name, attrs, inputs, reason_of(error)) from error
    finally:
        original_set_recording(recording)


_RESHAPES = {"Reshape", "_np_reshape", "_npx_reshape", "reshape_like"}


def _refused(
    name: str, attrs: Attrs, inputs: tuple[Shaped, ...], why: str, fits: bool = False, theirs: Any = mx.base.MXNetError
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


def map_structure(result: Any, visit: Callable[[Any], Any]) -> Any:
    """Applies `visit` to every array in nested lists and tuples; no call gives a dictionary as a node."""
    return structure.map_structure(result, visit, tables=False)


def let_in(trace: Recorder) -> list[int]:
    """Finds, as bits, which operands and constants in a computational graph let each operand into it.

    MXNet records an operator that reads something that is in, which lets in what else it reads, and its results.
    """
    sources = [*range(len(trace.operands)), *(position for position, _ in trace.consts)]
    by = {position: 1 << k for k, position in enumerate(sources)}
    for op in trace.ops:
        reads = 0
        for position in op.inputs:
            reads |= by.get(position, 0)
        for position in (*op.inputs, *op.outputs):
            by[position] = reads
    return [by[position] for position in range(len(trace.operands))]
