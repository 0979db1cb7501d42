"""Programs compared with their operators, run for one sample, before their first results are read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch_support import assert_near

import gluonjit
from gluonjit.engines.torch.run import one_by_one, program
from gluonjit.errors import OptionError, RuleWarning


class Step(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.given, self.before = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x: Any, h: Any) -> Any:
        return torch.tanh(self.given(x) + self.before(h))


class Reader(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.step, self.out = Step(), torch.nn.Linear(6, 3)

    def forward(self, words: list[Any]) -> Any:
        h = torch.zeros(1, 6)
        for word in words:
            h = self.step(word, h)
        return self.out(h)


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient / 2


FAULTS: dict[str, Callable[[Any], Any]] = {"reversed": lambda x: x.flip(0), "half": Half.apply}
DRAW = torch.Generator().manual_seed(0)
WORDS = [[torch.randn(1, 6, generator=DRAW) for _ in range(length)] for length in (3, 2, 4)]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    gluonjit.clear_caches()
    yield
    gluonjit.clear_caches()


def planted(monkeypatch: pytest.MonkeyPatch, operator: str, fault: str) -> None:
    """Lets the batched programs of an operator go wrong."""
    batch_op = program.batch_op

    def faulty(name: str, args: Any, outputs: Any, writer: Any) -> Any:
        found = batch_op(name, args, outputs, writer)
        if name == operator:
            last = writer.code[-1]
            function = last.function
            wrong = last._replace(function=lambda *given: FAULTS[fault](function(*given)), text=f"{last.text} {fault}")
            writer.code[-1] = wrong
        return found

    monkeypatch.setattr(program, "batch_op", faulty)


def trained(net: Any, **options: Any) -> tuple[Any, list[Any], Any]:
    """The loss of a minibatch, gradients, and the report; eagerly without options."""
    net.zero_grad()
    if options:
        with gluonjit.batching(granularity="cell", **options) as batch:
            total = sum(net(words).pow(2).sum() for words in WORDS)
    else:
        total = sum(net(words).pow(2).sum() for words in WORDS)
    total.backward()
    found = total.detach().clone(), [weight.grad.clone() for weight in net.parameters()]
    return *found, batch.report if options else None


def both(without: tuple[str, ...] = (), **options: Any) -> tuple[Any, Any]:
    """A minibatch eagerly and batched."""
    torch.manual_seed(1)
    net = Reader()
    expected = trained(net)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    found = trained(net, without=without, **options)
    return expected, found


def assert_equal(expected: Any, found: Any) -> None:
    assert_near(found[0], expected[0])
    for one, other in zip(found[1], expected[1]):
        assert_near(one, other)


@pytest.mark.parametrize("without", [(), ("fused",)])
@pytest.mark.parametrize("check", ["first", "always"])
def test_right_programs_are_compared_and_trusted(without: tuple[str, ...], check: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuleWarning)
        expected, found = both(without, check=check)
    assert_equal(expected, found)
    assert found[2].checked > 0
    assert not found[2].distrusted and not found[2].unchecked


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("operator", ["addmm.default", "tanh.default", "add.Tensor"])
def test_a_wrong_program_is_found_where_it_first_runs(
    monkeypatch: pytest.MonkeyPatch, operator: str, fault: str
) -> None:
    planted(monkeypatch, operator, fault)
    with pytest.warns(RuleWarning, match=operator):
        expected, found = both(("fused",), check="first")
    assert_equal(expected, found)
    assert found[2].distrusted


def test_a_wrong_program_shows_where_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "tanh.default", "reversed")
    expected, found = both(("fused",), check="never")
    with pytest.raises(AssertionError):
        assert_equal(expected, found)
    assert found[2].checked == 0


def test_two_calls_of_a_program_are_run_again_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[int, int] = {}
    alone = one_by_one.TorchNodes.alone

    def counted(self: Any, kind: Any, operands: Any, mode: int, manner: Any, heads: Any = None) -> Any:
        key = id(kind.program.checks) * 2 + (heads is not None)
        calls[key] = calls.get(key, 0) + 1
        return alone(self, kind, operands, mode, manner, heads)

    monkeypatch.setattr(one_by_one.TorchNodes, "alone", counted)
    torch.manual_seed(1)
    net = Reader()
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    for _ in range(2):  # of what has one node in a minibatch, as a sum of losses, one
        trained(net, check="first")
    before = dict(calls)
    assert before and max(before.values()) == 2
    trained(net, check="first")
    assert calls == before


def test_a_program_that_cannot_be_compared_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(one_by_one.TorchNodes, "alone", broken)
    expected, found = both(check="first")
    assert_equal(expected, found)
    assert all("MemoryError: no room" in reason for reason in found[2].unchecked.values())
    assert found[2].unchecked and "not compared with its operators" in str(found[2])


def test_an_interrupt_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(one_by_one.TorchNodes, "alone", interrupted)
    with pytest.raises(KeyboardInterrupt):
        both(check="first")


def test_the_option_takes_three_words() -> None:
    with pytest.raises(OptionError, match="check='often', but it must be one of 'first', 'always', 'never'"):
        gluonjit.Options().updated("hybridize()", {"check": "often"})
    assert gluonjit.Options(check="never").leave_the_way_open


def test_unwritten_memory_is_neither_shared_nor_compared() -> None:
    class Unwritten(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Parameter(torch.ones(()))

        def forward(self, x: Any) -> Any:
            y = x * self.one
            return torch.empty_like(y), torch.empty_like(y)

    net = gluonjit.hybridize(Unwritten(), dynamic_batch=True, granularity="op")
    with torch.no_grad(), gluonjit.batching(granularity="op") as batch:
        found = [part for x in torch.rand(4, 3) for part in net(x)]
    assert [part.detach().shape for part in found] == [(3,)] * 8
    assert batch.report.kinds["empty_like"].nodes == 8
    assert batch.report.checked == 1  # the products


class Near(torch.nn.Module):
    """A function of one number."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.one = torch.nn.Parameter(torch.ones(()))

    def forward(self, x: Any) -> Any:
        return self.function(x * self.one)


NEAR_ZERO: dict[str, Callable[[Any], Any]] = {
    "gelu": torch.nn.functional.gelu,
    "of a product": lambda x: torch.nn.functional.gelu(x * 1.01) * x,
    "of a sum": lambda x: 0.1 * torch.nn.functional.gelu(x - 0.5),
}


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("name", NEAR_ZERO)
def test_numbers_below_rounding_of_their_operands_are_no_difference(name: str, granularity: str) -> None:
    net = gluonjit.hybridize(Near(NEAR_ZERO[name]), dynamic_batch=True, granularity=granularity, check="always")
    checked = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuleWarning)
        for begin in (-3.0, -4.0, -6.0, -8.0, -9.0, -12.0):
            sum(net(torch.tensor(begin - 0.1 * k, requires_grad=True)) for k in range(4)).backward()
            checked += gluonjit.explain().checked
    assert checked > 0


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_program_that_is_wrong_of_other_numbers_is_found_where_these_are_below_rounding(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    planted(monkeypatch, "exp.default", fault)
    net = gluonjit.hybridize(Near(torch.exp), dynamic_batch=True, granularity="op", without=("fused",))
    with pytest.warns(RuleWarning, match=r"exp\.default"):
        sum(net(torch.tensor(-30.0 - k, requires_grad=True)) for k in range(4)).backward()


CANCELLING: dict[str, Callable[[Any], Any]] = {
    "tanhshrink": torch.nn.functional.tanhshrink,
    "times a number": lambda x: torch.nn.functional.tanhshrink(x) * 3,
    "of logarithms": lambda x: (1 + x).log() - x,
}


@pytest.mark.parametrize("name", CANCELLING)
def test_small_numbers_of_steps_in_c_are_no_difference(name: str) -> None:
    draw = torch.Generator().manual_seed(0)
    for digits in range(1, 15):
        gluonjit.clear_caches()
        net = gluonjit.hybridize(Near(CANCELLING[name]), dynamic_batch=True, granularity="op")
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuleWarning)
            inputs = [torch.rand(3, generator=draw) * 10.0 ** -(1 + digits % 7) for _ in range(4)]
            sum(net(x.requires_grad_()).sum() for x in inputs).backward()
