"""Cases of random draws whose parameters leave one possible value, and of densities."""

from __future__ import annotations

from experiments.conformance.rule_cases.case import Arg, case, i, w, x

# fmt: off
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
