"""Cells on operands of any length as row programs: the rows of a node are its children, which one size counts."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import ROWS
from tests.common.torch_lengths import assert_as_eagerly, met, numbers, samples

pytestmark = pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
C = 6
Body = Callable[[Any, Any, Any], Any]


class Model(nn.Module):
    """Layers of a program for a state and the rows of one sample."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.q, self.out, self.one, self.norm = nn.Linear(C, C), nn.Linear(2 * C, 3), nn.Linear(C, 1), nn.LayerNorm(C)

    def forward(self, q: Any, x: Any) -> Any:
        return self.body(self, q, x)


def attended(net: Any, q: Any, x: Any) -> Any:
    weights = (x @ net.q(q)).softmax(-1)
    return net.out(torch.cat([weights @ x, q])).tanh(), weights


IN_C: dict[str, Body] = {
    "attention": lambda net, q, x: attended(net, q, x)[0],
    "attention and its weights": attended,
    "attention in matrices": lambda net, q, x: torch.softmax(q.view(1, C) @ x.t(), 1) @ net.q(x),
    "attention in batches": lambda net, q, x: torch.bmm(
        torch.softmax(torch.bmm(q.view(1, 1, C), x[None].transpose(1, 2)), -1), x[None]
    ).view(-1),
    "attention by columns": lambda net, q, x: (x.t() @ torch.softmax(net.one(x), 0)).view(-1) * q,
    "attention by sums": lambda net, q, x: (net.one(x).tanh().softmax(0) * x).sum(0) + q,
    "scores": lambda net, q, x: net.one(torch.tanh(net.q(x) + q)).squeeze(-1),
    "logarithms": lambda net, q, x: torch.log_softmax((net.one.weight * x * q).sum(1), 0),
    "a part of a product": lambda net, q, x: torch.log_softmax((x @ net.q.weight * q)[:, 1], 0),
    "a part of a row, twice": lambda net, q, x: torch.cat([net.q(x)[:, 1].softmax(0)[:, None], x * q], 1).tanh(),
    "mean": lambda net, q, x: net.q(x).relu().mean(0) * q,
    "mean of all": lambda net, q, x: (net.q(x) * q).mean(),
    "means of rows and of all": lambda net, q, x: x.mean(1, keepdim=True) * (x + q).mean((0, 1)),
    "sum": lambda net, q, x: net.q(x).tanh().sum(0, keepdim=True) * q,
    "number of rows": lambda net, q, x: (x * q).sum(0) / x.shape[0] + q * x.shape[0] - (q - x.shape[0]),
    "a state beside each row": lambda net, q, x: net.out(torch.cat([x, q.expand(len(x), C)], 1)).relu().sum(0),
    "a column beside each row": lambda net, q, x: q[:1].view(1, 1).expand(len(x), C) * x,
    "parts of rows": lambda net, q, x: torch.mul(*torch.cat([net.q(x), x], 1).split(C, 1)).sum(0) + q,
    "stacked": lambda net, q, x: torch.stack([net.q(x), x * q], 1).flatten(1).sum(0),
    "orders of axes": lambda net, q, x: (x.t() * q[:, None]).t().sum(0) + (x.t()[None] * 2).sum((0, 2)),
    "einsum": lambda net, q, x: torch.einsum("nd,nd->d", x, net.q(x) + q) + torch.einsum("nd,d->n", x, q).sum(),
    "layers of each row": lambda net, q, x: net.norm(net.q(x) + q).relu(),
    "detached": lambda net, q, x: (net.one(x).softmax(0).detach() * net.q(x)).sum(0) + q,
}
IN_PYTORCH: dict[str, Body] = {
    "over rows": lambda net, q, x: (x.softmax(0) * x).sum(0) + q,
    "gather up has no instruction|amax": lambda net, q, x: (net.q(x) * q).amax(0) + net.one(x).sum(),
    "several lengths": lambda net, q, x: torch.cat([x, q[None]]).sum(0),
    "several lengths|of rows": lambda net, q, x: (x @ x.t()).sum() * q,
    "several lengths|contiguous": lambda net, q, x: x[1:].sum(0) * q,
    "not row by row": lambda net, q, x: (x * q).t(),
}


def make(draw: Any, n: int) -> tuple[Any, ...]:
    return numbers(draw, C), numbers(draw, n, C)


def both(body: Body) -> tuple[Any, Any]:
    gluonjit.clear_caches()
    torch.manual_seed(0)
    net = Model(body)
    return net, gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("name", IN_C)
def test_a_cell_of_any_length_runs_in_c(name: str, learns: bool) -> None:
    eager, net = both(IN_C[name])
    met(net, make)
    for lengths in ((9,), (5, 2, 11), (1, 4, 10, 6, 12, 3, 7, 5, 13)):
        report = assert_as_eagerly(eager, net, samples(make, len(lengths), lengths), learns)
        assert "Model" not in report.unfused
    assert report.kinds["Model"].launches <= 2  # what is equal in a sample of one row may differ in others
    assert report.fused >= report.kinds["Model"].launches


@pytest.mark.parametrize("name", IN_PYTORCH)
def test_what_row_programs_do_not_say_runs_in_pytorch(name: str) -> None:
    eager, net = both(IN_PYTORCH[name])
    met(net, make)
    report = assert_as_eagerly(eager, net, samples(make, 3, (5, 2, 11)), True)
    assert any(part in report.unfused["Model"] for part in name.split("|"))


@pytest.mark.parametrize("name", ["attention", "attention by sums", "logarithms", "scores", "mean"])
def test_rows_that_are_not_there(name: str) -> None:
    eager, net = both(IN_C[name])
    met(net, make)
    for lengths in ((4, 0, 2), (0, 0, 7, 0), (0,)):
        for model in (eager, net):
            model.zero_grad()
        given = samples(make, 1, lengths)
        with gluonjit.batching(granularity="cell"):
            found = [net(*sample) for sample in given]
            sum(one.sum() for one in found).backward()
        wanted = [eager(*sample) for sample in given]
        sum(one.sum() for one in wanted).backward()
        for one, other in zip([*found, net.q.weight.grad], [*wanted, eager.q.weight.grad]):
            torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["attention", "attention and its weights", "attention by sums", "logarithms", "mean"])
def test_numbers_that_are_not_finite(name: str, number: float) -> None:
    eager, net = both(IN_C[name])
    met(net, make)
    given = samples(make, 1, (3, 5, 2, 4))
    for _, x in given[:3]:
        x[1, 2] = number
    given[1][1][:] = -math.inf
    with gluonjit.batching(granularity="cell") as batch:
        found = [net(*sample) for sample in given]
    assert not batch.report.unfused
    for one, sample in zip(found, given):
        torch.testing.assert_close(one, eager(*sample), equal_nan=True)


def test_gradients_reach_the_rows_of_nodes_that_are_read() -> None:
    net = both(IN_C["scores"])[1]
    met(net, make)
    given = [(q, x.requires_grad_()) for q, x in samples(make, 2, (3, 5, 2))]
    with gluonjit.batching(granularity="cell"):
        found = [net(*sample) for sample in given]
        (found[0][1] + found[2].sum()).backward()
    gone = [x.grad is None for _, x in given]
    assert gone == [False, True, False]
    assert (given[0][1].grad.abs().sum(1) > 0).tolist() == [False, True, False]


def test_a_weight_with_its_first_axes_swapped_is_no_constant_of_a_row_program() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(6.0 * C).reshape(2, 3, C).sin())

        def forward(self, x: Any) -> Any:
            return torch.tanh(nn.functional.linear(x, self.weight.permute(1, 0, 2).reshape(6, C)))

    net = Layer()
    rows = [torch.randn(C) for _ in range(4)]
    wanted = [net(row).detach() for row in rows]
    gluonjit.hybridize(net, dynamic_batch=True, granularity="cell", scheduler="depth", check="never")
    with gluonjit.batching(granularity="cell", scheduler="depth", check="never") as batch:
        found = [net(row) for row in rows]
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one.detach(), other, rtol=1e-5, atol=1e-5)
    assert "of rows" in batch.report.unfused["Layer"]
