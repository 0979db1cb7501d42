"""What the fuzzer found of writes in PyTorch, each as a small program: batched it gives what it gives eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.errors import CaptureError  # noqa: E402

Write = Callable[[Any, Any], Any]


class Net(nn.Module):
    """Calls a program with itself and a sample."""

    def __init__(self, program: Write) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 3)
        self.dense = nn.Linear(3, 3)
        self.other = nn.Linear(3, 3)
        self.program = program

    def forward(self, x: Any) -> Any:
        return self.program(self, x)


def made(program: Write) -> tuple[Net, list[Any]]:
    torch.manual_seed(0)
    return Net(program), [torch.randn(3) for _ in range(3)]


def outcome(program: Write, batched: bool) -> list[Any]:
    """The results, whether they learn, and the gradients of all weights."""
    net, samples = made(program)
    if batched:
        gluonjit.hybridize(net, dynamic_batch=True)
    found = [net(x) for x in samples]
    sum(value.square().sum() for value in found).backward()
    learning = [torch.tensor(float(value.requires_grad)) for value in found]
    return [*[value.detach() for value in found], *learning, *[parameter.grad for parameter in net.parameters()]]


def whole(write: Write) -> Write:
    """A program that writes over all of a result that learns."""

    def program(net: Net, x: Any) -> Any:
        h = net.dense(x)
        write(h, x)
        return h * 2

    return program


def unread(net: Net, x: Any) -> Any:
    h = torch.tanh(net.dense(x))
    h.add_(x, alpha=0.5)
    return net.other(x)


def data_read(net: Net, x: Any) -> Any:
    h = torch.tanh(net.dense(x))
    p = h.data * 0.5
    return p + h


PROGRAMS: dict[str, Write] = {
    "all by another": whole(lambda h, x: h.__setitem__(..., x)),
    "all by copy_": whole(lambda h, x: h.copy_(x)),
    "all by a number": whole(lambda h, x: h.fill_(0.25)),
    "all by zeros": whole(lambda h, x: h.zero_()),
    "part of it": whole(lambda h, x: h[:1].fill_(0.5)),
    "what nobody reads": unread,
    "data that is only read": data_read,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree(name: str) -> None:
    """A gradient of None is another thing than zeros."""
    for found, wanted in zip(outcome(PROGRAMS[name], True), outcome(PROGRAMS[name], False)):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            assert_close(found, wanted, name)


@pytest.mark.parametrize("part", ["embed", "dense"])
def test_a_weight_written_before_calls_that_use_it_have_run(part: str) -> None:
    """What waits has neither the new numbers of a table nor those of a matrix."""
    net, samples = made(lambda net, x: net.dense(net.embed(torch.tensor([1, 2])) * x))
    gluonjit.hybridize(net, dynamic_batch=True)
    total = sum(net(x).sum() for x in samples)
    with torch.no_grad():
        getattr(net, part).weight[1] = 0.5
    with pytest.raises(CaptureError, match=r"a weight of shape .* was written to after calls") as caught:
        total.backward()
    assert isinstance(caught.value, RuntimeError)
