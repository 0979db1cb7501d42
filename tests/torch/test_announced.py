"""Weights and buffers that `forward` writes to: each call has those of its time, as in the eager program."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.errors import CaptureError  # noqa: E402
from gluonjit.hybrid.choose import pacing  # noqa: E402

SIZE = 4


class Net(nn.Module):
    """Two layers, a copy of the first that does not learn, a table that does not, and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 1)
        self.target = copy.deepcopy(self.first).requires_grad_(False)
        self.codes = nn.Parameter(torch.randn(3, SIZE), requires_grad=False)
        self.register_buffer("sizes", torch.ones(3))
        self.register_buffer("scale", torch.ones(SIZE))

    def forward(self, x: Any) -> Any:
        raise NotImplementedError


class Target(Net):
    """A copy that follows a layer slowly."""

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.first(x))
        with torch.no_grad():
            wanted = torch.tanh(self.target(x))
            for p, q in zip(self.target.parameters(), self.first.parameters()):
                p.mul_(0.9).add_(q, alpha=0.1)
        return (h - wanted).pow(2).sum() + self.last(h).sum()


class Codebook(Net):
    """Codes that follow what is nearest to them (VQ-VAE)."""

    def forward(self, x: Any) -> Any:
        z = torch.tanh(self.first(x))
        nearest = torch.cdist(z, self.codes).argmin(1)
        quantized = z + (self.codes[nearest] - z).detach()
        with torch.no_grad():
            hot = F.one_hot(nearest, 3).to(z.dtype)
            self.sizes.mul_(0.9).add_(hot.sum(0), alpha=0.1)
            self.codes.mul_(0.9).add_(hot.t() @ z, alpha=0.1)
            self.codes.div_(self.sizes.unsqueeze(1) + 0.1)
        return self.last(quantized).sum()


class Before(Net):
    """A write before the use, by each of several ways."""

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.first.weight.mul_(0.9).clamp_(-0.4, 0.4)
            self.first.weight *= 1.01
            self.first.bias[0] = 0.5
        return self.last(torch.tanh(self.first(x))).sum()


class After(Net):
    """A write of what is computed, after the use."""

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.first(x))
        with torch.no_grad():
            self.first.bias.add_(h.mean(0), alpha=0.1)
        return self.last(h).sum()


class Restored(Net):
    """Other weights for a while."""

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.target.weight.add_(0.1)
            found = torch.tanh(self.target(x)).sum()
            self.target.weight.sub_(0.1)
        return self.last(torch.tanh(self.first(x))).sum() + found


class Views(Net):
    """A write to a view, of one row or all."""

    def forward(self, x: Any) -> Any:
        found = self.last(torch.tanh(self.first(x))).sum()
        with torch.no_grad():
            self.first.weight[1].mul_(0.9)
            for row in self.first.weight:
                row.mul_(0.99)
        self.first.bias.detach().mul_(0.9)
        return found


class BufferData(Net):
    """A write to a buffer through its data, which PyTorch does not count."""

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.first(x)).detach() * self.scale
        self.scale.data.mul_(0.9)
        return self.last(h).sum()


class Norms(Net):
    """Entries of a table that are kept within a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, SIZE, max_norm=1.0)

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.first(self.table((x[:, 0] > 0).long())))).sum()


class Begun(Net):
    """Weights that are set up by the first sample."""

    def forward(self, x: Any) -> Any:
        if self.sizes[0] > 0:
            with torch.no_grad():
                self.first.bias.copy_(-x.mean(0))
            self.sizes.zero_()
        return self.last(torch.tanh(self.first(x))).sum()


PROGRAMS = [Target, Codebook, Before, After, Restored, Views, BufferData, Norms, Begun]


def minibatch(net: Any, samples: list[Any], recording: bool) -> list[Any]:
    """All that a minibatch gives and leaves behind."""
    net.zero_grad()
    with torch.set_grad_enabled(recording):
        losses = [net(x) for x in samples]
        if recording:
            sum(losses).backward()
    gradients = [weight.grad for weight in net.parameters() if weight.grad is not None]
    return [*[loss.detach().clone() for loss in losses], *gradients, *[t.clone() for t in net.state_dict().values()]]


def outcomes(program: Any, recording: bool, turns: int) -> tuple[list[Any], list[Any]]:
    """What all minibatches give, eagerly and batched."""
    torch.manual_seed(0)
    eager = program()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    wanted, found = [], []
    for turn in range(turns):
        samples = [torch.randn(2 + (turn + k) % 2, SIZE) for k in range(4)]
        wanted += minibatch(eager, samples, recording)
        found += minibatch(net, samples, recording)
    assert len(wanted) == len(found)
    return wanted, found


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_call_has_the_weights_of_its_time(program: Any, recording: bool) -> None:
    wanted, found = outcomes(program, recording, 6)
    for number, (a, b) in enumerate(zip(wanted, found)):
        assert_close(b, a, f"{program.__name__} {number}")


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("program", [Target, Before, Views])
def test_a_program_that_always_writes_to_weights_stays_eager(program: Any, recording: bool, free: None) -> None:
    wanted, found = outcomes(program, recording, 30)
    assert all(torch.equal(a, b) for a, b in zip(wanted, found))
    assert "; runs eagerly" in str(gluonjit.explain())


@pytest.mark.parametrize("program", [Begun, BufferData, Norms])
def test_other_programs_may_be_batched(program: Any, free: None) -> None:
    outcomes(program, True, 3)
    assert not pacing.HERE.paces.phases[True].pinned


def test_a_buffer_whose_data_was_only_read_so_far_is_never_taken_for_another() -> None:
    class Late(Net):
        writes = False

        def forward(self, x: Any) -> Any:
            found = torch.tanh(self.first(x)) * self.scale
            data = self.scale.data
            if self.writes:
                data.mul_(0.5)
            return self.last(found * self.scale).sum() * float(len(data))

    net = gluonjit.hybridize(Late(), dynamic_batch=True)
    with torch.no_grad():
        for _ in range(3):
            sum(net(torch.ones(2, SIZE)) for _ in range(4)).item()
        net.writes = True
        with pytest.raises(CaptureError, match="was written to"):
            sum(net(torch.ones(2, SIZE)) for _ in range(4)).item()


def test_weights_whose_shape_the_first_call_tells(free: None) -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.LazyLinear(SIZE), nn.LazyLinear(1)

        def forward(self, x: Any) -> Any:
            return self.last(torch.tanh(self.first(x))).sum()

    net = gluonjit.hybridize(Late(), dynamic_batch=True)
    for _ in range(3):
        found = [net(torch.randn(2, SIZE)) for _ in range(3)]
        sum(found).backward()
    wanted = net(torch.ones(2, SIZE)).detach()
    gluonjit.hybridize(net, dynamic_batch=False)
    assert_close(wanted, net(torch.ones(2, SIZE)), "lazy layers")


def test_what_does_not_use_a_weight_waits_on() -> None:
    class Free(Net):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.codes.mul_(0.9)
            return self.last(torch.tanh(self.first(x))).sum()

    net = gluonjit.hybridize(Free(), dynamic_batch=True, granularity="cell")
    with gluonjit.batching() as batch:
        sum(net(torch.randn(2, SIZE)) for _ in range(6)).backward()
    assert batch.report.flushes == 1


def test_writes_outside_of_samples_come_after_what_waits() -> None:
    eager = Net()
    eager.forward = lambda x: eager.last(torch.tanh(eager.first(x))).sum()  # type: ignore[method-assign]
    x = torch.randn(2, SIZE)
    wanted = float(eager(x))
    gluonjit.hybridize(eager, dynamic_batch=True)
    waiting = eager(x)
    with torch.no_grad():
        eager.first.weight.mul_(0.5)
    assert abs(float(waiting) - wanted) < 1e-5 * abs(wanted)
