"""Every rule for PyTorch against the operator that it stands for, on one sample after the other.

A case is one operator with its arguments, each of its tensors one a sample or the same for all. It runs for several
numbers of samples, for every way in which its operands can lie, and with rows of any number where the rule takes them;
values and gradients have to agree.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_rule_cases import CASES, Case
from torch_rule_runs import arguments, check, draw, layouts_of, refused, run_one

import gluonjit
from gluonjit.engines.torch.operators.table import ROWS_OF
from gluonjit.program.axes.row import Application, By
from gluonjit.program.axes.values import NotBatchable, Values

BATCHED = [test for test in CASES if not test.alone]


def takes_any_rows(test: Case) -> bool:
    """Whether each sample's tensors have rows, equally many."""
    shapes = [arg.shape for arg in arguments(test) if not arg.shared]
    return not test.fixed and all(shapes) and len({shape[0] for shape in shapes}) == 1


VARYING = [test for test in BATCHED if takes_any_rows(test)]


def by_operator(cases: list[Case]) -> list[list[Case]]:
    """The cases of each operator: one test an operator, for a test a case would take longer than the cases."""
    found: dict[str, list[Case]] = {}
    for test in cases:
        found.setdefault(test.op, []).append(test)
    return list(found.values())


def first(cases: list[Case]) -> str:
    return cases[0].op


def every(cases: list[Case], run: Callable[[Case], None]) -> None:
    """Run all cases, and report all that fail."""
    faults = []
    for test in cases:
        try:
            run(test)
        except (AssertionError, ValueError, NotBatchable, RuntimeError, LookupError, TypeError) as error:
            faults.append(f"{test}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("cases", by_operator(BATCHED), ids=first)
def test_batched_equals_one_by_one(cases: list[Case]) -> None:
    every(cases, check_numbers_and_layouts)


def check_numbers_and_layouts(test: Case) -> None:
    for number, layouts in enumerate(layouts_of(test)):
        for count in (1, 5) if number == 0 else (2,):  # each number once, one sample being the odd case
            check(test, layouts, draw(test, count))


@pytest.mark.parametrize("cases", by_operator(VARYING), ids=first)
def test_rows_of_any_number(cases: list[Case]) -> None:
    """Where a rule takes them it is right for any numbers; the number it is shown says nothing."""
    every(cases, check_varying)


def check_varying(test: Case) -> None:
    layouts = tuple("shared" if arg.shared else "any" for arg in arguments(test))
    for rows in ([2, 1, 4], [1, 3]):
        samples = draw(test, len(rows), rows)
        shown = [mine if arg.shared else arg.draw() for arg, mine in zip(arguments(test), samples[0])]
        try:
            for sample in samples:
                run_one(test, sample)
        except (IndexError, RuntimeError):  # means nothing with so many rows
            continue
        try:
            check(
                test,
                layouts,
                samples,
                [arg if a.shared else s for a, s, arg in zip(arguments(test), shown, samples[0])],
            )
        except NotBatchable as error:
            assert not test.poly, error


@pytest.mark.parametrize("cases", by_operator([test for test in CASES if test.alone]), ids=first)
def test_refused(cases: list[Case]) -> None:
    reasons = {str(test): refused(test) for test in cases}
    assert all(reasons.values()), reasons


def test_every_rule_has_a_case() -> None:
    covered = {test.op for test in BATCHED}
    assert [name for name in ROWS_OF if name not in covered] == []


# -- rules that are wrong ------------------------------------------------------------------------------------


def _transposed(call: Application) -> list[Values]:
    """A rule that takes the samples for a dimension of their own."""
    return call.applied(torch.transpose, call.stacked(*call.vals), 0, 1)


def _bits(call: Application) -> list[Values]:
    """A rule that gives other numbers than it says."""
    (val,) = call.vals
    return [Values(call.writer.apply(torch.signbit, [val]), *call.outs[0], val.lead, val.rest)]


def _unmoved(call: Application) -> list[Values]:
    """A rule along a dimension where one sample has it."""
    return call.made(call.again(call.stacked(*call.vals)))


def _summed(call: Application) -> list[Values]:
    """A rule that loses a dimension."""
    return call.applied(torch.sum, call.stacked(*call.vals), 1)


WRONG = {
    "a dimension that goes": ("median.dim", By(_unmoved, "", ""), lambda x: x.median(1).values),
    "a dimension that stays": ("cumsum.default", By(_summed, "", ""), lambda x: x.cumsum(1)),
    "another dtype": ("sign.default", By(_bits, "", ""), torch.sign),
    "the samples in another place": ("flip.default", By(_transposed, "", ""), lambda x: x.flip(1)),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (2, 3, 4)], ids=str)
def test_a_wrong_rule_is_refused_when_a_program_is_built(
    name: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, rule, run = WRONG[name]
    gluonjit.clear_caches()
    monkeypatch.setitem(ROWS_OF, operator, rule)

    class Net(torch.nn.Module):
        def forward(self, x: object) -> object:
            return run(x * 2) + 1

    torch.manual_seed(0)
    samples = [torch.randn(shape) for _ in range(4)]
    wanted = [Net()(sample) for sample in samples]
    net = gluonjit.hybridize(Net(), dynamic_batch=True)
    with gluonjit.batching() as batch:
        found = [net(sample) for sample in samples]
    for actual, expected in zip(found, wanted):
        torch.testing.assert_close(actual + 0, expected)
    gluonjit.clear_caches()
    assert any(operator in reason for reason in batch.report.alone.values()), batch.report.alone
