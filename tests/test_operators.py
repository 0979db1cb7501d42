"""Operators as programs use them: captured one by one, and inside a cell, against the program without batching.

Each case is a program for one sample. It runs in a plain Block, where every operator is captured by itself, and in
a HybridBlock, where all of them are one node; outputs and gradients have to be those of the eager program. A case
says whether its operators run for all samples at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet")

from mxnet import autograd, gluon  # noqa: E402
from support import assert_close  # noqa: E402

import gluonjit  # noqa: E402

nd = mx.nd


@dataclass(frozen=True)
class Case:
    """A program of one sample's arrays. Its operators batch if `at_once`, and with rows of any number if `rows`."""

    name: str
    run: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    at_once: bool = True
    rows: bool = False
    low: float = 0.2
    high: float = 0.75
    whole: tuple[int, ...] = ()  # arguments that are whole numbers from 0 to 2
    dtype: str = "float32"
    training: bool = True
    grad: bool = True
    cell: bool = True  # can be a hybrid_forward
    tolerance: float = 1e-5

    def sample(self, number: int, rows: int | None = None) -> list[Any]:
        random = np.random.RandomState(number)
        arrays = []
        for k, shape in enumerate(self.shapes):
            shape = shape if rows is None else (rows, *shape[1:])
            values = random.randint(0, 3, shape) if k in self.whole else random.uniform(self.low, self.high, shape)
            arrays.append(nd.array(values, dtype=self.dtype))
        return arrays


CASES: list[Case] = []


def case(name: str, run: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> None:
    CASES.append(Case(name, run, shapes, **options))


V, M, X = (1, 6), (3, 4), (1, 3, 4)

# -- as they stand -----------------------------------------------------------------------------------------

for unary in """abs arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees erf erfinv exp expm1 fix floor gamma
        gammaln hard_sigmoid identity log log10 log1p log2 logical_not negative radians rcbrt reciprocal relu rint round
        rsqrt sigmoid sign sin sinh smooth_l1 softsign sqrt square tan tanh trunc zeros_like ones_like BlockGrad
        stop_gradient make_loss""".split():
    case(unary, lambda F, x, unary=unary: getattr(F, unary)(x), V, rows=True)
case("scalars left", lambda F, x: (2 - x) * 3 / (1 + x) + 2 / x, V, rows=True)
case("scalars right", lambda F, x: (x - 2) * 3 / 4 + x**2 + x % 0.3, V, rows=True)
case("scalar to the power", lambda F, x: 2**x + (-x), V, rows=True)
case("scalar comparisons", lambda F, x: (x > 0.5) + (x >= 0.5) + (x < 0.3) + (x == 1) + (x != 1) + (x <= 0.3), V)
case("scalar maximum", lambda F, x: F.maximum(x, 0.5) + F.minimum(0.5, x), V, rows=True)
for binary in "elemwise_add elemwise_sub elemwise_mul elemwise_div broadcast_hypot broadcast_mod".split():
    case(binary, lambda F, x, y, binary=binary: getattr(F, binary)(x, y), V, V, rows=True)
for binary in """broadcast_add broadcast_sub broadcast_mul broadcast_div broadcast_power broadcast_maximum
        broadcast_minimum broadcast_equal broadcast_greater broadcast_lesser broadcast_logical_and""".split():
    case(binary, lambda F, x, y, binary=binary: getattr(F, binary)(x, y), (1, 6), (1, 1))
    case(f"{binary} of a vector", lambda F, x, y, binary=binary: getattr(F, binary)(x, y), (3, 4), (4,))
case("operators", lambda F, x, y: x + y - x * y / (x + 1), V, V, rows=True)
case("Activation", lambda F, x: F.Activation(x, act_type="softrelu"), V, rows=True)
case("LeakyReLU", lambda F, x: F.LeakyReLU(x - 0.5, act_type="elu", slope=0.3), V, rows=True)
case("add_n", lambda F, x, y, z: F.add_n(x, y, z), V, V, V, rows=True)
case("where", lambda F, x, y: F.where(x > y, x, y), V, V, rows=True)
case("clip", lambda F, x: F.clip(x, 0.3, 0.6), V, rows=True)
case("batch_dot", lambda F, x, y: F.batch_dot(x, y), (1, 2, 3), (1, 3, 4), rows=True)
case("linalg_gemm2", lambda F, x, y: F.linalg_gemm2(x, y, transpose_b=True), (1, 2, 3), (1, 4, 3), rows=True)
case("concat", lambda F, x, y: F.concat(x, y, dim=1), V, V, rows=True)
case("stack", lambda F, x, y: F.stack(x, y, axis=1), V, V, rows=True)
case("split", lambda F, x: F.split(x, num_outputs=3, axis=1), V, rows=True)
case("split, last output unused", lambda F, x: F.split(x, num_outputs=3, axis=1)[:2], V, rows=True)
case("slice_axis", lambda F, x: F.slice_axis(x, axis=1, begin=1, end=4), V, rows=True)
case("flip", lambda F, x: F.flip(x, axis=1), V, rows=True)
case("tile", lambda F, x: F.tile(x, reps=(1, 3)), V, rows=True)
case("repeat", lambda F, x: F.repeat(x, repeats=2, axis=1), V, rows=True)
case("expand_dims", lambda F, x: F.expand_dims(x, axis=1), V, rows=True)
case("squeeze", lambda F, x: F.squeeze(x, axis=1), (1, 1, 4), rows=True)
case("slice, whole rows", lambda F, x: F.slice(x, begin=(None, 1), end=(None, 4)), V, rows=True)
case("reshape (0, -1)", lambda F, x: F.reshape(x, shape=(0, -1)), X, rows=True)
case("reshape (-1, k)", lambda F, x: F.reshape(x, shape=(-1, 12)), X)
case("reshape_like", lambda F, x, y: F.reshape_like(x, y), (1, 12), X)
case("flatten", lambda F, x: F.flatten(x), X, rows=True)
case("transpose, axis 0 in front", lambda F, x: F.transpose(x, axes=(0, 2, 1)), X, rows=True)
case("swapaxes", lambda F, x: F.swapaxes(x, dim1=1, dim2=2), X, rows=True)
case("broadcast_to (0, k)", lambda F, x: F.broadcast_to(x, shape=(0, 5)), (1, 1), rows=True)
case("broadcast_axis", lambda F, x: F.broadcast_axis(x, axis=1, size=5), (1, 1), rows=True)
case("broadcast_like", lambda F, x, y: F.broadcast_like(x, y), (1, 1), V)
case("pad", lambda F, x: F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 1, 1, 1)), (1, 2, 3, 3), rows=True)
for reduction in "sum mean max min prod nansum nanprod".split():
    case(reduction, lambda F, x, reduction=reduction: getattr(F, reduction)(x, axis=1), V, rows=True)
    case(f"{reduction}, kept", lambda F, x, reduction=reduction: getattr(F, reduction)(x, axis=-1, keepdims=True), X)
case("norm", lambda F, x: F.norm(x, axis=1), V, rows=True)
case("argmax", lambda F, x: F.argmax(x, axis=1), V, rows=True, grad=False)
case("argmin", lambda F, x: F.argmin(x, axis=1), V, rows=True, grad=False)
case("topk", lambda F, x: F.topk(x, k=2, axis=1, ret_typ="both"), V, grad=False)
case("topk values", lambda F, x: F.topk(x, k=2, axis=1, ret_typ="value"), V, rows=True)
case("sort", lambda F, x: F.sort(x, axis=1), V, rows=True)
case("argsort", lambda F, x: F.argsort(x, axis=1), V, rows=True, grad=False)
case("softmax", lambda F, x: F.softmax(x, axis=1), V, rows=True)
case("log_softmax", lambda F, x: F.log_softmax(x), V, rows=True)
case("softmin", lambda F, x: F.softmin(x, axis=-1), V, rows=True)
case("L2Normalization", lambda F, x: F.L2Normalization(x), V, rows=True)
case("pick", lambda F, x, i: F.pick(x, i, axis=1), M, (3,), whole=(1,))
case("batch_take", lambda F, x, i: F.batch_take(x, F.cast(i, "int32")), M, (3,), whole=(1,), grad=False)
case("one_hot", lambda F, i: F.one_hot(i, 4), (3,), whole=(0,), grad=False)
case("softmax_cross_entropy", lambda F, x, i: F.softmax_cross_entropy(x, i), M, (3,), whole=(1,), tolerance=1e-4)
case("smooth_l1", lambda F, x: F.smooth_l1(x, scalar=2.0), V, rows=True)
case("Cast", lambda F, x: F.cast(F.cast(x, "float64"), "float32"), V, rows=True)
case("LRN", lambda F, x: F.LRN(x, nsize=3), (1, 4, 3, 3), rows=True)
case("Pooling", lambda F, x: F.Pooling(x, kernel=(2, 2), pool_type="max", stride=(2, 2)), (1, 2, 4, 4), rows=True)
case("UpSampling", lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest"), (1, 2, 3, 3), rows=True)
case("SoftmaxOutput", lambda F, x, i: F.SoftmaxOutput(x, i), V, (1,), whole=(1,))
case("depth_to_space", lambda F, x: F.depth_to_space(x, 2), (1, 4, 2, 2), rows=True)
case(
    "linalg_potrf",
    lambda F, x: F.linalg.potrf(F.batch_dot(x, x, transpose_b=True) + F.eye(3).expand_dims(0)),
    (1, 3, 3),
    cell=False,
    tolerance=1e-4,
)
case("linalg_det", lambda F, x: F.linalg_det(x), (1, 3, 3), rows=True)

# -- with a rewritten attribute ----------------------------------------------------------------------------

case("reshape, a literal 1", lambda F, x: F.reshape(x, shape=(1, 12)), X)
case("reshape to a vector", lambda F, x: F.reshape(x, shape=(-1,)), X)
case("broadcast_to (1, k)", lambda F, x: F.broadcast_to(x, shape=(1, 5)), (1, 1))
case("slice from 0 to 1", lambda F, x: F.slice(x, begin=(0, 1), end=(1, 4)), V)
case("slice_axis 0", lambda F, x: F.slice_axis(x, axis=0, begin=1, end=3), M)
for reduction in "sum mean max min prod".split():
    case(f"{reduction} of all", lambda F, x, reduction=reduction: getattr(F, reduction)(x), X)
    case(f"{reduction} over axis 0", lambda F, x, reduction=reduction: getattr(F, reduction)(x, axis=0), M)
case("norm of all", lambda F, x: F.norm(x), M)
case("squeeze axis 0", lambda F, x: F.squeeze(x, axis=0), X)
case("squeeze", lambda F, x: F.squeeze(x), (1, 1, 4))
case("expand_dims 0", lambda F, x: F.expand_dims(x, axis=0), V)
case("transpose", lambda F, x: F.transpose(x), M)
case("swapaxes 0", lambda F, x: F.swapaxes(x, dim1=0, dim2=1), M)
case("dot of two of a sample", lambda F, x, y: F.dot(x, y), (2, 3), (3, 4))
case("dot transposed", lambda F, x, y: F.dot(x, y, transpose_b=True), (2, 3), (4, 3))
case("dot of vectors", lambda F, x, y: F.dot(x, y), (5,), (5,))
case("take of own rows", lambda F, x, i: F.take(x, i), M, (5,), whole=(1,))
case("gather_nd of own rows", lambda F, x, i: F.gather_nd(x, i), M, (2, 5), whole=(1,))
case("softmax over axis 0", lambda F, x: F.softmax(x, axis=0), M)
case("flip over axis 0", lambda F, x: F.flip(x, axis=0), M)
case("concat over axis 0", lambda F, x, y: F.concat(x, y, dim=0) * 2, M, M)
case("stack over axis 0", lambda F, x, y: F.stack(x, y, axis=0) * 2, M, M)
case("split over axis 0", lambda F, x: [part * 2 for part in F.split(x, num_outputs=3, axis=0)], M)
case("argmax over axis 0", lambda F, x: F.argmax(x, axis=0), M, grad=False)
case("sort over axis 0", lambda F, x: F.sort(x, axis=0), M)
case("topk over axis 0", lambda F, x: F.topk(x, k=2, axis=0, ret_typ="value"), M)
case("tile axis 0", lambda F, x: F.tile(x, reps=(2, 1)), V)
case("repeat axis 0", lambda F, x: F.repeat(x, repeats=2, axis=0), M)
case("zeros of a literal 1", lambda F, x: x + F.zeros((1, 6)), V)
case("ones of a literal 1", lambda F, x: F.concat(x, F.ones((1, 6)), dim=1), V)
case("arange", lambda F, x: x * F.arange(6).reshape((1, 6)), V, cell=False)
case("diag", lambda F, x: F.diag(x), M)
case("shape_array", lambda F, x: F.shape_array(x), V, at_once=False, grad=False, cell=False)
case("SequenceMask", lambda F, x, i: F.SequenceMask(x, i + 1, use_sequence_length=True), (4, 1, 2), (1,), whole=(1,))
case("SequenceLast", lambda F, x, i: F.SequenceLast(x, i + 1, use_sequence_length=True), (4, 1, 2), (1,), whole=(1,))
case(
    "SequenceReverse",
    lambda F, x, i: F.SequenceReverse(x, i + 1, use_sequence_length=True),
    (4, 1, 2),
    (1,),
    whole=(1,),
)
case("CTCLoss", lambda F, x, i: F.CTCLoss(x, i + 1), (6, 1, 5), (1, 2), whole=(1,), tolerance=1e-4)

# -- alone -------------------------------------------------------------------------------------------------

case("histogram", lambda F, x: F.histogram(x, bins=3, range=(0, 1))[0], V, at_once=False, grad=False, cell=False)
case("scatter_nd", lambda F, x, i: F.scatter_nd(x, i, shape=(4,)), (3,), (1, 3), at_once=False, whole=(1,), grad=False)
case("khatri_rao", lambda F, x, y: F.khatri_rao(x, y), M, M, at_once=False, grad=False)

# -- indexing ----------------------------------------------------------------------------------------------

for text in """x[0] x[-1] x[1:3] x[::2] x[::-1] x[2:0:-1] x[:,1] x[:,-1] x[:,1:3] x[:,::-2] x[1,2] x[-1,-1] x[None]
        x[:,None] x[...,0] x[0,...] x[...,None] x[1:2,None,::2] x[...] x[:] x[0][1]""".split():
    case(text, eval(f"lambda F, x: {text} * 2"), M, cell=False)
case("x[[0, 2]]", lambda F, x: x[[0, 2]] * 2, M, cell=False)
case("x[array]", lambda F, x: x[nd.array([2, 0])] * 2, M, cell=False)
case("x[rows, columns]", lambda F, x: x[[0, 1], [2, 3]] * 2, M, cell=False)
case("x[:, array]", lambda F, x: x[:, nd.array([2, 0])] * 2, M, cell=False)
case("x[mask]", lambda F, x: x[np.array([True, False, True])] * 2, M, cell=False)
case("iteration", lambda F, x: [row * 2 for row in x], M, cell=False)
case(
    "methods",
    lambda F, x: (x.T.sum(axis=1).exp(), x.reshape((-1,)), x.reshape((2, 6)).mean(), x.astype("float64")),
    M,
    cell=False,
)
case("copy and detach", lambda F, x: (x.copy() * 2, x.detach() * x), M, cell=False)

# -- dtypes ------------------------------------------------------------------------------------------------

for dtype, tolerance in (("float64", 1e-5), ("float16", 5e-3)):
    case(
        f"{dtype} mixture",
        lambda F, x, y: F.concat(F.tanh(x) * y, F.softmax(x), dim=1),
        V,
        V,
        dtype=dtype,
        tolerance=tolerance,
        rows=True,
    )
    case(f"{dtype} sums", lambda F, x, y: (x * y).sum(axis=1) + x.max(), M, M, dtype=dtype, tolerance=tolerance)
for dtype in ("int32", "int64", "uint8", "int8"):
    case(f"{dtype} arithmetic", lambda F, x, y: x * 2 + y, V, V, whole=(0, 1), dtype=dtype, grad=False, rows=True)
    case(f"{dtype} reductions", lambda F, x: x.sum(axis=1), V, whole=(0,), dtype=dtype, grad=False)
case("bool", lambda F, x: F.cast(F.cast(x, "bool"), "float32"), V, whole=(0,), grad=False)

# -- structures and attributes -----------------------------------------------------------------------------

case("nested results", lambda F, x, y: (x * 2, [y * 3, (x + y, x - y)]), V, V, rows=True)
case("a dict of attributes", lambda F, x: F.sum(x, **{"axis": 1, "keepdims": True}), V, rows=True)
case("one result twice", lambda F, x: (lambda h: (h, h))(F.tanh(x)), V)
case("one operand twice", lambda F, x: x * x + F.dot(x, x, transpose_b=True), V)
case("result is the operand", lambda F, x, y: (x, y * 2), V, V, cell=False)


class Plain(gluon.Block):
    """Every operator captured by itself. A weight in front lets gradients be compared."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.test = test
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), dtype=test.dtype, init=mx.init.Constant(1.25))

    def forward(self, *arrays: Any) -> Any:
        return self.test.run(nd, *self.scaled(nd, self.scale.data(), arrays))

    def scaled(self, F: Any, scale: Any, arrays: Any) -> list[Any]:
        whole = self.test.whole
        if not self.test.grad:
            return list(arrays)
        first = next(k for k in range(len(arrays)) if k not in whole)
        return [
            array if k != first else F.broadcast_mul(array, F.reshape(scale, shape=(1,) * len(shape)))
            for k, (array, shape) in enumerate(zip(arrays, self.test.shapes))
        ]


class OneCell(gluon.HybridBlock):
    """All operators in one cell."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.test = test
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), dtype=test.dtype, init=mx.init.Constant(1.25))

    def hybrid_forward(self, F: Any, *arrays: Any, scale: Any) -> Any:
        return self.test.run(F, *Plain.scaled(self, F, scale, arrays))  # type: ignore[arg-type]


class Around(gluon.Block):
    """A plain Block that calls a cell."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.inner = OneCell(test)

    def forward(self, *arrays: Any) -> Any:
        return self.inner(*arrays)


def flat(result: Any) -> list[Any]:
    return [array for part in result for array in flat(part)] if isinstance(result, (list, tuple)) else [result]


def structure(result: Any) -> Any:
    return [type(result), *map(structure, result)] if isinstance(result, (list, tuple)) else None


def outcome(net: gluon.Block, test: Case, samples: list[list[Any]]) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    """Structures and values of each sample's results; gradients of the samples' arrays and of the weight."""
    parameters = list(net.collect_params().values())
    wanted = [a for sample in samples for k, a in enumerate(sample) if test.grad and k not in test.whole]
    for array in wanted:
        array.attach_grad()
    for parameter in parameters:
        parameter.zero_grad()
    if not test.grad:
        results = [net(*sample) for sample in samples]
        return [structure(r) for r in results], [a for r in results for a in flat(r)], []
    with autograd.record(train_mode=test.training):
        results = [net(*sample) for sample in samples]
        losses = [(array * array).sum().astype("float32") for result in results for array in flat(result)]
        total = gluonjit.add_n(losses)
    total.backward()
    gradients = [array.grad.asnumpy() for array in wanted] + [p.grad().asnumpy() for p in parameters]
    return [structure(r) for r in results], [a for r in results for a in flat(r)], gradients


def compare(net: gluon.Block, test: Case, samples: list[list[Any]]) -> gluonjit.Report:
    net.initialize()
    expected = outcome(net, test, samples)
    net.hybridize(dynamic_batch=True)
    with gluonjit.batching() as batch:
        actual = outcome(net, test, samples)
        values = [array.asnumpy() for array in actual[1]]
    assert actual[0] == expected[0]
    for value, wanted in zip(values, expected[1]):
        assert value.dtype == wanted.asnumpy().dtype
        assert_close(value.astype("float64"), wanted.asnumpy().astype("float64"), test.name, test.tolerance)
    for value, wanted in zip(actual[2], expected[2]):
        assert_close(value, wanted, f"gradient in {test.name}", test.tolerance)
    return batch.report


def check_at_once(test: Case, report: gluonjit.Report) -> None:
    """Operators of three samples run in one launch each, or some of them run alone and the report says why."""
    if test.at_once:
        assert not report.alone and not report.unbatched, (report.alone, report.unbatched)
        assert all(step.launches == 1 for step in report.steps)
        assert not report.nodes or report.launches < report.nodes
    else:
        assert report.alone and all(report.alone.values())


def named(test: Case) -> str:
    return test.name.replace(" ", "_")


@pytest.mark.parametrize("test", CASES, ids=named)
def test_captured_one_by_one(test: Case) -> None:
    check_at_once(test, compare(Plain(test), test, [test.sample(k) for k in range(3)]))


@pytest.mark.parametrize("test", [test for test in CASES if test.cell], ids=named)
def test_in_a_cell(test: Case) -> None:
    check_at_once(test, compare(Around(test), test, [test.sample(k) for k in range(3)]))


@pytest.mark.parametrize("test", [test for test in CASES if test.rows], ids=named)
def test_numbers_of_rows_that_differ(test: Case) -> None:
    samples = [test.sample(k, rows) for k, rows in enumerate((2, 1, 3))]
    for net in [Plain(test), Around(test)] if test.cell else [Plain(test)]:
        report = compare(net, test, samples)
        assert not report.alone and not report.unbatched, (report.alone, report.unbatched)


def used_elsewhere(test: Case) -> Case:
    """The case with every argument and the first result used elsewhere too, and the other results not at all."""

    def run(F: Any, *arrays: Any) -> Any:
        again = [array * 3 for k, array in enumerate(arrays) if k not in test.whole]
        first = flat(test.run(F, *arrays))[0]
        return first, again, first * 2, [array + 1 for k, array in enumerate(arrays) if k not in test.whole]

    return replace(test, run=run)


@pytest.mark.parametrize("test", [used_elsewhere(test) for test in CASES if test.grad], ids=named)
def test_gradients_that_add_up(test: Case) -> None:
    """Where a gradient is added to another, or not asked for, some operators of MXNet are wrong or raise."""
    samples = [test.sample(k) for k in range(3)]
    compare(Plain(test), test, samples)
    if test.cell:
        compare(Around(test), test, samples)


class PartlyLearned(gluon.Block):
    """Only the last argument depends on something that is learned; the others need no gradient."""

    def __init__(self, test: Case) -> None:
        super().__init__()
        self.inner = OneCell(replace(test, grad=False))
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(1,), dtype=test.dtype, init=mx.init.Constant(1.25))

    def forward(self, *arrays: Any) -> Any:
        last = arrays[-1] * self.scale.data().reshape((1,) * len(arrays[-1].shape))
        return self.inner(*arrays[:-1], last)


PAIRS = [test for test in CASES if test.cell and test.grad and len(test.shapes) > 1]


@pytest.mark.parametrize("test", PAIRS, ids=named)
def test_operands_that_need_no_gradient(test: Case) -> None:
    """MXNet raises, or leaves memory unwritten, where a gradient of indices, lengths or labels is asked for."""
    net, samples = PartlyLearned(test), [test.sample(k) for k in range(3)]
    net.initialize()
    net.scale.set_data(nd.ones((1,), dtype=test.dtype))
    indices = len(test.shapes) - 1 in test.whole
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        net.scale.zero_grad()
        with autograd.record(train_mode=False) if dynamic or not indices else autograd.pause():
            results = [net(*sample) for sample in samples]
            total = gluonjit.add_n([(a * a).sum().astype("float32") for r in results for a in flat(r)])
        if dynamic or not indices:
            total.backward(train_mode=False)
        found.append([total.asnumpy(), net.scale.grad().asnumpy()])
    for value, wanted in zip(found[1], found[0]):  # the gradient of indices is zero
        assert_close(value, wanted, test.name, test.tolerance)


# -- what writes, and what cannot wait -----------------------------------------------------------------------


class Program(gluon.Block):
    """A plain Block that runs a function."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run
        self.dense = gluon.nn.Dense(4, in_units=4)

    def forward(self, *arrays: Any) -> Any:
        return self.run(self, *arrays)


def both(run: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    """A program that writes gives the same results, and leaves the same arrays, with and without batching."""
    net = Program(run)
    net.initialize(mx.init.Constant(0.3))
    found = []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        samples = [make() for _ in range(3)]
        results = [net(*sample) for sample in samples]
        found.append([a.asnumpy() for r in results for a in flat(r)] + [a.asnumpy() for s in samples for a in s])
    for value, wanted in zip(found[1], found[0]):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


def some() -> list[Any]:
    return [nd.array(np.random.RandomState(3).uniform(size=(3, 4)))]


def test_entries_of_a_captured_array_are_set() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        before = h * 2
        h[1] = 7
        h[:, 0] = 5
        h[0:2, 1:3] = nd.zeros((2, 2))
        return before, h, h * 2, nd.array(h)

    both(run, some)


def test_entries_of_an_input_are_set_after_it_was_read() -> None:
    def run(net: Program, x: Any) -> Any:
        before = net.dense(x)
        x[0] = 1
        x[1:, 2] = 3
        return before, net.dense(x)

    both(run, some)


def test_in_place_arithmetic() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        kept = h + 0
        h += x
        h *= 2
        return kept, h

    both(run, some)


def test_out_writes_into_captured_arrays_and_inputs() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        before = h * 3
        nd.elemwise_add(h, x, out=h)
        y = x * 2
        nd.exp(y, out=x)
        return before, h, y

    both(run, some)


def test_operators_that_write_into_their_operands_run_at_once() -> None:
    def run(net: Program, x: Any) -> Any:
        momentum = nd.ones((3, 4))
        h = net.dense(x)
        before = h + momentum
        updated = nd.sgd_mom_update(h, x, momentum, lr=0.1, momentum=0.9)
        nd.reset_arrays(h, num_arrays=1)
        return before, updated, momentum, h

    both(run, some)


def test_an_operator_whose_shape_depends_on_numbers_runs_at_once() -> None:
    def run(net: Program, x: Any) -> Any:
        h = net.dense(x)
        return h, nd.contrib.boolean_mask(h, nd.array([1, 0, 1])) * 2

    both(run, some)


def test_its_gradient_goes_into_the_batch() -> None:
    found = []
    for dynamic in (False, True):
        net = Program(lambda net, x: nd.contrib.boolean_mask(net.dense(x), nd.array([1, 0, 1])).sum())
        net.initialize(init="ones", force_reinit=True)
        net.hybridize(dynamic_batch=dynamic)
        with autograd.record():
            total = gluonjit.add_n([net(*some()) for _ in range(3)])
        total.backward()
        found.append(net.dense.weight.grad().asnumpy())
    assert_close(found[1], found[0], "gradient of the weight")
