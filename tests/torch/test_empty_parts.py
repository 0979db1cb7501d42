"""Empty parts of results, as of the edges of a graph without any, are computed as eagerly, at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402

SIZE = 3
NONE = torch.zeros(0, dtype=torch.long)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.other = (nn.Linear(SIZE, SIZE) for _ in range(3))
        self.table = nn.Embedding(5, SIZE)
        self.program: Any = None

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


def messages(net: Any, x: Any) -> Any:
    """Of a graph with as many edges as x has rows, but for one."""
    h = torch.tanh(net.first(x))
    edges = torch.arange(len(x) - 1)
    return h.index_add(0, edges + 1, net.second(h)[edges]).sum()


PROGRAMS: dict[str, Any] = {
    "a list": lambda net, x: net.second(net.first(x)[[]]).sum(),
    "numbers": lambda net, x: net.second(net.first(x)[NONE]).sum(),
    "a mask": lambda net, x: net.first(x)[torch.zeros(len(x), dtype=torch.bool)].sum(),
    "index_select": lambda net, x: net.first(x).index_select(0, NONE).sum(),
    "two lists": lambda net, x: torch.tanh(net.first(x))[NONE, NONE].sum(),
    "looked up": lambda net, x: net.first(net.table(torch.tensor([1, 2])) + x[:1])[NONE].sum(),
    "into rows": lambda net, x: net.first(x).index_add(0, NONE, net.second(x)[NONE]).sum(),
    "of what is detached": lambda net, x: (net.first(x).detach() * net.second(x))[NONE].sum(),
    "of what is quiet": lambda net, x: (quietly(net.first, x) * net.second(x))[NONE].sum(),
    "of an empty part": lambda net, x: net.second(net.first(x) + net.other(x)[NONE].sum())[NONE].sum(),
    "messages": messages,
    "rows": lambda net, x: (net.second(net.first(x)[1:]) - net.first(x)[:-1]).pow(2).sum(),
    "columns": lambda net, x: net.second(net.first(x)[None][:, :-1]).sum() + net.other(x).sum(),
    "of nothing": lambda net, x: (net.first(x)[1:] * net.second(x)[0]).sum(),
    "narrow": lambda net, x: net.first(x).narrow(0, 0, len(x) - 1).sum(),
    "differences": lambda net, x: net.first(x).diff(dim=0).abs().sum(),
    "split": lambda net, x: sum(part.sum() for part in net.first(x).split([len(x) - 1, 1])),
    "behind a beginning": lambda net, x: torch.cat([torch.zeros(1, SIZE), net.first(x)[:-1]]).mul(net.second(x)).sum(),
    "of a sum of rows": lambda net, x: (net.first(x).sum(0, keepdim=True) * net.second(x))[1:].sum() + x.sum(),
    "none learns": lambda net, x: (net.first(x) > 0)[1:].any() * net.second(x).sum(),
}


def quietly(layer: Any, x: Any) -> Any:
    with torch.no_grad():
        return layer(x)


def gradients(net: Any, program: Any, lengths: list[int], way: str) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    net.program = program
    samples = [torch.randn(length, SIZE, requires_grad=way == "inputs") for length in lengths]
    wanted = [*net.parameters(), *(samples if way == "inputs" else [])]
    found: list[Any] = []
    for _ in range(2):
        total = sum(net(x) for x in samples)
        if way == "grad":
            found += torch.autograd.grad(total, wanted, allow_unused=True)
        else:
            total.backward()
            found += [tensor.grad for tensor in wanted]
            for tensor in wanted:
                tensor.grad = None
    return found, total.detach()


@pytest.mark.parametrize("way", ["backward", "grad", "inputs"])
@pytest.mark.parametrize("lengths", [[1, 1, 1], [1, 3, 2, 1]], ids=["alone", "with others"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_zeros_or_none_as_eagerly(name: str, lengths: list[int], way: str) -> None:
    torch.manual_seed(1)
    eager = Net()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    wanted, expected = gradients(eager, PROGRAMS[name], lengths, way)
    found, total = gradients(net, PROGRAMS[name], lengths, way)
    assert_close(total, expected, name)
    assert [gradient is None for gradient in found] == [gradient is None for gradient in wanted]
    for a, b in zip(found, wanted):
        if b is not None:
            assert_close(a, b, name)


def test_the_report_says_what_to_type() -> None:
    net = gluonjit.hybridize(Net(), dynamic_batch=True, granularity="op")
    net.program = PROGRAMS["rows"]
    with gluonjit.batching() as batch:
        total = sum(net(torch.randn(length, SIZE)) for length in (1, 2))
    total.backward()
    assert any("leave out empty parts" in reason for reason in batch.report.unbatched.values())
