"""Checks of arguments, as in `torch.distributions`, and assertions: nothing runs early, and errors are raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch import distributions as D  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_support import assert_same  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.errors import FlushError  # noqa: E402


@pytest.fixture(autouse=True)
def validating() -> Iterator[None]:
    """PyTorch's compiler, once imported, leaves all checks out."""
    torch.manual_seed(0)
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(True)
    yield
    D.Distribution.set_default_validate_args(before)


class Model(nn.Module):
    """A state of a sample, and a program that makes distributions of it."""

    def __init__(self, body: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body, self.lift = body, nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return self.body(torch.tanh(self.lift(x)))


def samples(bad: int = -1) -> list[Any]:
    return [torch.full((3,), float("nan")) if number == bad else torch.randn(3) for number in range(5)]


def total(net: Any, x: Any) -> Any:
    return net(x).sum()


def elbo(h: Any) -> Any:
    posterior = D.Normal(h, h.exp())
    prior = D.Normal(torch.zeros(4), torch.ones(4))
    return D.kl_divergence(posterior, prior).sum() + posterior.log_prob(torch.ones(4)).sum() + posterior.entropy().sum()


BODIES = {
    "normal": elbo,
    "independent": lambda h: D.Independent(D.Normal(h, F.softplus(h)), 1).log_prob(torch.zeros(4)),
    "value": lambda h: D.Normal(torch.zeros(4), 1.0).log_prob(h),
    "categorical": lambda h: D.Categorical(logits=h).log_prob(torch.tensor(2)) + D.Categorical(logits=h).entropy(),
    "probabilities": lambda h: D.Categorical(torch.softmax(h, -1)).log_prob(torch.tensor(2)),
    "bernoulli": lambda h: D.Bernoulli(logits=h).log_prob(torch.ones(4)),
    "geometric": lambda h: D.Geometric(h.sigmoid()).log_prob(torch.ones(4)),
    "mixture": lambda h: D.MixtureSameFamily(D.Categorical(logits=h), D.Normal(h, h.exp())).log_prob(torch.tensor(0.3)),
    "likelihood": lambda h: F.gaussian_nll_loss(h, torch.zeros(4), h.exp()),
    "likelihood of one variance": lambda h: F.gaussian_nll_loss(h, torch.zeros(4), h[:1].exp(), True, reduction="sum"),
    "likelihood of a module": lambda h: nn.GaussianNLLLoss()(h, torch.zeros(4), h.exp()),
}


@pytest.mark.parametrize("name", BODIES)
def test_checks_change_nothing_and_run_nothing_early(name: str) -> None:
    assert assert_same(Model(BODIES[name]), samples(), total, granularity="cell").flushes == 1


_ASSERTED: dict[str, Any] = {"torch": torch}
exec(
    """def asserted(h):
    assert not torch.isnan(h).any(), "a number is missing"
    if (h > 2).any():
        raise OverflowError(f"{h} is out of range")
    return h * 2
""",  # which pytest does not write anew
    _ASSERTED,
)
asserted = _ASSERTED["asserted"]


def test_assertions_run_nothing_early() -> None:
    assert assert_same(Model(asserted), samples(), total, granularity="cell").flushes == 1


FAILING = {
    "distribution": (lambda h: D.Normal(h, h.exp()).log_prob(torch.zeros(4)), ValueError, "in sample 2"),
    "assertion": (asserted, AssertionError, "in asserted in sample 2"),
    "error": (lambda h: asserted(torch.nan_to_num(h, 3.0)), OverflowError, "in asserted in sample 2"),
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("middle", [False, True], ids=["at_the_end", "where_a_value_is_read"])
def test_a_check_that_does_not_hold_raises_when_the_batch_runs(name: str, middle: bool) -> None:
    body, theirs, where = FAILING[name]
    net = Model(body)
    with torch.no_grad():
        net.lift.bias.fill_(0.5)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell")
    with pytest.raises(theirs, match=where) as caught:
        outs = [net(x).sum() for x in samples(2)]
        outs[3].item() if middle else sum(outs).backward()
    assert isinstance(caught.value, FlushError)
    assert net(torch.ones(3)).sum().item() != 0  # and the next batch is as any


class Growing:
    """Yields states until one has a number above a limit, which Python's `for` is told by an error."""

    def __init__(self, h: Any) -> None:
        self.h = h

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.h = self.h * 1.5 + 0.1
        if (self.h > 1.5).any():
            raise StopIteration
        return self.h


def test_errors_that_python_catches_are_read_where_they_stand() -> None:
    assert_same(Model(lambda h: sum(Growing(h)) + h), samples(), total, granularity="cell")


def test_what_decided_a_branch_may_be_written_to_after_it() -> None:
    def body(h: Any) -> Any:
        bad = (h > 5).any()
        if bad:
            raise OverflowError
        bad |= True
        return h * bad

    assert assert_same(Model(body), samples(), total, granularity="cell").flushes == 1


def test_a_check_whose_error_is_caught_is_read_where_it_stands() -> None:
    def body(h: Any) -> Any:
        try:
            return asserted(h + 3 * (h.sum() > 0))
        except OverflowError:
            return h - 1

    assert assert_same(Model(body), samples(), total, granularity="cell").flushes > 1


WRONG = {
    "a parameter": (lambda h: D.Normal(h, h).log_prob(torch.zeros(4)), "parameter scale"),
    "a value": (lambda h: D.Exponential(torch.ones(4)).log_prob(h), "value argument"),
    "of a part": (lambda h: D.Independent(D.Normal(h, h), 1).log_prob(torch.zeros(4)), "parameter scale"),
    "probabilities": (lambda h: D.Categorical(h).entropy(), "parameter probs"),
    "variance": (lambda h: F.gaussian_nll_loss(h, torch.zeros(4), h), "var has negative entry"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_check_that_does_not_hold_raises_where_it_does_eagerly(name: str) -> None:
    body, text = WRONG[name]
    net, minibatch = Model(body), samples()
    failed = []
    for batched in (False, True):
        gluonjit.hybridize(net, dynamic_batch=batched)
        for number, x in enumerate(minibatch):
            try:
                net(x)
            except ValueError as error:
                assert text in str(error)
                failed.append(number)
                break
    assert failed[0] == failed[1]


def test_without_validation_nothing_is_checked() -> None:
    net = Model(lambda h: D.Normal(h, h, validate_args=False).log_prob(torch.zeros(4)))
    assert assert_same(net, samples(), lambda net, x: net(x).isnan().sum() * 0.0 + net(x).nansum()).flushes


@pytest.fixture
def unvalidated() -> Iterator[None]:
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(False)
    yield
    D.Distribution.set_default_validate_args(before)


@pytest.mark.usefixtures("unvalidated")
def test_validation_may_be_off() -> None:
    report = assert_same(Model(BODIES["bernoulli"]), samples(), total, granularity="cell")
    assert report.flushes == 1 and "_is_all_true" not in report.kinds


def test_other_readers_of_truth_values_run_what_is_pending() -> None:
    net = Model(lambda h: h * 2 if torch._is_all_true(h > 0) else h)
    assert assert_same(net, samples(), total, granularity="cell").flushes > 1
