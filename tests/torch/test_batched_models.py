"""Models in PyTorch, written for one sample, give batched what they give one by one: values and gradients."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn
from torch_support import Tree, TreeModel, assert_same, make_trees

import gluonjit


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def labelled(count: int = 12, **shape: Any) -> list[tuple[Tree, int]]:
    return [(tree, number % 3) for number, tree in enumerate(make_trees(count, **shape))]


def cross_entropy(net: Any, sample: Any) -> Any:
    tree, label = sample
    scores = net(tree)
    target = torch.tensor(label) if scores.dim() == 1 else torch.tensor([label])
    return nn.functional.cross_entropy(scores, target)


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_a_tree_lstm_gives_the_same_batched(vectors: bool) -> None:
    report = assert_same(TreeModel(vectors=vectors), labelled(), cross_entropy)
    assert report.flushes == 1
    assert not report.alone and not report.unbatched


@pytest.mark.parametrize("granularity", ["op", "cell"])
@pytest.mark.parametrize("scheduler", ["depth", "bound", "beam"])
def test_every_way_to_capture_and_to_schedule_gives_the_same(granularity: str, scheduler: str) -> None:
    assert_same(TreeModel(), labelled(), cross_entropy, granularity=granularity, scheduler=scheduler)


@pytest.mark.parametrize("sharing", [True, False])
def test_sharing_changes_nothing_but_the_work(sharing: bool) -> None:
    trees = [*labelled(6), *labelled(6)]
    report = assert_same(TreeModel(), trees, cross_entropy, sharing=sharing)
    assert (report.shared > 0) == sharing


class Chain(nn.Module):
    """A sequence of any length, step by step; `cell` is called with what it has given before."""

    def __init__(self, vectors: bool) -> None:
        super().__init__()
        self.vectors = vectors
        self.embed = nn.Embedding(20, 5)
        self.cell = nn.LSTMCell(5, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, words: list[int]) -> Any:
        inputs = self.embed(torch.tensor(words))
        state = (torch.zeros(4), torch.zeros(4)) if self.vectors else (torch.zeros(1, 4), torch.zeros(1, 4))
        for k in range(len(words)):
            state = self.cell(inputs[k] if self.vectors else inputs[k : k + 1], state)
        return self.out(state[0]).log_softmax(-1)


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_sequences_of_any_length_give_the_same_batched(vectors: bool) -> None:
    choose = random.Random(1)
    samples = [[choose.randrange(20) for _ in range(choose.randint(1, 7))] for _ in range(10)]
    report = assert_same(Chain(vectors), samples, lambda net, words: -net(words)[..., 1].sum())
    longest = max(map(len, samples))
    assert report.kinds["cell"].launches == longest


class Looping(nn.Module):
    """The same, over the rows of a tensor in one module: a trace of it would be as long as the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 4)

    def forward(self, x: Any) -> Any:
        h = x.new_zeros(4)
        for row in x:
            h = self.cell(row, h)
        return h


def test_a_module_that_loops_over_rows_is_no_node_but_its_turns_are() -> None:
    samples = [torch.randn(length, 5) for length in (4, 1, 2, 4, 3)]
    report = assert_same(Looping(), samples, lambda net, x: net(x).sum())
    assert report.kinds["cell"].launches == 4
    assert report.kinds["cell"].nodes == 14


class Shared(nn.Module):
    """A graph whose nodes are used by several others."""

    def __init__(self) -> None:
        super().__init__()
        self.node = nn.Bilinear(4, 4, 4)
        self.first = nn.Linear(3, 4)

    def forward(self, graph: tuple[Any, list[tuple[int, int]]]) -> Any:
        x, edges = graph
        values = [self.first(x[k]).tanh() for k in range(len(x))]
        for left, right in edges:
            values.append(self.node(values[left], values[right]).tanh())
        return torch.stack(values).mean(0)


def test_graphs_with_shared_nodes_give_the_same_batched() -> None:
    choose = random.Random(2)
    samples = []
    for _ in range(6):
        edges = [(choose.randrange(2 + k), choose.randrange(2 + k)) for k in range(choose.randint(1, 6))]
        samples.append((torch.randn(2, 3), edges))
    assert_same(Shared(), samples, lambda net, graph: net(graph).pow(2).sum())


class Positions(nn.Module):
    """A node with a weight for each position of a child."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(8, 6)
        self.of = nn.ModuleList([nn.Linear(6, 6, bias=False) for _ in range(3)])

    def forward(self, x: Any, children: list[Any]) -> Any:
        total = self.own(x)
        for position, (h, _) in enumerate(children):
            total = total + self.of[position](h)
        return total.tanh(), total


def test_a_weight_for_each_position_gives_the_same_batched() -> None:
    assert_same(TreeModel(Positions()), labelled(), cross_entropy)


def test_dropout_of_nothing_and_other_losses_give_the_same() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.0), nn.Linear(6, 4)

        def forward(self, x: Any) -> Any:
            return self.last(self.drop(self.first(x).relu()))

    samples = [torch.randn(4) for _ in range(5)]
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(), nn.BCEWithLogitsLoss()):
        report = assert_same(Net(), samples, lambda net, x: loss(net(x), x.sigmoid()))  # noqa: B023
        assert report.kinds[type(loss).__name__].launches == report.kinds["Net"].launches == 1


def test_what_has_no_rule_runs_alone_and_the_report_says_so() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 9)

        def forward(self, x: Any) -> Any:
            matrix = self.first(x).view(3, 3)
            return torch.pdist(matrix)

    report = assert_same(Net(), [torch.randn(4) for _ in range(4)], lambda net, x: net(x), 1e-4)
    assert report.alone or report.unbatched


class Deciding(nn.Module):
    """A program that decides by a number that it has computed."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        for _ in range(5):
            x = self.step(x).tanh()
            if x.sum() > 0:
                break
        return x


def test_a_module_that_reads_values_midway_gives_the_same() -> None:
    with pytest.warns(gluonjit.errors.EarlyFlushWarning):
        report = assert_same(Deciding(), [torch.randn(4) for _ in range(6)], lambda net, x: net(x).sum())
    assert report.flushes > 1


class Picking(nn.Module):
    """A cell that does not look at the second of its three arguments."""

    def forward(self, x: Any, ignored: Any, y: Any) -> Any:
        return x * 2 + y


class Picks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pick, self.step = Picking(), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        total = x
        for _ in range(3):
            first, second = self.step(total), self.step(total * 2)
            total = self.pick(first, second, total.tanh())
        return total


def test_a_cell_that_ignores_an_argument_gets_the_others() -> None:
    samples = [torch.randn(4) for _ in range(5)]
    report = assert_same(Picks(), samples, lambda net, x: net(x).sum(), expand=("Picks",))
    assert report.kinds["pick"] == (15, 15, 3)


class Reshaped(nn.Module):
    """`matrix @ layer(vector)`, in which PyTorch reshapes a result in place, and the same said by the program."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3, bias=False)

    def forward(self, vector: Any, matrix: Any) -> Any:
        weights = matrix @ self.layer(vector)
        total = (matrix + 1).unsqueeze_(0).mul(2).squeeze_(0).t_().tanh()
        return weights.softmax(0) @ total.t()


def test_shapes_that_change_in_place_leave_a_cell_one_node() -> None:
    samples = [(torch.randn(3), torch.randn(2, 3)) for _ in range(4)]
    report = assert_same(Reshaped(), samples, lambda net, sample: net(*sample).sum())
    assert not report.unbatched and report.kinds["Reshaped"] == (4, 4, 1)


@pytest.mark.parametrize("own", [False, True], ids=["one for all", "each its own"])
@pytest.mark.parametrize("rows", [(), (3,)], ids=["vectors", "rows"])
def test_class_weights_may_be_any_tensor(rows: tuple[int, ...], own: bool) -> None:
    weight = torch.rand(5)
    samples = [(torch.randn(*rows, 4), torch.randint(0, 5, rows), torch.rand(5) if own else weight) for _ in range(4)]

    def loss(net: Any, sample: Any) -> Any:
        x, target, weight = sample
        return nn.functional.cross_entropy(net(x), target, weight)

    report = assert_same(nn.Linear(4, 5), samples, loss)
    assert report.kinds["cross_entropy"].launches == 1
