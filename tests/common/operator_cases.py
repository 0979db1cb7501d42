"""Programs of one sample's arrays, and of each whether its operators run for all samples at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mxnet as mx
import numpy as np

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
case("log_softmax", lambda F, x: F.log_softmax(x), V, rows=True, tolerance=1e-4)
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
