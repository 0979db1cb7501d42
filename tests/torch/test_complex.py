"""Gradients through complex numbers, which some calls take in a batch and others by themselves."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH = 4


class Net(nn.Module):
    """Rows, and what a sample makes of them by complex numbers."""

    def __init__(self, then: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.then = nn.Linear(WIDTH, WIDTH), then
        self.phase = nn.Parameter(torch.randn(WIDTH))
        angles = torch.outer(torch.arange(9.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("turns", torch.polar(torch.ones(9, 2), angles))

    def forward(self, sample: Any) -> Any:
        return self.then(self, self.layer(sample["x"]))


def turned(net: Any, h: Any) -> Any:
    """Rotary positions, as language models have them."""
    pairs = torch.view_as_complex(h.reshape(*h.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * net.turns[: len(h)]).flatten(-2).type_as(h)


def mixed(net: Any, h: Any) -> Any:
    """Rows mixed by Fourier transforms."""
    return torch.fft.fft(torch.fft.fft(h, dim=-1), dim=0).real + torch.fft.rfft(h, dim=0).abs().sum(0)


def filtered(net: Any, h: Any) -> Any:
    """A filter that learns, between two transforms."""
    spectrum = torch.fft.rfft(h, dim=1) * torch.polar(torch.ones(3), net.phase[:3])
    return torch.fft.irfft(spectrum, n=WIDTH, dim=1)


def stepped(net: Any, h: Any) -> Any:
    """A state of complex numbers, carried from row to row."""
    state, found = torch.zeros(WIDTH, dtype=torch.complex64), []
    for row in h:
        state = torch.exp(1j * net.phase) * state * 0.9 + torch.complex(row, torch.tanh(row))
        found.append(state.real + state.imag * state.abs())
    return torch.stack(found)


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("then", [turned, mixed, filtered, stepped])
def test_gradients_go_through_complex_numbers(then: Callable[..., Any], granularity: str) -> None:
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        net = Net(then)
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
        results = [net({"x": torch.randn(rows, WIDTH)}) for rows in (2, 5, 3, 2)]
        sum((each * each).sum() + each.tanh().sum() for each in results).backward()
        gradients = [torch.zeros(()) if each.grad is None else each.grad for each in net.parameters()]
        found.append([each.detach() for each in results] + gradients)
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


class Given(nn.Module):
    """Reads complex numbers of a sample, which may learn."""

    def __init__(self, conjugated: bool) -> None:
        super().__init__()
        self.layer, self.conjugated = nn.Linear(2 * WIDTH, WIDTH), conjugated
        self.turn = nn.Parameter(torch.randn(WIDTH, dtype=torch.complex64))

    def forward(self, signal: Any) -> Any:
        given = signal.conj() if self.conjugated else signal
        turned = given * self.turn[None]
        h = self.layer(torch.cat([turned.real, turned.imag], -1))
        return (torch.view_as_real(turned).flatten(1)[:, :WIDTH] * h).tanh()


@pytest.mark.parametrize("conjugated", [False, True])
@pytest.mark.parametrize("learns", [False, True])
def test_complex_inputs(learns: bool, conjugated: bool) -> None:
    found = []
    for dynamic in (False, True):
        torch.manual_seed(0)
        gluonjit.clear_caches()
        net = Given(conjugated)
        if dynamic:
            gluonjit.hybridize(net, dynamic_batch=True)
        signals = [torch.randn(rows, WIDTH, dtype=torch.complex64, requires_grad=learns) for rows in (2, 5, 3, 2)]
        results = [net(signal) for signal in signals]
        sum((each * each).sum() for each in results).backward()
        gradients = [each.grad for each in [*net.parameters(), *(signals if learns else [])]]
        found.append([each.detach() for each in results] + gradients)
        if dynamic:
            assert gluonjit.explain().flushes == 1
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


CONJUGATING: dict[str, Callable[[Any, Any], Any]] = {
    "vdot": torch.vdot,
    "vecdot": torch.linalg.vecdot,
    "inner": torch.inner,
    "outer": torch.outer,
    "einsum": lambda a, b: torch.einsum("i,i->", a.conj(), b),
    "adjoint": lambda a, b: torch.outer(a, b).adjoint() @ b,
    "cov": lambda a, b: torch.stack([a, b]).cov(),
    "norm": lambda a, b: a.norm() * b.conj().sum(),
}


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("name", list(CONJUGATING))
def test_a_conjugate_inside_of_an_operator_is_taken(name: str, granularity: str) -> None:
    samples = [torch.randn(2, 5, dtype=torch.complex64, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    found = []
    for batched in (False, True):
        torch.manual_seed(0)
        net = Net(lambda net, h: CONJUGATING[name](*(h * net.phase[0]).unbind()))
        net.layer = nn.Identity()
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
        results = [net({"x": x}) for x in samples]
        sum((k + 1) * (result.real + 2 * result.imag).sum() for k, result in enumerate(results)).backward()
        found.append([torch.view_as_real(result.detach()) for result in results] + [net.phase.grad])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
