"""Memory of results that others get, such as numpy: it shows later writes to the result, and no other result has it."""

from __future__ import annotations

import copy
from typing import Any, Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import dlpack
from torch_support import assert_close

import gluonjit


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def model() -> Any:
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))


WRITES: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda h: h.numpy().fill(5),
    "an array": lambda h: np.asarray(h).fill(5),
    "a row": lambda h: h[0].numpy().fill(5),
    "rows": lambda h: [row.numpy().fill(5) for row in h],
    "a view": lambda h: h.view(-1).numpy().fill(5),
    "what is detached": lambda h: h.detach().numpy().fill(5),
    "its data": lambda h: h.data.squeeze(0).numpy().fill(5),
    "and back": lambda h: torch.from_numpy(h.numpy()).fill_(5),
    "as_tensor": lambda h: torch.as_tensor(h).fill_(5),
    "asarray": lambda h: torch.asarray(h).fill_(5),
    "dlpack": lambda h: torch.from_dlpack(h).fill_(5),
    "a capsule": lambda h: torch.from_dlpack(dlpack.to_dlpack(h)).fill_(5),
    "storage": lambda h: torch.tensor([]).set_(h.untyped_storage(), h.storage_offset(), (2,)).fill_(5),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("computed", [False, True])
def test_results_of_equal_calls_have_memory_of_their_own(name: str, computed: bool) -> None:
    eager = model()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")
    x = torch.randn(1, 3)
    with torch.no_grad():
        wanted, found = [[each(x) for _ in range(3)] for each in (eager, net)]
        for results in (wanted, found):
            if computed:
                results[0].sum().item()
            WRITES[name](results[1])
        for a, b in zip(wanted, found):
            assert_close(b, a, name)
            assert_close(b * 2, a * 2, name)


INSIDE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda h, a: h.add_(1),
    "a result": lambda h, a: h.add_(h.tanh()),
    "an entry": lambda h, a: h.__setitem__(0, 7),
    "zeros": lambda h, a: h.zero_(),
    "a view": lambda h, a: h.view(-1).mul_(3),
    "an output": lambda h, a: torch.add(h, 1, out=h),
    "numpy's": lambda h, a: a.fill(4),
}


@pytest.mark.parametrize("name", INSIDE)
def test_an_array_shows_writes_to_the_result_in_a_sample(name: str) -> None:
    arrays: list[Any] = []

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            h = self.dense(x)
            quiet = h.detach()
            arrays.append(quiet.numpy())
            INSIDE[name](quiet, arrays[-1])
            return quiet * 2 + torch.tanh(x)

    eager = Net()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="cell")
    samples = [torch.randn(n, 3) for n in (2, 1, 2)]
    wanted, found = [[each(x) for x in samples] for each in (eager, net)]
    for a, b in zip(wanted, found):
        assert_close(b, a, name)
    for a, b in zip(arrays[:3], arrays[3:]):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("part", [lambda h: h, lambda h: h[0, 1:], lambda h: h * 2])
def test_the_memory_of_a_pending_result_is_shared_with_other_processes(part: Callable[[Any], Any]) -> None:
    net = model()
    inputs = [torch.rand(1, 3) for _ in range(2)]
    with torch.no_grad():
        wanted = [part(net(x)) for x in inputs]
        gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
        results = [part(net(x)).share_memory_() for x in inputs]
    for result, each in zip(results, wanted):
        assert result.is_shared()
        assert_close(result, each, "shared")
