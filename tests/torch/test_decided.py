"""Numbers that inputs alone decide, read in the middle of a sample: nothing that other samples have pending runs."""

from __future__ import annotations

from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_support import assert_same  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.hybrid.run import decided  # noqa: E402

SIZES = (5, 3, 6, 4, 5)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Cloud(nn.Module):
    """Points of a sample, and a program that asks for numbers of theirs."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body, self.lift, self.out = body, nn.Linear(3, 8), nn.Linear(8, 1)
        self.shift = nn.Parameter(torch.ones(3))

    def forward(self, points: Any) -> Any:
        return self.out(self.body(self, points, torch.tanh(self.lift(points)))).pow(2).sum()


def neighbours(net: Cloud, points: Any, h: Any) -> Any:
    near = (points[:, None] - points[None]).pow(2).sum(-1) < 2
    rows, columns = near.nonzero().t()
    return torch.zeros_like(h).index_add_(0, rows, h[columns])


def where_a_mask_holds(net: Cloud, points: Any, h: Any) -> Any:
    sizes = points.norm(dim=-1)  # masks that hold somewhere: parts without rows run at once
    return h[points[:, 0] >= points[:, 0].mean()].sum(0) + h[~(sizes > sizes.mean())].sum(0)


def by_a_branch(net: Cloud, points: Any, h: Any) -> Any:
    if (points.abs() > 1.5).any():
        return h * 2
    return h[: int(points.sum().sigmoid() * 2) + 1] * float(points.std())


def farthest(net: Cloud, points: Any, h: Any) -> Any:
    distance, chosen, last = torch.ones(len(points)) * 1e10, [], 0
    for _ in range(3):
        chosen.append(last)
        apart = ((points - points[last]) ** 2).sum(-1)
        mask = apart < distance
        distance[mask] = apart[mask]
        last = distance.max(-1)[1].item()
    return h[chosen]


def in_order(net: Cloud, points: Any, h: Any) -> Any:
    return sum((k + 1) * h[j] for k, j in enumerate(points[:, 1].argsort().tolist()))


def by_sums_and_known_numbers(net: Cloud, points: Any, h: Any) -> Any:
    ends = torch.stack([torch.arange(len(points)), torch.arange(len(points)).flip(0)])
    scores = points[:, 0] + points[:, 1] + ends[1].float()
    return h[scores > scores.mean()].sum(0) + h[: 1 + int((scores + scores).argmax())]


BODIES = [neighbours, where_a_mask_holds, by_a_branch, farthest, in_order, by_sums_and_known_numbers]


def value(net: Any, points: Any) -> Any:
    return net(points)


def clouds() -> list[Any]:
    return [torch.randn(size, 3) for size in SIZES]


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.usefixtures("as_written")
def test_reading_what_inputs_decide_runs_nothing_else(body: Callable[..., Any], granularity: str) -> None:
    report = assert_same(Cloud(body), clouds(), value, granularity=granularity)
    assert report.flushes == 1
    name = "lift" if granularity == "cell" else "linear"
    assert report.kinds[name].launches < report.kinds[name].calls


@pytest.mark.parametrize("body", BODIES)
def test_so_it_does_in_cells_made_from_source(body: Callable[..., Any]) -> None:
    assert assert_same(Cloud(body), clouds(), value, granularity="cell").flushes == 1


def by_a_weight(net: Cloud, points: Any, h: Any) -> Any:
    return h * 2 if (points * net.shift).sum() > 0 else h


def by_its_own_result(net: Cloud, points: Any, h: Any) -> Any:
    return h[: 1 + int(h.sum() > 0)]


@pytest.mark.parametrize("body", [by_a_weight, by_its_own_result])
def test_what_depends_on_weights_runs_what_is_pending(body: Callable[..., Any]) -> None:
    assert assert_same(Cloud(body), clouds(), value, granularity="cell").flushes > 1


def of_a_long_chain(net: Cloud, points: Any, h: Any) -> Any:
    total = points.sum()
    for k in range(decided.MOST + 9):
        total = (total + k) * 0.5
    return h * total.item()


def of_a_sum_before_a_write(net: Cloud, points: Any, h: Any) -> Any:
    points = points.clone()
    total = points.sum() * 2
    points.mul_(3)
    return h * total.item() + h * points.sum().item()


@pytest.mark.parametrize("body", [of_a_long_chain, of_a_sum_before_a_write])
def test_numbers_are_those_of_the_call(body: Callable[..., Any]) -> None:
    assert_same(Cloud(body), clouds(), value, granularity="cell")


def test_an_input_that_is_written_to_is_read_as_it_was() -> None:
    def body(net: Cloud, points: Any, h: Any) -> Any:
        total = points.sum() * 2
        net.given.zero_()
        return h * total.item()

    net = Cloud(body)
    for size in (2, 3000):
        net.given = torch.ones(size, 3)
        eager = net(net.given)
        net.given = torch.ones(size, 3)
        other = gluonjit.hybridize(net, dynamic_batch=True)
        assert float(other(net.given)) == pytest.approx(float(eager), rel=1e-4)
        gluonjit.hybridize(net, dynamic_batch=False)


def test_draws_are_read_as_they_are_used() -> None:
    def body(net: Cloud, points: Any, h: Any) -> Any:
        kept = F.dropout(points, 0.5)
        net.sums.append((kept.sum().item(), kept))
        return h

    net = Cloud(body)
    net.sums = []
    with gluonjit.batching(granularity="cell"):
        for points in clouds():
            net(points)
    for number, kept in net.sums:
        assert number == pytest.approx(float(kept.sum()), rel=1e-4)
