"""Writes that change how a tensor looks, or give it other memory: what was taken of it before stays as it was."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.torch_support import assert_close

pytestmark = pytest.mark.filterwarnings("ignore")
CHANGES: dict[str, Callable[[Any], Any]] = {
    "transpose_": lambda y: y.transpose_(0, 1),
    "t_": lambda y: y.t_(),
    "swapaxes_": lambda y: y.swapaxes_(0, -1),
    "unsqueeze_": lambda y: y.unsqueeze_(0),
    "squeeze_": lambda y: y.unsqueeze_(1).squeeze_(1),
    "as_strided_": lambda y: y.as_strided_((3, 2), (1, 3)),
    "as_strided_ of a part": lambda y: y.as_strided_((2, 2), (1, 1)),
}
MOVES: dict[str, Callable[[Any], Any]] = {
    "resize_": lambda y: y.resize_(3, 2),
    "set_": lambda y: y.set_(torch.ones(3, 2)),
    "data": lambda y: setattr(y, "data", torch.ones(3, 2)),
}


def read(x: Any, change: Callable[[Any], Any]) -> Any:
    y = (x * 2).clone()
    view, row = y.reshape(-1), y[1]
    change(y)
    return view * 1, row * 1, y * 1, y.shape


def write(x: Any, change: Callable[[Any], Any]) -> Any:
    y = (x * 2).clone()
    row = y[1]
    change(y)
    y *= 3
    return row * 1, y * 1


def write_to_a_view(x: Any, change: Callable[[Any], Any]) -> Any:
    y = (x * 2).clone()
    one, other = y[0], y[1]
    change(y)
    one *= 2
    return one * 1, other * 1, y * 1


def change_a_view(x: Any, change: Callable[[Any], Any]) -> Any:
    h = torch.stack([x, x * 2])
    y = h[1]
    change(y)
    h += 1
    return y * 1, h * 1


def change_what_was_made(x: Any, change: Callable[[Any], Any]) -> Any:
    y = torch.zeros(2, 3)
    view = y.view(-1)
    y[0] = x[0]
    change(y)
    return view * 1, y * 1


class Net(nn.Module):
    """A matrix of each sample, and a program."""

    def __init__(self, program: Callable[..., Any], change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.weight, self.program, self.change = nn.Parameter(torch.tensor(1.5)), program, change

    def forward(self, x: Any) -> Any:
        return self.program(x * self.weight, self.change)


def outcome(net: Net, samples: list[Any], learns: bool) -> list[Any]:
    with torch.set_grad_enabled(learns):
        results = [part for x in samples for part in net(x)]
    found = [part.detach().clone() if isinstance(part, torch.Tensor) else torch.tensor(part) for part in results]
    if learns:
        learning = [part for part in results if isinstance(part, torch.Tensor) and part.requires_grad]
        sum((k + 1) * part.square().sum() for k, part in enumerate(learning)).backward()
        found.append(net.weight.grad)
    return found


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("program", [read, write, write_to_a_view, change_a_view, change_what_was_made])
@pytest.mark.parametrize(
    ("name", "learns"), [*[(name, True) for name in CHANGES], *[(name, False) for name in (*CHANGES, *MOVES)]]
)
def test_what_was_taken_before_stays(name: str, program: Any, learns: bool, granularity: str) -> None:
    samples = [torch.randn(2, 3, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    change = {**CHANGES, **MOVES}[name]
    wanted = outcome(Net(program, change), samples, learns)
    net = gluonjit.hybridize(Net(program, change), dynamic_batch=True, granularity=granularity)
    for one, other in zip(outcome(net, samples, learns), wanted):
        assert_close(one, other, name)


def turned(x: Any) -> tuple[Any, Any]:
    """A tensor that lies transposed in eager execution, and a view that it therefore has."""
    y = torch.sin(x.t())
    return y, y.t().view(-1)


def written(x: Any, before: Any) -> Any:
    """A write to such a view, which shows in the tensor."""
    y, view = turned(x)
    before(y)
    view.detach().add_(1.0)
    return y, view


def taken(x: Any, before: Any) -> Any:
    """Views and copies of such a view."""
    y, view = turned(x)
    before(view)
    return view.detach(), view.float()[1:], view.contiguous(), view.reshape(3, 2).data, y


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("before", [lambda y: None, lambda y: y.tolist()], ids=["pending", "run"])
@pytest.mark.parametrize(("program", "learns"), [(taken, True), (taken, False), (written, False)])
def test_views_of_what_lies_transposed(program: Any, before: Any, learns: bool, granularity: str) -> None:
    samples = [torch.randn(2, 3, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    wanted = outcome(Net(program, before), samples, learns)
    net = gluonjit.hybridize(Net(program, before), dynamic_batch=True, granularity=granularity)
    for one, other in zip(outcome(net, samples, learns), wanted):
        assert_close(one, other, program.__name__)


class Reshaped(nn.Module):
    """Gives what it computes, and its argument in other shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(x), x.reshape(-1), x.flatten(), x.contiguous()[0]


@pytest.mark.parametrize("turn", [lambda x: x.t(), lambda x: x[:, :1].expand(4, 4), lambda x: x[::2]])
def test_other_shapes_of_an_argument_that_lies_otherwise(turn: Callable[[Any], Any]) -> None:
    net = gluonjit.hybridize(Reshaped(), dynamic_batch=True, granularity="batched")
    for x in (torch.randn(4, 4), turn(torch.randn(4, 4)), turn(torch.randn(4, 4).requires_grad_())):
        for one, other in zip(net(x)[1:], (x.reshape(-1), x.flatten(), x[0])):
            assert_close(one, other, "results")


class Expanded(nn.Module):
    """Gives rows that are one in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        h = self.layer(x)
        return h.mean(0).expand(2, 3), h[1].unsqueeze(0).expand(2, 3)


class Given(nn.Module):
    """Gives an argument as it is, or a copy where it lies otherwise, and a result."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x), x.contiguous(), x.reshape(-1)


def writes_to_one_row(net: Any, x: Any) -> Any:
    mean, row = net(x)
    mean[0] += 1.0
    row[0, 0] = 7.0
    return mean * 1, row * 1


def refused(net: Any, x: Any) -> Any:
    mean, _ = net(x)
    with pytest.raises(RuntimeError, match="single memory location"):
        mean += 1.0
    return mean * 1


def writes_to_what_was_given(net: Any, x: Any) -> Any:
    y, same, flat = net(x)
    same += 1.0
    flat *= 2.0
    return y * 1, same, flat, x * 1


def lies(net: Any, x: Any) -> Any:
    y = net(x)[0]
    return y.is_contiguous(), y.t().is_contiguous(), y.t().stride()


class Writer(nn.Module):
    """A program around a part of it."""

    def __init__(self, part: Any, program: Any) -> None:
        super().__init__()
        self.part, self.program = part, program

    def forward(self, x: Any) -> Any:
        return self.program(self.part, x)


@pytest.mark.parametrize("granularity", ["batched", "op"])
@pytest.mark.parametrize(
    ("kind", "program"),
    [(Expanded, writes_to_one_row), (Expanded, refused), (Given, writes_to_what_was_given), (Given, lies)],
)
def test_a_cell_gives_memory_as_it_is_in_eager_execution(kind: Any, program: Any, granularity: str) -> None:
    torch.manual_seed(0)
    net = Writer(kind(), program)
    samples = [torch.randn(2, 3), torch.randn(3, 2).t(), torch.randn(2, 3)]
    with torch.no_grad():
        wanted = [net(x.clone(memory_format=torch.preserve_format)) for x in samples]
        gluonjit.hybridize(net, dynamic_batch=True, granularity=granularity)
        for one, other in zip([net(x) for x in samples], wanted):
            for part, like in zip(*[each if isinstance(each, tuple) else (each,) for each in (one, other)]):
                if isinstance(like, torch.Tensor):
                    assert_close(part, like, program.__name__)
                else:
                    assert part == like


SHOWING: dict[str, Callable[[Any], Any]] = {
    "broadcast_tensors": lambda y: torch.broadcast_tensors(y, torch.ones(2, 3))[0],
    "broadcast_tensors, larger": lambda y: torch.broadcast_tensors(y, torch.ones(2, 2, 3))[0][0],
    "meshgrid": lambda y: torch.meshgrid(y[0], y[1], indexing="ij")[0][:, 0],
    "einsum": lambda y: torch.einsum("ij->ji", y),
    "view_as_complex": lambda y: torch.view_as_real(torch.view_as_complex(y.reshape(3, 2))),
    "imag": lambda y: torch.view_as_complex(y.reshape(3, 2)).imag,
    "conj": lambda y: torch.view_as_complex(y.reshape(3, 2)).conj().real,
    "linalg.diagonal": torch.linalg.diagonal,
    "aten.alias": torch.ops.aten.alias,
    "copy": copy.copy,
}


@pytest.mark.parametrize("granularity", ["batched", "op"])
@pytest.mark.parametrize("name", SHOWING)
def test_a_write_to_a_view_by_any_operator_shows(name: str, granularity: str) -> None:
    """Which operators give views their schemas say, and no list of names."""

    def program(x: Any, show: Any) -> Any:
        y = x * 2
        view = show(y)
        view[0] = 3.0
        y[1] += 1.0
        return torch.view_as_real(view) if view.is_complex() else view * 1, y

    samples = [torch.randn(2, 3, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    wanted = outcome(Net(program, SHOWING[name]), samples, False)
    net = gluonjit.hybridize(Net(program, SHOWING[name]), dynamic_batch=True, granularity=granularity)
    for one, other in zip(outcome(net, samples, False), wanted):
        assert_close(one, other, name)


class Spread(nn.Module):
    """Gives rows, and their mean for each."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        h = self.layer(x)
        return h, h.mean(0, keepdim=True).expand_as(h)


def test_what_is_expanded_to_any_length_is_one_kind() -> None:
    net = gluonjit.hybridize(Spread(), dynamic_batch=True, granularity="batched")
    for _ in range(3):
        samples = [torch.randn(n, 3) for n in (2, 3, 4, 5, 6)]
        with gluonjit.batching() as batch:
            results = [net(x) for x in samples]
    assert batch.report.launches == 1
    for x, (rows, mean) in zip(samples, results):
        assert_close(mean, rows.mean(0, keepdim=True).expand_as(x), "means")
