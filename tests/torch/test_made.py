"""Tensors that a program makes from nothing and writes to, and sums of losses that begin as a tensor."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.analysis.pace import Pace
from gluonjit.engines.torch.capture import records
from gluonjit.engines.torch.capture.making import CREATING, TRIED
from gluonjit.engines.torch.tracing.kinds import trace_call
from gluonjit.engines.torch.values.lazy import LazyTensor

LENGTHS = (3, 5, 4, 7, 3)
Body = Callable[["Net", Any, Any], Any]


class Net(nn.Module):
    """A recurrent cell and a layer; the body says what is made of their results."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(6, 6), nn.Linear(6, 4)
        self.body = body
        self.kept: Any = None

    def forward(self, x: Any) -> Any:
        return self.body(self, x, self.out(x[0]))


def row_by_row(net: Net, x: Any, y: Any) -> Any:
    h, found = torch.zeros(6), torch.zeros(len(x), 4)
    for t in range(len(x)):
        h = net.cell(x[t], h)
        found[t] = net.out(h)
    return found.log_softmax(-1).sum()


def by_negative_numbers(net: Net, x: Any, y: Any) -> Any:
    found = torch.empty(3, 4)
    for k in range(3):
        found[-k - 1] = y * k
    return (found[0] - found[2].tanh()).sum()


def by_slices(net: Net, x: Any, y: Any) -> Any:
    found = torch.ones(6, 4)
    found[1:3] = torch.stack([y, y * 2.0])
    found[[5, 4]] = torch.stack([y.tanh(), y.exp()])
    found[torch.tensor([0])] = y[None]
    return found[1:].prod(1).sum() + found[0].sum()


def numbers(net: Net, x: Any, y: Any) -> Any:
    scores = torch.zeros(len(x))
    for t in range(len(x)):
        scores[t] = net.out(x[t]).max()
    return (scores.softmax(0) * torch.arange(float(len(x)))).sum()


def scattered_by_a_mask(net: Net, x: Any, y: Any) -> Any:
    """Words of two kinds have networks of their own; none may be of one kind."""
    kinds, found = torch.arange(len(x)) % 3, torch.full((len(x),), 0.5)
    for kind in range(4):
        mask = kinds == kind
        some = x.index_select(0, mask.nonzero().squeeze(1))
        found.masked_scatter_(mask, net.out(some).sum(1) * (kind + 1))
    return found.tanh().sum() + y.sum()


def scattered_twice(net: Net, x: Any, y: Any) -> Any:
    """More numbers than the mask has places for, to places that are written to again; and by a computed mask."""
    found, mask = torch.zeros(len(x)), torch.arange(len(x)) > 1
    found.masked_scatter_(mask, net.out(x).amax(1))
    found[0] = y[1]
    before = found[2] * 2.0
    found.masked_scatter_(~mask, net.out(x).amin(1))
    found.masked_scatter_(found > 0.3, y.repeat(len(x)))
    return (found.exp() * before).sum()


def parts_of_rows(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(len(x), 4)
    found[0, 1:3] = y[:2]
    found[:, 0] = y[3]
    return (found * found).sum()


def a_chart(net: Net, x: Any, y: Any) -> Any:
    n = len(x)
    chart, best = torch.zeros(n, n), torch.full((n, n, 4), -1.0)
    for i in range(n):
        chart[i, i] = net.out(x[i]).max()
        best[i, i] = net.out(x[i])
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width - 1
            chart[i, j] = torch.stack([chart[i, k] + chart[k + 1, j] for k in range(i, j)]).logsumexp(0)
            best[i, j] = best[i, j - 1] - torch.tanh(best[i + 1, -n + j])
            chart[j, i] = 0.5
    return chart[0, -1] + best[0, n - 1].sum() + chart.sum() + best[0].tanh().sum() + best.mean((0, 1)).sum()


def a_row_added_to(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(2, 4)
    for t in range(len(x)):
        found[t % 2] += net.out(x[t])
    return found.tanh().sum()


def decoded(net: Net, x: Any, y: Any) -> Any:
    n = len(x)
    back, best = torch.zeros(n, 4, dtype=torch.long), torch.full((n,), -1)
    score = net.out(x[0])
    for t in range(1, n):
        score, back[t] = (score.unsqueeze(1) + net.out.weight[:, :4]).max(0)
        score = score + net.out(x[t])
    best[n - 1] = score.argmax()
    for t in range(n - 2, -1, -1):
        best[t] = back[t + 1].gather(0, best[t + 1].reshape(1))[0]
    return net.out(x).gather(1, best.unsqueeze(1)).sum() + score.max()


def truth_values(net: Net, x: Any, y: Any) -> Any:
    found, kept = torch.ones(len(x), dtype=torch.bool), torch.empty(2, 4, dtype=torch.bool)
    for t in range(1, len(x)):
        found[t] = net.out(x[t]).sum() > 0
    kept[0], kept[1] = y > 0, y < 0.1
    return (net.out(x) * found.unsqueeze(1)).sum() + y.masked_fill(kept[0] & kept[1], 2.0).sum()


def cast_numbers(net: Net, x: Any, y: Any) -> Any:
    found, other = torch.zeros(len(x)).long(), torch.zeros(2, dtype=torch.long).float()
    for t in range(len(x)):
        found[t] = net.out(x[t]).argmax()
    other[1] = y[0]
    return net.out(x).gather(1, found.unsqueeze(1)).sum() + other.exp().sum()


def summed(net: Net, x: Any, y: Any) -> Any:
    total, product = torch.zeros(len(x), 4), torch.full((4,), 0.5)
    for _ in range(3):
        total += torch.tanh(net.out(x))
        product *= y
    return total.sum() + product.sum()


def like_an_input(net: Net, x: Any, y: Any) -> Any:
    found, total = torch.zeros_like(x), torch.full_like(x[0], 2.0)
    for t in range(len(x)):
        found[t] = net.cell(x[t], torch.ones_like(x[t]))
        total += found[t]
    return (found * total).sum() + (torch.ones_like(y) * y).sum()


def messages(net: Net, x: Any, y: Any) -> Any:
    edges = torch.tensor([k % 3 for k in range(len(x))])
    found = torch.zeros(3, 4).index_add_(0, edges, net.out(x))
    spread = edges.unsqueeze(-1).expand(-1, 4)
    return found.tanh().sum() + torch.zeros(3, 4).scatter_add_(0, spread, net.out(x)).sigmoid().sum()


def a_number_that_grows(net: Net, x: Any, y: Any) -> Any:
    cost = torch.tensor(0.0)
    for t in range(len(x)):
        cost += net.out(x[t]).max()
    return cost * 2.0


def with_plain_writes(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(len(x), 4)
    found[:, 0::2] = torch.sin(torch.arange(float(len(x)))).unsqueeze(1)
    found.add_(1.0)
    early = found + y
    found[1] = 3.0
    found[0] = y
    found[2, 0] = 5.0
    return (early * found).sum()


def of_itself(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(2, 4).to("cpu").float().contiguous()
    found[0] = y
    found[1] = found[0] * 2.0
    other = found
    other[0] = other[1] + y
    return found.sum()


def a_view_before(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(3, 4)
    first, flat = found[0], found.view(-1)
    found[0] = y
    found += y
    return (first * y).sum() + flat.tanh().sum()


def without_recording(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(2, 4)
    with torch.no_grad():
        found[0] = y
    found[1] = y
    return (found * y).sum()


def computed_of_it(net: Net, x: Any, y: Any) -> Any:
    found = torch.ones(9, 4).mul(0.5) - torch.zeros(4)
    for t in range(len(x)):
        found = found.clone() * 0.9
        found[t] = found[t] + net.out(x[t])
    return found.exp().sum()


def filled(net: Net, x: Any, y: Any) -> Any:
    found, factor, other = torch.empty_like(y), y.new_tensor([1.0, 2.0, 0.5, 3.0]), y.new_tensor(np.float32(2))
    found.fill_(0.5)
    early = found + y
    for t in range(len(x)):
        found += net.out(x[t])
        found *= factor
    total = torch.zeros_like(y)
    total += y.detach() * other
    before = total
    total.zero_()
    total -= 2 * y
    return (found + early + before * total).sum()


def registers(net: Net, x: Any, y: Any) -> Any:
    """A file of registers, a new one for each instruction."""
    found = torch.zeros(4, 4)
    for t in range(len(x)):
        new = net.out(x[t]) + found[t % 3]
        found = found.clone() if t % 2 else torch.clone(found)
        found[t % 4] = new
    before = found.clone()
    found += y
    return (before * found).sum()


CAPTURED: dict[str, Body] = {
    "registers": registers,
    "filled": filled,
    "decoded": decoded,
    "truth values": truth_values,
    "cast numbers": cast_numbers,
    "row by row": row_by_row,
    "by negative numbers": by_negative_numbers,
    "by slices": by_slices,
    "numbers": numbers,
    "scattered by a mask": scattered_by_a_mask,
    "scattered twice": scattered_twice,
    "parts of rows": parts_of_rows,
    "a chart": a_chart,
    "a row added to": a_row_added_to,
    "summed": summed,
    "messages": messages,
    "like an input": like_an_input,
    "a number that grows": a_number_that_grows,
    "with plain writes": with_plain_writes,
    "of itself": of_itself,
    "a view before": a_view_before,
    "without recording": without_recording,
    "computed of it": computed_of_it,
}


def memory_of_numpy(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(4)
    seen = found.numpy()
    found += y.detach()
    return y.sum() * float(seen.sum())


def its_data(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(2, 4)
    alias, given = found.data, torch.as_tensor(found)
    found[0] = y.detach()
    return (y * alias.sum()).sum() + (given * y).sum()


def views_of_integers(net: Net, x: Any, y: Any) -> Any:
    """Which are read at once, so that later writes to them are seen in what they are a part of."""
    found = torch.zeros(4, 2, dtype=torch.long)
    row, flat = found[0], found.view(-1)
    found[1] = y[:2].argsort()
    row += 2
    flat[7] = 5
    memory = torch.zeros(2, dtype=torch.long)
    seen = memory.numpy()
    memory[0] = y.argmax()
    seen[1] = 3
    assert row.tolist() == [2, 2] and int(found[3, 1]) == 5
    return (found.float().exp().sum() + memory.float().exp().sum()) * y.sum()


def integers_that_are_read(net: Net, x: Any, y: Any) -> Any:
    seen, order, mask = torch.zeros(4, dtype=torch.bool), torch.zeros(4, dtype=torch.long), torch.zeros(4, 4).bool()
    for k in (2, 0, 2):
        if not seen[k]:
            y = y * 2
        seen[k] = True
        order[k] = 3 - k
        mask[k, :k] = 1
    mask |= torch.eye(4, dtype=torch.bool)
    assert seen.tolist() == [True, False, True, False] and [int(k) for k in order] == [3, 0, 1, 0]
    return y[seen].sum() + y[order].exp().sum() + (y + mask.float()).sum() + y.masked_fill(mask[2], 0.0).sum()


def kept_for_later(net: Net, x: Any, y: Any) -> Any:
    if net.kept is None:
        net.kept = torch.full((9, 4), 0.25)
        net.kept[0] = 2.0
    return (net.kept[: len(x)] * y).sum()


def a_parameter(net: Net, x: Any, y: Any) -> Any:
    return (nn.Parameter(torch.ones(4)) * y).sum()


def read(net: Net, x: Any, y: Any) -> Any:
    found = torch.zeros(4)
    found[1] = 2.0
    assert found.tolist() == [0.0, 2.0, 0.0, 0.0] and bool(found.any()) and found.sum().item() == 2.0
    assert np.asarray(found).sum() == 2.0 and f"{found.max().item():.1f}" == "2.0"
    return (y * found.mean()).sum() + torch.stack([found, y]).sum()


@torch.jit.script
def scripted(y: torch.Tensor) -> torch.Tensor:
    """TorchScript finds the functions that this package has replaced."""
    return y + torch.zeros([4]) + torch.as_tensor([1.0, 2.0, 3.0, 4.0])


def by_torchscript(net: Net, x: Any, y: Any) -> Any:
    return scripted(y).sum()


def broadcast_with_another(net: Net, x: Any, y: Any) -> Any:
    """Which gives views of it by another function than those known for that."""
    found = torch.zeros(4)
    seen, _ = torch.broadcast_tensors(found, torch.zeros(2, 4))
    found[1] = y.sum().detach()
    return seen.sum() * y.sum() + found.exp().sum()


def views_before_writes(net: Net, x: Any, y: Any) -> Any:
    h = net.out(x)
    part = h[:, 1:3]
    if len(x) % 2:
        part = part.t()
    h.mul_(2.0)
    seen = part.sum().item()
    row = h[0]
    h[:, 0] = 3.0
    return part.sum() * seen + row.sum() * row.sum().item() + h.sum()


MORE: dict[str, Body] = {
    "views before writes": views_before_writes,
    "broadcast with another": broadcast_with_another,
    "memory of numpy": memory_of_numpy,
    "its data": its_data,
    "views of integers": views_of_integers,
    "integers that are read": integers_that_are_read,
    "kept for later": kept_for_later,
    "a parameter": a_parameter,
    "read": read,
    "by TorchScript": by_torchscript,
}


def check(body: Body, granularity: str = "batched") -> Any:
    """Losses and gradients of two minibatches equal those of eager execution; returns the last one's report."""
    torch.manual_seed(0)
    eager = Net(body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity=granularity)
    report = None
    for _ in range(2):
        samples = [torch.randn(n, 6) for n in LENGTHS]
        losses = []
        for each in (eager, net):
            each.zero_grad()
            listed = [each(x) for x in samples]
            sum(listed).backward()  # type: ignore[union-attr]
            losses.append(torch.stack([loss.detach() for loss in listed]).tolist())
        assert losses[1] == pytest.approx(losses[0], rel=1e-4, abs=1e-5)
        for own, other in zip(net.parameters(), eager.parameters()):
            if other.grad is None:
                assert own.grad is None or not own.grad.any()
            else:
                torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)
        report = gluonjit.explain()
    return report


@pytest.mark.parametrize("name", CAPTURED)
def test_what_waits_is_written_into_a_new_tensor_without_a_flush(name: str) -> None:
    assert check(CAPTURED[name]).flushes == 1


def test_what_is_computed_of_a_new_tensor_is_written_to_operator_by_operator() -> None:
    assert check(computed_of_it, "op").flushes == 1


def test_a_new_tensor_shows_writes_in_what_has_its_memory_operator_by_operator() -> None:
    check(broadcast_with_another, "op")


@pytest.mark.parametrize("name", MORE)
def test_other_uses_of_a_new_tensor(name: str) -> None:
    check(MORE[name])


@pytest.mark.parametrize("region", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", CAPTURED)
def test_writes_into_a_new_tensor_in_inference(name: str, region: Any) -> None:
    torch.manual_seed(0)
    eager = Net(CAPTURED[name])
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="batched")
    with region():
        for _ in range(2):
            samples = [torch.randn(n, 6) for n in LENGTHS]
            found, expected = [torch.stack([each(x) for x in samples]).tolist() for each in (net, eager)]
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert gluonjit.explain().flushes == 1


@pytest.mark.parametrize("after", range(0, 12, 3))
@pytest.mark.parametrize("name", {**CAPTURED, **MORE})
def test_a_trial_that_ends_between_writes(name: str, after: int, free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was captured runs, and later writes to it and to new tensors run eagerly."""
    asked = iter(range(10_000))
    monkeypatch.setattr(Pace, "wants_eager", property(lambda self: False))
    monkeypatch.setattr(Pace, "spent", lambda self, seconds, calls: next(asked) >= after)
    check({**CAPTURED, **MORE}[name], "auto")


@pytest.mark.parametrize("body", [row_by_row, numbers, a_chart, by_slices, scattered_by_a_mask])
def test_rows_replaced_are_no_nodes(body: Body) -> None:
    assert {"__setitem__", "masked_scatter_"}.isdisjoint(check(body).kinds)


def numbers_of_its_own(net: Net, x: Any, y: Any) -> Any:
    scale = float(x[0, 0])
    for _ in range(2):
        y = (scale * y + scale / 3.0) / (1.5 + scale * scale) - scale * 0.1
        y = (2.0 + scale) / (y * y + 1.0)
    return (y * scale).sum()


def by_its_length(net: Net, x: Any, y: Any) -> Any:
    """Integers that are many in each minibatch, and come again in the next; and one that is always the same."""
    total = 0
    for t in range(len(x)):
        total = total + 2 * net.out(x[t]).sum()
    return total / len(x)


def by_place(net: Net, x: Any, y: Any) -> Any:
    weighted = [(3 - t) * net.out(x[t]) - t for t in range(len(x))]
    return torch.stack(weighted).tanh().sum() + (len(x) - y).sum() / (1 + len(x))


@pytest.mark.parametrize("body", [by_its_length, by_place])
def test_integers_that_are_many_are_operands(body: Body) -> None:
    torch.manual_seed(0)
    eager = Net(body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op", scheduler="depth")
    for _ in range(3):
        samples = [torch.randn(n, 6) for n in range(2, 14)]
        for each in (eager, net):
            each.zero_grad()
            sum(each(x) for x in samples).backward()  # type: ignore[union-attr]
        for own, other in zip(net.out.parameters(), eager.out.parameters()):
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)
    kinds = gluonjit.explain().kinds
    assert all(kinds[name].launches <= 6 for name in {"mul", "sub", "__rsub__", "div"} & set(kinds))


def test_numbers_that_differ_from_call_to_call_are_operands() -> None:
    torch.manual_seed(0)
    eager = Net(numbers_of_its_own)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op", scheduler="depth")
    made = []
    for _ in range(4):
        samples = [torch.randn(2, 6) for _ in range(8)]
        for each in (eager, net):
            each.zero_grad()
            sum(each(x) for x in samples).backward()  # type: ignore[union-attr]
        for own, other in zip(net.out.parameters(), eager.out.parameters()):
            torch.testing.assert_close(own.grad, other.grad, rtol=1e-4, atol=1e-5)
        made.append(gluonjit.explain().cache["misses"])
    assert made[-1] == 0 and gluonjit.explain().launches < 60


class Counting(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(6, 4), 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.layer(x) * min(1.0, self.calls / 4.0)


@pytest.mark.parametrize("name", CREATING)
def test_functions_that_make_tensors_are_found_by_pickle(name: str) -> None:
    assert pickle.loads(pickle.dumps(getattr(torch, name))) is getattr(torch, name)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the cells of which calls are traced."""
    found: list[str] = []

    def tracing(call: Any) -> Any:
        found.append(call.cell.name)
        return trace_call(call)

    monkeypatch.setattr(records, "trace_call", tracing)
    return found


def test_a_module_that_counts_its_calls_is_not_traced_for_each(traced: list[str]) -> None:
    torch.manual_seed(0)
    eager = Counting()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="batched")
    for _ in range(2):
        samples = [torch.randn(6) for _ in range(10)]
        found, expected = [[each(x) for x in samples] for each in (net, eager)]
        torch.testing.assert_close(torch.stack(found), torch.stack(expected))
    assert net.calls == eager.calls == 20 and traced.count("Counting") <= 5


class Acting(nn.Module):
    """Keeps what the program says of its results, which no call reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head, self.factor = nn.Linear(6, 4), nn.Linear(4, 2), 1.0
        self.kept: list[Any] = []

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x).relu()) * self.factor


@pytest.mark.parametrize("often", [True, False])
def test_a_module_whose_attributes_are_set_between_calls(often: bool, traced: list[str]) -> None:
    """For each sample, its layers are captured; for each minibatch, it is traced once."""
    torch.manual_seed(0)
    eager = Acting()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="batched")
    for minibatch in range(6):
        samples, results = [torch.randn(6) for _ in range(8)], []
        for each in (eager, net):
            each.zero_grad()
            each.factor = 1.0 + minibatch
            listed = []
            for x in samples:
                if often:
                    each.kept = []
                listed.append(each(x))
                each.kept.append(len(listed))
            torch.stack(listed).square().sum().backward()
            results.append(torch.stack(listed))
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(net.layer.weight.grad, eager.layer.weight.grad, rtol=1e-4, atol=1e-4)
    assert traced.count("Acting") <= 6 and (not often or net.kept == eager.kept == [8])


# --- sums that begin as a tensor -------------------------------------------------------------------------------------


def sums(how: str, net: Any, samples: Any) -> list[Any]:
    """A total of losses, begun as a tensor outside of all samples; and what else shows its numbers."""
    total: Any = torch.zeros(1)
    others: list[Any] = []
    if how == "another name":
        others.append(total)
    elif how == "numpy":
        others.append(total.numpy())
    elif how == "a view":
        others.append(total[:1])
    elif how == "its memory":
        others.append(total.untyped_storage())
    holder = {"total": torch.zeros(())}
    for x in samples:
        loss = net(x).sum()
        if how == "a method":
            total.add_(loss)
        elif how == "an item":
            holder["total"] += loss
        elif how == "difference":
            total -= loss
        else:
            total += loss
    total = holder["total"] if how == "an item" else total
    shown = [float(torch.as_tensor(other.tolist() if how != "its memory" else len(other)).sum()) for other in others]
    total.sum().backward()
    return [total.tolist(), shown, net.weight.grad.tolist()]


@pytest.mark.parametrize(
    "how", ["a name", "an item", "difference", "another name", "numpy", "a view", "its memory", "a method"]
)
def test_a_sum_of_losses_that_begins_as_a_tensor(how: str) -> None:
    torch.manual_seed(0)
    eager = nn.Linear(6, 2)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="batched")
    samples = [torch.randn(6) for _ in range(5)]
    expected, found = sums(how, eager, samples), sums(how, net, samples)
    for own, other in zip(found, expected):
        np.testing.assert_allclose(own, other, rtol=1e-4)
    assert gluonjit.explain().flushes == len(samples)


def test_detaching_for_a_new_tensor_is_no_node() -> None:
    """A child-sum cell makes states of zeros for a leaf as its inputs are: `x.detach().new(1, n).fill_(0.0)`."""

    class Leaves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(4, 4)
            self.log: list[int] = []

        def forward(self, x: Any) -> Any:
            self.log.append(len(x))  # so it is not one node
            h = torch.tanh(self.dense(x))
            zeros = h.detach().new(1, 4).fill_(0.0)
            return (torch.cat([h, zeros]) * h.detach()[:1]).sum()

    torch.manual_seed(0)
    eager = Leaves()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, outline=False)
    given = [torch.randn(3, 4) for _ in range(4)]
    with torch.no_grad(), gluonjit.batching(granularity="cell") as batch:
        found = [net(x) for x in given]
    torch.testing.assert_close(torch.stack(found), torch.stack([eager(x) for x in given]))
    assert "detach" not in batch.report.kinds  # nor is that of which rows are taken, as nothing records
    assert batch.report.flushes == 1
    copied = net(given[0]).half().float()  # which is no view
    assert copied.requires_grad and not copied.detach().requires_grad


def test_a_chart_that_is_an_attribute_is_written_without_running_what_is_pending() -> None:
    """As in public parsers: `self.beta = scores.new(...).fill_(...)`, then entries by numpy's numbers."""

    class Chart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(4, 4)
            self.beta: Any = None

        def forward(self, x: Any) -> Any:
            scores, n = torch.tanh(self.dense(x)), len(x)
            self.beta = scores.new(n, n, 4).fill_(-1.0)
            for k in np.arange(n):
                self.beta[k, k] = scores[k]
            for s in np.arange(n - 1):
                self.beta[s, s + 1, :2] = (self.beta[s, s] + self.beta[s + 1, s + 1])[:2]
            return self.beta.sum()

    torch.manual_seed(0)
    eager = Chart()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    given = [torch.randn(n, 4) for n in LENGTHS]
    with gluonjit.batching(granularity="cell") as batch:
        sum(net(x) for x in given).backward()
    assert batch.report.flushes == 1
    sum(eager(x) for x in given).backward()
    torch.testing.assert_close(net.dense.weight.grad, eager.dense.weight.grad)
    torch.testing.assert_close(net.beta.detach(), eager.beta.detach())


def test_an_object_that_answers_for_any_name_is_set_on_a_module() -> None:
    class Answers:
        def __getattr__(self, name: str) -> Any:
            return {"a": 1}[name]

    net = gluonjit.hybridize(nn.Linear(2, 2), dynamic_batch=True)
    waiting = net(torch.ones(1, 2))
    net.answers = Answers()
    assert net.answers.a == 1 and waiting.sum().isfinite()


class Started(nn.Module):
    """A recurrent net that begins with zeros, and from some sample on writes its states into a tensor of zeros."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 6)
        self.after, self.count = after, 0
        self.seen: list[bool] = []

    def zeros(self, *shape: int) -> Any:
        found = torch.zeros(*shape)
        self.seen.append(not isinstance(found, LazyTensor))
        return found

    def forward(self, x: Any) -> Any:
        h, states, self.count = self.zeros(6), self.zeros(len(x), 6), self.count + 1
        for t in range(len(x)):
            h = self.cell(x[t], h)
            if self.count > self.after:
                states[t] = h
        return (h + states.sum(0)).sum()


@pytest.mark.parametrize("after", [0, 1000, 30])
def test_new_tensors_stay_plain_once_many_were_made_that_nobody_writes_pending_ones_to(after: int) -> None:
    torch.manual_seed(0)
    TRIED.clear()
    eager = Started(after)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for _ in range(4):
        given = [torch.randn(n, 6) for n in (2, 3) * 8]
        with gluonjit.batching(granularity="cell"):
            torch.testing.assert_close(sum(net(x) for x in given), sum(eager(x) for x in given))
    assert net.seen[:32] == [False] * 32
    assert net.seen[32:48] == [after > 0] * 16
    assert net.seen[-32:] == [after == 1000] * 32


def test_a_detached_tensor_is_a_node_that_gradients_do_not_pass() -> None:
    def body(net: Net, x: Any, y: Any) -> Any:
        h = net.cell(x[0], torch.zeros(6))
        for t in range(1, len(x)):
            h = net.cell(x[t], h.detach() * 0.5 + h.detach().view(2, 3).sum())
        return (h * y.detach().sum()).sum() + y.sum()

    assert check(body).flushes == 1
