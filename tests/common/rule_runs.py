"""Running a case of a rule batched and one sample after the other, and comparing values and gradients."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np
from mxnet._ctypes.ndarray import _imperative_invoke

from experiments.conformance.rule_cases import Arg, Case
from gluonjit.engines.mxnet.framework.originals import operator_handle
from gluonjit.engines.mxnet.framework.symbols import apply, canonical
from gluonjit.engines.mxnet.operators.binding import Writer
from gluonjit.engines.mxnet.operators.table import batch_op
from gluonjit.program.axes.values import Values


def is_numpy(name: str) -> bool:
    return name.startswith("_np")


def array_of(values: Any, dtype: Any) -> Any:
    """mx.nd.array without its search for sparse matrices, which warns and takes longer than the operators."""
    array = mx.nd.empty(np.shape(values), dtype=dtype)
    array._sync_copyfrom(np.asarray(values, dtype, order="C"))
    return array


def run_one(test: Case, arrays: list[Any]) -> list[Any]:
    """The operator on one sample, imperatively."""
    refuse_reshape_of_other_size(test, arrays)
    with mx.util.np_shape(is_numpy(test.op)):
        result = _imperative_invoke(
            operator_handle(test.op), arrays, list(test.attrs), list(test.attrs.values()), None, False, True
        )
        for output in result:
            output.wait_to_read()
        return list(result)


def refuse_reshape_of_other_size(test: Case, arrays: list[Any]) -> None:
    """MXNet's own Reshape does not look, and reads and writes past the end of its arrays."""
    if canonical(test.op) not in ("Reshape", "reshape_like", "_np_reshape", "_npx_reshape"):
        return
    inputs = [mx.sym.var(f"in{n}") for n in range(len(arrays))]
    shapes = {f"in{n}": array.shape for n, array in enumerate(arrays)}
    target = apply(test.op, inputs, test.attrs).infer_shape(**shapes)[1][0]
    if math.prod(target) != math.prod(arrays[0].shape):
        raise mx.base.MXNetError(f"{arrays[0].shape} cannot become {target}")


def oracle(test: Case, samples: list[list[Any]], heads: list[list[Any]]) -> list[list[np.ndarray | None]]:
    """The gradient of every argument of every sample under the projections `heads`.

    One backward a sample and summed outside: with grad_req "add" some operators of MXNet are wrong.
    """
    gradients = []
    for sample, head in zip(samples, heads):
        wanted = [array if arg.differentiable else None for arg, array in zip(test.args, sample)]
        for array in wanted:
            if array is not None:
                array.attach_grad()
        with mx.util.np_shape(is_numpy(test.op)):
            with mx.autograd.record(train_mode=test.training):
                outputs = run_one(test, sample)
            mx.autograd.backward(outputs, head, train_mode=test.training)
            gradients.append([None if array is None else array.grad.asnumpy() for array in wanted])
    return gradients


class Program:
    """The batched symbol of a case for given layouts, ready to run."""

    def __init__(
        self, test: Case, layouts: tuple[str, ...], sample: list[Any], outputs: list[Any], poly: bool = False
    ) -> None:
        writer = Writer(test.training)
        values = []
        for number, (arg, layout, array) in enumerate(zip(test.args, layouts, sample)):
            shape = tuple(array.shape) if arg.shape else ()
            # An intermediate value, not an input: some operators of MXNet are wrong only where memory is reused.
            symbol = mx.sym.var(f"in{number}")
            if not arg.shared:
                symbol = apply("_copy", [symbol], {})
            values.append(writer.value(symbol, shape, arg.dtype, layout, poly))
        specs = [(tuple(o.shape), np.dtype(o.dtype).name) for o in outputs]
        self.results = batch_op(test.op, test.attrs, values, specs, writer)
        assert [(r.shape, r.dtype) for r in self.results] == specs
        final = [r if r.shared else writer.folded(r, 1) if r.packed else writer.stack(r) for r in self.results]
        self.symbol = mx.sym.Group([apply("_copy", [writer.symbol(value)], {}) for value in final])
        self.names = self.symbol.list_inputs()
        self.op = mx.nd.CachedOp(self.symbol) if self.names else lambda: self.symbol.bind(mx.cpu(), {}).forward()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        result = self.op(*[arrays[int(name[2:])] for name in self.names])
        return list(result) if isinstance(result, (list, tuple)) else [result]


def stored(arg: Arg, layout: str, samples: list[np.ndarray]) -> Any:
    return array_of(samples[0] if arg.shared else joined(samples, layout == "rows"), dtype=arg.dtype)


def draw(test: Case, count: int, rows: list[int] | None = None, seed: int = 0) -> list[list[Any]]:
    random = np.random.RandomState(seed)
    with mx.util.np_shape(is_numpy(test.op)):
        shared = {n: array_of(arg.draw(random), dtype=arg.dtype) for n, arg in enumerate(test.args) if arg.shared}
        return [
            [
                shared.get(n) if n in shared else array_of(arg.draw(random, rows and rows[s]), dtype=arg.dtype)
                for n, arg in enumerate(test.args)
            ]
            for s in range(count)
        ]


def close(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert got.shape == expected.shape, f"{what}: shape {got.shape} instead of {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: {got.dtype} instead of {expected.dtype}"
    if got.dtype.kind not in "f":
        assert (got == expected).all(), what
        return
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected), err_msg=what)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    worst = np.abs((got - expected)[np.isfinite(expected)]).max(initial=0)
    assert worst <= 1e-5 * scale + 1e-30, f"{what}: off by {worst} of {scale}"


Numbers = list[list[np.ndarray]]


class Alone(NamedTuple):
    """Samples one by one: results, projections of them, and the gradient of every argument under these."""

    samples: Numbers
    outputs: Numbers
    heads: Numbers
    gradients: list[list[np.ndarray | None]]

    def first(self, count: int) -> Alone:
        """So many of them."""
        return Alone(*[each[:count] for each in self])


def one_by_one(test: Case, samples: list[list[Any]]) -> Alone:
    """Run the samples of a case imperatively, forward and backward."""
    with mx.util.np_shape(is_numpy(test.op)):
        outputs = [run_one(test, sample) for sample in samples]
        random = np.random.RandomState(7)
        heads = [[array_of(random.uniform(-1, 1, o.shape), o.dtype) for o in output] for output in outputs]
        learns = test.grad and any(arg.differentiable for arg in test.args)
        gradients = oracle(test, samples, heads) if learns else []
        return Alone(numbers_of(samples), numbers_of(outputs), numbers_of(heads), gradients)


def numbers_of(arrays: list[list[Any]]) -> Numbers:
    return [[array.asnumpy() for array in each] for each in arrays]


def built(test: Case, layouts: tuple[str, ...], sample: list[Any], outputs: list[Any], poly: bool = False) -> Program:
    """The batched program of a case, which is shown a sample and what it gives. Raises NotBatchable."""
    with mx.util.np_shape(is_numpy(test.op)):
        return Program(test, layouts, sample, outputs, poly)


def check(test: Case, layouts: tuple[str, ...], program: Program, alone: Alone) -> None:
    """Run all samples by the program; values, then gradients are those of the samples one by one."""
    with mx.util.np_shape(is_numpy(test.op)):
        compare(test, layouts, program, alone)


def compare(test: Case, layouts: tuple[str, ...], program: Program, alone: Alone) -> None:
    inputs = [
        stored(arg, layout, [sample[n] for sample in alone.samples])
        for n, (arg, layout) in enumerate(zip(test.args, layouts))
    ]
    floats = [array for arg, array in zip(test.args, inputs) if arg.differentiable and test.grad]
    for array in floats:
        array.attach_grad()
    with mx.autograd.record(train_mode=test.training) if floats else contextlib.nullcontext():
        results = program(inputs)
    for number, (result, value) in enumerate(zip(results, program.results)):
        per_sample = [output[number] for output in alone.outputs]
        reference = per_sample[0] if value.shared else joined(per_sample, value.packed)
        if test.drawn:
            reference = result.asnumpy().reshape(reference.shape)
        close(result.asnumpy(), reference, f"output {number} from {layouts}")
    if not floats:
        return
    mx.autograd.backward(
        results,
        [batched_head(value, [head[number] for head in alone.heads]) for number, value in enumerate(program.results)],
        train_mode=test.training,
    )
    for number, (arg, layout, array) in enumerate(zip(test.args, layouts, inputs)):
        if arg.differentiable:
            each = [gradient[number] for gradient in alone.gradients]
            reference = np.sum(each, 0) if arg.shared else joined(each, layout == "rows")
            close(array.grad.asnumpy(), reference, f"gradient of argument {number} from {layouts}")


def joined(each: list[np.ndarray], rows: bool) -> np.ndarray:
    return (np.concatenate if rows else np.stack)(each)


def batched_head(value: Values, heads: list[np.ndarray]) -> Any:
    return array_of(np.sum(heads, 0) if value.shared else joined(heads, value.packed), value.dtype)


def layouts_of(test: Case) -> list[tuple[str, ...]]:
    choices = [("shared",) if arg.shared else ("rows", "stack") if arg.shape else ("stack",) for arg in test.args]
    combinations = list(itertools.product(*choices))
    return combinations if len(combinations) <= 4 else [combinations[0], combinations[-1], combinations[1]]
