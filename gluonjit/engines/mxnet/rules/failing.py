"""Operators that may raise when they run, depending on values and not on shapes.

MXNet raises such an error at the first wait for something that depends on the operator, which may be far away. The list
was found by running every operator on zeros, negative, huge and infinite numbers, and on indices out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .attributes import Attributes
from .rule import Rule


def _checks_indices(attrs: Attributes) -> bool:
    return attrs.text("mode", "clip") == "raise"


_FAILS = {
    "if a matrix is not positive definite": "_linalg_potrf _npi_cholesky",
    "if a matrix is singular": "_linalg_potri _linalg_inverse _npi_solve _npi_tensorinv _npi_tensorsolve",
    "if an algorithm of linear algebra does not converge, as on a NaN": """
        _linalg_syevd _npi_eigh _npi_eigvalsh _npi_svd _npi_norm _npi_eig _npi_eigvals _npi_pinv
        _npi_pinv_scalar_rcond""",
    "if an index is out of range": "gather_nd take",
    "if a percentile is out of range": "_npi_percentile",
    "if the parameters of a distribution are invalid": """
        _random_uniform _random_normal _random_gamma _random_exponential _random_poisson _random_negative_binomial
        _random_generalized_negative_binomial _random_randint
        _random_uniform_like _random_normal_like _random_gamma_like _random_exponential_like _random_poisson_like
        _random_negative_binomial_like _random_generalized_negative_binomial_like
        _npi_normal _npi_normal_n _npi_bernoulli _npi_choice _npi_exponential _npi_gamma _npi_gumbel _npi_logistic
        _npi_multinomial _npi_pareto _npi_powerd _npi_rayleigh _npi_weibull""",
    "if the user's code does": "Custom _CachedOp _CachedOpThreadSafe _CustomFunction _foreach _while_loop _cond",
    "if a condition does not hold": "_npx_constraint_check",
}

MAY_FAIL: dict[str, Callable[[Attributes], bool] | None] = {
    name: _checks_indices if name == "take" else None for names in _FAILS.values() for name in names.split()
}
"""The operators by name; a function says of which attributes, where that is not all."""


def marked(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """These rules with those of MAY_FAIL marked."""
    return {**rules, **{name: replace(rules[name], may_fail=True, fails_if=when) for name, when in MAY_FAIL.items()}}
