"""Every rule against the program it stands for: the operator on one sample after the other.

A case is one operator with its attributes and arguments, each of them one array a sample or one shared
array. It runs for several numbers of samples and for every layout the arguments can arrive in, with rows
of varying length where the rule takes them, and values and gradients have to agree.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mxnet")

from mxnet._ctypes.ndarray import _imperative_invoke  # noqa: E402

from gluonjit.engines.mxnet.rules import RULES, Attributes, NotBatchable, Val, batch_op, canonical, convert  # noqa: E402
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
    grad: bool = True
    spd: bool = False  # symmetric positive definite, for decompositions

    @property
    def differentiable(self) -> bool:
        return np.dtype(self.dtype).kind == "f" and not self.whole and self.grad

    def draw(self, random: np.random.RandomState, rows: int | None = None) -> np.ndarray:
        shape = self.shape if rows is None or self.shared else (rows, *self.shape[1:])
        values = (
            random.randint(int(self.low), int(self.high), shape)
            if self.whole
            else random.uniform(self.low, self.high, shape)
        )
        if self.spd:
            values = values @ values.swapaxes(-1, -2) / 3 + np.diag(1.0 + np.arange(shape[-1]))
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
    poly: bool = False  # must be exact on rows of varying length
    alone: bool = False  # must be refused
    grad: bool = True  # has a gradient
    drawn: bool = False  # random whatever its parameters: only shapes agree
    fixed: bool = False  # means nothing with another number of rows, and MXNet does not look
    training: bool = True
    outputs: list[Any] | None = None  # where the operator cannot run to say what they are

    def __str__(self) -> str:
        attrs = ",".join(f"{key}={value}" for key, value in self.attrs.items())
        args = " ".join(("w" if arg.shared else "x") + str(arg.shape).replace(" ", "") for arg in self.args)
        return f"{self.op}[{attrs}] {args}".replace(" ", "_")


CASES: list[Case] = []


def case(op: str, attrs: dict[str, Any] | None, *args: Arg, **kwargs: Any) -> None:
    CASES.append(Case(op, {key: str(value) for key, value in (attrs or {}).items()}, args, **kwargs))


# fmt: off
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
            _logical_and_scalar _logical_or_scalar _logical_xor_scalar
            """.split() if shape == (3, 4) else ["_power_scalar"]:
        case(name, {"scalar": 0.5}, x(*shape, low=0.1, high=2.0), poly=True)
    for name in """elemwise_add elemwise_sub elemwise_mul elemwise_div _maximum _minimum _power _mod _hypot
            _equal _not_equal _greater _greater_equal _lesser _lesser_equal _logical_and _logical_or
            _logical_xor""".split() if shape == (3, 4) else ["elemwise_sub", "elemwise_mul", "_greater"]:
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
case("Dropout", {"p": 0.5}, x(3, 4), poly=True, training=False)
case("Dropout", {"p": 0.5, "axes": "(0,)"}, x(3, 4), training=False)
case("Dropout", {"p": 0.5, "axes": "(1,)"}, x(3, 4), poly=True, training=False)
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
    case("tile", {"reps": "(1, 1, 1)"}, x(*shape))
    case("repeat", {"repeats": 2}, x(*shape))
    case("repeat", {"repeats": 2, "axis": 1}, x(*shape), poly=True)
    case("repeat", {"repeats": 2, "axis": -1}, x(*shape), poly=True)
    case("repeat", {"repeats": 3, "axis": 0}, x(*shape))
case("tile", {"reps": "(2, 2, 2)"}, x(1, 3, 2))     # which at once would have too many axes
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
# Layers: one batch first, or time first and the batch second.
for batch in (1, 3):
    kernel = {"kernel": "(3, 3)", "num_filter": 2}
    case("Convolution", kernel, x(batch, 3, 5, 5), w(2, 3, 3, 3), w(2), poly=True)
    case("Convolution", {**kernel, "no_bias": True, "layout": "NCHW"}, x(batch, 3, 5, 5), w(2, 3, 3, 3), poly=True)
    case("Convolution", {"kernel": "(3,)", "num_filter": 2}, x(batch, 3, 5), w(2, 3, 3), w(2), poly=True)
    case("Convolution_v1", kernel, x(batch, 3, 5, 5), w(2, 3, 3, 3), w(2), poly=True)
    case("Deconvolution", {**kernel, "no_bias": True}, x(batch, 3, 4, 4), w(3, 2, 3, 3), poly=True)
    case("Pooling", {"kernel": "(2, 2)", "pool_type": "avg", "stride": "(2, 2)"}, x(batch, 3, 4, 4), poly=True)
    case("Pooling", {"kernel": "(2,)", "pool_type": "max"}, x(batch, 3, 4), poly=True)
    case("Pooling", {"global_pool": True, "kernel": "(1, 1)"}, x(batch, 3, 4, 4), poly=True)
    case("Pooling_v1", {"kernel": "(2, 2)", "pool_type": "max"}, x(batch, 3, 4, 4), poly=True)
    statistics = (w(3), w(3), w(3), w(3, low=0.1))
    case("BatchNorm", {"fix_gamma": False}, x(batch, 3), *statistics, poly=True, training=False)
    case("BatchNorm", {"fix_gamma": True}, x(batch, 3, 4, 4), *statistics, poly=True, training=False)
    case("BatchNorm", {"fix_gamma": False, "axis": -1}, x(batch, 4, 3), *statistics, poly=True, training=False)
    case("InstanceNorm", None, x(batch, 3, 4, 4), w(3), w(3), poly=True)
    case("GroupNorm", {"num_groups": 2}, x(batch, 4, 5), w(2), w(2), poly=True)
    case("LRN", {"nsize": 3}, x(batch, 4, 3, 3), poly=True)
    for mode in ("instance", "channel", "spatial"):
        case("L2Normalization", {"mode": mode}, x(batch, 3, 4), poly=True)
    case("SoftmaxActivation", None, x(batch, 3, 4), poly=True)
    case("SoftmaxActivation", {"mode": "channel"}, x(batch, 3, 4), poly=True)
    width = "(0,0,0,0,1,2,1,1)"
    case("Pad", {"mode": "constant", "pad_width": width, "constant_value": 2}, x(batch, 2, 3, 3), poly=True)
    case("pad", {"mode": "edge", "pad_width": width}, x(batch, 2, 3, 3), poly=True)
    case("depth_to_space", {"block_size": 2}, x(batch, 4, 2, 3), poly=True)
    case("space_to_depth", {"block_size": 2}, x(batch, 1, 4, 6), poly=True)
    case("im2col", {"kernel": "(2, 2)"}, x(batch, 2, 3, 3), poly=True)
    case("col2im", {"kernel": "(2, 2)", "output_size": "(3, 3)"}, x(batch, 8, 4), poly=True)
    case("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, x(batch, 2, 3, 3), poly=True)
    case("UpSampling", {"scale": 2, "sample_type": "bilinear", "num_filter": 2, "num_args": 2},
         x(batch, 2, 3, 3), w(2, 1, 4, 4), poly=True)
    case("Crop", {"num_args": 2, "offset": "(1, 1)"}, x(batch, 2, 5, 5), x(batch, 2, 3, 3), poly=True)
    case("Crop", {"num_args": 1, "h_w": "(2, 2)"}, x(batch, 2, 5, 5), poly=True)
    case("_contrib_AdaptiveAvgPooling2D", {"output_size": "(2, 2)"}, x(batch, 2, 5, 5), poly=True)
    case("_contrib_BilinearResize2D", {"height": 4, "width": 6}, x(batch, 2, 3, 3), poly=True)
    case("GridGenerator", {"transform_type": "affine", "target_shape": "(3, 3)"}, x(batch, 6), poly=True)
    case("BilinearSampler", None, x(batch, 2, 4, 4), x(batch, 2, 3, 3, low=-0.9, high=0.9), poly=True)
    case("SpatialTransformer", {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": "(3, 3)"},
         x(batch, 2, 4, 4), x(batch, 6, low=-0.4, high=0.4), poly=True)
    case("Correlation", {"kernel_size": 1, "max_displacement": 1, "pad_size": 1}, x(batch, 2, 4, 4), x(batch, 2, 4, 4),
         poly=True)
    case("_contrib_DeformableConvolution", {**kernel, "no_bias": True}, x(batch, 2, 5, 5),
         x(batch, 18, 3, 3, low=0.1, high=0.4), w(2, 2, 3, 3), poly=True)
    case("_contrib_div_sqrt_dim", None, x(batch, 4), poly=True)
    case("LayerNorm", None, x(batch, 4), w(4), w(4), poly=True)
    case("LayerNorm", {"axis": 1}, x(batch, 3, 4), w(3), w(3), poly=True)
    case("LayerNorm", {"axis": 0}, x(batch + 1, 4), w(batch + 1), w(batch + 1))
    case("LayerNorm", {"output_mean_var": True}, x(batch, 4), w(4), w(4), poly=True, grad=False)
    for name in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        case(name, None, x(batch, 4), Arg((batch, 4), grad=False), poly=True)
    case("SVMOutput", None, x(batch, 4), i(4, batch), poly=True)
    case("SoftmaxOutput", {"grad_scale": 2.0}, x(batch, 4), i(4, batch), poly=True)
    case("SoftmaxOutput", {"multi_output": True}, x(batch, 4, 3), i(4, batch, 3), poly=True)
    case("SoftmaxOutput", {"normalization": "valid"}, x(batch, 4), i(4, batch), alone=True)
    case("MakeLoss", {"grad_scale": 2.0}, x(batch, 4), poly=True)
    case("MakeLoss", {"normalization": "batch"}, x(batch, 4), alone=True)
    case("softmax_cross_entropy", None, x(batch, 4), i(4, batch))
    for axis in (0, 1):
        time_first = (4, batch, 2) if axis == 0 else (batch, 4, 2)
        lengths = i(5, batch, low=1)
        for name in ("SequenceMask", "SequenceLast", "SequenceReverse"):
            if axis == 1 and name == "SequenceReverse":
                continue
            if name != "SequenceLast":     # which without lengths ends the process in MXNet itself
                case(name, {"axis": axis}, x(*time_first), poly=axis == 1)
            case(name, {"axis": axis, "use_sequence_length": True}, x(*time_first), lengths, poly=axis == 1)
            case(name, {"axis": axis, "use_sequence_length": 1}, x(*time_first),
                 i(5, batch, low=1, shared=True), fixed=True)
    case("CTCLoss", None, x(6, batch, 4), i(4, batch, 2, low=1))
    case("CTCLoss", {"use_data_lengths": True, "use_label_lengths": True}, x(6, batch, 4), i(4, batch, 3, low=1),
         i(7, batch, low=5), i(3, batch, low=1))
    for mode, gates in (("rnn_tanh", 1), ("lstm", 4), ("gru", 3)):
        states = [x(1, batch, 3)] * (2 if mode == "lstm" else 1)
        size = gates * (3 * 2 + 3 * 3 + 6)
        attrs = {"mode": mode, "state_size": 3, "num_layers": 1}
        case("RNN", {**attrs, "state_outputs": True}, x(4, batch, 2), w(size), *states)
        case("RNN", attrs, x(4, batch, 2), w(size), *(w(*state.shape) for state in states))
    heads = 2
    case("_contrib_interleaved_matmul_selfatt_qk", {"heads": heads}, x(5, batch, 12))
    case("_contrib_interleaved_matmul_selfatt_valatt", {"heads": heads}, x(5, batch, 12), x(batch * heads, 5, 5))
    case("_contrib_interleaved_matmul_encdec_qk", {"heads": heads}, x(5, batch, 4), x(3, batch, 8))
    case("_contrib_interleaved_matmul_encdec_valatt", {"heads": heads}, x(3, batch, 8), x(batch * heads, 5, 3))
case("_contrib_div_sqrt_dim", None, x(4))
case("Convolution", {"kernel": "(3,)", "num_filter": 2, "no_bias": 1}, x(1, 3, 5), x(2, 3, 3), alone=True)
case("BatchNorm", {"fix_gamma": False}, x(2, 3), w(3), w(3), w(3), w(3), alone=True)
case("BatchNorm", {"fix_gamma": False, "use_global_stats": True}, x(2, 3), w(3), w(3), w(3), w(3, low=0.1))
case("BatchNorm", {"fix_gamma": False, "axis": 0}, x(3, 4), w(3), w(3), w(3), w(3), alone=True, training=False)
case("_contrib_BatchNormWithReLU", {"fix_gamma": False}, x(2, 3, 4, 4), w(3), w(3), w(3), w(3), alone=True)
case("RNN", {"mode": "gru", "state_size": 3, "num_layers": 1, "p": 0.5}, x(4, 1, 2), w(63), x(1, 1, 3), alone=True)
case("_rnn_param_concat", {"dim": 0, "num_args": 2}, w(6), w(3))
case("_rnn_param_concat", {"dim": 0, "num_args": 2}, x(6), w(3), alone=True)

# Linear algebra.
for batch in ((), (1,), (2,), (2, 2)):
    square = {"low": 0.5, "high": 1.5}
    poly, fixed = bool(batch), not batch
    case("_linalg_gemm", {"alpha": 2.0, "beta": 0.5}, x(*batch, 3, 4), x(*batch, 4, 5), x(*batch, 3, 5), poly=poly)
    case("_linalg_gemm", {"transpose_b": 1}, x(*batch, 3, 4), w(*batch, 5, 4), x(*batch, 3, 5))
    case("_linalg_syrk", {"alpha": 1.5, "transpose": False}, x(*batch, 3, 4), poly=poly)
    case("_linalg_trmm", None, x(*batch, 3, 3), x(*batch, 3, 4), poly=poly)
    case("_linalg_trsm", None, Arg((*batch, 3, 3), spd=True), x(*batch, 3, 4), poly=poly, fixed=fixed)
    case("_linalg_potrf", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_potri", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_sumlogdiag", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_inverse", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_det", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_slogdet", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed)
    case("_linalg_gelqf", None, x(*batch, 3, 4), poly=poly)
    case("_linalg_syevd", None, Arg((*batch, 3, 3), spd=True), poly=poly, fixed=fixed, grad=False)
    case("_linalg_extractdiag", {"offset": 1}, x(*batch, 3, 3), poly=poly)
    case("_linalg_extracttrian", None, x(*batch, 3, 3), poly=poly)
    case("_linalg_makediag", {"offset": -1}, x(*batch, 3), poly=poly)
    case("_linalg_maketrian", None, x(*batch, 6), poly=poly)
    case("_contrib_box_nms", {"coord_start": 2, "score_index": 1, "id_index": 0}, x(*batch, 4, 6, low=0.0), poly=poly)
    case("_contrib_bipartite_matching", {"threshold": 0.1}, x(*batch, 3, 4, low=0.0), poly=poly, grad=False)
for shape in ((1, 4), (3, 4), (2, 3, 4), (4,), (1, 1)):
    case("diag", None, x(*shape))
    case("diag", {"k": 1}, x(*shape)) if shape != (1, 1) else None
case("diag", {"axis1": -1, "axis2": 0}, x(2, 3, 4))
case("linalg_sumlogdiag", None, Arg((1, 1), spd=True), fixed=True)

# Random draws whose parameters leave one possible value.
for shape in ((1,), (3,), (2, 3)):
    same = x(*shape)
    case("_sample_normal", None, same, Arg(shape, low=0.0, high=0.0), poly=True, grad=False)
    case("_sample_normal", {"shape": "(2,)"}, same, Arg(shape, low=0.0, high=0.0), poly=True, grad=False)
    case("_sample_normal", {"shape": "(2,)"}, same, Arg(shape, shared=True, low=0.0, high=0.0), grad=False)
    case("_sample_uniform", {"shape": "(4,)"}, Arg(shape, low=0.5, high=0.5), Arg(shape, low=0.5, high=0.5), poly=True,
         grad=False)
    case("_sample_poisson", None, Arg(shape, low=0.0, high=0.0), poly=True, grad=False)
    for name in ("normal", "uniform", "gamma", "exponential", "poisson"):
        two = name not in ("exponential", "poisson")
        case(f"_random_pdf_{name}", None, x(*shape, 4, low=1, high=2), *([x(*shape, low=0.5)] if two else []),
             x(*shape, low=2.1, high=3), poly=True)
    for name in ("gamma", "exponential", "negative_binomial", "generalized_negative_binomial"):
        parameters = [Arg(shape, low=2, high=4), Arg(shape, low=0.3, high=0.9)][:1 if name == "exponential" else 2]
        case(f"_sample_{name}", {"shape": "(2,)"}, *parameters, drawn=True, grad=False, poly=True)
        case(f"_random_{name}_like", None, x(*shape), drawn=True, grad=False, poly=True)
        if "binomial" in name:
            case(f"_random_pdf_{name}", None, i(5, *shape, 3), *parameters, poly=True)
case("_random_pdf_dirichlet", None, x(2, 4, 3, low=0.1), x(2, 3, low=1, high=2), poly=True)
case("_random_pdf_dirichlet", None, x(4, 3, low=0.1), x(3, low=1, high=2))
case("_random_normal_like", {"loc": 2.0, "scale": 1e-30}, x(3, 4), poly=True, grad=False)
case("_random_uniform_like", {"low": 2.0, "high": 2.0}, x(4), poly=True, grad=False)
case("_random_poisson_like", {"lam": 0.0}, x(4), poly=True, grad=False)
case("_random_normal_like", None, w(3, 4), alone=True)
case("Dropout", {"p": 0.5}, w(3, 4), alone=True)
case("_sample_multinomial", None, Arg((2, 1), low=1, high=1), poly=True, grad=False)
case("_sample_multinomial", {"shape": "(3,)"}, Arg((1,), low=1, high=1), grad=False)
case("_sample_multinomial", None, Arg((1,), low=1, high=1), grad=False)
case("_sample_multinomial", {"get_prob": True}, x(2, 3, low=0.1), alone=True)

# Shapes and places.
for shape in ((1, 4), (3, 4), (4,)):
    case("shape_array", None, x(*shape), grad=False)
    case("size_array", None, x(*shape), grad=False)
    case("_contrib_arange_like", {"start": 1.0, "step": 0.1}, x(*shape), grad=False)
    case("_contrib_arange_like", {"axis": 0, "start": 2, "step": -3}, x(*shape), grad=False)
    case("_contrib_arange_like", {"axis": -1, "repeat": 2}, x(*shape), grad=False)
case("_slice_assign", {"begin": "(0, 1)", "end": "(2, 3)"}, x(3, 4), x(2, 2), alone=True)
case("_ravel_multi_index", {"shape": "(3, 4)"}, i(3, 2, 5), grad=False)
case("_unravel_index", {"shape": "(3, 4)"}, i(12, 5), grad=False)

# Alone, whatever the arguments.
case("_shuffle", None, x(3, 4), alone=True)
case("_contrib_boolean_mask", None, x(3, 4), i(2, 3), alone=True)
case("scatter_nd", {"shape": "(3, 4)"}, x(5), i(3, 2, 5), alone=True)
case("Custom", {"op_type": "nothing"}, x(3, 4), alone=True, outputs=[((3, 4), "float32")])
case("khatri_rao", {"num_args": 2}, x(2, 3), x(2, 3), alone=True)
case("cast_storage", {"stype": "default"}, x(2, 3), alone=True)
# mx.np
for shape in ((1, 4), (3, 4), (4,), ()):
    for name in """absolute negative reciprocal sign rint fix ceil floor trunc sqrt square cbrt exp expm1 log log10
            log1p log2 logical_not sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh degrees radians
            isfinite isinf isnan isneginf isposinf nan_to_num around""".split() if shape == (3, 4) else ["exp"]:
        case(f"_npi_{name}", None, x(*shape, low=0.1, high=0.9), poly=bool(shape))
    for name in """add subtract rsubtract multiply true_divide rtrue_divide mod rmod power rpower
            arctan2 rarctan2 ldexp rldexp equal not_equal greater greater_equal less less_equal
            """.split() if shape == (3, 4) else ["subtract"]:
        case(f"_npi_{name}_scalar", {"scalar": 0.5, "is_int": False}, x(*shape, low=0.1, high=2.0), poly=bool(shape))
    for name in """add subtract multiply true_divide mod power copysign arctan2 hypot ldexp equal not_equal greater
            greater_equal less less_equal""".split() if shape == (3, 4) else ["subtract", "power"]:
        for other in (x(*shape, low=0.1, high=2.0), w(*shape, low=0.1, high=2.0), x(low=0.1, high=2.0),
                      w(3, 1, low=0.1, high=2.0)):
            case(f"_npi_{name}", None, x(*shape, low=0.1, high=2.0), other,
                 poly=bool(shape) and other.shape == shape and not other.shared)
    for name in ("_npx_relu", "_npx_sigmoid", "_np_copy"):
        case(name, None, x(*shape), poly=bool(shape))
    case("_npi_full_like", {"fill_value": 2.0}, x(*shape), poly=bool(shape), grad=False)
    case("_npi_bitwise_not", None, i(9, *shape, dtype="int32"), poly=bool(shape))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm"):
        case(f"_npi_{name}", None, i(9, *shape, dtype="int32"), i(9, *shape, dtype="int32"), poly=bool(shape))
        case(f"_npi_{name}_scalar", {"scalar": 6}, i(9, *shape, dtype="int32"), poly=bool(shape))
    case("_npi_add", None, x(*shape), w())
    case("_npi_multiply", None, w(), x(*shape))
    case("_npi_add", None, i(9, *shape, dtype="int32"), i(9, *shape, dtype="int32"))
    case("_npi_where", None, i(2, *shape, dtype="int32"), x(*shape), x(*shape), poly=bool(shape))
    case("_npi_where", None, i(2, *shape, dtype="int32"), x(*shape), w(*shape))
    case("_npi_where", None, i(2, *shape, dtype="int32"), x(), x(3, 1))
    case("_npi_where_lscalar", {"scalar": 2.0}, i(2, *shape, dtype="int32"), x(*shape), poly=bool(shape))
    case("_npi_where_rscalar", {"scalar": 2.0}, i(2, *shape, dtype="int32"), x(*shape), poly=bool(shape))
    case("_npi_where_scalar2", {"x": 2.0, "y": 3.0}, i(2, *shape, dtype="int32"), poly=bool(shape), grad=False)
case("_npi_copysign_scalar", {"scalar": 1.0}, x(3, 4), alone=True)
case("_npi_arccosh", None, x(3, 4, low=1.1, high=2.0), poly=True)
case("_npi_maximum", None, x(3, 4), x(4))
case("_npi_maximum", None, x(), x(4))
for name in "_np_sum _np_prod _np_max _np_min _npi_mean _npi_std _npi_var _np_all _np_any".split():
    grad = name not in ("_np_all", "_np_any", "_npi_std", "_npi_var")
    for shape in ((1, 4), (3, 4), (2, 3, 4), (4,)):
        data = x(*shape, low=0.1) if grad else i(2, *shape)
        case(name, None, data, grad=grad)
        case(name, {"keepdims": True}, data, grad=grad)
        case(name, {"axis": 0}, data, grad=grad)
        if len(shape) > 1:
            case(name, {"axis": "(-1,)"}, data, grad=grad, poly=True)
            case(name, {"axis": 1, "keepdims": True}, data, grad=grad, poly=True)
            case(name, {"axis": "(0, 1)"}, data, grad=grad)
case("_npi_std", {"ddof": 1}, x(3, 4), grad=False)
case("_np_sum", {"dtype": "float64"}, x(1, 4), grad=False)
case("_np_sum", None, x())
case("_npi_mean", {"keepdims": True}, x())
case("_np_sum", {"axis": "()"}, x(3, 4), alone=True)
for shape in ((1, 4), (3, 4), (2, 3, 4), (4,)):
    case("_npi_norm", {"ord": 2, "axis": None, "keepdims": False, "flag": -2}, x(*shape))
    case("_npi_norm", {"ord": 2, "axis": "(0,)", "keepdims": False, "flag": -1}, x(*shape))
    if len(shape) > 1:
        case("_npi_norm", {"ord": 2, "axis": "(1,)", "keepdims": True, "flag": 1}, x(*shape), poly=True)
        case("_npi_norm", {"ord": 2, "axis": "(0, 1)", "keepdims": False, "flag": 1}, x(*shape))
case("_npi_norm", {"ord": 2, "axis": "(0, 1)", "keepdims": False, "flag": 2}, x(3, 4), alone=True)
for name in ("_npi_argmax", "_npi_argmin"):
    case(name, None, x(3, 4))
    case(name, {"axis": 1}, x(3, 4), poly=True)
    case(name, {"axis": 0, "keepdims": True}, x(3, 4))
    case(name, {"axis": 0}, x(4))
for shape in ((1, 4), (3, 4), (2, 3, 4), (4,)):
    case("_np_cumsum", None, x(*shape))
    case("_np_cumsum", {"axis": 0}, x(*shape))
    case("_np_cumsum", {"axis": len(shape) - 1}, x(*shape), poly=len(shape) > 1)
    case("_np_transpose", None, x(*shape))
    case("_npi_flip", {"axis": 0}, x(*shape))
    case("_npi_flip", {"axis": len(shape) - 1}, x(*shape), poly=len(shape) > 1)
    case("_np_roll", {"shift": 1, "axis": 0}, x(*shape))
    case("_np_roll", {"shift": 3, "axis": -1}, x(*shape), poly=len(shape) > 1)
    case("_npi_diff", None, x(*shape), poly=len(shape) > 1)
    if len(shape) > 1:
        unpadded = ((0, 0),) * (len(shape) - 1)
        case("_npi_pad", {"pad_width": ((1, 2), *unpadded)}, x(*shape))
        case("_npi_pad", {"pad_width": (*unpadded, (1, 2)), "constant_value": 3}, x(*shape), poly=True)
    case("_npi_broadcast_to", {"shape": (5, *shape)}, x(*shape))
    case("_np_atleast_2d", {"num_args": 2}, x(*shape), x())
    case("_np_atleast_1d", {"num_args": 1}, x(*shape))
    case("_np_atleast_3d", {"num_args": 1}, x(*shape))
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        case(f"_npi_{name}", {"num_args": 2}, x(*shape), x(*shape))
        case(f"_npi_{name}", {"num_args": 2}, x(*shape), w(*shape))
    case("_npi_concatenate", {"num_args": 2, "axis": 0}, x(*shape), x(*shape))
    case("_npi_concatenate", {"num_args": 2, "axis": None}, x(*shape), w(3, 4))
    case("_npi_concatenate", {"num_args": 2, "axis": -1}, x(*shape), x(*shape), poly=len(shape) > 1)
    case("_npi_stack", {"num_args": 2, "axis": -1}, x(*shape), x(*shape), poly=True)
    case("_npi_stack", {"num_args": 2, "axis": 0}, x(*shape), x(*shape))
    case("_npi_hsplit", {"indices": "(0, 2)", "axis": 1, "squeeze_axis": 0, "sections": 0}, x(*shape))
    case("_np_diagflat", {"k": 1}, x(*shape))
    if len(shape) > 1:
        case("_npi_flip", {"axis": "(0, 1)"}, x(*shape))
        case("_npi_rot90", {"k": 1, "axes": "(0, 1)"}, x(*shape))
        case("_np_moveaxis", {"source": "(0,)", "destination": "(-1,)"}, x(*shape))
        case("_npi_tril", None, x(*shape), poly=len(shape) > 2)
        case("_np_trace", {"offset": 1}, x(*shape))
        case("_np_diagonal", {"offset": 1}, x(*shape))
case("_npi_stack", {"num_args": 2, "axis": 0}, x(), x())
case("_npi_stack", {"num_args": 3, "axis": 0}, x(), w(), x())
case("_npi_hstack", {"num_args": 2}, x(), x())
case("_npi_vstack", {"num_args": 2}, x(), x())
case("_npi_column_stack", {"num_args": 2}, x(), x(1))
case("_npi_hsplit", {"indices": "()", "axis": 1, "squeeze_axis": 0, "sections": 2}, x(3, 4), poly=True)
case("_npi_dsplit", {"indices": "()", "axis": 2, "squeeze_axis": 0, "sections": 2}, x(3, 2, 4), poly=True)
case("_np_moveaxis", {"source": "(1, 2)", "destination": "(2, 1)"}, x(2, 3, 4), poly=True)
case("_npi_rot90", {"k": -1, "axes": "(1, 2)"}, x(2, 3, 4), poly=True)
case("_np_diag", None, x(3, 4))
case("_np_diag", {"k": -1}, x(3))
case("_np_trace", {"axis1": 1, "axis2": 2}, x(2, 3, 4))
case("_np_diagonal", {"axis1": -1, "axis2": 1}, x(2, 3, 4))
for shape, target in (((1, 8), (8,)), ((3, 8), (-1, 2, 4)), ((3, 8), (2, 12)), ((1, 1), ()), ((8,), (2, -1)),
                      ((), (1, 1))):
    case("_np_reshape", {"newshape": target}, x(*shape), poly=target == (-1, 2, 4))
    if -1 not in target:
        case("_npx_reshape", {"newshape": target}, x(*shape))
case("_npx_reshape", {"newshape": "(-2, 2, -1)"}, x(3, 8), poly=True)
case("_npx_reshape", {"newshape": "(-1, -2, 4)"}, x(3, 2, 4))
case("_npx_reshape", {"newshape": "(-5, 4)"}, x(3, 2, 4))
case("_npx_reshape", {"newshape": "(-4,)"}, x(3, 2))
case("_np_squeeze", {"axis": 1}, x(3, 1, 4), poly=True)
case("_np_squeeze", None, x(1, 1))
case("_npi_expand_dims", {"axis": 0}, x())
case("_npi_expand_dims", {"axis": 0}, x(3, 4))
products = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((1, 4), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5))]
for left, right in products:
    for name in ("_np_dot", "_npi_matmul"):
        case(name, None, x(*left), x(*right))
        case(name, None, x(*left), w(*right), poly=len(left) > 1)
        case(name, None, w(*left), x(*right))
for left, right in (((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((3, 4), (2, 4, 5)),
                    ((2, 2, 3, 4), (2, 4, 5))):
    case("_npi_matmul", None, x(*left), x(*right))
    case("_npi_matmul", None, x(*left), w(*right))
    case("_npi_matmul", None, w(*left), x(*right))
case("_npi_matmul", None, x(2, 1, 3, 4), x(2, 4, 5), alone=True)
case("_np_dot", None, x(), x(3, 4))
case("_np_dot", None, x(3, 4), w())
case("_np_dot", None, x(2, 3, 4), x(2, 4, 5), alone=True)
for left, right in ((x(2, 3, 4), x(4, 3, 5)), (x(2, 3, 4), w(4, 3, 5)), (w(2, 3, 4), x(4, 3, 5))):
    case("_npi_tensordot", {"a_axes_summed": "(1, 2)", "b_axes_summed": "(1, 0)"}, left, right)
    case("_npi_tensordot", {"a_axes_summed": "(-1,)", "b_axes_summed": "(0,)"}, left, right)
case("_npi_tensordot_int_axes", {"axes": 1}, x(3, 4), x(4, 5))
case("_npi_tensordot_int_axes", {"axes": 2}, x(3, 4), w(3, 4, 5))
case("_npi_tensordot_int_axes", {"axes": 0}, x(2), x(3))
for subscripts, operands in (("ij,jk->ik", (x(2, 3), x(3, 4))), ("ij,jk", (x(2, 3), w(3, 4))), ("ij->ji", (x(2, 3),)),
                             ("i,i->", (x(3), x(3))), ("ij,j->i", (w(2, 3), x(3)))):
    case("_npi_einsum", {"subscripts": subscripts, "num_args": len(operands), "optimize": 0}, *operands)
case("_npi_einsum", {"subscripts": "ii->i", "num_args": 1}, x(3, 3), alone=True)
case("_npi_einsum", {"subscripts": "...i,i->...", "num_args": 2}, x(2, 3), x(3), alone=True)
case("_npi_solve", None, Arg((3, 3), spd=True), x(3, 2), fixed=True)
for batch in ((), (2,)):
    case("_npi_cholesky", None, Arg((*batch, 3, 3), spd=True), poly=bool(batch), fixed=not batch)
    case("_npi_eigvalsh", None, Arg((*batch, 3, 3), spd=True), grad=False, fixed=not batch)
    case("_npi_eigh", None, Arg((*batch, 3, 3), spd=True), grad=False, fixed=not batch)
    case("_npi_svd", None, x(*batch, 3, 4), grad=False, poly=bool(batch), fixed=not batch)
    case("_npi_det", None, Arg((*batch, 3, 3), spd=True), fixed=not batch)
    case("_npi_slogdet", None, Arg((*batch, 3, 3), spd=True), fixed=not batch)
case("_npi_zeros", {"shape": "(1, 4)"})
case("_npi_ones", {"shape": "(1, 4)"})
case("_npi_arange", {"start": 0, "stop": 4})
case("_npi_eye", {"N": 3})
case("_npi_identity", {"shape": "(3, 3)"})
case("_npi_indices", {"dimensions": "(2, 3)"})
case("_npi_logspace", {"start": 0, "stop": 2, "num": 5})
for name in ("hanning", "hamming", "blackman"):
    case(f"_npi_{name}", {"M": 4})
case("_npi_zeros", {"shape": "()"}, alone=True)
case("_npx_softmax", {"axis": -1}, x(3, 4), poly=True)
case("_npx_embedding", {"input_dim": 7, "output_dim": 5}, i(7), w(7, 5))
case("_npx_pick", None, x(3, 4), i(4, 3), poly=True)
case("_npi_take", None, x(5), i(5))
case("_npi_take", None, w(7, 5), i(7))
case("_npx_one_hot", {"depth": 4}, i(4))
case("_npi_swapaxes", {"dim1": 0, "dim2": 1}, x(3, 4))
case("_npi_split", {"indices": "(0, 2)", "axis": 1}, x(3, 4), poly=True)
case("_npx_fully_connected", {"num_hidden": 5, "flatten": False}, x(3, 4), w(5, 4), w(5), poly=True)
case("_npx_batch_dot", None, x(2, 3, 4), x(2, 4, 5), poly=True)
case("_npx_reshape_like", None, x(3, 8), x(3, 2, 4))
# fmt: on


# -- running ---------------------------------------------------------------------------------------------


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
            _handle(test.op), arrays, list(test.attrs), list(test.attrs.values()), None, False, True
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
        values = []
        for number, (arg, layout, array) in enumerate(zip(test.args, layouts, sample)):
            shape = tuple(array.shape) if arg.shape else ()
            # An intermediate value, not an input: some operators of MXNet are wrong only where memory is reused.
            symbol = mx.sym.var(f"in{number}")
            if not arg.shared:
                symbol = apply("_copy", [symbol], {})
            values.append(Val(symbol, shape, arg.dtype, layout, poly and layout == "rows"))
        specs = [(tuple(o.shape), np.dtype(o.dtype).name) for o in outputs]
        self.results = batch_op(test.op, test.attrs, values, specs, test.training)
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


def check(test: Case, layouts: tuple[str, ...], samples: list[list[Any]], poly: bool = False) -> None:
    with mx.util.np_shape(is_numpy(test.op)):
        compare(test, layouts, samples, poly)


def compare(test: Case, layouts: tuple[str, ...], samples: list[list[Any]], poly: bool) -> None:
    """Run the batched program and the samples one by one; compare values, then gradients."""
    program = Program(test, layouts, samples[0], run_one(test, samples[0]), poly)
    outputs = [run_one(test, sample) for sample in samples]
    inputs = [
        stored(arg, layout, [sample[n] for sample in samples])
        for n, (arg, layout) in enumerate(zip(test.args, layouts))
    ]
    floats = [array for arg, array in zip(test.args, inputs) if arg.differentiable and test.grad]
    for array in floats:
        array.attach_grad()
    with mx.autograd.record(train_mode=test.training) if floats else contextlib.nullcontext():
        results = program(inputs)
    for number, (result, value) in enumerate(zip(results, program.results)):
        per_sample = [output[number].asnumpy() for output in outputs]
        reference = per_sample[0] if value.shared else joined(per_sample, value.poly)
        if test.drawn:
            reference = result.asnumpy().reshape(reference.shape)
        close(result.asnumpy(), reference, f"output {number} from {layouts}")
    if not floats:
        return
    random = np.random.RandomState(7)
    heads = [[array_of(random.uniform(-1, 1, o.shape), o.dtype) for o in output] for output in outputs]
    mx.autograd.backward(
        results,
        [
            batched_head(value, [head[number].asnumpy() for head in heads])
            for number, value in enumerate(program.results)
        ],
        train_mode=test.training,
    )
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


def by_operator(cases: list[Case]) -> list[list[Case]]:
    """The cases of each operator: one test an operator, for a test a case would take longer than the cases."""
    table: dict[str, list[Case]] = {}
    for test in cases:
        table.setdefault(test.op, []).append(test)
    return list(table.values())


def every(cases: list[Case], run: Callable[[Case], None]) -> None:
    """Run all cases, and report all that fail."""
    faults = []
    for test in cases:
        try:
            run(test)
        except (AssertionError, ValueError, NotBatchable, mx.base.MXNetError) as error:
            faults.append(f"{test}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def first(cases: list[Case]) -> str:
    return cases[0].op


BATCHED = [test for test in CASES if not test.alone]
VARYING = [
    test
    for test in BATCHED
    if not test.fixed
    and all(arg.shape for arg in test.args if not arg.shared)
    and len({arg.shape[0] for arg in test.args if not arg.shared}) == 1
]


@pytest.mark.parametrize("cases", by_operator(BATCHED), ids=first)
def test_batched_equals_one_by_one(cases: list[Case]) -> None:
    every(cases, check_numbers_and_layouts)


def check_numbers_and_layouts(test: Case) -> None:
    for number, layouts in enumerate(layouts_of(test)):
        for count in (1, 2, 5) if number == 0 else (3,):
            check(test, layouts, draw(test, count))


@pytest.mark.parametrize("cases", by_operator(VARYING), ids=first)
def test_rows_of_varying_length(cases: list[Case]) -> None:
    """Where a rule takes them it is right for any numbers; the number it is shown says nothing."""
    every(cases, check_varying)


def check_varying(test: Case) -> None:
    layouts = tuple("shared" if arg.shared else "rows" for arg in test.args)
    shown = next(arg.shape[0] for arg in test.args if not arg.shared)
    refused = []
    for rows in ([shown, 2, 1, 4], [1, 3]):
        samples = draw(test, len(rows), rows)
        try:
            run_one(test, samples[0])
        except (mx.base.MXNetError, IndexError):  # means nothing with so many rows
            continue
        try:
            check(test, layouts, samples, poly=True)
        except NotBatchable as error:
            refused.append(str(error))
    assert not (test.poly and refused), refused


@pytest.mark.parametrize("cases", by_operator([test for test in CASES if test.alone]), ids=first)
def test_refused(cases: list[Case]) -> None:
    every(cases, check_refused)


def check_refused(test: Case) -> None:
    outputs = test.outputs or [(tuple(o.shape), np.dtype(o.dtype).name) for o in run_one(test, draw(test, 1)[0])]
    values = [
        Val(mx.sym.var(f"in{n}"), arg.shape, arg.dtype, "shared" if arg.shared else "rows" if arg.shape else "stack")
        for n, arg in enumerate(test.args)
    ]
    with pytest.raises(NotBatchable) as caught:
        batch_op(test.op, test.attrs, values, outputs, test.training)
    assert caught.value.reason


def rows(shape: tuple[int, ...], poly: bool = False) -> Val:
    return Val(mx.sym.var("x"), shape, "float32", "rows", poly)


def test_dropout_shares_a_draw_along_its_axes_and_not_between_samples() -> None:
    attrs = {"p": "0.5", "axes": "(0,)"}
    (result,) = batch_op("Dropout", attrs, [rows((4, 16))], [((4, 16), "float32")], training=True)
    program = mx.nd.CachedOp(convert(result, "stack").sym)
    with mx.autograd.train_mode():
        drawn = program(mx.nd.ones((8 * 4, 16))).asnumpy()
    assert drawn.shape == (8, 4, 16)
    assert set(np.unique(drawn)) == {0.0, 2.0}
    assert (drawn == drawn[:, :1]).all()
    assert len({sample.tobytes() for sample in drawn}) == 8


def test_what_draws_depends_on_attributes() -> None:
    def draws(name: str, **attrs: str) -> bool:
        return RULES[name].draws(Attributes(attrs))

    assert draws("Dropout", p="0.5") and not draws("Dropout", p="0.0")
    assert draws("LeakyReLU", act_type="rrelu") and not draws("LeakyReLU", act_type="gelu")
    assert draws("_random_normal_like") and not draws("FullyConnected")


@pytest.mark.parametrize("layout", ["rows", "stack"])
def test_the_number_of_rows_that_vary_is_not_in_the_graph(layout: str) -> None:
    """A shape that holds another number of rows, or depends on it, is refused."""
    value = rows((3, 8), poly=True)
    for name, attrs, shape in [
        ("Reshape", {"shape": "(3, 2, 4)"}, (3, 2, 4)),
        ("Reshape", {"shape": "(-1, 4)"}, (6, 4)),
        ("Reshape", {"shape": "(-1,)"}, (24,)),
        ("broadcast_like", {}, (3, 8)),
        ("sum", {"axis": "0"}, (8,)),
        ("mean", {}, (1,)),
        ("softmax", {"axis": "0"}, (3, 8)),
        ("shape_array", {}, (2,)),
    ]:
        other = Val(mx.sym.var("y"), (3, 8), "float32", layout)
        inputs = [other, value] if name == "broadcast_like" else [value]
        with pytest.raises(NotBatchable):
            batch_op(name, attrs, inputs, [(shape, "float32")])
    with pytest.raises(NotBatchable):
        convert(value, "stack")


def test_other_numbers_of_elements_are_refused() -> None:
    with pytest.raises(NotBatchable, match="number of elements"):
        batch_op("Reshape", {"shape": "(1, 9)"}, [rows((1, 8))], [((1, 9), "float32")])
    with pytest.raises(NotBatchable, match="zero-size"):
        batch_op("Reshape", {"shape": "(0, 8)"}, [rows((0, 8))], [((0, 8), "float32")])


def test_more_axes_than_the_kernels_take_are_refused() -> None:
    shape = (1, 2, 2, 2, 2)
    batch_op("exp", {}, [rows(shape)], [(shape, "float32")])
    with pytest.raises(NotBatchable, match="too many"):
        batch_op("reverse", {"axis": "0"}, [rows(shape)], [(shape, "float32")])


def test_the_usual_cell_needs_no_reshape() -> None:
    """A gate of a Tree-LSTM on (1, C) vectors: every operator as it stands."""
    data, weight = rows((1, 4)), Val(mx.sym.var("w"), (8, 4), "float32", "shared")
    attrs = {"num_hidden": "8", "no_bias": "True"}
    (product,) = batch_op("FullyConnected", attrs, [data, weight], [((1, 8), "float32")])
    left, right = batch_op("SliceChannel", {"num_outputs": "2"}, [product], [((1, 4), "float32")] * 2)
    (gate,) = batch_op("Activation", {"act_type": "tanh"}, [left], [((1, 4), "float32")])
    (gated,) = batch_op("elemwise_mul", {}, [gate, right], [((1, 4), "float32")])
    (total,) = batch_op("sum", {"axis": "0", "keepdims": "True"}, [gated], [((1, 4), "float32")])
    operators = {node["op"] for node in json.loads(total.sym.tojson())["nodes"]} - {"null"}
    assert operators == {"FullyConnected", "SliceChannel", "Activation", "elemwise_mul"}


def test_every_rule_is_of_a_registered_operator() -> None:
    assert [name for name in RULES if canonical(name) != name] == []


def test_every_rule_has_a_case() -> None:
    covered = {canonical(test.op) for test in CASES}
    assert [name for name, rule in RULES.items() if rule.kind != "alone" and name not in covered] == []


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(NotBatchable, match="no rule for operator no_such_operator"):
        batch_op("no_such_operator", {}, [], [])
