"""What mixes rows runs for nodes of many lengths at once, padded: nothing of padding is in values or gradients."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import gluonjit
from gluonjit.engines.torch.lengths.program import LengthPart
from gluonjit.engines.torch.operators import moving
from gluonjit.program.axes.values import Size
from gluonjit.program.lengths import running
from gluonjit.program.lengths.nodes import SizedNodes
from tests.torch.test_lengths import ONE, C, Model, assert_as_eagerly, both, model_kinds, split, tokens

MINIBATCHES = ((5, 3), (4, 6, 5, 7), (3, 8, 8, 2, 9, 5), (11, 4, 7, 9, 10))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many programs of one length, and of many, have run."""
    found = {"one": 0, "many": 0}
    for name, owner, method in (("one", LengthPart, "run"), ("many", running.StageRun, "together")):
        original = getattr(owner, method)

        def run(self: Any, *args: Any, name: str = name, original: Any = original) -> Any:
            found[name] += 1
            return original(self, *args)

        monkeypatch.setattr(owner, method, run)
    return found


def masked(net: Model, x: Any) -> Any:
    """Attention of each word to some of those before it."""
    scores = net.q(x) @ net.k(x).t()
    near = (torch.arange(len(x))[:, None] - torch.arange(len(x))[None]).abs() > 1
    return net.out(torch.softmax(scores.masked_fill(near, -torch.inf), -1) @ x)


def barred(net: Model, x: Any) -> Any:
    bars = torch.full((40, 40), -torch.inf).triu(1)[: len(x), : len(x)]
    return net.out(torch.softmax(net.q(x) @ net.k(x).t() + bars, -1) @ x)


PADDED: dict[str, Callable[..., Any]] = {
    "a mask of each sample": masked,
    "bars in a table": barred,
    "logarithms of softmax": lambda net, x: (net.places[0, :1] * torch.log_softmax(net.q(x) @ x.t(), -1)).mean(),
    "logarithms of shares": lambda net, x: ((x @ x.t()).softmax(-1).log() + net.places[0, :1]).sum(1).mean(),
    "roots": lambda net, x: ((x @ x.t()).square().sqrt() * net.places[0, :1]).sum(0).amax(),
    "quotients": lambda net, x: (x @ x.t() / (net.q(x) @ net.k(x).t()).exp()).sum(1).mean(0),
    "cosines": lambda net, x: (F.normalize(x, dim=-1) @ F.normalize(net.q(x), dim=-1).t()).amax(1).mean(),
    "largest and smallest": lambda net, x: torch.cat([x.amax(0), x.amin(0), x.max(0).values - x.min(0).values]),
    "sums of exponents": lambda net, x: (net.q(x) @ x.t()).logsumexp(1).sum() + x.logsumexp(0).sum(),
    "places of the largest": lambda net, x: net.out(x[0]) + x.argmax(0)[:3],
    "norms along": lambda net, x: net.out(x) / (x.norm() + 1),
    "heads": lambda net, x: ((split(net.q(x)) @ split(x).mT).softmax(-1) @ split(net.v(x))).transpose(0, 1).flatten(1),
    "pairs of words": lambda net, x: torch.einsum(
        "ij,jd->id",
        net.out(torch.cat([x[:, None].expand(-1, len(x), -1), x[None].expand(len(x), -1, -1)], -1)[..., :C])[..., 0],
        x,
    ),
    "a mean by hand": ONE["a mean by hand"],
    "attention as one operator": ONE["attention as one operator"],
    "a mask": ONE["a mask"],
    "the largest of whole numbers": lambda net, x: (
        net.out(x[0]) + (x * 9).long().amax(0)[:3] - (x > 0).long().amin(0)[:3]
    ),
    "any and all": lambda net, x: net.out(x[0]) * (x > 0).any(0)[:3] + (x > -1).all(0)[:3] + (x > 0).amax(0)[:3],
    "pooled": lambda net, x: F.max_pool2d(x[None, None], (len(x), 1))[0, 0, 0],
}


@pytest.mark.parametrize("name", PADDED)
def test_nodes_of_many_lengths_run_at_once(name: str, runs: dict[str, int]) -> None:
    eager, net = both(PADDED[name])
    for lengths in MINIBATCHES:
        runs.update(one=0, many=0)
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 1
    assert runs["one"] == 0 and runs["many"] >= 1
    assert all(torch.isfinite(weight.grad).all() for weight in net.parameters() if weight.grad is not None)


def test_long_ones_do_not_run_with_short_ones(runs: dict[str, int]) -> None:
    eager, net = both(ONE["pairs"])
    for lengths in ((5, 3), (4, 6), (200, 4, 5, 190, 3)):
        runs.update(one=0, many=0)
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 1
    assert runs == {"one": 0, "many": 2}  # the short ones would be padded in vain


@pytest.mark.parametrize("name", ["attention by hand", "statistics", "several results", "a weighted sum"])
def test_each_length_by_itself_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SAVED", -1)
    eager, net = both(ONE[name])
    for lengths in MINIBATCHES:
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 1


def test_a_table_that_is_as_long_as_the_longest(runs: dict[str, int]) -> None:
    eager, net = both(lambda net, x: torch.softmax(x @ x.t() + net.places[: len(x), : len(x)], -1) @ x)
    for lengths in ((5, 3), (4, 6), (39, 38, 40, 37)):  # a size that is rounded up has no entries in it
        runs.update(one=0, many=0)
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert runs == {"one": 0, "many": 1}


CHOSEN: dict[str, Callable[..., Any]] = {
    "the last": lambda net, x: net.out(x[-1]),
    "the last column": lambda net, x: net.out(x.t()[:, -1]),
    "all but one": lambda net, x: net.out(x[1:] * x[:-1]),
    "every second": lambda net, x: net.out(x[::2]).sum(0),
    "the first as rows": lambda net, x: (net.out(x[:2]), x[:1]),
    "joined": lambda net, x: net.out(torch.cat([x, x[1:], x * 2])),
    "in reverse": lambda net, x: net.out(x.flip(0)) * x[:, :3],
    "named": lambda net, x: net.out(x[torch.arange(len(x)) // 2]),
    "named from the end": lambda net, x: net.out(x[-1 - torch.arange(len(x))]),
    "selected": lambda net, x: net.out(x.index_select(0, torch.arange(len(x)) // 3)),
    "added": lambda net, x: net.out(torch.zeros_like(x).index_add(0, torch.arange(len(x)) // 2, x * 3)),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_rows_chosen_along_a_length(name: str, runs: dict[str, int]) -> None:
    eager, net = both(CHOSEN[name])
    for lengths in MINIBATCHES:
        report = assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])
    assert report.kinds["Model"].launches == 1
    assert runs["one"] == 0 or name in ("every second", "named", "named from the end", "selected", "added")


def test_a_beginning_that_short_sentences_have_not_all_of() -> None:
    eager, net = both(lambda net, x: net.out(x[:6] + x[:6].mean(0)))
    for lengths in ((5, 3), (4, 6, 5), (2, 3, 8), (9, 7, 4, 12)):
        assert_as_eagerly(eager, net, [(each,) for each in tokens(*lengths, seed=lengths[0])])


class Numbered(Model):
    """A model for a sentence and a number."""

    def forward(self, words: Any, number: Any) -> Any:
        return self.body(self, self.embed(words), number)


NUMBERED: dict[str, tuple[Callable[..., Any], Any]] = {
    "where a table begins": (
        lambda net, x, start: net.out(torch.softmax(x @ x.t(), -1) @ (x + net.places[start : start + len(x), :C])),
        [[(6, 0), (7, 0)], [(5, 0), (3, 7), (4, 2)], [(4, 4), (5, 5), (6, 6)]],
    ),
    "what is filled in": (
        lambda net, x, value: torch.softmax(x @ x.t() * x.new_full((len(x), len(x)), value), -1) @ x,
        [[(6, 1.0), (7, 1.0)], [(5, 2.0), (8, 3.0), (7, 1.0)]],
    ),
    "windows of less than a length": (
        lambda net, x, size: F.max_pool1d((torch.softmax(x @ x.t(), -1) @ net.q(x)).t()[None], size)[0, :, 0],
        [[(3, 3), (4, 4)], [(5, 4), (7, 5), (3, 3), (6, 6)]],
    ),
    "strides of a convolution": (
        lambda net, x, stride: F.conv1d(x.t()[None], net.narrow.weight, stride=stride, padding=1)[0].t(),
        [[(6, 3), (5, 5)], [(8, 2), (11, 4), (6, 3)]],  # one window has no stride
    ),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_that_are_no_lengths_in_later_calls(name: str) -> None:
    body, minibatches = NUMBERED[name]
    torch.manual_seed(0)
    eager = Numbered(body)
    net = gluonjit.hybridize(copy.deepcopy(eager), dynamic_batch=True)
    for pairs in minibatches:
        words = tokens(*[length for length, _ in pairs], seed=len(pairs))
        assert_as_eagerly(eager, net, [(each, number) for each, (_, number) in zip(words, pairs)])


def test_two_lengths_that_were_equal_at_first() -> None:
    eager, net = both(lambda net, x, y: torch.softmax(net.q(x) @ y.t(), -1) @ y)
    for seed, pairs in enumerate([[(4, 4), (6, 6)], [(5, 5), (3, 3)], [(5, 4), (3, 6), (7, 2)], [(8, 4), (9, 6)]]):
        report = assert_as_eagerly(eager, net, [tuple(tokens(*pair, seed=seed)) for pair in pairs])
    assert report.kinds["Model"].launches == 1
    assert len({id(kind.family or kind) for kind in model_kinds(net)}) >= 2


def grid(x: Any, y: Any) -> Any:
    return x[:, None] * y[None]


GRIDS: dict[str, Callable[..., Any]] = {
    "along the last axis": lambda net, x, y: (
        net.out(grid(x, y).flatten(0, 1)).sum(0) + grid(y, x).permute(2, 1, 0).flatten(1).amax(1)[:3]
    ),
    "places beside pixels": lambda net, x, y: net.out(
        torch.cat([net.places[: len(y), :4].repeat(len(x), 1, 1), grid(x, y)[..., :4]], -1).flatten(0, 1)
        + 0.1 * grid(x, y).permute(2, 0, 1)[None].flatten(2)[0].t()
    ).mean(0),
    "beside another length": lambda net, x, y: torch.softmax(net.q(grid(x, y).flatten(0, 1)) @ y.t(), -1).mean(0) @ y,
    "twice": lambda net, x, y: torch.softmax(grid(x, y).view(-1, C) @ grid(y, x).mT.reshape(C, -1), 0).amax(1).mean(),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_as_one_axis(name: str) -> None:
    eager, net = both(GRIDS[name])
    for seed in range(5):
        draw = random.Random(seed)
        sizes = [(draw.randint(2, 6), draw.randint(2, 6)) for _ in range(6)]
        assert_as_eagerly(eager, net, [tuple(tokens(*each, seed=k)) for k, each in enumerate(sizes)])


@pytest.fixture
def nodes() -> SizedNodes:
    return SizedNodes(2, {0: np.array([3, 4]), 1: np.array([2, 1])}, lambda array, dtype: torch.from_numpy(array))


def test_rows_that_are_not_there(nodes: SizedNodes) -> None:
    owners = torch.tensor([0, 0, 1])
    begins, sizes = nodes.begins(Size(0)), nodes.sizes(Size(0))
    assert moving.among(torch.tensor([2, -3, 3]), owners, begins, sizes, True).tolist() == [2, 0, 6]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        moving.among(torch.tensor([2, 3, 3]), owners, begins, sizes, True)
    with pytest.raises(IndexError, match="index -1 is out of bounds"):
        moving.among(torch.tensor([2, -1, 3]), owners, begins, sizes, False)
    with pytest.raises(IndexError, match="index -4"):
        nodes.chosen((Size(0),), -4, 1, 1, False)


def test_joined_rows() -> None:
    draw = random.Random(0)
    for _ in range(20):
        sizes = [[draw.randint(0, 4) for _ in range(3)] for _ in range(2)]
        values = [torch.randn(sum(each), 2) for each in sizes]
        parts = [torch.split(value, each) for value, each in zip(values, sizes)]
        wanted = torch.cat([part for node in zip(*parts) for part in node])
        known = SizedNodes(3, dict(enumerate(map(np.array, sizes))), lambda array, dtype: torch.from_numpy(array))
        assert torch.equal(torch.cat(values)[known.merged(Size(0), Size(1))], wanted)


def test_as_many_rows_as_are_kept(nodes: SizedNodes) -> None:
    for start, step, wanted in ((1, 1, [1, 2, 4]), (None, 1, [1, 2, 6]), (-3, 1, [0, 1, 4])):
        assert nodes.chosen((Size(0),), start, step, Size(1), False).tolist() == wanted
    assert nodes.chosen((Size(0),), None, 1, 2, False).tolist() == [1, 2, 5, 6]
    assert nodes.chosen((2, Size(0)), 0, 2, 2, False).tolist() == [0, 2, 3, 5, 6, 8, 10, 12]
    assert nodes.chosen((2, Size(0)), 0, 2, 2, True).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_places_of_padding(nodes: SizedNodes) -> None:
    front = (Size(0), Size(1))
    assert nodes.places(front).tolist() == [0, 1, 2, 3, 4, 5, 8, 10, 12, 14]
    assert nodes.clipped(front).tolist() == [0, 1, 2, 3, 4, 5, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    assert nodes.within(front).tolist() == [0, 1, 2, 3, 4, 5, 0, 2, 4, 6]
