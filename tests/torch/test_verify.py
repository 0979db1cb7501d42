"""`gluonjit.verify` on PyTorch: equal runs give the report, others the call at which they part."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch_support import TreeModel, make_trees

import gluonjit
from gluonjit.engines.torch.operators import table as rules
from gluonjit.errors import VerifyError
from gluonjit.program.axes.row import Application, By
from gluonjit.program.axes.values import Values


@pytest.fixture(autouse=True)
def seeded() -> Any:
    torch.manual_seed(0)
    gluonjit.clear_caches()
    yield
    gluonjit.clear_caches()


def test_equal_runs_give_the_report_and_leave_the_net_as_it_was() -> None:
    net = TreeModel()
    net.head.weight.grad = torch.ones_like(net.head.weight)
    report = gluonjit.verify(net, make_trees(6))
    assert report.launches > 0 and report.flushes >= 1
    assert torch.equal(net.head.weight.grad, torch.ones_like(net.head.weight)) and net.cell.gates_x.weight.grad is None
    assert "_gluonjit" not in net.__dict__ and net.training
    with_loss = gluonjit.verify(net, make_trees(6), lambda output, tree: output.logsumexp(-1))
    assert with_loss.nodes > 0


class Sample:
    def __init__(self) -> None:
        self.x = torch.randn(4)


class Doubling(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.erf(x) * 2


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.doubling, self.last = nn.Linear(4, 4), Doubling(), nn.Linear(4, 2)

    def forward(self, sample: Sample) -> Any:
        return self.last(self.doubling(self.first(sample.x)))


def elementwise(function: Any) -> By:
    """The row of an operator of one operand that runs as this function."""

    def rule(call: Application) -> list[Values]:
        (val,) = call.vals
        return [Values(call.writer.apply(function, [val]), *call.outs[0], val.lead, val.rest)]

    return By(rule, "", "")


@pytest.mark.parametrize("wrong", ["values", "gradients"])
def test_a_wrong_rule_is_found_and_its_call_named(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def detached(tensor: Any) -> Any:
        return torch.erf(tensor).detach() if wrong == "gradients" else torch.erf(tensor) * 1.5

    monkeypatch.setitem(rules.ROWS_OF, "erf.default", elementwise(detached))
    given = [Sample() for _ in range(3)]
    with pytest.raises(VerifyError) as raised:
        gluonjit.verify(Net(), given, granularity="cell")
    text = str(raised.value)
    if wrong == "values":
        assert "the output of sample 0" in text and "is that of Doubling in sample 0 at" in text
    else:
        assert "the gradient of first" in text and "is that of the result of Linear in sample" in text
        assert "which comes from the backward of Doubling" in text


class Attention(nn.Module):
    """What the bias of the scores adds, a softmax takes away again: its gradient is rounding around 0."""

    def __init__(self) -> None:
        super().__init__()
        self.states, self.scores, self.out = nn.Linear(4, 16), nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        states = torch.tanh(self.states(x))
        return self.out(torch.softmax(self.scores(states)[:, 0], 0) @ states)


def test_a_gradient_that_cancels_is_no_difference() -> None:
    net = Attention()
    for _ in range(3):
        given = [torch.randn(length, 4) for length in (5, 3, 8, 6)]
        assert gluonjit.verify(net, given, granularity="op").launches > 0


class Small(nn.Module):
    """The gradients of a layer are about a hundredth of those of another."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.small, self.bend = nn.Linear(4, 4), nn.Linear(4, 4), Bend()

    def forward(self, sample: Sample) -> Any:
        return self.large(sample.x) + self.bend(self.small(sample.x)) * 0.01


class Bend(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.erf(x)


def test_a_wrong_gradient_that_is_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(tensor: Any) -> Any:
        found = torch.erf(tensor)
        return found * 1.001 - found.detach() * 0.001

    net, given = Small(), [Sample() for _ in range(3)]
    gluonjit.verify(net, given)
    monkeypatch.setitem(rules.ROWS_OF, "erf.default", elementwise(wrong))
    gluonjit.clear_caches()
    with pytest.raises(VerifyError, match=r"in the gradient of small\.(weight|bias): .* the backward of Bend"):
        gluonjit.verify(net, given)


def test_a_bias_before_a_normalization_is_no_difference() -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

        def forward(self, x: Any) -> Any:
            return self.norm(self.layer(x)).tanh()

    net = Normed()
    before = net.norm.running_mean.clone()
    for _ in range(3):
        gluonjit.verify(net, [torch.randn(4, 3) for _ in range(3)], train_mode=True)
    assert torch.equal(net.norm.running_mean, before) and not net.norm.num_batches_tracked, "put back"


class Caching(nn.Module):
    """What it keeps is an array by two names, and makes a trace impossible where a cell does it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.kept = nn.Linear(4, 4), {}

    def forward(self, sample: Sample) -> Any:
        self.last = self.layer(sample.x)
        self.kept[len(self.kept)] = self.last
        return self.last.tanh()


def test_what_is_kept_of_results_is_compared_by_numbers() -> None:
    net = Caching()
    assert gluonjit.verify(net, [Sample() for _ in range(3)]).nodes > 0
    assert net.kept == {} and not hasattr(net, "last")


def test_an_error_of_the_batched_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(call: Application) -> list[Values]:
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(rules.ROWS_OF, "erf.default", By(rule, "", ""))
    with pytest.raises(
        VerifyError, match="eager execution works, and batched execution raises ZeroDivisionError: planted"
    ):
        gluonjit.verify(Net(), [Sample() for _ in range(3)], granularity="cell")


class Nested(nn.Module):
    """A tree of tuples, (word, children), in one argument."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.child = nn.Embedding(9, 4), nn.Linear(4, 4)

    def forward(self, tree: Any) -> Any:
        return torch.tanh(self.embed(torch.tensor([tree[0]])) + sum(self.child(self.forward(t)) for t in tree[1]))


class Named(NamedTuple):
    word: int
    children: list[Any]


@pytest.mark.parametrize("sample", [(1, [(2, []), (3, [(4, [])])]), Named(5, []), [6, []]])
def test_a_tuple_may_be_one_sample(sample: Any) -> None:
    assert gluonjit.verify(Nested(), [(7, []), sample, (8, [(1, [])])]).nodes > 0


def test_a_tuple_may_be_the_arguments_of_a_call() -> None:
    assert gluonjit.verify(nn.Bilinear(3, 3, 2), [(torch.randn(3), torch.randn(3)) for _ in range(3)]).nodes > 0
    assert gluonjit.verify(nn.Linear(3, 2), [(torch.randn(3),), torch.randn(3)]).nodes > 0


@pytest.mark.parametrize(("sample", "told"), [((1, 2, 3), "a tuple of 3"), (1, "a int")])
def test_a_sample_that_cannot_be_called_with_is_named(sample: Any, told: str) -> None:
    with pytest.raises(TypeError, match=rf"verify\(Bilinear, \.\.\.\): a sample is {told}"):
        gluonjit.verify(nn.Bilinear(3, 3, 2), [sample])
