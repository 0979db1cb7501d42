"""Flushes of one structure, whose plans are kept: numbers, lines and weights are each batch's own."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.analysis.plan_cache import plan_count
from gluonjit.compiled import ROWS
from gluonjit.rows.running import Launches

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth", "sharing": True}


class Net(nn.Module):
    """A word, a cell on it and on what was before, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(9, 4), nn.GRUCell(4, 5), nn.Linear(5, 2)

    def forward(self, words: Any, state: Any) -> Any:
        """The next state, and scores."""
        state = self.cell(self.embed(words)[0].unsqueeze(0), state)
        return state, self.head(state)


def run(net: Net, learn: bool) -> tuple[list[Any], list[Any], list[gluonjit.Report]]:
    """Six steps, the scores of each read before the next one."""
    net.zero_grad()
    state, found, reports = torch.zeros(1, 5), [], []
    with torch.set_grad_enabled(learn):
        for word in (3, 1, 4, 1, 5, 8):
            with gluonjit.batching(**WAY) as batch:
                state, scores = net(torch.tensor([word]), state.detach())
            found.append(scores.detach().clone())
            if learn:
                scores.sum().backward()
            reports.append(batch.report)
    return found, [None if each.grad is None else each.grad.clone() for each in net.parameters()], reports


@pytest.mark.parametrize("learn", [False, True])
def test_steps_of_one_structure_have_their_own_numbers(learn: bool) -> None:
    torch.manual_seed(0)
    net = Net()
    wanted, gradients, _ = run(net, learn)
    gluonjit.clear_caches()
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    found, learned, reports = run(net, learn)
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, wanted))
    for one, other in zip(learned, gradients):
        assert one is None if other is None else torch.allclose(one, other, atol=1e-5)
    assert plan_count() >= 1
    told = [(r.calls, r.nodes, r.launches, r.fused, r.kinds, r.unfused, [row[:6] for row in r.steps]) for r in reports]
    assert told[2:] == [told[1]] * 4  # the first one is like these, too, but for what it had to be traced
    assert all("test_plans_again.py" in row.line for row in reports[-1].steps)
    assert reports[-1].lower_bound == reports[1].lower_bound > 0


def test_the_line_in_a_report_is_that_of_the_batch_it_is_of() -> None:
    net = Net()
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    lines = set()
    for turn in range(6):
        with torch.no_grad(), gluonjit.batching(**WAY) as batch:
            state = torch.ones(1, 5) * turn
            if turn % 2:
                kept = torch.tanh(net(torch.tensor([1]), state)[1])
            else:
                kept = torch.tanh(net(torch.tensor([2]), state)[1])
        lines.add(batch.report.steps[-1].line)
        assert kept.shape == (1, 2)
    assert len(lines) == 2


def test_weights_written_between_two_flushes_count() -> None:
    net = Net()
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    for turn in range(4):
        with torch.no_grad():
            net.head.bias.fill_(float(turn))
            net.head.weight.zero_()
            _, scores = net(torch.tensor([turn]), torch.zeros(1, 5))
            assert scores.tolist() == [[turn, turn]]


def test_a_kept_plan_keeps_no_model() -> None:
    net = Net()
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    run(net, False)
    assert plan_count()
    weight, known = ref(net.head.weight), plan_count()
    other = nn.Linear(3, 2)
    gluonjit.hybridize(other, dynamic_batch=True, **WAY)
    del net
    with torch.no_grad(), gluonjit.batching():  # the report of the thread's last minibatch is of this from here on
        kept = other(torch.ones(2, 3))
    gc.collect()
    assert known == plan_count() > 0
    assert weight() is None
    assert kept.shape == (2, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_few_entries_of_a_table_are_those_looked_up(dtype: torch.dtype) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 3, _weight=torch.arange(21).reshape(7, 3).to(dtype))

        def forward(self, words: Any) -> Any:
            found = self.embed(words)
            return found[0] + found[1] * 2

    net = gluonjit.hybridize(Words(), dynamic_batch=True, **WAY)
    with torch.no_grad():
        for pair in ([6, 0], [1, 6], [2, 2]):
            weight = net.embed.weight
            found = net(torch.tensor(pair))
            assert torch.equal(found + 0, weight[pair[0]] + weight[pair[1]] * 2)


class Overwritten(nn.Module):
    """A layer whose only row is written over: the write is cut to the operand that it needs, and into no products."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        """Scores, doubled in place."""
        y = self.linear(x)
        y[0] = y[0] * 2
        return y


def test_calls_that_run_with_fewer_operands_do_so_in_plans_that_are_kept() -> None:
    torch.manual_seed(0)
    net = Overwritten()
    xs = [torch.randn(1, 4) for _ in range(4)]
    with torch.no_grad():
        wanted = [net(x) for x in xs]
        gluonjit.clear_caches()
        for x, right in zip(xs, wanted):
            with gluonjit.batching(granularity="op", scheduler="depth", sharing=True):
                found = gluonjit.hybridize(net, dynamic_batch=True, granularity="op")(x)
            assert torch.allclose(found, right, atol=1e-6)
    assert plan_count() == 1


@pytest.mark.skipif(ROWS is None, reason="nothing runs in C")
def test_launches_are_taken_again_as_soon_as_nothing_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    first = Launches.__init__
    monkeypatch.setattr(Launches, "__init__", lambda self, *given: made.append(1) or first(self, *given))
    net = gluonjit.hybridize(Net(), dynamic_batch=True, **WAY)
    for learn in (False, True):
        run(net, learn)
        made.clear()
        run(net, learn)
        assert not made


def test_flushes_of_one_structure_are_differentiated_in_any_order() -> None:
    torch.manual_seed(0)
    net = Net()

    def gradients(words: list[int], order: list[int]) -> list[Any]:
        losses = []
        for word in words:
            with gluonjit.batching(**WAY) as batch:
                _, scores = net(torch.tensor([word]), torch.ones(1, 5))
                loss = (scores * word).sum()
                batch.flush("each has a history of its own")
            losses.append(loss)
        found = []
        for number in order:
            net.zero_grad()
            losses[number].backward()
            found.append((number, [each.grad.clone() for each in net.parameters()]))
        return [each for _, each in sorted(found, key=lambda item: item[0])]

    words = [3, 1, 4, 1, 5]
    wanted = gradients(words, [0, 1, 2, 3, 4])
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3]):
        for one, other in zip(gradients(words, order), wanted):
            assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other))


def test_results_of_one_flush_stay_when_another_of_its_structure_runs() -> None:
    net = Net()
    wanted = [net(torch.tensor([word]), torch.ones(1, 5))[1].detach() for word in range(9)]
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    with torch.no_grad():
        kept = []
        for word in range(9):
            with gluonjit.batching(**WAY):
                kept.append(net(torch.tensor([word]), torch.ones(1, 5))[1])
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(kept, wanted))


@pytest.mark.skipif(ROWS is None, reason="nothing runs in C")
def test_each_report_says_why_steps_do_not_run_in_c() -> None:
    class Sorted(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sort(torch.tanh(x))[0]

    net = gluonjit.hybridize(Sorted(), dynamic_batch=True, granularity="op", scheduler="depth", sharing=True)
    told = []
    for turn in range(5):
        with torch.no_grad(), gluonjit.batching(granularity="op", scheduler="depth", sharing=True) as batch:
            kept = net(torch.arange(4.0) * turn)
        told.append((batch.report.unfused, batch.report.fused))
        assert kept.shape == (4,)
    assert told == [told[0]] * 5
    assert told[0][0]


@pytest.mark.skipif(ROWS is None, reason="gluonjit._rows is not there, or GLUONJIT_PURE is set")
def test_ways_of_recorded_steps_are_kept_as_long_as_the_same_weights_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    form = Launches.form

    def counted(self: Launches, *given: Any, **named: Any) -> Any:
        made.append(1)
        return form(self, *given, **named)

    monkeypatch.setattr(Launches, "form", counted)
    torch.manual_seed(0)
    net = Net()
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    for frozen in (False, True, False):
        net.head.weight.requires_grad_(not frozen)
        counts = []
        for _ in range(4):
            made.clear()
            _, found, _ = run(net, True)
            counts.append(len(made))
        assert counts[-1] == 0
        gluonjit.hybridize(net, dynamic_batch=False)
        _, wanted, _ = run(net, True)
        gluonjit.hybridize(net, dynamic_batch=True, **WAY)
        assert (found[-2] is None) == frozen
        for one, other in zip(found, wanted):
            assert one is None if other is None else torch.allclose(one, other, atol=1e-5)


def test_a_minibatch_of_two_hundred_nodes_reuses_its_plan() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    gluonjit.hybridize(net, dynamic_batch=True, **{**WAY, "granularity": "op"})
    for number in range(3):
        before = plan_count()
        with gluonjit.batching(**{**WAY, "granularity": "op"}) as batch:
            kept = [net(torch.randn(4)) for _ in range(60)]
        assert batch.report.nodes == 180 and len(kept) == 60
        assert (plan_count() > before) == (number == 1)
