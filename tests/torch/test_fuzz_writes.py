"""What the fuzzer found of writes in PyTorch, each as a small program: batched it gives what it gives eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_support import assert_close

import gluonjit
from gluonjit.errors import BatchClosedError, CaptureError

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


def write_unseen(weight: Any) -> None:
    """Writes to a weight by a function, of which nothing tells before."""
    with torch.no_grad():
        torch._foreach_mul_([weight], 0.5)


@pytest.mark.parametrize("part", ["embed", "dense"])
def test_a_weight_written_before_calls_that_use_it_have_run(part: str) -> None:
    """What waits has neither the new numbers of a table nor those of a matrix, if nothing tells of the write before."""
    net, samples = made(lambda net, x: net.dense(net.embed(torch.tensor([1, 2])) * x))
    gluonjit.hybridize(net, dynamic_batch=True)
    total = sum(net(x).sum() for x in samples)
    write_unseen(getattr(net, part).weight)
    with pytest.raises(CaptureError, match=r"a weight of shape .* was written to after calls") as caught:
        total.backward()
    assert isinstance(caught.value, RuntimeError)


def test_a_table_written_when_nobody_can_read_what_waits() -> None:
    """A sample raises, its weights are loaded anew, and the next minibatch has nothing to do with it."""

    def fails(net: Net, x: Any) -> Any:
        h = net.dense(net.embed(torch.tensor([1, 2])) * x)
        if len(x) == 1:
            raise KeyError("a sample's own")
        return h

    net, samples = made(fails)
    gluonjit.hybridize(net, dynamic_batch=True)
    raised = False
    try:
        net(torch.zeros(1))
    except KeyError:  # nothing keeps it, nor with it the values in its frames
        raised = True
    assert raised
    with torch.no_grad():
        net.embed.weight[1] = 0.5
        net.dense.weight[1] = 0.5
    net.load_state_dict(net.state_dict())  # what waits runs before
    found = torch.stack([net(x) for x in samples])
    gluonjit.hybridize(net, dynamic_batch=False)
    assert_close(found, torch.stack([net(x) for x in samples]), "after a failure")


def test_rows_of_a_table_that_was_written_are_refused_where_they_alone_are_read() -> None:
    net, _ = made(lambda net, x: net.dense(x))
    gluonjit.hybridize(net, dynamic_batch=True)
    rows, other = net.embed(torch.tensor([1, 2])), net.dense(torch.ones(3))
    write_unseen(net.embed.weight)
    assert_close(other, functional.linear(torch.ones(3), net.dense.weight, net.dense.bias), "what does not look up")
    with pytest.raises(CaptureError, match=r"a weight of shape \(7, 3\) was written to"):
        rows.sum().item()


def test_batching_is_off_in_all_parts_where_what_waits_fails() -> None:
    net, samples = made(lambda net, x: net.dense(x))
    gluonjit.hybridize(net, dynamic_batch=True)
    held = net(samples[0])
    write_unseen(net.dense.weight)
    with pytest.raises(CaptureError, match="a weight of shape"):
        gluonjit.hybridize(net, dynamic_batch=False)
    with pytest.raises(BatchClosedError):
        held.sum().item()
    assert type(net(samples[0])) is torch.Tensor
    assert type(net.dense(samples[0])) is torch.Tensor


def test_the_rows_of_a_written_input_are_its_own_where_inputs_have_any_number_of_them() -> None:
    """What one input holds is not what another of more rows is looked for at."""

    def outcomes(batched: bool) -> list[Any]:
        net, _ = made(lambda net, x: torch.tanh(net.dense(x)) if len(x) > 1 else x * 0.5)
        inputs = [torch.full((rows, 3), 0.1 * rows) for rows in (4, 3, 1)]
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True)
        total = sum(net(x).sum() for x in inputs)
        with torch.no_grad():
            inputs[2].mul_(0.5)
        total.backward()
        return [total.detach(), net.dense.weight.grad, net.dense.bias.grad]

    for found, wanted in zip(outcomes(True), outcomes(False)):
        assert_close(found, wanted, "gradients")


def test_a_result_that_backward_needs_and_that_was_joined_is_refused_where_it_is_written_over() -> None:
    def program(net: Net, x: Any) -> Any:
        h = torch.tanh(net.dense(x))
        joined = torch.stack([h, net.other(x)])
        h[0] = 0
        return joined.sum(0)

    for batched in (False, True):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            outcome(program, batched)


def test_a_copy_of_what_backward_needs_may_be_written_over() -> None:
    def program(net: Net, x: Any) -> Any:
        h = torch.tanh(net.dense(x))
        copied, joined = 0 + h, torch.stack([h])
        copied[0] = 0
        joined[0, 1] = 0
        return h + copied + joined[0]

    for found, wanted in zip(outcome(program, True), outcome(program, False)):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            assert_close(found, wanted, "what was copied")
