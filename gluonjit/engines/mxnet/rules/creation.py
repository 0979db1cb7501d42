"""Operators without inputs: the same for every sample, unless they draw."""
from __future__ import annotations

from .call import Call
from .rule import Rule, alone
from .values import SHARED, Val


def constant(call: Call) -> list[Val]:
    """Emitted once, as it stands."""
    return call.deliver(call.same([]), SHARED)


_DRAWS = "draws into a shape that does not say how many samples there are"

RULES: dict[str, Rule] = {
    **{name: Rule("constant", constant)
       for name in ("_zeros", "_ones", "_full", "_arange", "_eye", "_linspace")},
    **{f"_random_{name}": alone(_DRAWS, random=True)
       for name in ("uniform", "normal", "gamma", "exponential", "poisson", "negative_binomial",
                    "generalized_negative_binomial", "randint")},
}
