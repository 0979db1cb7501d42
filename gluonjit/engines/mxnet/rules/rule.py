"""A row of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from .attributes import Attributes
from .call import OperatorCall
from .values import NotBatchable, Val

Emit = Callable[[OperatorCall], "list[Val]"]


@dataclass(frozen=True)
class Rule:
    """The rule of one operator: how it runs for many samples.

    kind      "elementwise", "row-wise", "axis", "shape", "rewritten", "constant" or "alone"
    emit      makes the batched symbols of a call
    reason    why an "alone" operator does not batch
    random    draws random numbers, so equal calls are not equal values
    stateful  changes something beyond its outputs, or runs the user's code
    writes    writes into its operands, so it runs at once, on the arrays themselves
    unsized   the shape of its result depends on numbers, so it runs at once
    may_fail  may raise when it runs, depending on numbers; set by the table in `failing`
    notes     a remark for the printed table
    trained   draws in training only, unless its mode is "always"
    random_if decides by the attributes, where not every call draws; `draws` asks
    fails_if  decides by the attributes, where not every call may fail; `fails` asks
    """

    kind: str
    emit: Emit
    reason: str = ""
    random: bool = False
    stateful: bool = False
    notes: str = ""
    writes: bool = False
    unsized: bool = False
    may_fail: bool = False
    random_if: Callable[[Attributes], bool] | None = None
    fails_if: Callable[[Attributes], bool] | None = None
    trained: bool = False

    @property
    def at_once(self) -> bool:
        """Tells whether a call runs when it is made, and with it everything it depends on."""
        return self.writes or self.unsized

    def draws(self, attrs: Attributes, training: bool = True) -> bool:
        """Tells whether a call with these attributes may draw random numbers."""
        if self.trained and not training and attrs.text("mode", "training") != "always":
            return False
        return self.random_if(attrs) if self.random_if else self.random

    def fails(self, attrs: Attributes) -> bool:
        """Tells whether a call with these attributes may raise when it runs."""
        return self.fails_if(attrs) if self.fails_if else self.may_fail


def alone(
    reason: str, random: bool = False, stateful: bool = False, writes: bool = False, unsized: bool = False
) -> Rule:
    """A rule for an operator that has to run for each sample by itself."""

    def refuse(call: OperatorCall) -> list[Val]:
        raise NotBatchable(f"{call.name}: {reason}")

    return Rule("alone", refuse, reason, random, stateful, writes=writes, unsized=unsized)
