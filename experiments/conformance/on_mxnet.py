"""Names of MXNet's to compare: operators by their registered names, and public functions of its modules."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from experiments.conformance import mxnet_functions, mxnet_operators
from experiments.conformance.outcome import Record

GROUPS = ("operator", *mxnet_functions.MODULES)


def prepare() -> None:
    """Set what all comparisons need."""
    warnings.simplefilter("ignore")


def names(group: str, chains: int) -> list[str]:
    """Names of a group: operators that have cases, or a module's functions."""
    return sorted(mxnet_operators.cases() if group == "operator" else mxnet_functions.functions(group))


def check(group: str, name: str, samples: int, at: Callable[[str], None]) -> Record:
    """Compare one of them."""
    if group == "operator":
        return mxnet_operators.check(name, samples, at)
    return mxnet_functions.check(group, name, at)
