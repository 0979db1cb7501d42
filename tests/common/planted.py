"""Faults planted one at a time into built programs: each is found in the first minibatch that uses it.

Results and gradients of that minibatch are eager's all the same, a warning names the operator, and with nothing
compared the numbers are wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gluonjit
from gluonjit.compiled import ROWS
from gluonjit.errors import RuleWarning
from gluonjit.rows import derivative, slopes


class Fault(NamedTuple):
    """A fault: the operator that a warning has to name, a program that uses it, and what plants it.

    fused: the program runs in C.
    """

    name: str
    operator: str
    program: Any
    plant: Callable[[pytest.MonkeyPatch], None]
    fused: bool = False


class Ran(NamedTuple):
    """The results of a minibatch, its gradients, and what its report says; without that, it ran eagerly."""

    results: list[np.ndarray]
    gradients: list[np.ndarray]
    report: Any


def apart(one: Ran, other: Ran) -> float:
    """The largest difference of results and gradients, of the largest number of each."""
    if len(one.gradients) != len(other.gradients):
        return float("inf")
    pairs = zip([*one.results, *one.gradients], [*other.results, *other.gradients])
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-3)) for a, b in pairs)


def assert_found(fault: Fault, run: Callable[..., Ran], patch: pytest.MonkeyPatch) -> None:
    """Run a program eagerly and batched, with the fault and without: `run(program, **options)`."""
    if fault.fused and ROWS is None:
        pytest.skip("steps run in C only where that was built")
    expected = run(fault.program)
    without = {} if fault.fused else {"without": ("fused",)}
    assert apart(run(fault.program, check="never", **without), expected) < 1e-4
    fault.plant(patch)
    gluonjit.clear_caches()
    wrong = run(fault.program, check="never", **without)
    assert not apart(wrong, expected) < 1e-3, "the fault is none"
    gluonjit.clear_caches()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run(fault.program, check="first", **without)
    texts = [str(warning.message) for warning in caught if warning.category is RuleWarning]
    assert apart(found, expected) < 1e-4
    assert texts and any(fault.operator in text for text in texts), texts
    assert found.report.distrusted
    again = run(fault.program, check="first", **without)
    assert apart(again, expected) < 1e-4


def assert_survived(fault: Fault, run: Callable[..., Ran], patch: pytest.MonkeyPatch, check: str = "first") -> None:
    """Run a program eagerly, and batched with a fault that raises an error where nodes that run alone raise none."""
    options = {"check": check} if fault.fused else {"check": check, "without": ("fused",)}
    expected = run(fault.program)
    fault.plant(patch)
    gluonjit.clear_caches()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run(fault.program, **options)
    texts = [str(warning.message) for warning in caught if warning.category is RuleWarning]
    assert apart(found, expected) < 1e-4
    assert any(fault.operator in text and "raises" in text for text in texts), texts
    assert found.report.distrusted
    assert apart(run(fault.program, **options), expected) < 1e-4


def other_instruction(module: Any, name: str, op: str, instead: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Plants another instruction into row programs, which `name` of a module or class makes."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        make = getattr(module, name)

        def wrong(*given: Any) -> Any:
            made = make(*given)
            code = tuple([instr._replace(op=instead) if instr.op == op else instr for instr in made.code])
            return made.__class__(**{**made.__dict__, "code": code})

        patch.setattr(module, name, staticmethod(wrong) if isinstance(module, type) else wrong)

    return plant


def other_slope(op: str, instead: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Plants the slope of another instruction."""
    return lambda patch: patch.setattr(derivative, "RULES", {**slopes.RULES, op: slopes.RULES[instead]})
