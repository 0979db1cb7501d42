"""Cases of operators that work element by element."""

from __future__ import annotations

from torch_rule_cases.case import Arg, b, case, i, w, x

SHAPES = [(1, 4), (3, 4), (2, 3, 4), (4,), ()]
ANYWHERE = """
    abs angle asinh atan ceil celu conj_physical cos cosh deg2rad elu erf erfc exp exp2 expm1 floor frac gelu hardshrink
    hardsigmoid hardtanh isfinite isinf isnan leaky_relu mish nan_to_num neg positive rad2deg relu relu6 round selu sgn
    sigmoid sign signbit silu sin sinc sinh softplus softshrink square tan tanh trunc i0 log_sigmoid_forward logical_not
    acos asin atanh erfinv"""
ABOVE_ZERO = "acosh digamma lgamma log log10 log1p log2 reciprocal rsqrt sqrt special_entr"
NUMBERS = "add sub mul div pow eq ge gt le lt ne remainder fmod"
TWO = "maximum minimum fmax fmin atan2 hypot logaddexp logaddexp2 copysign.Tensor max.other min.other"
LOGICAL = "logical_and logical_or logical_xor bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor"

# fmt: off
for name in ANYWHERE.split():
    for shape in SHAPES:
        case(f"{name}.default", x(*shape), poly=len(shape) > 1)
for name in ABOVE_ZERO.split():
    for shape in SHAPES:
        case(f"{name}.default", Arg(shape, low=1.1, high=3.0), poly=len(shape) > 1)
for name in NUMBERS.split():
    op = "pow.Tensor_Tensor" if name == "pow" else f"{name}.Tensor"
    scalar = "pow.Tensor_Scalar" if name == "pow" else f"{name}.Scalar"
    for shape in SHAPES:
        any_rows, first = len(shape) > 1, Arg(shape, low=0.5, high=2.0)
        case(op, first, first, poly=any_rows)
        case(op, first, w(*shape, low=0.5, high=2.0), fixed=True)
        case(op, w(*shape, low=0.5, high=2.0), first, fixed=True)
        case(op, first, w(*shape[-1:], low=0.5, high=2.0), poly=any_rows)
        case(op, first, x(low=0.5, high=2.0), fixed=True)
        if name in ("add", "sub", "mul", "div"):
            case(op, first, 2, poly=any_rows)
        case(scalar, first, 2, poly=any_rows)
    case(op, x(3, 4, low=0.5), x(1, 4, low=0.5), fixed=True)
    case(op, x(3, 4, low=0.5), x(4, low=0.5), fixed=True)
    case(op, x(3, 1, low=0.5), x(3, 4, low=0.5), poly=True)
    case(op, x(3, 1, low=0.5), x(1, 4, low=0.5), fixed=True)
    case(op, x(3, 1, low=0.5), w(1, 4, low=0.5), poly=True)
    case(op, x(1, 4, low=0.5), w(3, 4, low=0.5), fixed=True)
    case(op, x(4, low=0.5), w(3, 4, low=0.5))
    case(op, x(2, 3, 4, low=0.5), w(3, 1, low=0.5), poly=True)
    case(op, i(5, 3, 4, low=1), i(5, 3, 4, low=1, shared=True), fixed=True)
case("add.Tensor", x(3, 4), x(3, 4), alpha=2, poly=True)
case("sub.Tensor", x(3, 4), w(4), alpha=0.5, poly=True)
case("rsub.Scalar", x(3, 4), 2, 0.5, poly=True)
case("div.Tensor_mode", x(3, 4, low=0.5, high=2.0), x(3, 4, low=0.5, high=2.0), rounding_mode="floor", poly=True)
case("pow.Scalar", 2, x(3, 4), poly=True)
# Operands of several dtypes: a single number counts for less than an array of numbers.
case("mul.Tensor", x(3, 4), x(dtype="float64"), fixed=True)
case("add.Tensor", x(dtype="float64"), x(4))
case("add.Tensor", x(3, 4), x(3, 4, dtype="float64"), poly=True)
case("mul.Tensor", x(3, 4), b(3, 4), poly=True)
case("mul.Tensor", i(5, 3, 4), x(), fixed=True)
case("add.Tensor", i(5, 4, dtype="int32"), i(5))
case("mul.Tensor", i(5, 4, dtype="int32"), i(5, 4))
case("div.Tensor", i(5, 3, 4, low=1), i(5, 3, 4, low=1, dtype="int32"), poly=True)
case("mul.Tensor", w(3, 4, dtype="float64"), x(4))
case("gt.Tensor", x(3, 4), x(dtype="float64"))
case("atan2.default", x(3, 4), x(3, 4, dtype="float64"))
for name in TWO.split():
    op = name if "." in name else f"{name}.default"
    for shape in SHAPES:
        case(op, x(*shape), x(*shape), poly=len(shape) > 1)
        case(op, x(*shape), w(*shape[-1:]), poly=len(shape) > 1)
    case(op, x(3, 4), x(4), fixed=True)
for name in LOGICAL.split():
    op = name if "." in name else f"{name}.default"
    for shape in SHAPES:
        case(op, b(*shape), b(*shape), poly=len(shape) > 1)
    case(op, b(3, 4), b(4, shared=True), poly=True)
case("bitwise_not.default", b(3, 4), poly=True)
for shape in SHAPES:
    any_rows = len(shape) > 1
    case("clamp.default", x(*shape), -0.5, 0.5, poly=any_rows)
    case("clamp.default", x(*shape), None, 0.5, poly=any_rows)
    case("clamp.Tensor", x(*shape), x(*shape), x(*shape), poly=any_rows)
    case("clamp_min.default", x(*shape), 0.1, poly=any_rows)
    case("clamp_max.default", x(*shape), 0.1, poly=any_rows)
    case("threshold.default", x(*shape), 0.1, 0.2, poly=any_rows)
    case("addcmul.default", x(*shape), x(*shape), x(*shape), value=0.5, poly=any_rows)
    case("addcdiv.default", x(*shape), x(*shape), w(*shape[-1:], low=0.5), poly=any_rows)
    case("lerp.Tensor", x(*shape), x(*shape), w(*shape[-1:]), poly=any_rows)
    case("lerp.Scalar", x(*shape), x(*shape), 0.3, poly=any_rows)
    case("where.self", b(*shape), x(*shape), x(*shape), poly=any_rows)
    case("where.self", b(*shape), x(*shape), w(), poly=any_rows)
    case("where.self", b(*shape), w(), x(*shape[-1:]), fixed=True)
    case("masked_fill.Scalar", x(*shape), b(*shape), -1.0, poly=any_rows)
    case("masked_fill.Tensor", x(*shape), b(*shape), w(), poly=any_rows)
    case("frexp.Tensor", x(*shape), poly=any_rows, grad=False)
    case("xlogy.Tensor", x(*shape, low=0.5), x(*shape, low=0.5), poly=any_rows)
    case("polygamma.default", 1, Arg(shape, low=1.1, high=3.0), poly=any_rows)
    case("round.decimals", x(*shape), decimals=1, poly=any_rows)
case("masked_fill.Scalar", x(3, 4), b(4), 0.0, fixed=True)
case("masked_fill.Scalar", x(3, 4), b(3, 1), 0.0, poly=True)
case("masked_fill.Scalar", w(3, 4), b(3, 4), 0.0, fixed=True)
case("masked_fill.Tensor", x(3, 4), b(3, 4), x(), fixed=True)
case("where.self", b(3, 1), x(3, 4), x(4), fixed=True)
case("where.self", b(3, 4), x(3, 4), x(3, 4, dtype="float64"), poly=True)
# fmt: on
