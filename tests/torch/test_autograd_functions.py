"""Functions with a backward pass of the program's own: they run at once, as eagerly, and the report says why."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.autograd.function import once_differentiable  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402

SIZE = 4
LOG: list[int] = []
SCALE = 2.0


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, by: float) -> Any:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return -ctx.by * gradient, None


class Straight(torch.autograd.Function):
    """A step, with the gradient of a slope."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x > 0).float()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.clamp(-0.01, 0.01)


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(x, weight)
        return x.mm(weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Any) -> Any:
        x, weight = ctx.saved_tensors
        return gradient.mm(weight) if ctx.needs_input_grad[0] else None, gradient.t().mm(x) * 2


class Two(torch.autograd.Function):
    """Two results, and what is kept set apart."""

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y, x + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        x, y = ctx.saved_tensors
        return first * y * 2 + second, first * x + second


class Codes(torch.autograd.Function):
    """The nearest row of a table, and its number."""

    @staticmethod
    def forward(ctx: Any, x: Any, table: Any) -> Any:
        number = torch.cdist(x, table).argmin(1)
        ctx.mark_non_differentiable(number)
        ctx.save_for_backward(number, table)
        return table[number], number

    @staticmethod
    def backward(ctx: Any, gradient: Any, _: Any) -> Any:
        number, table = ctx.saved_tensors
        return gradient.clone(), torch.zeros_like(table).index_add_(0, number, gradient)


class Logging(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        LOG.append(len(gradient))
        return gradient


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * SCALE

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 1)
        self.weight, self.table = nn.Parameter(torch.randn(SIZE, SIZE)), nn.Parameter(torch.randn(3, SIZE))
        self.program: Any = None

    def forward(self, x: Any) -> Any:
        return self.program(self, x)

    def h(self, x: Any) -> Any:
        return torch.tanh(self.first(x))


def two(net: Any, x: Any) -> Any:
    first, second = Two.apply(net.h(x), net.first(x))
    return (first + net.last(second)).sum()


def codes(net: Any, x: Any) -> Any:
    found, number = Codes.apply(net.h(x), net.table)
    return net.last(found).sum() * (number + 1).sum()


PROGRAMS: dict[str, Any] = {
    "reversed": lambda net, x: net.last(Reversed.apply(net.h(x), 0.5)).sum() + net.last(net.h(x)).sum(),
    "straight": lambda net, x: net.last(Straight.apply(net.h(x))).sum(),
    "of equal calls": lambda net, x: (net.last(Straight.apply(net.h(torch.ones(2, SIZE)))) * x[:2]).sum(),
    "with a weight": lambda net, x: net.last(torch.relu(Linear.apply(net.h(x), net.weight))).sum(),
    "of an input": lambda net, x: net.last(net.h(Reversed.apply(x, 1.0))).sum(),
    "vectors": lambda net, x: sum(net.last(net.h(Straight.apply(net.h(row)))).sum() for row in x),
    "two": two,
    "codes": codes,
    "logging": lambda net, x: net.last(Logging.apply(net.h(x))).sum(),
    "scaled": lambda net, x: net.last(Scaled.apply(net.h(x))).sum(),
}


def run(net: Net, twice: bool = False) -> list[Any]:
    torch.manual_seed(0)
    LOG.clear()
    losses = [net(torch.randn(2 + k % 2, SIZE)) for k in range(4)]
    net.zero_grad()
    sum(losses).backward(create_graph=twice)
    if twice:
        sum(weight.grad.square().sum() for weight in net.parameters() if weight.grad is not None).backward()
    with torch.no_grad():
        results = [net(torch.randn(2, SIZE)) for _ in range(2)]
    gradients = [None if weight.grad is None else weight.grad.detach() for weight in net.parameters()]
    return [*[loss.detach() for loss in losses], *results, *gradients, torch.tensor(sorted(LOG))]


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_the_same(name: str, twice: bool) -> None:
    if twice and name == "with a weight":
        pytest.skip("it is differentiable once")
    torch.manual_seed(1)
    eager = Net()
    eager.program = PROGRAMS[name]
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for found, wanted in zip(run(net, twice), run(eager, twice)):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            assert_close(found, wanted, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_report_says_what_to_type(name: str) -> None:
    net = gluonjit.hybridize(Net(), dynamic_batch=True)
    net.program = PROGRAMS[name]
    with gluonjit.batching() as batch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sum(net(torch.randn(2, SIZE)) for _ in range(4)).backward()
    reasons = [why for why in batch.report.unbatched.values() if "y + (f(y) - y).detach()" in why]
    assert len(reasons) == (name != "of an input")


def test_a_call_under_autocast() -> None:
    torch.manual_seed(1)
    eager = Net()
    eager.program = lambda net, x: net.last(Linear.apply(net.h(x), net.weight).float()).sum()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    samples = [torch.randn(2, SIZE) for _ in range(3)]
    found = []
    for one in (eager, net):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(torch.stack([one(x).float() for x in samples]).detach())
    assert_close(found[1], found[0], "autocast")
