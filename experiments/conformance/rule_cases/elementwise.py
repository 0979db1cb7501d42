"""Cases of operators that look at one element at a time, and of arithmetic that broadcasts."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import Arg, case, i, w, x

# fmt: off
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
