"""Operators that draw random numbers, and densities.

Drawing for all samples at once gives the same distribution, not the same numbers.
"""

from __future__ import annotations

from .elementwise import unary
from .rule import OperatorCall, Rule, alone
from .values import STACK, NotBatchable, Val, convert, together


def by_parameters(call: OperatorCall) -> list[Val]:
    """One draw, or `shape` of them, for each entry of the parameters; further axes follow behind."""
    return call.deliver_of(together(call.inputs, rows_exact=True))


def by_distributions(call: OperatorCall) -> list[Val]:
    """A distribution along the last axis, which must not be the one of rows."""
    operands = together(call.inputs, rows_exact=all(value.ndim > 1 for value in call.inputs))
    if operands.layout == STACK and call.data.ndim == 1 and call.shape == (1,):
        return call.deliver_each(call.same(operands.symbols), ())
    return call.deliver_of(operands)


def multinomial(call: OperatorCall) -> list[Val]:
    if call.attrs.flag("get_prob"):
        raise NotBatchable("_sample_multinomial with get_prob")
    data = call.data
    if data.rows and data.ndim == 1:
        data = convert(data, STACK)
    result = call.same([data.sym])
    if data.stacked and call.data.ndim == 1 and not call.attrs.axes("shape"):
        return call.deliver_each(result, ())
    return call.deliver(result, data.layout, data.poly)


_KINDS = "uniform normal gamma exponential poisson negative_binomial generalized_negative_binomial".split()
_AT_ONCE = "drawn for all samples at once: the same distribution, different numbers"
_SHAPE = "draws into a fixed shape, independent of the number of samples"

RULES: dict[str, Rule] = {
    **{f"_random_{name}": alone(_SHAPE, random=True) for name in [*_KINDS, "randint"]},
    **{f"_random_{name}_like": Rule("elementwise", unary, random=True, notes=_AT_ONCE) for name in _KINDS},
    **{f"_sample_{name}": Rule("row-wise", by_parameters, random=True, notes=_AT_ONCE) for name in _KINDS},
    **{f"_random_pdf_{name}": Rule("row-wise", by_parameters) for name in _KINDS},
    "_random_pdf_dirichlet": Rule("row-wise", by_distributions),
    "_sample_multinomial": Rule("row-wise", multinomial, random=True, notes=_AT_ONCE),
    "_sample_unique_zipfian": alone(_SHAPE, random=True),
    "_shuffle": alone("permutes the rows of the whole batch", random=True),
}
