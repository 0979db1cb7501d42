"""Bags of words: `EmbeddingBag` of all samples, with offsets of each one's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.torch_support import assert_close

CALLS: dict[str, Any] = {
    "offsets": lambda bag, x: bag(x, torch.tensor([0])),
    "rows": lambda bag, x: bag(x[None]),
    "two bags": lambda bag, x: bag(x, torch.tensor([0, 2])),
}


class Net(nn.Module):
    def __init__(self, mode: str, call: Any, **options: Any) -> None:
        super().__init__()
        self.bag, self.out, self.call = nn.EmbeddingBag(10, 4, mode=mode, **options), nn.Linear(4, 2), call

    def forward(self, x: Any) -> Any:
        return self.out(self.call(self.bag, x)).tanh()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, name: str) -> None:
    torch.manual_seed(0)
    eager = Net(mode, CALLS[name], padding_idx=3)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    xs = [torch.randint(0, 10, (length,)) for length in (3, 5, 3, 4, 5)]
    wanted, found = [eager(x) for x in xs], [net(x) for x in xs]
    sum(y.sum() for y in wanted).backward()
    sum(y.sum() for y in found).backward()
    assert_close(torch.stack(found), torch.stack(wanted), "values")
    assert_close(net.bag.weight.grad, eager.bag.weight.grad, "gradient")
    report = gluonjit.explain()
    assert report.flushes == 1
    assert not report.alone
    with torch.no_grad():
        assert_close(torch.stack([net(x) for x in xs]), torch.stack([eager(x) for x in xs]), "without gradients")


def test_an_offset_that_pytorch_refuses() -> None:
    net = Net("sum", lambda bag, x: bag(x, x[:1] * 0 + (len(x) - 3)))
    gluonjit.hybridize(net, dynamic_batch=True)
    with pytest.raises(RuntimeError, match="offsets"), gluonjit.batching():
        sum(net(torch.arange(n)).sum() for n in (3, 4)).backward()
