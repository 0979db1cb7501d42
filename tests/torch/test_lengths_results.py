"""Results of cells of any length, and look-ups of one line, as operands of cells and operators."""

from __future__ import annotations

import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn

import gluonjit
from tests.common.torch_lengths import assert_as_eagerly, met, numbers, samples, whole
from tests.common.torch_support import assert_close

C, WORDS = 8, 20


class Stack(nn.Module):
    """Cells one after the other, each a layer on (1, n, d)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(WORDS, C), nn.Linear(C, 3)
        self.first = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)
        self.second = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)

    def forward(self, tokens: Any) -> Any:
        x = self.second(self.first(self.embed(tokens)))
        return self.out(x[0, -1] if float(tokens.sum()) > 1e9 else x[0])


def test_a_result_is_the_operand_of_the_next_cell() -> None:
    torch.manual_seed(0)
    eager = Stack()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)

    def make(draw: Any, n: int) -> tuple[Any, ...]:
        return (whole(draw, WORDS, 1, n),)

    met(net, make)
    report = assert_as_eagerly(eager, net, samples(make, 1, (4, 10, 6, 12, 3, 7, 5, 9)))
    assert report.kinds["first"].launches == report.kinds["second"].launches == 1
    assert report.kinds["first"].nodes == 8
    assert not any("view" in name or "getitem" in name for name in report.kinds)


def test_a_computed_operand_is_laid_out_anew() -> None:
    """It is a single row as an operator gives it, and has to be as many as it has words."""
    torch.manual_seed(0)
    eager = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for seed in range(3):
        given = samples(lambda draw, n: (numbers(draw, 1, n, C),), seed, (4, 10, 6, 12, 3))
        with gluonjit.batching(granularity="cell", scheduler="depth") as batch:
            found = [net(net(x).tanh() * 2) for (x,) in given]
        for one, (x,) in zip(found, given):
            assert_close(one, eager(eager(x).tanh() * 2), "a result", 1e-4)
    assert batch.report.kinds["TransformerEncoderLayer"].launches == 2


def test_look_ups_of_one_line_are_rows() -> None:
    eager = nn.Embedding(WORDS, C)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    given = [torch.tensor([[3, 5, 3]]), torch.tensor([[[5, 1]]]), torch.tensor([[7]])]
    for _ in range(2):
        with gluonjit.batching(granularity="cell") as batch:
            found = [net(each) for each in given]
            parts = [found[0][0], found[0].squeeze(0), found[0][0][1], found[1][0], found[0][-1][2:]]
            views = [found[0].view(3, C), found[0].unsqueeze(0)]
        for one, each in zip(found, given):
            assert_close(one, eager(each), "entries", 0)
        wanted = eager(given[0])
        others = [
            wanted[0],
            wanted.squeeze(0),
            wanted[0, 1],
            eager(given[1])[0],
            wanted[0, 2:],
            wanted[0],
            wanted[None],
        ]
        for one, other in zip([*parts, *views], others):
            assert one.shape == other.shape
            assert_close(one, other, "a part", 0)
    assert batch.report.launches == 0
    with gluonjit.batching(granularity="cell"), pytest.raises(IndexError):
        net(torch.tensor([[3, WORDS]]))


class Pairs(nn.Module):
    """Results of which two axes differ, and the last one of which differs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(C, C)

    def forward(self, x: Any) -> Any:
        q = self.layer(x)
        return q @ q.mT, q.mT * 1


class Parts(nn.Module):
    """A program that runs operator by operator on the results of a cell."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.pairs, self.body = Pairs(), body

    def forward(self, x: Any) -> Any:
        return self.body(*self.pairs(x))


def written(a: Any, q: Any) -> Any:
    part = a[0]
    part.add_(1)
    a[1] = 2.0
    return a * 1


PARTS: dict[str, Callable[..., Any]] = {
    "a row": lambda a, q: a[0] + a[-1],
    "a number": lambda a, q: a[0][1] + a[1, 0],
    "a column": lambda a, q: a[:, 0] + q[1],
    "rows, one by one": lambda a, q: torch.stack([row * 2 for row in a]),
    "rows put together": lambda a, q: torch.cat([a[0], q[1]]),
    "turned": lambda a, q: a.t() @ q.t(),
    "in one line": lambda a, q: a.view(-1).cumsum(0),
    "under an axis": lambda a, q: a[None][0] + a.unsqueeze(0),
    "cut": lambda a, q: a.split(1)[1] + q[2:4, :1],
    "written to": written,
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("under", [False, True])
def test_operators_take_such_results(name: str, under: bool) -> None:
    body = PARTS[name]
    torch.manual_seed(0)
    eager = Parts((lambda a, q: body(a[0], q[0])) if under else body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for seed in range(3):
        given = samples(lambda draw, n: (numbers(draw, *(1,) * under, n, C),), seed, (3, 7, 3, 2, 5))
        report = assert_as_eagerly(eager, net, given, expand=("Parts",))
    assert report.kinds["pairs"].launches == 1


class Shown(nn.Module):
    """A layer on (1, n, d), with a view of what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(C, 2, 12, dropout=0.0, batch_first=True)

    def forward(self, x: Any) -> Any:
        found = self.layer(x)
        return found, found.transpose(1, 2)


def test_calls_of_any_length_that_return_views_run_together() -> None:
    torch.manual_seed(0)
    eager = Shown()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for lengths in ((4, 10), (6, 12), (3, 7, 5, 9)):
        with gluonjit.batching(granularity="cell") as batch:
            given = samples(lambda draw, n: (numbers(draw, 1, n, C),), 0, lengths)
            found = [part for (x,) in given for part in net(x)]
        for one, other in zip(found, [part for (x,) in given for part in eager(x)]):
            assert_close(one, other, "a result", 1e-4)
    assert batch.report.kinds["Shown"].launches == 1
