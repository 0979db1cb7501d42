"""Entries of weights by known numbers, as `transitions[tag]` or `bias[k]` in a program of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_support import assert_close, assert_same

import gluonjit

FIXED: dict[str, Any] = {"granularity": "op", "scheduler": "depth"}


class Net(torch.nn.Module):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.table = torch.nn.Parameter(torch.arange(12.0).reshape(4, 3) / 7)
        self.cube = torch.nn.Parameter(torch.linspace(-1, 1, 36).reshape(4, 3, 3))
        self.line = torch.nn.Parameter(torch.linspace(0.5, 2, 4))

    def forward(self, x: Any, k: int, at: Any) -> Any:
        return self.body(self, x, k, at)


def _samples() -> list[tuple[Any, int, Any]]:
    generator = torch.Generator().manual_seed(3)
    return [(torch.randn(3, generator=generator), k % 4, torch.tensor(k * 3 % 4)) for k in range(12)]


def _loss(net: Any, sample: Any) -> Any:
    return net(*sample).sin().sum()


def _without_gradients(body: Callable[..., Any]) -> Any:
    """Outputs, and weights after them, are those of the eager program; returns the report."""
    found = []
    for batched in (False, True):
        net = Net(body)
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
        with torch.no_grad():
            outs = [net(*sample) for sample in _samples()]
        found.append([out.clone() for out in outs] + [each.detach() for each in net.parameters()])
    for number, (wanted, actual) in enumerate(zip(*found)):
        assert_close(actual, wanted, f"output or weight {number}")
    return gluonjit.explain()


_BODIES: dict[str, Callable[..., Any]] = {
    "row": lambda net, x, k, at: x * net.table[k],
    "from_behind": lambda net, x, k, at: x * net.table[-1 - k] + net.table[k],
    "known_tensor": lambda net, x, k, at: x + net.table[at] * net.table[at],
    "number": lambda net, x, k, at: x * net.line[k] + net.line[at],
    "entry": lambda net, x, k, at: x * net.table[k, 2] + net.table[at, k % 3],
    "matrix": lambda net, x, k, at: torch.tanh(x @ net.cube[k]) @ net.cube[at],
    "row_of_matrix": lambda net, x, k, at: x * net.cube[k, 1] + net.cube[k][at % 3],
    "changed_look": lambda net, x, k, at: (x + net.table[k].view(1, -1)).expand(2, 3),
    "as_an_operand_alone": lambda net, x, k, at: torch.stack([net.table[k], net.table[at], x]),
    "several": lambda net, x, k, at: x * net.table[[k, k]].sum(0) + net.table[k:].sum(0),
    "without_gradient": lambda net, x, k, at: x * net.table[k].detach() + net.table[at],
}


@pytest.mark.parametrize("name", _BODIES)
def test_entries_have_values_and_gradients_as_eagerly(name: str) -> None:
    assert assert_same(Net(_BODIES[name]), _samples(), _loss, **FIXED).flushes == 1
    assert _without_gradients(_BODIES[name]).flushes == 1


@pytest.mark.parametrize("name", ["row", "number", "entry", "matrix"])
def test_entries_of_all_samples_share_launches(name: str) -> None:
    report = assert_same(Net(_BODIES[name]), _samples(), _loss, **FIXED)
    assert report.launches <= 8, str(report)


def test_a_number_that_is_read_runs_nothing() -> None:
    def body(net: Net, x: Any, k: int, at: Any) -> Any:
        y = x * net.line[k]
        return y * 2 if net.line[at].item() > 1 and net.table[k, 1].item() > 0.2 else y

    assert assert_same(Net(body), _samples(), _loss, **FIXED).flushes == 1


def test_writes_to_an_entry_are_written_to_the_weight() -> None:
    def body(net: Net, x: Any, k: int, at: Any) -> Any:
        y, entry = x * net.table[k], net.table[k]
        _double(entry)
        return y + net.table[k] + entry

    _without_gradients(body)


def _double(entry: Any) -> Any:
    return entry.mul_(2)


def test_a_write_that_pytorch_refuses_is_refused() -> None:
    for batched in (False, True):
        net = Net(lambda net, x, k, at: _double(net.table[k]))
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            net(*_samples()[0])


def test_an_entry_that_is_kept_shows_later_numbers() -> None:
    def run(batched: bool) -> list[Any]:
        kept: list[Any] = []

        def body(net: Net, x: Any, k: int, at: Any) -> Any:
            if not kept:
                kept.append(net.table[1])
            return x * net.table[k] + kept[0]

        net, found = Net(body), []
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
        for _ in range(3):
            outs = [net(*sample) for sample in _samples()]
            sum(outs).sum().backward()
            with torch.no_grad():
                net.table -= 0.1 * net.table.grad
            found += [out.detach().clone() for out in outs]
        return [*found, net.table.grad]

    for number, (actual, wanted) in enumerate(zip(run(True), run(False))):
        assert_close(actual, wanted, f"output {number}, or the gradient")


def test_a_number_out_of_range_is_an_index_error() -> None:
    for batched in (False, True):
        net = Net(lambda net, x, k, at: x * net.table[4 + k])
        if batched:
            gluonjit.hybridize(net, dynamic_batch=True, **FIXED)
        with pytest.raises(IndexError, match="index 4 is out of bounds"):
            net(*_samples()[0])
