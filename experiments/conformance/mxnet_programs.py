"""Programs for one sample around a function of MXNet, and minibatches of them."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import gluonjit
from experiments.conformance.outcome import Leaf, Mode, Outcome, Program

EPSILON = {"float16": 1e-2, "float32": 1e-6, "float64": 1e-12}
_SIZES = (1, 4, 12, 16, 32, 48, 64, 128, 256)
PREFILLED = 0.5  # what gradients that are added to hold before


@dataclass
class Minibatch:
    """Samples, each a list of arrays for the function and other arguments.

    shared: places of arrays that all samples share. learning: places of arrays with gradients; None for inference.
    computed: what is shared is a result, too. numbers: places of whole numbers, also as floats. whole: they wait, too.
    """

    function: Callable[..., Any]
    samples: list[list[Any]]
    shared: tuple[int, ...] = ()
    learning: tuple[int, ...] | None = None
    train_mode: bool = True
    request: str = "write"
    computed: bool = False
    numbers: tuple[int, ...] = ()
    whole: bool = False
    options: dict[str, Any] = field(default_factory=dict)


class Cell(gluon.HybridBlock):
    """A block that calls a function of F and arrays."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:
        """Call the function."""
        return self.function(F, *arrays)


class Net(gluon.Block):
    """A program for one sample: its arrays wait for a product with a weight of 1, then its cell runs."""

    def __init__(self, minibatch: Minibatch) -> None:
        super().__init__()
        self.inner = Cell(minibatch.function)
        self.minibatch = minibatch
        with self.name_scope():
            self.one = self.params.get("one", shape=(1,), init=mx.init.One())

    def forward(self, *arrays: Any) -> Any:
        """Run the cell on pending arrays."""
        one = self.one.data()
        return self.inner(*[self._pending(array, place, one) for place, array in enumerate(arrays)])

    def _pending(self, array: Any, place: int, one: Any) -> Any:
        given = self.minibatch
        if not isinstance(array, mx.nd.NDArray) or (place in given.shared and not given.computed):
            return array
        if array.stype != "default":
            return array
        kind = np.dtype(array.dtype).kind
        if kind == "f" and place not in given.numbers:
            return array * one.astype(array.dtype).reshape(() if is_numpy(array) else (1,))
        if not given.whole or kind == "b":
            return array
        return array + 0 * array


def is_numpy(array: Any) -> bool:
    """True for arrays of mx.np."""
    return isinstance(array, mx.np.ndarray)


def flat(result: Any, types: list[Any]) -> Iterator[Any]:
    """The leaves of a result, in order; writes what holds them into `types`."""
    if isinstance(result, (list, tuple)):
        types.append((type(result).__name__, len(result)))
        for each in result:
            yield from flat(each, types)
    else:
        array = isinstance(result, mx.nd.NDArray)
        types.append(("np" if is_numpy(result) else "nd") if array else type(result).__name__)
        yield result


def leaf(x: Any) -> Leaf:
    """An array or another value, without its framework."""
    if not isinstance(x, mx.nd.NDArray):
        return Leaf(type(x).__name__, x)
    layout = "" if x.stype == "default" else f" {x.stype}"
    said = (tuple(x.shape), f"{np.dtype(x.dtype)}{layout}")
    value = x.asnumpy()
    return Leaf(f"{value.dtype}{layout}", np.array(value), said)


def moved(array: Any) -> Any:
    """The array, moved by its rounding if it holds floats."""
    if not isinstance(array, mx.nd.NDArray) or array.stype != "default" or np.dtype(array.dtype).kind != "f":
        return array
    return array * (1 + EPSILON[str(np.dtype(array.dtype))])


def loss_of(leaves: list[Any]) -> Any:
    """One number of all floats of a result, each element with a weight of its own."""
    total: Any = None
    for x in leaves:
        if not isinstance(x, mx.nd.NDArray) or np.dtype(x.dtype).kind != "f" or x.stype != "default" or not x.size:
            continue
        numbers = np.linspace(0.5, 1.5, x.size).reshape(x.shape).astype(np.dtype(x.dtype))
        weights = (mx.np if is_numpy(x) else mx.nd).array(numbers, dtype=x.dtype)
        term = (x * weights).sum().astype("float32")
        term = term.as_nd_ndarray().reshape((1,)) if is_numpy(x) else term
        total = term if total is None else total + term
    return total


def program(name: str, minibatch: Minibatch, modes: tuple[Mode, ...], values: bool = True) -> Program:
    """One minibatch, to be compared."""

    def ran(mode: Mode | None, seed: int, nudged: bool) -> Outcome:
        return run(minibatch, mode, seed, nudged)

    return Program(name, ran, modes, values)


def run(minibatch: Minibatch, mode: Mode | None, seed: int, nudged: bool) -> Outcome:
    """Run a minibatch; errors are part of the outcome."""
    got = Outcome(parts={"value": [], "gradient": [], "weight": []})
    net = Net(minibatch)
    net.initialize()
    if mode is not None:
        net.hybridize(dynamic_batch=True, granularity=mode.granularity)
    mx.random.seed(seed)
    np.random.seed(seed)
    _spoil_memory()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if minibatch.learning is None:
                _infer(net, _copied(minibatch, nudged), got)
            else:
                _learn(net, minibatch, _copied(minibatch, nudged), got, one_by_one=mode is None)
        except Exception as error:
            got.error, got.trace = error, traceback.format_exc()
    if mode is not None:
        report = gluonjit.explain()
        got.batched = report is not None and not report.alone
        got.distrusted = [str(each.message)[:300] for each in caught if each.category.__name__ == "RuleWarning"]
    return got


def _spoil_memory() -> None:
    """Leave NaN where the next arrays will be: what nobody writes must not be right by chance."""
    with contextlib.suppress(Exception):  # errors of the minibatch before, which nobody has read
        mx.nd.waitall()
    spoiled = [mx.nd.full((size,), np.nan) for size in _SIZES for _ in range(3)]
    mx.nd.waitall()
    del spoiled


def _copied(minibatch: Minibatch, nudged: bool) -> list[list[Any]]:
    """The samples with arrays of their own; what is shared stays shared."""
    kept: dict[int, Any] = {}

    def one(place: int, array: Any) -> Any:
        if not isinstance(array, mx.nd.NDArray):
            return array
        if place in minibatch.shared and place in kept:
            return kept[place]
        kept[place] = moved(array) if nudged else array.copy()
        return kept[place]

    return [[one(place, array) for place, array in enumerate(sample)] for sample in minibatch.samples]


def _infer(net: Any, samples: list[list[Any]], got: Outcome) -> None:
    results = [net(*sample) for sample in samples]
    got.phase = "reading"
    got.parts["value"] = [leaf(x) for result in results for x in flat(result, got.containers)]


def _learn(net: Any, minibatch: Minibatch, samples: list[list[Any]], got: Outcome, one_by_one: bool) -> None:
    """Training. Eagerly each sample is a pass, and sums are taken here: MXNet's own, and "add", are wrong for some."""
    assert minibatch.learning is not None
    request = "write" if one_by_one else minibatch.request
    before = PREFILLED if minibatch.request == "add" else 0.0
    learning = {id(s[k]): s[k] for s in samples for k in minibatch.learning}
    for array in learning.values():
        array.attach_grad(grad_req=request)
        if request == "add":
            array.grad[()] = before
    sums = {key: np.full(array.shape, before, array.dtype) for key, array in learning.items()}
    one, scale = net.one.data(), np.zeros(1, "float32")
    for group in [[sample] for sample in samples] if one_by_one else [samples]:
        got.phase = "call"
        with autograd.record(train_mode=minibatch.train_mode):
            results = [list(flat(net(*sample), got.containers)) for sample in group]
            losses = [loss for loss in map(loss_of, results) if loss is not None]
        got.phase = "backward"
        if losses:
            autograd.backward(losses, train_mode=minibatch.train_mode)
            scale = scale + one.grad.asnumpy()
        got.phase = "reading"
        got.parts["value"] += [leaf(x) for result in results for x in result]
        for key in {id(sample[k]) for sample in group for k in minibatch.learning} if one_by_one and losses else ():
            sums[key] = sums[key] + learning[key].grad.asnumpy()
    numbers = {key: np.asarray(sums[key] if one_by_one else x.grad.asnumpy()) for key, x in learning.items()}
    gradients = [Leaf(str(array.dtype), array) for array in numbers.values()]
    noise = 1e-5 * sum(float(np.abs(each.value).sum()) for each in gradients)
    got.parts["gradient"] = [*gradients]
    got.parts["weight"] = [Leaf("float32", scale, noise=noise if np.isfinite(noise) else 0.0)]
