"""Calls that read numbers of tensors which they make of nothing: of masks, say. They are one node."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import assert_near

import gluonjit

C = 4
Body = Callable[[Any, Any], Any]


class Net(nn.Module):
    """A layer; the body says what is made of its result."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.layer, self.body = nn.Linear(C, C), body

    def forward(self, x: Any) -> Any:
        return self.body(x, self.layer(x))


def a_mask_that_may_be_empty(x: Any, y: Any) -> Any:
    mask = torch.triu(y.new_ones(len(x), len(x)), diagonal=1).bool()
    scores = y @ y.t()
    if mask.any().item():
        scores = scores.masked_fill(mask, -1e9)
    return scores.softmax(-1) @ y


def entries_of_a_mask(x: Any, y: Any) -> Any:
    mask = torch.ones(len(x), len(x)).tril().bool()
    pairs = mask.nonzero()
    second = mask.nonzero(as_tuple=True)[1]
    scores = y @ y.t()
    even = torch.arange(len(x)) % 2 == 0
    return (
        scores[mask].sum()
        + (y[pairs[:, 0]] * y[second]).sum()
        + scores[even].mean()
        + scores.masked_select(~mask).sum()
        + y[:, torch.arange(C) < 2].sum()
    )


def a_number_that_decides(x: Any, y: Any) -> Any:
    last = torch.arange(len(x)).max().item()
    return y.sum(0) * last if last > 5 else y.sum(0) / (1 + int(torch.ones_like(x).sum()))


def a_list_of_numbers(x: Any, y: Any) -> Any:
    return sum(y[k] * torch.zeros_like(y[k]).add(k) for k in torch.arange(len(x)).flip(0).tolist())


def masks_that_are_equal(x: Any, y: Any) -> Any:
    causal = torch.full((len(x), len(x)), -1.0).triu(1)
    return y * 2.0 if torch.equal(causal, causal.tril(3)) else y.tanh()


BODIES = [a_mask_that_may_be_empty, entries_of_a_mask, a_number_that_decides, a_list_of_numbers, masks_that_are_equal]


def _compare(body: Body, lengths: tuple[int, ...]) -> Any:
    torch.manual_seed(0)
    net = Net(body)
    lazy = copy.deepcopy(net)
    gluonjit.hybridize(lazy, dynamic_batch=True)
    samples = [torch.randn(length, C) for length in lengths]
    with gluonjit.batching() as batch:
        found = [lazy(sample) for sample in samples]
    wanted = [net(sample) for sample in samples]
    for one, other in zip(found, wanted):
        assert_near(one, other)
    for results in (found, wanted):
        sum(result.square().sum() for result in results).backward()
    for one, other in zip(lazy.parameters(), net.parameters()):
        scale = float(other.grad.abs().max())  # thousands, beside which small ones are rounded
        assert_near(one.grad, other.grad, rtol=1.3e-6, atol=max(1e-5, 1e-7 * scale))
    return batch.report


@pytest.mark.parametrize("body", BODIES)
def test_numbers_made_of_nothing_may_be_read(body: Body) -> None:
    for lengths in ((3, 4, 3), (5, 2, 6, 4), (8, 7, 9, 10, 8, 3, 2)):  # three lengths could tell of others
        report = _compare(body, lengths)
        assert report.kinds["Net"].nodes == len(lengths)


def random_numbers(x: Any, y: Any) -> Any:
    torch.manual_seed(len(x))
    return y[int(torch.randperm(len(x))[0])]


def numbers_of_an_argument(x: Any, y: Any) -> Any:
    return y * 2.0 if x.sum().item() > 0 else y


def numbers_of_a_written_tensor(x: Any, y: Any) -> Any:
    found = torch.zeros(len(x))
    found[0] = x[0, 0]
    return y * float(found.sum())


def memory_of_a_tensor(x: Any, y: Any) -> Any:
    found = torch.zeros(len(x))
    numbers = found.numpy()
    found += 1.0
    return y * float(numbers.sum())


def memory_that_is_written_to(x: Any, y: Any) -> Any:
    found = torch.zeros(len(x))
    found.numpy()[0] = 3.0
    return y * found.sum()


@pytest.mark.parametrize(
    "body",
    [
        lambda x, y: y[:, torch.ones(1) > 0],
        lambda x, y: y[torch.ones(len(x) - 1) > 0],
        lambda x, y: y[None, ..., torch.ones(len(x)) > 0],
        lambda x, y: y[torch.ones(len(x), 1) > 0],
    ],
)
def test_a_mask_of_another_shape_is_refused_as_eagerly(body: Body) -> None:
    net = Net(body)
    gluonjit.hybridize(net, dynamic_batch=True)
    with pytest.raises(IndexError, match="shape of the mask"), gluonjit.batching():
        net(torch.ones(3, C)).sum().item()


def test_masks_behind_other_axes() -> None:
    def chosen(x: Any, y: Any) -> Any:
        mask, wide = torch.arange(C) > 1, torch.ones(len(x), C).triu() > 0
        return y[:, mask].sum(0) + y[..., mask].mean(0) + y[None, :, mask][0, 0] + y[None][..., wide].sum()

    assert _compare(chosen, (3, 4, 3, 2)).kinds["Net"].nodes == 4


@pytest.mark.parametrize(
    "body",
    [
        random_numbers,
        numbers_of_an_argument,
        numbers_of_a_written_tensor,
        memory_of_a_tensor,
        memory_that_is_written_to,
    ],
)
def test_other_numbers_are_read_as_they_are(body: Body) -> None:
    assert "Net" not in _compare(body, (3, 4, 3, 5)).kinds
