"""Windows, statistics, orders and joins along a length run for nodes of many lengths at once."""

from __future__ import annotations

import copy
from typing import Any, Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gluonjit
from gluonjit.engines.torch.lengths.program import LengthPart
from tests.torch.test_lengths import C, Model, assert_as_eagerly, both, tokens

MINIBATCHES = ((6, 4), (5, 7, 6, 8), (4, 9, 9, 5, 12, 6), (11, 30, 7, 9, 10))


def turned(x: Any) -> Any:
    """(n, C) as a convolution takes it."""
    return x.t().unsqueeze(0)


def weight(net: Model, *shape: int) -> Any:
    count = int(np.prod(shape))
    return net.places.flatten()[:count].view(shape)


def upright(net: Model, x: Any) -> Any:
    """A picture of a few lines, any number of columns wide."""
    lines = F.relu(F.conv2d(x.t().view(1, 2, C // 2, len(x)), weight(net, 3, 2, 3, 3), padding=1))
    return F.max_pool2d(lines, 2).mean((2, 3))


def scaled(net: Model, x: Any) -> Any:
    mean, spread = net.places[0, :C].detach(), net.places[1, :C].detach().abs() + 0.5
    return F.batch_norm(turned(x), mean, spread, net.norm.weight, net.norm.bias).amax(2)


def neighbours(net: Model, x: Any) -> Any:
    """Sums over edges, by each of the operators that people write them with."""
    ends = x.sum(1).argsort()
    heads, tails = ends[1:], ends[:-1]
    degree = torch.zeros(len(x)).scatter_add(0, heads, torch.ones(len(heads)))
    degree = torch.where(degree == 0, torch.ones(()), degree)
    spread = heads.unsqueeze(1).expand(-1, C)
    summed = torch.zeros(len(x), C).scatter_add(0, spread, net.q(x)[tails])
    largest = torch.zeros(len(x), C).scatter_reduce(0, spread, net.k(x).gather(0, tails[:, None].expand(-1, C)), "amax")
    return (summed / degree.unsqueeze(1) + largest).tanh().sum(0)


def written(net: Model, x: Any) -> Any:
    """Numbers where a mask is true, of entries and of rows."""
    y = net.q(x)
    y[y > 0.5] = 0.25
    y[y.sum(1) > 0] = net.out.weight[0]
    z = x.sum(1)
    z[z == float("inf")] = 0
    return (y * z.unsqueeze(1)).sum(0)


def put_back(net: Model, x: Any) -> Any:
    order = x.sum(1).argsort(descending=True)
    return torch.zeros(len(x), C).index_copy(0, order, net.q(x)[order].cumsum(0)).square().mean(0)


ALONG: dict[str, Callable[..., Any]] = {
    "neighbours": neighbours,
    "written where a mask is true": written,
    "in another order and back": put_back,
    "a step of many sequences": lambda net, x: net.steps(x[None], (net.q(x)[None], net.k(x)[None]))[1][1].sum((0, 1)),
    "steps of many sequences": lambda net, x: net.ways(torch.stack([x, x.softmax(0)]))[0].square().mean((0, 1)),
    "padded before": lambda net, x: net.narrow(F.pad(turned(x), (2, 0))).relu().amax(2),
    "padded with a number": lambda net, x: F.pad(x, (0, 0, 1, 2), value=1.5).cos().mean(0),
    "padded on all sides": lambda net, x: F.pad(x, (1, 0, 1, 2), value=0.5).square().sum(0),
    "cut by padding": lambda net, x: F.pad(turned(x), (-1, -2)).square().sum(2),
    "the largest of windows": lambda net, x: F.max_pool1d(turned(net.q(x)).relu(), 2).sum(2),
    "the largest of windows that overlap": lambda net, x: F.max_pool1d(turned(x).relu(), 3, 1, 1).sum(2),
    "the largest of what is left, too": lambda net, x: F.max_pool1d(turned(x), 3, ceil_mode=True).sum(2),
    "means of windows": lambda net, x: F.avg_pool1d(turned(net.q(x)), 3, 2, 1).square().sum(2),
    "the largest of all": lambda net, x: F.adaptive_max_pool1d(turned(net.q(x)).relu(), 1).flatten(),
    "the mean of all": lambda net, x: F.adaptive_avg_pool1d(turned(net.q(x)), 1).flatten(),
    "the mean of as many": lambda net, x: F.avg_pool1d(turned(net.q(x)), len(x)).flatten(),
    "a picture": upright,
    "each channel by itself": lambda net, x: (
        F.conv1d(turned(x), weight(net, C, 1, 3), padding=1, groups=C).relu().sum(2)
    ),
    "channels in groups": lambda net, x: (
        F.conv1d(turned(x), weight(net, 6, C // 2, 3), stride=2, groups=2).sum(2).tanh()
    ),
    "a convolution the other way": lambda net, x: (
        F.conv_transpose1d(turned(x), weight(net, C, 3, 3), net.out.bias, stride=2).tanh().sum(2)
    ),
    "normalized by running statistics": scaled,
    "normalized in groups": lambda net, x: F.group_norm(turned(x), 2, net.norm.weight, net.norm.bias).amax(2),
    "normalized in channels": lambda net, x: F.instance_norm(turned(x)).square().square().mean(2),
    "variances": lambda net, x: torch.cat([x.var(0), x.t().var(1, unbiased=False), x.var(0, keepdim=True)[0]]),
    "deviations": lambda net, x: net.out(x.std(0)) / (1 + x.std()),
    "the variance of all": lambda net, x: net.out(x[0]) * x.var(),
    "the highest": lambda net, x: net.q(x).topk(2, 0).values.mean(0) - net.q(x).topk(2, 0, largest=False).values.sum(0),
    "in order": lambda net, x: net.out(x.sort(0).values[-1]) + net.out(x.sort(0, descending=True).values[1]),
    "the second": lambda net, x: net.q(x).kthvalue(2, 0).values,
    "products so far": lambda net, x: (x.sigmoid().cumprod(0) * x).sum(0),
    "the largest so far": lambda net, x: (x.cummax(0).values * x).sum(0),
    "a row for all before": lambda net, x: (torch.softmax(torch.cat([net.seed[0], x]) @ x.t(), -1) @ x)[0],
    "rows of its own between": lambda net, x: net.q(torch.cat([x, x.mean(0, keepdim=True), x[:2]])).relu().sum(0),
    "columns beside": lambda net, x: torch.cat([x.t(), net.norm.weight[:, None]], 1).cos().sum(1),
    "repeated": lambda net, x: (
        (x[0].repeat(len(x), 1) * x).sum(0) + (net.norm.bias.repeat(len(x), 1) + x).tanh().sum(0)
    ),
    "to a place by its length": lambda net, x: (
        net.out(x[: len(x) - 2] * x[2 : len(x)] + x[1 : len(x) - 1]).tanh().sum(0)
    ),
    "the last by its length": lambda net, x: x[len(x) - 2 :].cos().sum(0),
    "losses of rows": lambda net, x: (
        F.binary_cross_entropy_with_logits(x[:, 0], (x[:, 1] > 0).float())
        + F.binary_cross_entropy(x[:, 0].sigmoid(), x[:, 1].sigmoid(), reduction="sum")
        + F.smooth_l1_loss(x[1:], x[:-1])
        + F.mse_loss(x, x.flip(0), reduction="none").sum(0)
    ),
    "padded to the most": lambda net, x: F.pad(net.q(x), (0, 0, 0, 40 - len(x)), value=0.3).cos().sum(0),
    "padded to the most beside a place by its length": lambda net, x: (
        F.pad(net.q(x), (0, 0, 0, 40 - len(x))).cos().sum(0) * x[: len(x) - 1].tanh().sum(0)
    ),
    "the first of one sample": lambda net, x: F.scaled_dot_product_attention(net.q(x)[None, :3], x[None], x[None]).sum(
        1
    ),
    "each twice": lambda net, x: (x.repeat_interleave(2, 0).cumsum(0) * 0.1).tanh().sum(0),
    "windows": lambda net, x: net.q(x).unfold(0, 3, 1).square().sum((0, 2)),
}


@pytest.mark.parametrize("name", ALONG)
def test_along_a_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = []
    original = LengthPart.run
    monkeypatch.setattr(LengthPart, "run", lambda self, *args: alone.append(self) or original(self, *args))
    eager, net = both(ALONG[name])
    for lengths in MINIBATCHES:
        alone.clear()
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 1
    assert not alone


def test_equal_rows_have_no_variance() -> None:
    eager, net = both(lambda net, x: torch.cat([x.std(0), x.var(0)]))
    samples = [(torch.full((length,), 3),) for length in (4, 6, 5, 7)]
    with torch.no_grad():
        for each in (samples, samples[::-1]):
            with gluonjit.batching(granularity="cell"):
                found = [net(*sample) for sample in each]
            assert not any(result.any() for result in found) and not any(eager(*sample).any() for sample in each)


def test_groups_of_one_channel() -> None:
    torch.manual_seed(0)
    eager = nn.Linear(4, 4, bias=False)

    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = copy.deepcopy(eager)

        def forward(self, x: Any, groups: int) -> Any:
            return F.group_norm(turned(self.linear(x)), groups)[0].t()

    net = gluonjit.hybridize(Grouped(), dynamic_batch=True)
    for groups, lengths in ((2, (8, 6, 7)), (2, (5, 9)), (4, (8, 6, 7, 10)), (4, (6, 11, 5))):
        samples = [torch.randn(length, 4) for length in lengths]
        weights = [torch.arange(4.0 * length).view(length, 4) for length in lengths]
        with gluonjit.batching(granularity="cell"):
            found = [net(x, groups) for x in samples]
            sum((result * each).sum() for result, each in zip(found, weights)).backward()
        wanted = [F.group_norm(turned(eager(x)), groups)[0].t() for x in samples]
        sum((result * each).sum() for result, each in zip(wanted, weights)).backward()
        assert torch.allclose(net.linear.weight.grad, eager.weight.grad, rtol=1e-3, atol=1e-2)
        net.linear.weight.grad = eager.weight.grad = None


def test_halves() -> None:
    eager, net = both(lambda net, x: x[: len(x) // 2].sum(0).tanh() - x[len(x) // 2 :].sum(0).sin())
    for lengths in MINIBATCHES:
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 2  # even and odd lengths


def test_places_of_the_highest_depend_on_how_many_there_are() -> None:
    eager, net = both(lambda net, x: x.gather(0, x.topk(2, 0).indices.sort(0).values).cos()[0])
    for lengths in MINIBATCHES:
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])


def test_rows_repeated_once_at_first() -> None:
    eager = Model(lambda net, x, times: net.out(x[:4].repeat(times, 1)).cumsum(0).sum())
    eager.forward = lambda words, times: eager.body(eager, eager.embed(words), times)
    wanted = [eager(torch.arange(5), times) for times in (1, 3, 2, 4)]

    class Repeated(Model):
        def forward(self, words: Any, times: int) -> Any:
            return self.body(self, self.embed(words), times)

    for granularity in ("cell", "op"):
        net = Repeated(eager.body)
        net.load_state_dict(eager.state_dict())
        gluonjit.hybridize(net, dynamic_batch=True)
        with gluonjit.batching(granularity=granularity):
            found = [net(torch.arange(5), times) for times in (1, 3, 2, 4)]
        assert torch.allclose(torch.stack(found), torch.stack(wanted), rtol=1e-4)


@pytest.mark.parametrize("size", [2, 3])
def test_windows_of_a_number_that_differs(size: int) -> None:
    class Pooled(Model):
        def forward(self, words: Any, size: int) -> Any:
            return F.avg_pool1d(turned(self.q(self.embed(words))), size)[0].t()

    torch.manual_seed(0)
    net = gluonjit.hybridize(Pooled(scaled), dynamic_batch=True)
    eager = Pooled(scaled)
    eager.load_state_dict(net.state_dict())
    for calls in ([(6, size), (7, size)], [(6, 3), (7, 2), (5, 4), (8, 1)]):
        with gluonjit.batching(granularity="cell"):
            found = [net(words, each) for words, (_, each) in zip(tokens(*[n for n, _ in calls]), calls)]
        for result, words, (_, each) in zip(found, tokens(*[n for n, _ in calls]), calls):
            assert torch.allclose(result, eager(words, each), atol=1e-6)


def test_the_diagonal_of_another_shape() -> None:
    body: Callable[..., Any] = lambda net, x, y: (net.q(x) @ y.t()).diagonal().cos()  # noqa: E731
    eager, net = both(body)
    for pairs in ([(4, 6), (5, 6)], [(3, 6), (6, 6), (8, 6)], [(9, 6), (7, 5), (4, 4)]):
        assert_as_eagerly(eager, net, [tuple(tokens(*pair, seed=1)) for pair in pairs])


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_the_order_of_numbers_that_are_not_finite(odd: float) -> None:
    class Ordered(nn.Module):
        def forward(self, x: Any) -> Any:
            up, down = x.sort(0).values, x.sort(0, descending=True).values
            ends = x.topk(2, 0).values, x.topk(3, 0, largest=False).values
            return up, down, *ends, x.kthvalue(3, 0).values, (x[:, 0] * 9).nan_to_num(0, 5, -5).long().sort(0).values

    net = gluonjit.hybridize(Ordered(), dynamic_batch=True)
    for lengths in MINIBATCHES:
        samples = [torch.randn(length, 3) for length in lengths]
        for x in samples:
            x[1:3, :2] = odd
        with gluonjit.batching(granularity="cell"):
            found = [net(x) for x in samples]
        for results, x in zip(found, samples):
            for one, other in zip(results, Ordered()(x)):
                torch.testing.assert_close(one, other, equal_nan=True)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "the highest": lambda x: x.topk(5, 0).values,
    "the fifth": lambda x: x.kthvalue(5, 0).values,
    "windows": lambda x: F.max_pool1d(turned(x), 5),
    "a convolution": lambda x: F.conv1d(turned(x), torch.ones(2, C, 5)),
    "a row": lambda x: x[5],
}


@pytest.mark.parametrize("name", REFUSED)
def test_too_few_rows_are_refused_as_eagerly(name: str) -> None:
    eager, net = both(lambda net, x: REFUSED[name](net.q(x)))
    for lengths in ((8, 9), (10, 7, 12), (11, 13, 6)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=1)])
    short = torch.arange(3)
    with pytest.raises((RuntimeError, IndexError)):
        eager(short)
    with torch.no_grad(), pytest.raises((RuntimeError, IndexError)), gluonjit.batching(granularity="cell"):
        results = [net(each) for each in (*tokens(9, 8, seed=1), short)]
        assert all(result.numpy().size for result in results)  # what is read has run
