"""Functions of PyTorch that ask no class of what they are given: they get the numbers of captured tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_support import assert_close

import gluonjit
from gluonjit.errors import CaptureError

SIZE = 4
Body = Callable[[Any, Any, Any], Any]


def twice(rows: Any) -> Any:
    return torch.stack([rows, rows.flip(0)])


def square(h: Any) -> tuple[int, int]:
    return (h.shape[0], h.shape[0])


# Of each: what it gives of a captured tensor, of its input, and of whole numbers.
READING: dict[str, Body] = {
    "tensor": lambda h, x, rows: torch.tensor(h) + h,
    "tensor of a list": lambda h, x, rows: torch.tensor([v for v in h.sum(1)]) + h.sum(),
    "tensor of lists": lambda h, x, rows: torch.tensor([[v, 1.0] for v in h.sum(1)]).sum() * h,
    "tensor of whole numbers": lambda h, x, rows: h[torch.tensor([row * 1 for row in rows])],
    "as_tensor": lambda h, x, rows: torch.as_tensor(h),
    "as_tensor of a dtype": lambda h, x, rows: torch.as_tensor(h, dtype=torch.float64),
    "as_tensor of a list": lambda h, x, rows: torch.as_tensor([v for v in h.sum(1)]) * h.sum(),
    "asarray": lambda h, x, rows: torch.asarray(h, dtype=torch.float64),
    "new_tensor": lambda h, x, rows: h.new_tensor([v for v in h.sum(1)]) * h.sum(),
    "LongTensor": lambda h, x, rows: h[torch.LongTensor([row for row in rows])],
    "FloatTensor": lambda h, x, rows: torch.FloatTensor([v for v in h.sum(1).detach()]).sum() * h,
    "Tensor": lambda h, x, rows: torch.Tensor(h.detach()) * h,
    "arange": lambda h, x, rows: torch.arange(rows.max() + 1) + h.sum(),
    "arange of a result": lambda h, x, rows: torch.arange(h.argmax() + 1).sum() + h,
    "nested": lambda h, x, rows: torch.nested.nested_tensor([h, h[:2]]).to_padded_tensor(0.0).sum() * h,
    "sparse": lambda h, x, rows: torch.sparse.mm(torch.sparse_coo_tensor(twice(rows), rows + 1.0, square(h)), h),
    "sparse of results": lambda h, x, rows: torch.sparse.mm(
        torch.sparse_coo_tensor(twice(rows), h[rows].sum(1), square(h)), x
    ),
    "sparse to dense": lambda h, x, rows: torch.sparse_coo_tensor(twice(rows), h[rows].sum(1), square(h)).to_dense(),
    "sparse by rows": lambda h, x, rows: (
        torch.sparse_csr_tensor([0, 1, 2], rows[:2] % 2, torch.ones(2), (2, 2)) @ h[:2]
    ),
    "to_sparse": lambda h, x, rows: torch.sparse.mm(h.t().to_sparse(), x),
    "linspace": lambda h, x, rows: torch.linspace(0.0, h.sum(), 3).sum() * h,
    "logspace": lambda h, x, rows: torch.logspace(0.0, h.mean(), 3).sum() * h,
    "randint_like": lambda h, x, rows: torch.randint_like(h, 1) + h,
    "embedding_bag": lambda h, x, rows: F.embedding_bag(rows, h, torch.tensor([0, 2])),
    "multilabel_margin_loss": lambda h, x, rows: F.multilabel_margin_loss(h[0], torch.tensor([1, 0, -1, 2])),
}


class Net(nn.Module):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.layer = nn.Linear(SIZE, SIZE)
        self.body = body

    def forward(self, x: Any, rows: Any) -> Any:
        return self.body(self.layer(x), x, rows)


def outcome(net: Net, samples: list[tuple[Any, Any]]) -> list[Any]:
    net.zero_grad()
    results = [net(*sample) for sample in samples]
    sum(result.double().sum() for result in results).backward()
    return [*[result.detach() for result in results], net.layer.weight.grad, net.layer.bias.grad]


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("name", READING)
def test_what_asks_no_class_gets_numbers(name: str, granularity: str) -> None:
    torch.manual_seed(0)
    eager = Net(READING[name])
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity=granularity)
    samples = [(torch.randn(n, SIZE), torch.randint(0, n, (n + 3,))) for n in (3, 5, 3)]
    for found, wanted in zip(outcome(net, samples), outcome(eager, samples)):
        assert found.dtype == wanted.dtype
        assert_close(found, wanted, name)


def test_a_list_of_results_is_one_tensor() -> None:
    net = gluonjit.hybridize(nn.Linear(SIZE, 1), dynamic_batch=True, granularity="batched")
    samples = [torch.randn(SIZE) for _ in range(5)]
    with torch.no_grad():
        scores = [net(x)[0] for x in samples]
        assert torch.equal(torch.tensor(scores), torch.stack([net(x)[0] for x in samples]))
    assert gluonjit.explain().launches == 1


def test_without_functions_of_classes_gradients_go_on() -> None:
    """Of a view, which may not be made apart from autograd, they would get lost."""

    def unseen(call: Callable[[], Any]) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return call()

    eager = Net(lambda h, x, rows: unseen(lambda: torch.sin(h) * x) + h)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op")
    samples = [(torch.randn(n, SIZE), torch.arange(n)) for n in (3, 5, 3)]
    for found, wanted in zip(outcome(net, samples), outcome(eager, samples)):
        assert_close(found, wanted, "apart")
    net = gluonjit.hybridize(Net(lambda h, x, rows: unseen(lambda: h.view(-1))), dynamic_batch=True, granularity="op")
    with pytest.raises(CaptureError, match="whose gradient is recorded"):
        net(*samples[0])
    with torch.no_grad():
        assert net(*samples[0]).shape == (3 * SIZE,)
