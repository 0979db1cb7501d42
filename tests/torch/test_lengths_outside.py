"""Operators outside of cells run for all lengths at once; parts by other numbers are parts of any length."""

from __future__ import annotations

import copy
from typing import Any, Callable
from unittest.mock import patch

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.engines.torch.run.memory import Session
from gluonjit.errors import RuleWarning
from tests.common.torch_support import assert_close

C = 6


class Words(nn.Module):
    """A program of single operators."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.embed, self.body = nn.Embedding(20, C), body

    def forward(self, tokens: Any) -> Any:
        return self.body(self.embed(tokens))


def parts(x: Any) -> Any:
    """Beginnings of one row, of other sizes, all of it among them."""
    return torch.outer(x[0].sin()[:1], x[0].cos()[:C]) @ torch.outer(x[-1].exp()[:C], x[-1].tanh()[:2])


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "softmax": (lambda x: torch.softmax(x, 0).square().sum(0), ("softmax",)),
    "a product of all pairs": (lambda x: torch.matmul(x, x.t()).tanh().mean(), ("matmul", "tanh", "mean")),
    "norms": (lambda x: (x.norm(dim=1, keepdim=True) * x).cumsum(0).amax(0), ("norm", "cumsum", "amax")),
    "parts": (parts, ()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_run_for_all_lengths_at_once(name: str) -> None:
    body, once = PROGRAMS[name]
    torch.manual_seed(0)
    eager = Words(body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op", scheduler="depth")
    for seed, lengths in enumerate(((3, 5), (4, 2, 7, 3), (6, 9, 8, 2, 5))):
        torch.manual_seed(seed)
        samples = [torch.randint(0, 20, (n,)) for n in lengths]
        totals = []
        for each in (net, eager):
            each.zero_grad()
            found = [each(tokens) for tokens in samples]
            sum((k + 1.0) * one.sum() for k, one in enumerate(found)).backward()
            totals.append([*found, each.embed.weight.grad])
        report = gluonjit.explain()
        for one, other in zip(*totals):
            assert_close(one, other, name, 1e-5)
        assert not report.distrusted
    assert [report.kinds[kind].launches for kind in once] == [1] * len(once)


BROADCAST: dict[str, Callable[..., Any]] = {
    "difference": lambda x, part: x - part,
    "larger one": torch.maximum,
    "choice": lambda x, part: torch.where(x > 0, x, part),
    "like another": lambda x, part: x * part.expand_as(x),
}


@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize("granularity", ["op", "cell"])
def test_an_axis_that_is_broadcast_in_some_calls_alone_is_no_length(name: str, granularity: str) -> None:
    torch.manual_seed(0)
    eager = Words(lambda x: BROADCAST[name](x[0].tanh(), x[0].tanh()[: (1, C)[len(x) % 2]]))
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity=granularity)
    for first in (0, 1, 0):
        samples = [torch.randint(0, 20, (2 + (k + first) % 2,)) for k in range(6)]
        totals = []
        for each in (net, eager):
            each.zero_grad()
            found = [each(tokens) for tokens in samples]
            sum((one**2).sum() for one in found).backward()
            totals.append([*found, each.embed.weight.grad])
        for one, other in zip(*totals):
            assert_close(one, other, name, 1e-5)


def test_a_step_that_fails_when_it_has_been_recorded_is_recorded_once() -> None:
    torch.manual_seed(0)
    eager = Words(lambda x: torch.softmax(x, 0).square().sum(0))
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op", scheduler="depth")
    write, failed = Session.write_result, []

    def fails(self: Any, place: Any, rows: Any) -> None:
        if not failed and rows.requires_grad:
            failed.append(place)
            raise RuntimeError("no room")
        write(self, place, rows)

    samples = [torch.randint(0, 20, (n,)) for n in (3, 5, 4)]
    with patch.object(Session, "write_result", fails), pytest.warns(RuleWarning, match="no room"):
        sum(net(tokens).sum() for tokens in samples).backward()
    sum(eager(tokens).sum() for tokens in samples).backward()
    assert failed
    assert_close(net.embed.weight.grad, eager.embed.weight.grad, "a gradient", 1e-5)


def neighbours(words: Any, links: Any) -> Any:
    """A product with an array of the program's that has two lengths."""
    return torch.matmul(links, torch.matmul(links.t() * 0.5, words).relu()).sum(0)


def read_in_turn(words: Any, links: Any) -> Any:
    """Entries along the second axis of an array of the program's: at each place a state is written anew."""
    state = words[:1]
    for step in range(links.shape[1]):
        state = torch.tanh(state + links[:, step])
    return state.sum(0)


@pytest.mark.parametrize(
    "body, shape, name",
    [(neighbours, lambda n: (n, n + 1), "matmul"), (read_in_turn, lambda n: (1, n, C), "__getitem__")],
)
@pytest.mark.parametrize("learns", [False, True])
def test_arrays_of_the_program_lie_as_operators_of_any_length_need_them(
    body: Any, shape: Any, name: str, learns: bool
) -> None:
    gluonjit.clear_caches()  # of operators that other programs have called in ways that none are like
    torch.manual_seed(0)
    eager = Words(body)
    eager.forward = lambda tokens, links: body(eager.embed(tokens), links)
    net = Words(body)
    net.load_state_dict(eager.state_dict())
    net.forward = lambda tokens, links: body(net.embed(tokens), links)
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op", scheduler="depth")
    for seed, lengths in enumerate(((3, 5), (4, 2, 7, 3), (6, 9, 8, 2, 5))):
        torch.manual_seed(seed)
        tokens = [torch.randint(0, 20, (n,)) for n in lengths]
        links = [torch.rand(shape(n)) for n in lengths]
        totals = []
        for each in (net, eager):
            each.zero_grad()
            given = [one.clone().requires_grad_(learns) for one in links]
            found = [each(*both) for both in zip(tokens, given)]
            sum((k + 1.0) * one.sum() for k, one in enumerate(found)).backward()
            totals.append([*found, each.embed.weight.grad, *([one.grad for one in given] if learns else [])])
        report = gluonjit.explain()
        for one, other in zip(*totals):
            assert_close(one, other, "links", 1e-5)
        assert not report.distrusted
    assert report.kinds[name].launches <= 4  # of 30 calls or ten, as kinds are found


class Relations(nn.Module):
    """A weight for each relation, of which each sample takes its own."""

    def __init__(self, count: int, steps: int) -> None:
        super().__init__()
        self.embed, self.steps = nn.Embedding(20, C), steps
        self.weights = nn.ParameterDict({str(k): nn.Parameter(torch.randn(C, C) * 0.4) for k in range(count)})

    def forward(self, word: Any, first: int) -> Any:
        state = self.embed(word)
        for step in range(self.steps):
            state = torch.tanh(state @ self.weights[str((first + step * step) % len(self.weights))])
            state = torch.tanh(torch.mm(self.weights[str(first)], state.t()).t())
        return state.sum()


@pytest.mark.parametrize("count, steps, most", [(12, 1, 2), (15, 3, 6), (3, 3, 12)])
def test_weights_that_samples_choose_are_operands(count: int, steps: int, most: int) -> None:
    torch.manual_seed(0)
    eager = Relations(count, steps)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op", scheduler="depth")
    rates = [torch.optim.SGD(each.parameters(), 0.1) for each in (net, eager)]
    for number in range(4):
        samples = [(torch.tensor([k % 20]), (k * 7 + number) % count) for k in range(16)]
        for each, rate in zip((net, eager), rates):
            rate.zero_grad()
            sum(each(*sample) for sample in samples).backward()
            rate.step()
        for own, other in zip(net.parameters(), eager.parameters()):
            assert_close(own, other, "weights", 1e-4)
            assert (own.grad is None) == (other.grad is None)
    kinds = gluonjit.explain().kinds
    assert sum([row.launches for name, row in kinds.items() if name in ("mm", "__matmul__", "matmul")]) <= most
    with torch.no_grad():
        found = [net(*sample) for sample in samples]
        for weight in net.weights.values():
            weight.mul_(0.5)  # what waits has the numbers that it had
        assert_close(torch.stack(found), torch.stack([eager(*sample) for sample in samples]), "before", 1e-4)
