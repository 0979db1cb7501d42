"""Views and rows that C finds once Python has: shapes, slices without ends, devices, rows by plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit

WAY: dict[str, Any] = {"granularity": "cell", "scheduler": "depth"}
NUMBERS = torch.tensor([2, 0, -1])

CALLS: dict[str, Callable[[Any], Any]] = {
    "unsqueeze": lambda rows: rows[1].unsqueeze(0),
    "unsqueeze by name": lambda rows: rows[1].unsqueeze(dim=0),
    "squeeze": lambda rows: rows[1:2].squeeze(0),
    "view": lambda rows: rows[1].view(1, 3),
    "view as it is": lambda rows: rows.view(4, 3),
    "reshape": lambda rows: rows[1].reshape((1, 3)),
    "a view of a view": lambda rows: rows[1].unsqueeze(0).squeeze(0).unsqueeze(0),
    "the first rows": lambda rows: rows[:2],
    "the last rows": lambda rows: rows[-2:],
    "all but the last": lambda rows: rows[:-1],
    "more than there are": lambda rows: rows[1:9],
    "far before the first": lambda rows: rows[-9:2],
    "all rows": lambda rows: rows[:],
    "to a device": lambda rows: rows[1].to(torch.device("cpu")),
    "to its device": lambda rows: rows[1].to(rows.device),
    "to a device by its name": lambda rows: rows[1].to("cpu"),
    "to a device and a type": lambda rows: rows[1].to("cpu", torch.float64),
    "rows by plain numbers": lambda rows: rows[NUMBERS],
    "selected rows": lambda rows: rows.index_select(0, NUMBERS[:2]),
    "unbound": lambda rows: torch.stack(rows.unbind(0)[1:]),
    "unbound by name": lambda rows: torch.unbind(rows, dim=0)[2],
    "split": lambda rows: rows.split(3)[1],
    "split by sizes": lambda rows: torch.split(rows, [1, 2, 1])[1],
    "split too small": lambda rows: rows.split(9)[0],
}


class Net(nn.Module):
    """Some calls on rows of its own."""

    def __init__(self, call: Callable[[Any], Any], writes: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layer = nn.Linear(3, 3)
        self.call, self.writes = call, writes

    def forward(self, x: Any) -> Any:
        """Sum what the calls give; a write in place to one shows in the rows."""
        rows = torch.tanh(self.layer(x)) * 2
        total = 0
        for _ in range(3):  # Python captures the first, C the others
            total = total + (self.call(rows) ** 2).sum()
        if self.writes:
            with torch.no_grad():
                self.call(rows).mul_(0.5)
        return total + (rows**3).sum()


def results(net: nn.Module, inputs: list[Any], learning: bool) -> tuple[list[Any], list[Any]]:
    """Losses, and gradients of their sum."""
    net.zero_grad()
    with torch.set_grad_enabled(learning):
        losses = [net(x) for x in inputs]
        if learning:
            torch.stack(losses).sum().backward()
    return [loss.item() for loss in losses], [p.grad.clone() for p in net.parameters() if p.grad is not None]


@pytest.mark.parametrize("written", [False, True], ids=["read", "written"])
@pytest.mark.parametrize("learning", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_what_it_gives_eagerly(name: str, learning: bool, written: bool) -> None:
    """In the same minibatch, and in the next one."""
    inputs = [torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    eager, net = Net(CALLS[name], written and not learning), Net(CALLS[name], written and not learning)
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    for _ in range(2):
        (losses, gradients), (wanted, of_wanted) = (results(each, inputs, learning) for each in (net, eager))
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert len(gradients) == len(of_wanted)
        for one, other in zip(gradients, of_wanted):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("call", [lambda rows: rows[torch.tensor([4])], lambda rows: rows.index_select(0, NUMBERS)])
def test_numbers_of_no_row_are_refused_as_eagerly(call: Callable[[Any], Any]) -> None:
    net = Net(call, False)
    x = torch.randn(4, 3)
    with pytest.raises((IndexError, RuntimeError)) as eager:
        net(x)
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    with pytest.raises(eager.type):
        net(x).item()


@pytest.mark.parametrize(
    "key", [torch.tensor([1, 0, 1, 0], dtype=torch.uint8), torch.tensor([True, False, True, True])]
)
@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_truth_values_are_no_numbers(key: Any) -> None:
    x = torch.randn(4, 3)
    eager, net = Net(lambda rows: rows[key], False), Net(lambda rows: rows[key], False)
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    assert net(x).item() == pytest.approx(eager(x).item(), rel=1e-5)


@pytest.mark.filterwarnings("ignore::gluonjit.errors.CellWarning")  # of what goes to another device
def test_devices_are_not_mistaken() -> None:
    """A call to another device is that device's."""
    net = Net(lambda rows: rows[1].to(torch.device("cpu")) if rows.device.type == "cpu" else rows, False)
    seen = []

    def call(rows: Any) -> Any:
        for device in (torch.device("cpu"), torch.device("meta"), torch.device("cpu", 0)):
            seen.append(rows[1].to(device).device)
        return rows

    net.call = call
    gluonjit.hybridize(net, dynamic_batch=True, **WAY)
    net(torch.randn(4, 3)).item()
    assert [device.type for device in seen] == ["cpu", "meta", "cpu"] * 3
