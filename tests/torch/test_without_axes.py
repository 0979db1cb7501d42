"""Operators along an axis of numbers without axes, on which PyTorch accepts 0 and -1: samples stay apart."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.torch_support import assert_close, gradients

pytestmark = pytest.mark.filterwarnings("ignore")
AXES = (0, -1)
FIRST = torch.tensor(0)
ALONG: dict[str, Callable[[Any, int], Any]] = {
    "flip": lambda x, d: x.flip(d) if d else torch.flip(x, ()),
    "gather": lambda x, d: x.gather(d, FIRST),
    "index_select": lambda x, d: x.index_select(d, FIRST.reshape(1)),
    "scatter": lambda x, d: x.scatter(d, FIRST, 2.0) * x,
    "scatter_add": lambda x, d: x.scatter_add(d, FIRST, x * 2),
    "index_add": lambda x, d: x.index_add(d, FIRST.reshape(1), x * 3),
    "roll": lambda x, d: x.roll(1) + x.roll((1,), ()),
    "movedim": lambda x, d: x.movedim(d, 0),
    "transpose": lambda x, d: x.transpose(d, 0),
    "sum": lambda x, d: x.sum(d) + x.sum(dim=()) + x.mean(d, keepdim=True),
    "max": lambda x, d: x.max(d).values + x.amin(d),
    "softmax": lambda x, d: x.softmax(d) + x.logsumexp(d),
    "cumsum": lambda x, d: x.cumsum(d) + x.cumprod(d),
    "sort": lambda x, d: x.sort(d).values + x.topk(1, d).values,
    "median": lambda x, d: x.median(d).values + x.kthvalue(1, d).values,
    "stack": lambda x, d: torch.stack([x, x * 2], d),
    "flatten": lambda x, d: x.flatten(d, d),
    "squeeze": lambda x, d: x.squeeze(d) * x.squeeze(()),
    "norm": lambda x, d: x.norm(dim=d) + nn.functional.normalize(x, dim=d),
}


class Net(nn.Module):
    """A number of each sample, and what a program makes of it."""

    def __init__(self, program: Callable[[Any], Any]) -> None:
        super().__init__()
        self.weight, self.program = nn.Parameter(torch.tensor(1.5)), program

    def forward(self, x: Any) -> Any:
        return self.program((x * self.weight).sum())


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("dim", AXES)
@pytest.mark.parametrize("name", list(ALONG))
def test_an_axis_of_none_is_of_no_sample_but_its_own(name: str, dim: int, granularity: str) -> None:
    samples = [torch.randn(3, generator=torch.Generator().manual_seed(k)) for k in range(4)]
    found = []
    for batched in (False, True):
        net = Net(lambda x: ALONG[name](x, dim))
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
        results = [net(x) for x in samples]
        torch.stack([(k + 1) * result.sum() for k, result in enumerate(results)]).sum().backward()
        found.append(([result.detach() for result in results], gradients(net)["weight"]))
    (wanted, expected), (results, gradient) = found
    for one, other in zip(results, wanted):
        assert one.shape == other.shape
        assert_close(one, other, name)
    assert_close(gradient, expected, "the weight's gradient")
