"""Convolutions of pictures that lie otherwise than row by row: the values and gradients of the eager program."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch_support import assert_near

import gluonjit

LAST = torch.channels_last


class Convolved(nn.Module):
    """Convolves what another function makes of a picture."""

    def __init__(self, given: Callable[[Any], Any], size: int, channels: int) -> None:
        super().__init__()
        self.given, self.conv = given, nn.Conv2d(channels, 3, size, padding=size // 2)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.conv(self.given(torch.tanh(x)))).mean((-1, -2))


def assert_as_eager(net: nn.Module, lazy: nn.Module, pictures: list[Any], found: list[Any]) -> None:
    """What the lazy net has found, and its gradients, are those of the eager one."""
    wanted = [net(picture) for picture in pictures]
    assert_near(torch.stack(found), torch.stack(wanted))
    for results in (found, wanted):
        torch.stack(results).square().sum().backward()
    for one, other in zip(lazy.parameters(), net.parameters()):
        assert_near(one.grad, other.grad)


LYING: dict[str, Callable[[Any], Any]] = {
    "row by row": lambda x: x,
    "transposed": lambda x: x.transpose(2, 3),
    "by channels": lambda x: x.contiguous(memory_format=LAST),
    "repeated": lambda x: x[:, :1].expand(x.shape),
}


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("weight", ["row by row", "by channels"])
@pytest.mark.parametrize("given", LYING)
def test_pictures_and_weights_may_lie_in_any_way(given: str, weight: str, size: int, channels: int) -> None:
    torch.manual_seed(0)
    net = Convolved(LYING[given], size, channels)
    if weight == "by channels":
        net.conv.weight.data = net.conv.weight.data.contiguous(memory_format=LAST)
    lazy = copy.deepcopy(net)
    gluonjit.hybridize(lazy, dynamic_batch=True)
    pictures = [torch.randn(1, channels, 4, 6) for _ in range(5)]
    with gluonjit.batching() as batch:
        found = [lazy(picture) for picture in pictures]
    assert batch.report.launches <= 6  # one, or one an operator where that way is tried
    assert_as_eager(net, lazy, pictures, found)


class ByChannels(nn.Module):
    """Lays a picture by channels, of which it takes a view that pictures row by row do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        points = self.conv(x).contiguous(memory_format=LAST).permute(0, 2, 3, 1).view(-1, 3)
        kept = self.conv(x).to(memory_format=LAST).clone(memory_format=torch.preserve_format)
        return (torch.relu(self.out(points)).sum(0) * kept.sum()).tanh()


@pytest.mark.parametrize("widths", [(4, 4, 4), (4, 5, 4, 6, 7), (3,)])
def test_pictures_laid_by_channels_are_one_node(widths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = ByChannels()
    lazy = copy.deepcopy(net)
    gluonjit.hybridize(lazy, dynamic_batch=True)
    pictures = [torch.randn(1, 2, 4, width) for width in widths]
    with gluonjit.batching() as batch:
        found = [lazy(picture) for picture in pictures]
    assert batch.report.kinds["ByChannels"].nodes == len(widths)
    assert_as_eager(net, lazy, pictures, found)
