"""Values that are written over after calls that need them, and errors that say of which call, or whose fault it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.analysis.planner import Planner
from gluonjit.errors import FlushError
from gluonjit.hybrid.run.failures import of_library

pytestmark = pytest.mark.filterwarnings("ignore")


class Scaled(nn.Module):
    """A sample's own factor, filled again between two uses."""

    def __init__(self, again: bool = True) -> None:
        super().__init__()
        self.embed, self.again = nn.Embedding(7, 3), again

    def forward(self, tokens: Any) -> Any:
        rows, factor = self.embed(tokens), torch.full((3, 3), 0.5)
        first = rows * factor
        if self.again:
            factor.fill_(0.25)
        return (first + (rows + factor)).sum()


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("samples", [1, 3])
def test_what_a_product_needs_is_written_over_by_its_sample(samples: int, granularity: str) -> None:
    tokens = [torch.tensor([k, 2, 0]) for k in range(samples)]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sum(Scaled()(each) for each in tokens).backward()
    net = gluonjit.hybridize(Scaled(), dynamic_batch=True, granularity=granularity)
    with pytest.raises(RuntimeError, match=r"the call of mul in sample 0 at .*test_overwritten.py:\d+ in .*\(3, 3\)"):
        sum(net(each) for each in tokens).backward()
    net = gluonjit.hybridize(Scaled(again=False), dynamic_batch=True, granularity=granularity)
    sum(net(each) for each in tokens).backward()
    assert net.embed.weight.grad is not None


class Remembering(nn.Module):
    """A memory that each step reads and writes to in place, as a neural Turing machine's."""

    def __init__(self) -> None:
        super().__init__()
        self.begin, self.key, self.new = nn.Parameter(torch.ones(4, 3)), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, inputs: Any) -> Any:
        memory, read = self.begin.clone(), torch.zeros(3)
        for x in inputs:
            weights = torch.softmax(memory @ self.key(x + read), 0)
            memory.mul_(1 - torch.outer(weights, self.new(x).sigmoid()))
            read = weights @ memory
        return read.sum()


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_a_memory_that_steps_write_to_while_its_sample_runs_in_parts(granularity: str) -> None:
    samples = [torch.randn(number, 3) for number in (2, 3)]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        sum(Remembering()(x) for x in samples).backward()
    net = gluonjit.hybridize(Remembering(), dynamic_batch=True, granularity=granularity)
    with pytest.raises(RuntimeError, match=r"the call of .* in sample 1 at .*test_overwritten.py:\d+ in .*\(4, 3\)"):
        sum(net(x) for x in samples).backward()


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_an_input_that_learns_is_written_by_its_data(granularity: str) -> None:
    def program(net: Any) -> list[Any]:
        x = torch.ones(4, requires_grad=True)
        memory, found = x.data, []
        for k in range(3):
            found.append(net(x))
            memory[k] = 10.0 * k
        sum((k + 1) * y.square().sum() for k, y in enumerate(found)).backward()
        return [*[y.detach() for y in found], x.grad]

    def made() -> Any:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.Tanh())

    net = made()
    wanted = [
        net(x) for x in (torch.tensor([1.0, 1, 1, 1]), torch.tensor([0.0, 1, 1, 1]), torch.tensor([0.0, 10, 1, 1]))
    ]
    found = program(gluonjit.hybridize(made(), dynamic_batch=True, granularity=granularity))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other.detach())


def test_gradcheck_of_a_net() -> None:
    torch.manual_seed(0)
    net = gluonjit.hybridize(nn.Sequential(nn.Linear(3, 2), nn.Tanh()).double(), dynamic_batch=True, granularity="op")
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(net, x, check_undefined_grad=False)  # that is asked of the result's own memory


def test_a_fault_of_the_library_asks_for_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    net = gluonjit.hybridize(nn.Linear(3, 2), dynamic_batch=True, granularity="cell")

    def broken(*args: Any) -> Any:
        raise of_library(fault())

    monkeypatch.setattr(Planner, "plan", broken)
    with pytest.raises(FlushError, match=r"fault of gluonjit, not of the program: please report it.*doctor"):
        net(torch.ones(3)).tolist()
    assert isinstance(of_library(fault()), KeyError)
    mine = KeyError("of the program")
    assert of_library(mine) is mine


def fault() -> BaseException:
    """An error that a file of the library raises."""
    scope: dict[str, Any] = {"__name__": "gluonjit.analysis.planner"}
    try:
        exec("raise KeyError('a row')", scope)
    except KeyError as error:
        return error
    raise AssertionError


COPYING: dict[str, Any] = {
    "cat": lambda row, x: torch.cat([row.unsqueeze(0), x.unsqueeze(0)]),
    "stack": lambda row, x: torch.stack([row, x]),
    "stack of one": lambda row, x: torch.stack([row]),
    "none": lambda row, x: row,
}


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("way", COPYING)
def test_a_weight_of_which_calls_read_a_copy_may_be_written_to(way: str, samples: int) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.row, self.layer = nn.Parameter(torch.ones(3)), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(COPYING[way](self.row, x)).tanh().sum()

    def trained(batched: bool) -> Any:
        torch.manual_seed(0)
        net = Net()
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
        losses = [net(torch.arange(3.0) / (k + 1)) for k in range(samples)]
        found = [float(loss) for loss in losses]
        with torch.no_grad():
            net.row.fill_(0.5)
        sum(losses).backward()
        return found, [weight.grad for weight in net.parameters()]

    if way == "none":
        for batched in (False, True):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                trained(batched)
        return
    torch.testing.assert_close(trained(True), trained(False))


class Marked(nn.Module):
    """What an input's signs decide is written over; no gradient of the input comes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        marks = torch.tanh(self.layer((x > 0).to(torch.float32)))
        marks[..., 0] *= 2
        return (marks * 1.0).sum() + (x * x).sum()


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_what_no_gradient_that_is_asked_for_comes_through_may_be_written_over(granularity: str) -> None:
    grads = []
    for batched in (False, True):
        torch.manual_seed(0)
        net, xs = Marked(), [torch.randn(2, 3, requires_grad=True) for _ in range(3)]
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
        sum(net(x) for x in xs).backward(inputs=xs)
        grads.append([x.grad.clone() for x in xs])
        assert net.layer.weight.grad is None
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            sum(net(x) for x in xs).backward()
    for one, other in zip(*grads):
        torch.testing.assert_close(one, other)


class Slanted(nn.Module):
    """Rows of any number are written over, by an operator that keeps its first operand."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 3)

    def forward(self, numbers: Any) -> Any:
        found = torch.sin(self.embed(numbers))
        torch.nn.functional.leaky_relu_(found, 0.2)
        return (found * 1.0).sum()


@pytest.mark.parametrize("granularity", ["cell", "op", "batched"])
def test_what_writes_keeps_its_first_operand_where_nodes_have_unlike_numbers_of_rows(granularity: str) -> None:
    torch.manual_seed(0)
    eager = Slanted()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity=granularity)
    given = [torch.tensor(each) for each in ([3, 0, 5], [6, 3], [1], [2, 4, 4, 7])]
    for each in (eager, net):
        sum(each(numbers) for numbers in given).backward()
    torch.testing.assert_close(net.embed.weight.grad, eager.embed.weight.grad)
