"""Calls by known numbers that C captures: rows picked, added to others, their mean; and numbers taken apart."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gluonjit
from gluonjit.compiled import FAST, WHY_NOT
from gluonjit.engines.torch.engine import ENGINE
from tests.common.torch_support import assert_minibatch_as_eagerly

compiled = pytest.mark.skipif(FAST is None, reason=WHY_NOT)
SIZE = 3
Work = Callable[[Any, Any, Any], Any]
"""Of a graph with rows for nodes, others for edges, and two lists of numbers of nodes, one for each edge."""


class Net(nn.Module):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self.nodes, self.edges = nn.Embedding(9, SIZE), nn.Linear(SIZE, SIZE)
        self.work = work
        self.asked: list[Any] = []

    def forward(self, words: Any, edges: Any) -> Any:
        h = torch.tanh(self.nodes(words))
        m = torch.tanh(self.edges(h[edges[0]]))
        self.asked.clear()
        out = self.work(h, m, edges)
        self.last = [getattr(func, "__name__", "") for func in self.asked]
        return out.sum()


BY_C: dict[str, Work] = {
    "added": lambda h, m, e: torch.zeros_like(h).index_add(0, e[1], m),
    "added to others": lambda h, m, e: h.index_add(0, e[1], m),
    "added by a function": lambda h, m, e: torch.index_add(h, 0, e[1], m),
    "picked": lambda h, m, e: m * h.index_select(0, e[1]),
    "picked by a function": lambda h, m, e: m * torch.index_select(h, 0, e[1]),
    "a mean": lambda h, m, e: h.mean(0) * m.mean(dim=0),
    "a mean by a function": lambda h, m, e: torch.mean(m, 0) + torch.mean(h, dim=0),
    "a mean of each row": lambda h, m, e: h.mean(1),
    "a mean of all": lambda h, m, e: h.mean() * m,
    "added and a mean": lambda h, m, e: torch.zeros_like(h).index_add(0, e[1], m).mean(0),
}
BY_PYTHON: dict[str, Work] = {
    "twice as much": lambda h, m, e: h.index_add(0, e[1], m, alpha=2),
    "by names": lambda h, m, e: h.index_add(dim=0, index=e[1], source=m),
    "columns": lambda h, m, e: h.t().index_add(1, e[1], m.t()),
    "columns picked": lambda h, m, e: h.index_select(1, torch.tensor([2, 0])),
    "of the program's own": lambda h, m, e: torch.ones(len(h), SIZE).index_add(0, e[1], m),
    "to the program's own": lambda h, m, e: h.index_add(0, e[1], torch.ones(e.shape[1], SIZE)) * m.sum(),
    "by other integers": lambda h, m, e: h.index_add(0, e[1].int(), m),
    "in double": lambda h, m, e: h.double().index_add(0, e[1], m.double()).mean(0),
    "a mean as rows": lambda h, m, e: h.mean(0, keepdim=True),
    "a mean of two axes": lambda h, m, e: h.mean((0, 1)),
    "a mean in double": lambda h, m, e: h.mean(0, dtype=torch.float64),
    "a mean from behind": lambda h, m, e: h.mean(-2),
    "a mean of one axis": lambda h, m, e: h[:, 0].mean(0),
    "of no edges": lambda h, m, e: h.index_add(0, e[1][:0], m[:0]) * m.sum(),
    "without gradients": lambda h, m, e: h.index_add(0, e[1], m.detach()).mean(0).detach() * h,
}


def graphs(*numbers: int) -> list[Any]:
    found = []
    for n in numbers:
        edges = [[k % n, (k * k + 1) % n] for k in range(2 * n)]
        found.append((torch.arange(n) % 9, torch.tensor(edges).t()))
    return found


def models(work: Work, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = Net(work)
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", outline=False)
    original = type(ENGINE).call_operator

    def call_operator(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        own.asked.append(func)
        return original(self, func, args, kwargs)

    monkeypatch.setattr(type(ENGINE), "call_operator", call_operator)
    return net, own


@pytest.mark.parametrize("name", [*BY_C, *BY_PYTHON])
def test_calls_by_known_numbers_are_the_eager_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, own = models({**BY_C, **BY_PYTHON}[name], monkeypatch)
    for numbers in ((2, 3, 5), (5, 3, 4, 5, 2, 4)):
        assert_minibatch_as_eagerly(net, own, graphs(*numbers), lambda model, sample: model(*sample))
        with torch.no_grad():
            for sample in graphs(*numbers):
                assert torch.allclose(net(*sample), own(*sample), atol=1e-5)


@compiled
@pytest.mark.parametrize("name", BY_C)
def test_they_do_not_come_to_python_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, own = models(BY_C[name], monkeypatch)
    samples = graphs(3, 3, 4, 3)
    assert_minibatch_as_eagerly(net, own, samples, lambda model, sample: model(*sample))
    assert not own.last


def test_what_has_other_numbers_of_rows_runs_in_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    net, own = models(BY_C["added and a mean"], monkeypatch)
    for numbers in ((3, 4, 5, 6), (3, 7, 5, 8)):
        report = assert_minibatch_as_eagerly(net, own, graphs(*numbers), lambda model, sample: model(*sample))
    assert report.kinds["index_add"].launches == report.kinds["mean"].launches == 1


class Relations(nn.Module):
    """Rows by known numbers of a matrix for each relation, which is computed of weights alone, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bases, self.shares = nn.Parameter(torch.randn(2, SIZE, SIZE)), nn.Parameter(torch.randn(4, 2))

    def forward(self, kinds: Any, x: Any) -> Any:
        matrices = torch.einsum("rb,bij->rij", self.shares, self.bases)
        return torch.tanh(matrices[kinds].sum(0) @ x) + matrices[kinds, 0].sum(0)


@pytest.mark.parametrize("learning", [True, False])
def test_rows_of_what_is_computed_of_weights(learning: bool) -> None:
    torch.manual_seed(0)
    net = Relations()
    own = gluonjit.hybridize(copy.deepcopy(net), dynamic_batch=True, granularity="cell", expand=("Relations",))
    for count in (3, 5):
        samples = [(torch.arange(k + 1) * 3 % 4, torch.randn(SIZE)) for k in range(count)]
        with torch.set_grad_enabled(learning):
            if learning:
                report = assert_minibatch_as_eagerly(net, own, samples, lambda model, sample: model(*sample))
                assert report.kinds["sum"].launches <= 4
            else:
                for sample in samples:
                    assert torch.allclose(net(*sample), own(*sample), atol=1e-5)


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
@pytest.mark.parametrize("way", ["index_add", "index_select"])
def test_numbers_of_no_row_are_refused(wrong: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(h: Any, m: Any, e: Any) -> Any:
        places = torch.tensor([wrong] * e.shape[1]) if len(net.wrong) else e[1]
        return h.index_add(0, places, m) if way == "index_add" else h.index_select(0, places)

    net, own = models(work, monkeypatch)
    net.wrong = own.wrong = []
    own(*graphs(3)[0]).item()
    (sample,) = graphs(3)
    net.wrong.append(True)
    with pytest.raises((IndexError, RuntimeError)) as expected:
        net(*sample)
    with pytest.raises((IndexError, RuntimeError)) as found:
        own(*sample).item()
    assert isinstance(found.value, expected.type)


def test_numbers_taken_apart_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(h: Any, m: Any, e: Any) -> Any:
        source, to = e
        rows = [row.tolist() for row in e]
        assert rows == [source.tolist(), to.tolist()] == [e[0].tolist(), e[-1].tolist()]
        assert [int(x) for x in e[1][:2]] == rows[1][:2] and (e[0, 1:] == source[1:]).all()
        with pytest.raises(IndexError):
            e[2]
        return h[source] * h[to] * len([k for k in to if k == 1])

    net, own = models(work, monkeypatch)
    report = assert_minibatch_as_eagerly(net, own, graphs(3, 4, 3, 4), lambda model, sample: model(*sample))
    assert report.flushes == 1


def test_numbers_that_are_written_to_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(h: Any, m: Any, e: Any) -> Any:
        e = e.clone()
        first = torch.zeros_like(h).index_add(0, e[1], m)
        e[1] = 0
        return first + torch.zeros_like(h).index_add(0, e[1], m) * 2

    net, own = models(work, monkeypatch)
    with torch.no_grad():
        found = [[model(*sample) for sample in graphs(3, 4, 3)] for model in (net, own)]
        for one, other in zip(*found):
            assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("without", [(), ("fused",)])
def test_a_long_sum_of_numbers_by_rows(without: tuple[str, ...]) -> None:
    """Its results are rows as its terms are, though a vector of this shape is one row by nature."""

    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            part = torch.index_select(self.first(x).reshape(2, 1).reshape(2), 0, torch.tensor([0, 1, 0]))
            return ((part + part + part + part + part + part + part + part + part) * part.sum()).sum()

    torch.manual_seed(0)
    eager = Sums()
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True, granularity="op", without=without)
    samples = [torch.randn(3) for _ in range(3)]
    found, expected = [[each(x) for x in samples] for each in (net, eager)]
    sum(found).backward()  # type: ignore[union-attr]
    sum(expected).backward()  # type: ignore[union-attr]
    torch.testing.assert_close(torch.stack(found).detach(), torch.stack(expected).detach())
    torch.testing.assert_close(net.first.weight.grad, eager.first.weight.grad)
