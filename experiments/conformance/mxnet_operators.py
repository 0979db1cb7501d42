"""MXNet's operators by their registered names, with the arguments of the rules' cases."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, c_str, check_call
from mxnet.ndarray import register

from experiments.conformance.compare import examine
from experiments.conformance.mxnet_programs import Minibatch, program
from experiments.conformance.outcome import CELL, OP, Program, Record
from experiments.conformance.rule_cases import CASES, Case

SAMPLES = 4  # in a minibatch
UNCHECKED = ("Reshape", "reshape", "reshape_like", "_np_reshape", "_npx_reshape", "_npx_reshape_like")  # of other sizes
STATISTICS = {"BatchNorm": (3, 4), "_contrib_BatchNormWithReLU": (3, 4)}  # running ones, which nobody learns


@cache
def cases() -> dict[str, list[Case]]:
    """The cases by the name of their operator."""
    table: dict[str, list[Case]] = {}
    for each in CASES:
        if each.outputs is None:
            table.setdefault(each.op, []).append(each)
    return table


def check(name: str, each: int, at: Callable[[str], None]) -> Record:
    """Compare an operator, with so many of its cases; the others differ in their attributes."""
    record, known = Record(name), cases()[name]
    chosen = [known[k * len(known) // each] for k in range(each)] if each < len(known) else known
    for number, (test, other) in enumerate(zip(chosen, chosen[1:] + chosen[:1])):
        numpy = test.op.startswith("_np")
        with mx.util.np_shape(numpy), mx.util.np_array(numpy):
            for made in _programs(test, other, str(number), number == 0):
                examine(record, made, at)
    return record


@cache
def _handle(name: str) -> int:
    """The registry's address of an operator."""
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    return int(handle.value or 0)


def _of_symbols(name: str) -> Any:
    """The function of symbols that MXNet has made for an operator."""
    symbols = mx.symbol
    for prefix, places in (
        ("_npi_", (symbols.numpy._internal,)),
        ("_npx_", (symbols.numpy_extension, symbols.numpy_extension._op)),
        ("_np_", (symbols.numpy, symbols.numpy._op)),
        ("", (symbols, symbols._internal)),
    ):
        if name.startswith(prefix):
            short = name[len(prefix) :]
            return next(getattr(place, short) for place in places if hasattr(place, short))
    raise AssertionError(name)


def function_of(test: Case) -> Callable[..., Any]:
    """The operator as a function of F and arrays, through the door of every call of MXNet's."""
    numpy = test.op.startswith("_np")

    def call(F: Any, *arrays: Any, **options: Any) -> Any:
        if any(isinstance(array, mx.sym.Symbol) for array in arrays):
            found = _of_symbols(test.op)(*arrays, **test.attrs)
            return list(found) if len(found.list_outputs()) > 1 else found
        keys, values = list(test.attrs), list(test.attrs.values())
        return register._imperative_invoke(
            _handle(test.op), list(arrays), keys, values, options.get("out"), numpy, False
        )

    return call


def drawn(test: Case, count: int, seed: int = 0, rows: int | None = None) -> list[list[Any]]:
    """Arguments for so many samples; arrays that are shared are one array."""
    random = np.random.RandomState(seed)
    make = mx.np.array if test.op.startswith("_np") else mx.nd.array
    shared = {k: make(arg.draw(random), dtype=arg.dtype) for k, arg in enumerate(test.args) if arg.shared}
    return [
        [shared[k] if k in shared else make(arg.draw(random, rows), dtype=arg.dtype) for k, arg in enumerate(test.args)]
        for _ in range(count)
    ]


def _programs(test: Case, other: Case, label: str, thorough: bool) -> Iterator[Program]:
    """Try a case in training and inference; the first one also with writes, sums and two shapes."""
    label = f"{label} {str(test)[:90]}"
    function, samples = function_of(test), drawn(test, SAMPLES)
    shared = tuple(k for k, arg in enumerate(test.args) if arg.shared)
    numbers = tuple(k for k, arg in enumerate(test.args) if arg.whole or not arg.grad)
    unlearned = STATISTICS.get(test.op, ())
    learning = tuple(k for k, arg in enumerate(test.args) if arg.differentiable and k not in unlearned)

    values = not test.drawn
    trains = test.grad and bool(learning)

    def made(name: str, **changes: Any) -> Program:
        given: dict[str, Any] = {"shared": shared, "numbers": numbers, **changes}
        function_, samples_ = given.pop("function", function), given.pop("samples", samples)
        return program(f"{label} {name}", Minibatch(function_, samples_, **given), (OP, CELL), values)

    yield made("inference")
    if trains:
        yield made("training", learning=learning, train_mode=test.training)
    if shared and trains:
        yield made("training, computed weights", learning=learning, train_mode=test.training, computed=True)
    elif shared:
        yield made("inference, computed weights", computed=True)
    if any(arg.whole for arg in test.args):
        yield made("inference, pending whole numbers", whole=True)
    if not thorough:
        return
    if trains:
        yield made("added gradients", learning=learning, train_mode=test.training, request="add")
        yield made("training, predictions", learning=learning, train_mode=False)
    if not test.args:
        return
    if not test.drawn:
        yield made("out=", function=written(function))
    if not test.fixed and not shared and all(arg.shape for arg in test.args):
        two = [s for pair in zip(samples, drawn(test, SAMPLES, 1, rows=test.args[0].shape[0] + 1)) for s in pair]
        takes = test.op not in UNCHECKED and runs(function, two[1])
        if takes:
            yield made("inference, two shapes", samples=two)
        if takes and trains:
            yield made("training, two shapes", samples=two, learning=learning, train_mode=test.training)
    if other is not test and len(other.args) == len(test.args) and not shared and other.attrs == test.attrs:
        mixed = [s for pair in zip(samples, drawn(other, SAMPLES, 2)) for s in pair]
        if not any(arg.shared for arg in other.args):
            yield made("inference, two cases", samples=mixed)


def runs(function: Callable[..., Any], arrays: list[Any]) -> bool:
    """True if eager execution takes the arrays."""
    try:
        function(mx.nd, *arrays)
        mx.nd.waitall()
    except Exception:  # it means nothing with these
        return False
    return True


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with `out=`, arrays that the sample has made."""

    def call(F: Any, *arrays: Any) -> Any:
        shown = function(F, *arrays)
        if isinstance(shown, mx.sym.Symbol) or (isinstance(shown, list) and isinstance(shown[0], mx.sym.Symbol)):
            return shown
        first = shown if isinstance(shown, mx.nd.NDArray) else None
        out = first * 0 + 1 if first is not None else [each * 0 + 1 for each in shown]
        function(F, *arrays, out=out)
        return out

    return call
