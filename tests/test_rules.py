"""Every rule against the program it stands for: the operator on one sample after the other.

A case is one operator with its attributes and arguments, each of them one array a sample or one shared
array. It runs for several numbers of samples and for every layout the arguments can arrive in, with rows
of varying length where the rule takes them, and values and gradients have to agree.
"""
from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet")

from mxnet._ctypes.ndarray import _imperative_invoke  # noqa: E402

from gluonjit.engines.mxnet.rules import RULES, NotBatchable, Val, batch_op, canonical, convert, describe  # noqa: E402
from gluonjit.engines.mxnet.rules.symbols import _handle, apply  # noqa: E402


@dataclass(frozen=True)
class Arg:
    """One argument of a case: its per-sample shape and where its random values lie."""

    shape: tuple[int, ...]
    shared: bool = False
    dtype: str = "float32"
    low: float = -1.0
    high: float = 1.0
    whole: bool = False

    @property
    def differentiable(self) -> bool:
        return np.dtype(self.dtype).kind == "f" and not self.whole

    def draw(self, random: np.random.RandomState, rows: int | None = None) -> np.ndarray:
        shape = self.shape if rows is None or self.shared else (rows, *self.shape[1:])
        values = random.randint(int(self.low), int(self.high), shape) if self.whole \
            else random.uniform(self.low, self.high, shape)
        return np.asarray(values, self.dtype)


def x(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Arg:
    """One array of floats a sample."""
    return Arg(shape, low=low, high=high, dtype=dtype)


def w(*shape: int, low: float = -1.0, high: float = 1.0, dtype: str = "float32") -> Arg:
    """One array of floats shared by all samples."""
    return Arg(shape, shared=True, low=low, high=high, dtype=dtype)


def i(high: int, *shape: int, low: int = 0, dtype: str = "float32", shared: bool = False) -> Arg:
    """Whole numbers from low to high, one array a sample or shared."""
    return Arg(shape, shared, dtype, low, high, whole=True)


@dataclass(frozen=True)
class Case:
    op: str
    attrs: dict[str, Any]
    args: tuple[Arg, ...]
    poly: bool = False      # must be exact on rows of varying length
    alone: bool = False     # must be refused
    grad: bool = True       # has a gradient
    train: bool = False     # gradients of the training mode
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        attrs = ",".join(f"{key}={value}" for key, value in self.attrs.items())
        args = " ".join(("w" if arg.shared else "x") + str(arg.shape).replace(" ", "") for arg in self.args)
        return f"{self.op}[{attrs}] {args}".replace(" ", "_")


CASES: list[Case] = []


def case(op: str, attrs: dict[str, Any] | None, *args: Arg, **kwargs: Any) -> None:
    CASES.append(Case(op, {key: str(value) for key, value in (attrs or {}).items()}, args, **kwargs))

# -- cases -----------------------------------------------------------------------------------------------

for shape in [(1, 4), (3, 4), (4,)]:
    for name in """abs arccos arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees erf erfinv exp expm1 fix floor
            gamma gammaln hard_sigmoid log log10 log1p log2 logical_not negative radians rcbrt reciprocal relu rint
            round rsqrt sigmoid sign sin sinh smooth_l1 softsign sqrt square tan tanh trunc _copy BlockGrad make_loss
            zeros_like ones_like _contrib_round_ste _contrib_sign_ste _contrib_gradientmultiplier
            """.split() if shape == (3, 4) else ["exp", "BlockGrad", "zeros_like"]:
        case(name, None, x(*shape, low=0.1, high=0.9), poly=len(shape) > 1)
    for name in """_plus_scalar _minus_scalar _rminus_scalar _mul_scalar _div_scalar _rdiv_scalar _mod_scalar
            _rmod_scalar _power_scalar _rpower_scalar _maximum_scalar _minimum_scalar _hypot_scalar _equal_scalar
            _not_equal_scalar _greater_scalar _greater_equal_scalar _lesser_scalar _lesser_equal_scalar
            _logical_and_scalar _logical_or_scalar _logical_xor_scalar""".split():
        case(name, {"scalar": 0.5}, x(*shape, low=0.1, high=2.0), poly=True)
    for name in """elemwise_add elemwise_sub elemwise_mul elemwise_div _maximum _minimum _power _mod _hypot
            _equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or
            _logical_xor""".split():
        positive = {"low": 0.1, "high": 2.0}
        case(name, None, x(*shape, **positive), x(*shape, **positive), poly=True)
        case(name, None, x(*shape, **positive), w(*shape, **positive))
        case(name, None, w(*shape, **positive), x(*shape, **positive))
case("arccosh", None, x(3, 4, low=1.1, high=2.0))
case("exp", None, x(3, 4, dtype="float64"), poly=True)
case("_plus", None, x(1, 3), x(1, 3), poly=True)
case("_Plus", None, x(1, 3), x(1, 3), poly=True)
case("Activation", {"act_type": "tanh"}, x(1, 4), poly=True)
case("Activation", {"act_type": "softrelu"}, x(4))
case("Cast", {"dtype": "float64"}, x(1, 4), poly=True)
case("Cast", {"dtype": "int32"}, x(3, 4, high=9.0), poly=True)
case("amp_cast", {"dtype": "float16"}, x(3, 4), poly=True, grad=False)
case("amp_multicast", {"num_outputs": 2}, x(3, 4), x(2, 2))
case("clip", {"a_min": -0.5, "a_max": 0.5}, x(3, 4), poly=True)
case("_contrib_quadratic", {"a": 1, "b": 2, "c": 3}, x(3, 4), poly=True)
case("LeakyReLU", {"act_type": "leaky", "slope": 0.1}, x(3, 4), poly=True)
case("LeakyReLU", {"act_type": "gelu"}, x(4), poly=True)
case("LeakyReLU", {"act_type": "prelu"}, x(3, 4), w(4), poly=True)
case("LeakyReLU", {"act_type": "prelu"}, x(3, 4), w(1), poly=True)
case("LeakyReLU", {"act_type": "prelu"}, x(2, 3, 2, 2), w(3), poly=True)
case("LeakyReLU", {"act_type": "rrelu"}, x(3, 4), alone=True)
case("Dropout", {"p": 0.5}, x(3, 4), poly=True)
case("Dropout", {"p": 0.5, "axes": "(0,)"}, x(3, 4))
case("Dropout", {"p": 0.5, "axes": "(1,)"}, x(3, 4), poly=True)
case("_identity_with_attr_like_rhs", None, x(3, 4), x(3, 4), poly=True)

for name in "add sub mul div maximum minimum power mod hypot equal not_equal greater greater_equal lesser " \
            "lesser_equal logical_and logical_or logical_xor".split():
    for left, right in [(x(1, 4), x(1, 4)), (x(1, 4), w(1, 4)), (w(4), x(3, 4)), (x(3, 4), x(1, 4))]:
        case(f"broadcast_{name}", None, *(Arg(a.shape, a.shared, low=0.1, high=2.0) for a in (left, right)))
for left, right in [(x(3, 4), w(1, 4)), (x(3, 4), w(4)), (x(3, 4), w(1)), (x(3, 4), x(3, 1)), (x(1, 4), x(1, 1)),
                    (x(2, 3, 4), x(2, 1, 4)), (x(2, 3, 4), w(3, 1))]:
    case("broadcast_add", None, left, right, poly=True)
for left, right in [(x(3, 4), w(3, 4)), (x(3, 4), w(3, 1)), (x(1, 4), w(3, 4)), (x(1, 4), w(3, 1)), (x(4), x(3, 4)),
                    (x(4), w(4)), (x(4), w(3, 4)), (x(1), x(3, 4)), (x(1), w(1)), (x(2, 1), x(1, 5)),
                    (x(1, 3, 4), w(2, 3, 4)), (x(3, 4), w(2, 3, 4)), (x(1, 1), x(3, 4))]:
    case("broadcast_mul", None, left, right)
    case("broadcast_sub", None, right, left)
for shape in [(1, 4), (3, 4), (4,), (1,)]:
    case("add_n", {"num_args": 3}, x(*shape), x(*shape), x(*shape), poly=True)
    case("add_n", {"num_args": 3}, x(*shape), w(*shape), x(*shape))
    case("add_n", {"num_args": 3}, x(*shape), w(*shape), w(*shape))
    case("where", None, i(2, *shape), x(*shape), x(*shape), poly=True)
    case("where", None, i(2, *shape), x(*shape), w(*shape))
    case("where", None, i(2, *shape, shared=True), x(*shape), w(*shape))
    case("where", None, i(2, shape[0]), x(*shape), x(*shape), poly=True)
    case("where", None, i(2, shape[0]), w(*shape), x(*shape))

for name in "sum mean max min prod nansum nanprod norm".split():
    for shape in [(1, 4), (3, 4), (1, 3, 4), (2, 3, 4), (4,), (1,), (1, 1)]:
        case(name, None, x(*shape))
        case(name, {"keepdims": True}, x(*shape))
        case(name, {"axis": "(0,)"}, x(*shape))
        case(name, {"axis": 0, "keepdims": 1}, x(*shape))
        if len(shape) > 1:
            case(name, {"axis": -1}, x(*shape), poly=True)
            case(name, {"axis": "(1,)", "keepdims": True}, x(*shape), poly=True)
            case(name, {"axis": "(0, 1)"}, x(*shape))
            case(name, {"axis": "[0,1]", "keepdims": True}, x(*shape))
            if name != "norm":
                case(name, {"axis": 0, "exclude": True}, x(*shape), poly=True)
                case(name, {"axis": 1, "exclude": True}, x(*shape))
case("sum", {"axis": "()"}, x(3, 4))
case("sum_axis", {"axis": "None"}, x(3, 4))
case("norm", {"ord": 1}, x(3, 4))
case("norm", {"ord": 1, "axis": 1}, x(3, 4), poly=True)
case("norm", {"ord": 1, "axis": "(0, 1)"}, x(3, 4))
case("norm", {"ord": 1, "axis": "(1, 2)"}, x(2, 3, 4), poly=True)
for shape in [(1, 4), (3, 4), (2, 3, 4)]:
    case("moments", {"axes": "(1,)"}, x(*shape), poly=True)
    case("moments", {"axes": "(0,)"}, x(*shape))
    case("moments", {"axes": "(0, 1)", "keepdims": True}, x(*shape))
for name in ["argmax", "argmin"]:
    for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
        for keepdims in (False, True):
            case(name, {"keepdims": keepdims}, x(*shape))
            case(name, {"axis": 0, "keepdims": keepdims}, x(*shape))
            if len(shape) > 1:
                case(name, {"axis": 1, "keepdims": keepdims}, x(*shape), poly=True)
case("argmax_channel", None, x(3, 4), poly=True, grad=False)
for name in ["softmax", "log_softmax", "softmin", "sort", "argsort"]:
    for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
        case(name, None, x(*shape), poly=len(shape) > 1, grad=name != "sort")  # sort's default axis breaks its gradient
        case(name, {"axis": 0}, x(*shape))
        if len(shape) > 1:
            case(name, {"axis": 1}, x(*shape), poly=True)
case("softmax", {"temperature": 2.0, "axis": "-2"}, x(3, 4))
case("softmax", {"use_length": True, "axis": 1}, x(3, 4), i(5, 3, low=1, dtype="int32"), poly=True)
case("softmax", {"use_length": True, "axis": 0}, x(3, 4), i(4, 4, low=1, dtype="int32"))
case("softmax", {"use_length": True, "axis": 1}, x(3, 4), i(5, 3, low=1, dtype="int32", shared=True))
case("sort", {"axis": "None"}, x(3, 4))
case("argsort", {"axis": "None", "is_ascend": 0}, x(3, 4))
for returns in ["value", "indices", "mask", "both"]:
    case("topk", {"k": 2, "ret_typ": returns}, x(3, 4), poly=True)
    case("topk", {"k": 2, "ret_typ": returns, "axis": 0}, x(3, 4))
    case("topk", {"k": 2, "ret_typ": returns, "axis": "None"}, x(3, 4))
    case("topk", {"k": 1, "ret_typ": returns}, x(4))
for shape in [(1, 4), (3, 4)]:
    case("pick", None, x(*shape), i(4, shape[0]), poly=True)
    case("pick", {"keepdims": True}, x(*shape), i(4, shape[0]), poly=True)
    case("pick", {"axis": 1}, x(*shape), i(4, shape[0], 1), poly=True)
    case("pick", {"axis": 0}, x(*shape), i(shape[0], 4))
    case("pick", {"axis": 0, "keepdims": 1}, x(*shape), i(shape[0], 4))
    case("pick", {"axis": 1, "mode": "wrap"}, x(*shape), i(9, shape[0], low=-9), poly=True)
    case("pick", None, w(*shape), i(4, shape[0]))
    case("pick", None, x(*shape), i(4, shape[0], shared=True))
case("choose_element_0index", None, x(3, 4), i(4, 3), poly=True)

for shape, target in [((1, 8), (1, 8)), ((1, 8), (2, 4)), ((1, 8), (-1,)), ((1, 8), (0, 2, 4)), ((1, 8), (-1, 4)),
                      ((3, 8), (0, -1)), ((3, 8), (-1, 8)), ((3, 8), (-1, 4)), ((3, 8), (3, 2, 4)), ((8,), (2, 4)),
                      ((8,), (1, 8)), ((3, 2, 4), (0, -1)), ((3, 2, 4), (-1, 0, 4)), ((3, 2, 4), (0, -3)),
                      ((3, 2, 4), (-3, 0)), ((3, 2, 4), (0, 0, -4, 2, -1)), ((3, 8), (-2,)), ((1, 8), (-2, 1)),
                      ((1, 1), (1,)), ((1, 6), (0, 0, 1)), ((3, 8), (-4, 1, 3, -2))]:
    case("Reshape", {"shape": target}, x(*shape), poly=len(shape) == len(target) == 2 and target[0] == 0)
case("reshape", {"shape": "(-1, 0)", "reverse": True}, x(3, 2, 4))
case("Reshape", {"shape": "(0, 2, 4)"}, x(3, 8), poly=True)
case("Reshape", {"shape": "(-1, 2, 4)"}, x(3, 8), poly=True)
case("reshape_like", None, x(3, 8), x(3, 2, 4))
case("reshape_like", None, x(3, 8), w(3, 2, 4))
case("reshape_like", None, w(3, 8), x(3, 2, 4))
for shape in [(1, 4), (3, 4), (2, 3, 4), (4,)]:
    case("Flatten", None, x(*shape), poly=True)
    case("expand_dims", {"axis": 0}, x(*shape))
    case("expand_dims", {"axis": 1}, x(*shape), poly=True)
    case("expand_dims", {"axis": -1}, x(*shape), poly=True)
for shape, axis in [((1, 4), 0), ((1, 4), None), ((3, 1, 4), 1), ((3, 1, 4), None), ((1, 1), None), ((1, 1, 1), (0, 2)),
                    ((1, 3, 1), 0), ((3, 1, 1), (1, 2)), ((1, 3), -2)]:
    case("squeeze", {"axis": axis}, x(*shape), poly=shape[0] == 3 and axis is not None)
for shape, order in [((1, 4), None), ((3, 4), None), ((3, 4), (0, 1)), ((1, 4), (1, 0)), ((2, 3, 4), (0, 2, 1)),
                     ((2, 3, 4), (2, 0, 1)), ((1, 3, 4), (1, 0, 2)), ((2, 1, 4), (1, 0, 2)), ((4,), None)]:
    case("transpose", {"axes": order} if order else None, x(*shape), poly=bool(order) and order[0] == 0)
for shape in [(1, 4), (3, 4), (2, 3, 4)]:
    case("SwapAxis", {"dim1": 0, "dim2": 1}, x(*shape))
    case("swapaxes", {"dim1": 1, "dim2": len(shape) - 1}, x(*shape), poly=True)
    for name in ["reverse", "flip"]:
        case(name, {"axis": 0}, x(*shape))
        case(name, {"axis": "(1,)"}, x(*shape), poly=True)
    case("tile", {"reps": "(1, 2)"}, x(*shape), poly=True)
    case("tile", {"reps": "(2, 3)"}, x(*shape))
    case("tile", {"reps": "(2,)"}, x(*shape), poly=True)
    case("tile", {"reps": "(2, 1, 1, 3)"}, x(*shape))
    case("repeat", {"repeats": 2}, x(*shape))
    case("repeat", {"repeats": 2, "axis": 1}, x(*shape), poly=True)
    case("repeat", {"repeats": 2, "axis": -1}, x(*shape), poly=True)
    case("repeat", {"repeats": 3, "axis": 0}, x(*shape))
for shape, target in [((1, 4), (3, 4)), ((3, 1), (3, 4)), ((1, 1), (2, 3)), ((1, 4), (0, 4)), ((1,), (4,))]:
    case("broadcast_to", {"shape": target}, x(*shape))
    case("broadcast_like", None, x(*shape), w(*(t or s for s, t in zip(shape, target))))
    case("broadcast_like", None, x(*shape), x(*(t or s for s, t in zip(shape, target))))
    case("broadcast_like", None, w(*shape), x(*(t or s for s, t in zip(shape, target))))
case("broadcast_to", {"shape": "(0, 4)"}, x(3, 1), poly=True)
case("broadcast_axis", {"axis": 1, "size": 4}, x(3, 1), poly=True)
case("broadcast_axis", {"axis": 0, "size": 3}, x(1, 4))
case("broadcast_axis", {"axis": "(0, 1)", "size": "(3, 2)"}, x(1, 1))
case("broadcast_like", {"lhs_axes": "(0,)", "rhs_axes": "(1,)"}, x(1, 3), x(5, 4))

for shape in [(1, 4), (3, 4), (2, 3, 4)]:
    for axis in (0, 1, -1):
        case("Concat", {"dim": axis, "num_args": 2}, x(*shape), x(*shape), poly=axis != 0)
        case("Concat", {"dim": axis, "num_args": 3}, x(*shape), w(*shape), x(*shape))
        case("stack", {"axis": axis, "num_args": 2}, x(*shape), x(*shape), poly=axis != 0)
        case("stack", {"axis": axis, "num_args": 3}, x(*shape), w(*shape), x(*shape))
        case("slice_axis", {"axis": axis, "begin": 0, "end": "None"}, x(*shape), poly=True)
        case("slice_axis", {"axis": axis, "begin": -1, "end": "None"}, x(*shape), poly=axis != 0)
        case("slice_axis", {"axis": axis, "begin": 0, "end": 1}, x(*shape), poly=axis != 0)
    case("Concat", {"num_args": 2}, x(*shape), x(shape[0], 2, *shape[2:]), poly=True)
case("Concat", {"dim": 0, "num_args": 2}, x(1, 4), x(3, 4))
case("Concat", {"dim": 0, "num_args": 2}, x(4), x(3))
case("Concat", {"dim": 0, "num_args": 2}, x(1, 4), w(3, 4))
case("stack", {"num_args": 2}, x(4), x(4))
case("stack", {"num_args": 3}, x(1), x(1), x(1))
case("stack", {"num_args": 2, "axis": 1}, x(4), x(4), poly=True)
case("stack", {"num_args": 1, "axis": 1}, x(1, 4), poly=True)
for shape in [(1, 4), (3, 4), (2, 4, 4)]:
    case("SliceChannel", {"num_outputs": 2}, x(*shape), poly=True)
    case("SliceChannel", {"num_outputs": 4, "squeeze_axis": True}, x(*shape), poly=True)
    case("SliceChannel", {"num_outputs": shape[0], "axis": 0}, x(*shape))
    case("SliceChannel", {"num_outputs": shape[0], "axis": 0, "squeeze_axis": 1}, x(*shape))
    case("_split_v2", {"indices": "()", "sections": 2, "axis": 1}, x(*shape), poly=True)
    case("_split_v2", {"indices": "(0, 1)", "axis": 1, "squeeze_axis": 0}, x(*shape), poly=True)
case("_split_v2", {"indices": "(0, 1)", "axis": 0}, x(3, 4))
case("SliceChannel", {"num_outputs": 2, "axis": 0}, x(4))
case("SliceChannel", {"num_outputs": 1, "axis": 1}, x(1, 4), poly=True)
for begin, end, step in [("(None, 1)", "(None, 3)", None), ("(0, 1)", "(1, 3)", None), ("(0,)", "(1,)", None),
                         ("(None, -1)", "(None, None)", None), ("(None, None)", "(None, None)", "(None, -1)"),
                         ("(None, 0)", "(None, 4)", "(1, 2)"), ("(0, 1)", "(None, 2)", None)]:
    for shape in [(1, 4), (3, 4), (2, 4, 4)]:
        case("slice", {"begin": begin, "end": end, **({"step": step} if step else {})}, x(*shape),
             poly="None" in end[:5])
case("slice", {"begin": "(None,)", "end": "(None,)", "step": "(-1,)"}, x(3, 4))
case("slice", {"begin": "(1,)", "end": "(3,)"}, x(4))
case("crop", {"begin": "(0, 1)", "end": "(3, 3)"}, x(3, 4))
case("slice_like", None, x(3, 4), x(2, 3))
case("slice_like", None, x(3, 4), w(2, 3))
case("slice_like", None, w(3, 4), x(2, 3))
case("slice_like", {"axes": "(1,)"}, x(3, 4), x(2, 3))
case("slice_like", {"axes": "(-1,)"}, x(3, 4), x(3, 3))

for flatten in (True, False):
    for shape in [(1, 4), (3, 4), (2, 2, 4)]:
        columns = int(np.prod(shape[1:])) if flatten else 4
        attrs = {"num_hidden": 5, "flatten": flatten}
        case("FullyConnected", attrs, x(*shape), w(5, columns), w(5), poly=True)
        case("FullyConnected", {**attrs, "no_bias": 1}, x(*shape), w(5, columns), poly=True)
        case("FullyConnected", attrs, x(*shape), w(5, columns), x(5))
        case("FullyConnected", attrs, x(*shape), x(5, columns), w(5))
        case("FullyConnected", {**attrs, "no_bias": 1}, x(*shape), x(5, columns))
        case("FullyConnected", attrs, w(*shape), x(5, columns), x(5))
case("FullyConnected", {"num_hidden": 5, "flatten": False}, x(4), w(5, 4), w(5))
case("FullyConnected", {"num_hidden": 5, "flatten": True}, x(3), w(5, 1), w(5), poly=True)
case("FullyConnected", {"num_hidden": 5}, x(1, 4, dtype="float64"), w(5, 4, dtype="float64"), w(5, dtype="float64"))
for left, right, attrs in [((1, 4), (4, 5), {}), ((3, 4), (4, 5), {}), ((4, 3), (4, 5), {"transpose_a": True}),
                           ((3, 4), (5, 4), {"transpose_b": True}), ((1, 4), (1, 4), {"transpose_b": 1}),
                           ((1, 4), (1, 4), {"transpose_a": 1}), ((4, 3), (5, 4), {"transpose_a": 1, "transpose_b": 1}),
                           ((4,), (4,), {}), ((3, 4), (4,), {}), ((4,), (4, 5), {}), ((2, 3, 4), (4, 5), {}),
                           ((3, 4), (4, 2, 5), {}), ((4,), (4, 2, 5), {})]:
    case("dot", attrs, x(*left), x(*right))
    case("dot", attrs, x(*left), w(*right), poly=len(left) > 1 and not attrs.get("transpose_a"))
    case("dot", attrs, w(*left), x(*right))
for left, right, attrs in [((1, 3, 4), (1, 4, 5), {}), ((2, 3, 4), (2, 4, 5), {}),
                           ((2, 4, 3), (2, 5, 4), {"transpose_a": 1, "transpose_b": 1})]:
    for name in ["batch_dot", "_linalg_gemm2"]:
        case(name, attrs, x(*left), x(*right), poly=True)
        case(name, attrs, w(*left), x(*right))
        case(name, attrs, x(*left), w(*right))
case("_linalg_gemm2", {"alpha": 2.0, "transpose_b": True}, x(3, 4), x(5, 4))
case("linalg_gemm2", None, x(3, 4), w(4, 5))

for shape in [(1,), (3,), (2, 3), (1, 3)]:
    case("Embedding", {"input_dim": 7, "output_dim": 5}, i(7, *shape), w(7, 5), poly=True)
    case("one_hot", {"depth": 5}, i(5, *shape), poly=True)
    case("take", None, w(7, 5), i(7, *shape), poly=True)
    case("take", {"axis": 1}, w(7, 5), i(5, *shape))
    case("take", {"axis": -1}, w(2, 7, 5), i(5, *shape, dtype="int32"))
    case("take", {"mode": "wrap"}, w(7, 5), i(20, *shape, low=-20), poly=True)
    case("take", {"axis": 1}, x(3, 5), i(5, *shape, shared=True), poly=True)
    case("take", {"axis": 0}, x(3, 5), i(3, *shape, shared=True))
    case("take", {"axis": 0}, x(3, 5), i(9, *shape, low=-9))
    case("take", {"axis": 0, "mode": "wrap"}, x(3, 5), i(9, *shape, low=-9))
    case("take", {"axis": 0}, x(3), i(3, *shape, dtype="int64"))
    case("take", {"axis": 0}, x(1, 2, 4), i(3, *shape))
case("one_hot", {"depth": 5, "dtype": "int32", "on_value": 3}, i(5, 3, dtype="int32"), poly=True)
case("Embedding", {"input_dim": 7, "output_dim": 5}, i(7, 3), x(7, 5), alone=True)
case("batch_take", None, x(3, 4), i(4, 3, dtype="int32"), poly=True, grad=False)
case("batch_take", None, x(1, 4), i(4, 1, dtype="int32", shared=True), grad=False)
case("gather_nd", None, x(3, 4), i(3, 2, 5))
case("gather_nd", None, w(3, 4), i(3, 2, 5))
case("gather_nd", None, x(3, 4), i(3, 2, 5, shared=True))
case("gather_nd", None, x(3, 4), i(3, 1, 5))
case("gather_nd", None, x(3, 4, 2), i(3, 2, 2, 2, dtype="int32"))
case("gather_nd", None, x(4), i(4, 1, 3))
for name in ["_zeros", "_ones"]:
    case(name, {"shape": "(1, 4)", "dtype": "float32"})
case("_full", {"shape": "(1, 4)", "value": 2.5})
case("_arange", {"start": 0, "stop": 4})
case("_linspace", {"start": 0, "stop": 4, "num": 5})
case("_eye", {"N": 3})
for name in "uniform normal gamma exponential poisson negative_binomial generalized_negative_binomial".split():
    case(f"_random_{name}", {"shape": "(1, 4)"}, alone=True)
case("_random_randint", {"low": 0, "high": 4, "shape": "(1, 4)"}, alone=True)

# -- running ---------------------------------------------------------------------------------------------


def is_numpy(name: str) -> bool:
    return name.startswith("_np")


def array_of(values: Any, dtype: Any) -> Any:
    """mx.nd.array without its search for sparse matrices, which warns and takes longer than the operators."""
    array = mx.nd.empty(np.shape(values), dtype=dtype)
    array._sync_copyfrom(np.ascontiguousarray(values, dtype))
    return array


def run_one(test: Case, arrays: list[Any]) -> list[Any]:
    """The operator on one sample, imperatively."""
    refuse_reshape_of_other_size(test, arrays)
    with mx.util.np_shape(is_numpy(test.op)):
        result = _imperative_invoke(
            _handle(test.op), arrays, list(test.attrs), list(test.attrs.values()), None, False, True)
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
            with mx.autograd.record(train_mode=test.train):
                outputs = run_one(test, sample)
            mx.autograd.backward(outputs, head)
            gradients.append([None if array is None else array.grad.asnumpy() for array in wanted])
    return gradients


class Program:
    """The batched symbol of a case for given layouts, ready to run."""

    def __init__(self, test: Case, layouts: tuple[str, ...], sample: list[Any], outputs: list[Any],
                 poly: bool = False) -> None:
        values = []
        for number, (arg, layout, array) in enumerate(zip(test.args, layouts, sample)):
            shape = tuple(array.shape) if arg.shape else ()
            # An intermediate value, not an input: some operators of MXNet are wrong only where memory is reused.
            symbol = apply("_copy", [mx.sym.var(f"in{number}")], {})
            values.append(Val(symbol, shape, arg.dtype, layout, poly and layout == "rows"))
        specs = [(tuple(o.shape), np.dtype(o.dtype).name) for o in outputs]
        self.results = batch_op(test.op, test.attrs, values, specs, **test.options.get("batch_op", {}))
        assert [(r.shape, r.dtype) for r in self.results] == specs
        final = [r if r.shared or r.poly else convert(r, "stack") for r in self.results]
        self.symbol = mx.sym.Group([apply("_copy", [value.sym], {}) for value in final])
        self.names = self.symbol.list_inputs()
        self.op = mx.nd.CachedOp(self.symbol) if self.names else lambda: self.symbol.bind(mx.cpu(), {}).forward()

    def __call__(self, arrays: list[Any]) -> list[Any]:
        result = self.op(*[arrays[int(name[2:])] for name in self.names])
        return list(result) if isinstance(result, (list, tuple)) else [result]


def stored(arg: Arg, layout: str, samples: list[Any]) -> Any:
    if arg.shared:
        return array_of(samples[0].asnumpy(), dtype=arg.dtype)
    numbers = [sample.asnumpy() for sample in samples]
    return array_of((np.concatenate if layout == "rows" else np.stack)(numbers), dtype=arg.dtype)


def draw(test: Case, count: int, rows: list[int] | None = None, seed: int = 0) -> list[list[Any]]:
    random = np.random.RandomState(seed)
    with mx.util.np_shape(is_numpy(test.op)):
        shared = {n: array_of(arg.draw(random), dtype=arg.dtype) for n, arg in enumerate(test.args) if arg.shared}
        return [[shared.get(n) if n in shared else
                 array_of(arg.draw(random, rows and rows[s]), dtype=arg.dtype) for n, arg in enumerate(test.args)]
                for s in range(count)]


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


def check(test: Case, layouts: tuple[str, ...], samples: list[list[Any]], poly: bool = False) -> None:
    """Run the batched program and the samples one by one; compare values, then gradients."""
    program = Program(test, layouts, samples[0], run_one(test, samples[0]), poly)
    outputs = [run_one(test, sample) for sample in samples]
    inputs = [stored(arg, layout, [sample[n] for sample in samples])
              for n, (arg, layout) in enumerate(zip(test.args, layouts))]
    floats = [array for arg, array in zip(test.args, inputs) if arg.differentiable and test.grad]
    for array in floats:
        array.attach_grad()
    with mx.autograd.record(train_mode=test.train) if floats else contextlib.nullcontext():
        results = program(inputs)
    for number, (result, value) in enumerate(zip(results, program.results)):
        per_sample = [output[number].asnumpy() for output in outputs]
        reference = per_sample[0] if value.shared else joined(per_sample, value.poly)
        close(result.asnumpy(), reference, f"output {number} from {layouts}")
    if not floats:
        return
    random = np.random.RandomState(7)
    heads = [[array_of(random.uniform(-1, 1, o.shape), o.dtype) for o in output] for output in outputs]
    mx.autograd.backward(results, [batched_head(value, [head[number].asnumpy() for head in heads])
                                   for number, value in enumerate(program.results)])
    expected = oracle(test, samples, heads)
    for number, (arg, layout, array) in enumerate(zip(test.args, layouts, inputs)):
        if arg.differentiable:
            each = [gradient[number] for gradient in expected]
            reference = np.sum(each, 0) if arg.shared else joined(each, layout == "rows")
            close(array.grad.asnumpy(), reference, f"gradient of argument {number} from {layouts}")


def joined(each: list[np.ndarray], rows: bool) -> np.ndarray:
    return (np.concatenate if rows else np.stack)(each)


def batched_head(value: Val, heads: list[np.ndarray]) -> Any:
    return array_of(np.sum(heads, 0) if value.shared else joined(heads, value.poly), value.dtype)


def layouts_of(test: Case) -> list[tuple[str, ...]]:
    choices = [("shared",) if arg.shared else ("rows", "stack") if arg.shape else ("stack",) for arg in test.args]
    combinations = list(itertools.product(*choices))
    return combinations if len(combinations) <= 4 else [combinations[0], combinations[-1], combinations[1]]


# -- tests -----------------------------------------------------------------------------------------------

BATCHED = [test for test in CASES if not test.alone]


@pytest.mark.parametrize("test", BATCHED, ids=str)
def test_batched_equals_one_by_one(test: Case) -> None:
    for number, layouts in enumerate(layouts_of(test)):
        for count in (1, 2, 5) if number == 0 else (3,):
            check(test, layouts, draw(test, count))


@pytest.mark.parametrize("test", [t for t in BATCHED if any(a.shape and not a.shared for a in t.args)], ids=str)
def test_rows_of_varying_length(test: Case) -> None:
    """Where a rule takes them it is right for any numbers; the number it is shown says nothing."""
    varying = [arg for arg in test.args if not arg.shared]
    if any(not arg.shape for arg in varying) or len({arg.shape[0] for arg in varying}) > 1:
        pytest.skip("the arguments have different numbers of rows")
    layouts = tuple("shared" if arg.shared else "rows" for arg in test.args)
    shown = varying[0].shape[0]
    refused = []
    for rows in ([shown, 2, 1, 4], [1, 3], [2, 1, 5]):
        try:
            samples = draw(test, len(rows), rows)
            try:
                run_one(test, samples[0])
            except (mx.base.MXNetError, IndexError):
                continue
            check(test, layouts, samples, poly=True)
        except NotBatchable as error:
            refused.append(error)
    if test.poly:
        assert not refused, refused


@pytest.mark.parametrize("test", [t for t in CASES if t.alone], ids=str)
def test_refused(test: Case) -> None:
    samples = draw(test, 1)
    outputs = test.options.get("outputs") or [(o.shape, np.dtype(o.dtype).name) for o in run_one(test, samples[0])]
    values = [Val(mx.sym.var(f"in{n}"), a.shape, a.dtype, "shared" if a.shared else "rows" if a.shape else "stack")
              for n, a in enumerate(test.args)]
    with pytest.raises(NotBatchable) as caught:
        batch_op(test.op, test.attrs, values, outputs, **test.options.get("batch_op", {}))
    assert caught.value.reason


def test_every_rule_is_of_a_registered_operator() -> None:
    assert [name for name in RULES if canonical(name) != name] == []


def test_every_rule_has_a_case() -> None:
    covered = {canonical(test.op) for test in CASES}
    assert sorted(set(RULES) - covered) == []


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(NotBatchable, match="no rule for operator no_such_operator"):
        batch_op("no_such_operator", {}, [], [])


def test_the_table_prints() -> None:
    rows = describe()
    assert len(rows) == len(RULES)
    assert all(reason for _, kind, reason in rows if kind == "alone")
