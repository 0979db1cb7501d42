"""Cells in PyTorch that take any number of children are one kind, however they are written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch_support import ChildSum, Tree, TreeModel, assert_same, make_trees


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Stacked(ChildSum):
    """The same with the states of children in one tensor, a row for each."""

    def forward(self, x: Any, children: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        if not children:
            return super().forward(x, children)
        h = torch.stack([state for state, _ in children])
        c = torch.stack([memory for _, memory in children])
        i, o, u = (self.gates_x(x) + self.gates_h(h.sum(0))).chunk(3, -1)
        forget = torch.sigmoid(self.forget_h(h) + self.forget_x(x))
        memory = i.sigmoid() * u.tanh() + (forget * c).sum(0)
        return o.sigmoid() * memory.tanh(), memory


class Joined(nn.Module):
    """The same on tensors that the program has joined: (1, C) of the node, (k, C) of its k children."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = ChildSum(8, 6)

    def forward(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        cell = self.inner
        gates = cell.gates_x(x) + cell.gates_h(torch.sum(h, dim=0, keepdim=True))
        i, o, u = torch.split(gates, gates.size(1) // 3, dim=1)
        forget = torch.sigmoid(cell.forget_h(h) + cell.forget_x(x).repeat(len(h), 1))
        memory = torch.sigmoid(i) * torch.tanh(u) + torch.sum(forget * c, dim=0, keepdim=True)
        return torch.sigmoid(o) * torch.tanh(memory), memory


class JoiningModel(TreeModel):
    """A tree whose leaves have one child of zeros, as in several programs for the Tree-LSTM."""

    def __init__(self) -> None:
        super().__init__(Joined(), vectors=False)

    def encode(self, tree: Tree, words: Any, next_word: list[int]) -> Any:
        k = next_word[0]
        next_word[0] += 1
        if tree.children:
            states = [self.encode(child, words, next_word) for child in tree.children]
            h, c = (torch.cat(part, dim=0) for part in zip(*states))
        else:
            h, c = torch.zeros(1, 6), torch.zeros(1, 6)
        return self.cell(words[k : k + 1], h, c)


def depth(tree: Tree) -> int:
    return 1 + max(map(depth, tree.children), default=0)


def check(net: Any, trees: list[Tree]) -> Any:
    return assert_same(net, trees, lambda net, tree: net(tree).logsumexp(-1).sum())


@pytest.mark.parametrize("make", [ChildSum, Stacked])
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_a_list_of_children_is_one_launch_a_level(make: Any, vectors: bool) -> None:
    trees = make_trees(20, 16, 4)
    report = check(TreeModel(make(8, 6), vectors), trees)
    assert report.kinds["cell"].launches == max(map(depth, trees))
    assert not report.by_number


def test_tensors_with_a_row_for_each_child_are_one_launch_a_level() -> None:
    trees = make_trees(20, 16, 4)
    report = check(JoiningModel(), trees)
    assert report.kinds["cell"].launches == max(map(depth, trees))
    assert not report.by_number


def test_without_it_there_is_a_kind_for_each_number() -> None:
    trees = make_trees(20, 16, 4)
    net = TreeModel()
    together = check(net, trees).kinds["cell"].launches
    apart = assert_same(TreeModel(), trees, lambda net, tree: net(tree).sum(), without=("arity",))
    assert apart.kinds["cell"].launches > together


ON_ROWS = {
    "sums so far": lambda h: h.cumsum(1),
    "the largest": lambda h: h / h.amax(1, keepdim=True).exp(),
    "sorted": lambda h: h.sort(1).values,
    "the other way round": lambda h: h.flip(1) + h.norm(dim=1, keepdim=True),
    "a product each": lambda h: h.view(-1, 2, 3).transpose(1, 2).reshape(-1, 6),
}


class OnRows(Stacked):
    """The same, with what is done to each child's row before."""

    def __init__(self, done: Any) -> None:
        super().__init__(8, 6)
        self.done = done

    def forward(self, x: Any, children: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        if not children:
            return super().forward(x, children)
        rows = self.done(torch.stack([state for state, _ in children]))
        return super().forward(x, [(rows.sum(0), sum(memory for _, memory in children))])


@pytest.mark.parametrize("name", ON_ROWS)
def test_what_leaves_rows_apart_may_be_done_to_those_of_children(name: str) -> None:
    trees = make_trees(20, 16, 4)
    report = check(TreeModel(OnRows(ON_ROWS[name])), trees)
    assert report.kinds["cell"].launches == max(map(depth, trees))
    assert not report.by_number


class Pooling(ChildSum):
    """Makes one vector of those of all children."""

    def __init__(self, pool: Any) -> None:
        super().__init__(8, 6)
        self.pool = pool

    def forward(self, x: Any, children: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        total = self.forget_x(x)
        if children:
            total = total + self.forget_h(self.pool([h for h, _ in children], total))
        return total.tanh(), total


POOLS = {
    "mean": lambda h, x: torch.stack(h).mean(0),
    "mean of rows": lambda h, x: torch.cat([each.view(1, -1) for each in h]).mean(0, keepdim=True).view(h[0].shape),
    "largest": lambda h, x: torch.stack(h).amax(dim=0),
    "smallest of products": lambda h, x: (torch.stack(h) * x).amin(0),
    "mean of all": lambda h, x: torch.stack(h).mean().expand(h[0].shape),
    "sum of squares": lambda h, x: torch.stack(h).square().sum().expand(h[0].shape),
    "repeated": lambda h, x: (torch.stack(h) * x.repeat(len(h), *[1] * x.dim()).sin()).sum(0),
    "expanded": lambda h, x: (torch.stack(h) * x.expand(len(h), *x.shape).sin()).mean(0),
    "taken apart": lambda h, x: sum(torch.stack(h).tanh().unbind(0)),
    "one by one": lambda h, x: sum(torch.stack(h).tanh()[k] for k in range(len(h))),
    "distances": lambda h, x: nn.functional.mse_loss(torch.stack(h), torch.stack(h).tanh()).expand(h[0].shape),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "rows"])
def test_what_is_made_of_all_children_is_one_launch_a_level(name: str, vectors: bool) -> None:
    trees = make_trees(20, 16, 4)
    report = check(TreeModel(Pooling(POOLS[name]), vectors), trees)
    assert report.kinds["cell"].launches == max(map(depth, trees))
    assert not report.by_number


APART = {
    "divided by their number": lambda h, x: sum(h) / len(h),
    "the first": lambda h, x: torch.stack(h)[0],
    "all but the first": lambda h, x: torch.stack(h)[1:].sum(0),
    "the spread": lambda h, x: torch.stack(h).var(0, correction=0),
    "in a row": lambda h, x: torch.stack(h).cumsum(0).mean(0),
}


@pytest.mark.parametrize("name", APART)
def test_what_depends_on_the_number_of_children_runs_apart_and_the_report_says_why(name: str) -> None:
    report = check(TreeModel(Pooling(APART[name])), make_trees(20, 16, 4))
    assert "cell" in report.by_number


def test_launches_are_those_of_the_same_model_in_mxnet() -> None:
    mx = pytest.importorskip("mxnet")
    from mxnet import autograd, gluon

    import gluonjit

    class Cell(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = 6
            self.gates_x, self.gates_h = gluon.nn.Dense(18, in_units=8), gluon.nn.Dense(18, use_bias=False, in_units=6)
            self.forget_x, self.forget_h = gluon.nn.Dense(6, in_units=8), gluon.nn.Dense(6, use_bias=False, in_units=6)

        def hybrid_forward(self, F: Any, x: Any, children: Any) -> Any:
            gates = self.gates_x(x)
            if children:
                gates = gates + self.gates_h(sum(h for h, _ in children))
            i, o, u = F.split(gates, num_outputs=3, axis=-1)
            c = F.sigmoid(i) * F.tanh(u)
            if children:
                c = c + sum(F.sigmoid(self.forget_x(x) + self.forget_h(h)) * memory for h, memory in children)
            return F.sigmoid(o) * F.tanh(c), c

    class Model(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.cell = gluon.nn.Embedding(50, 8), Cell()
            self.head = gluon.nn.Dense(3, in_units=6)

        def forward(self, tree: Tree) -> Any:
            words = self.embed(mx.nd.array(tree.words(), dtype="int32"))
            return self.head(self.encode(tree, words, [0])[0])

        def encode(self, tree: Tree, words: Any, next_word: list[int]) -> Any:
            k = next_word[0]
            next_word[0] += 1
            children = [self.encode(child, words, next_word) for child in tree.children]
            return self.cell(words[k : k + 1], children)

    trees = make_trees(20, 16, 4)
    options = {"granularity": "cell", "scheduler": "depth", "sharing": True, "without": ("hoisting",)}
    ours = TreeModel(vectors=False)
    gluonjit.hybridize(ours, dynamic_batch=True, **options)
    sum(ours(tree).sum() for tree in trees).backward()
    kinds = gluonjit.explain().kinds
    theirs = Model()
    theirs.initialize()
    gluonjit.hybridize(theirs, dynamic_batch=True, **options)
    with autograd.record():
        total = gluonjit.add_n([theirs(tree).sum() for tree in trees])
    total.backward()
    other = gluonjit.explain().kinds
    (theirs_cell,) = [row for name, row in other.items() if name.startswith("cell")]
    assert (kinds["cell"].nodes, kinds["cell"].launches) == (theirs_cell.nodes, theirs_cell.launches)


def test_what_is_computed_of_words_alone_runs_once_before_the_recursion() -> None:
    trees = make_trees(20, 16, 4)
    report = assert_same(TreeModel(), trees, lambda net, tree: net(tree).sum(), granularity="cell", sharing=True)
    row = report.kinds["cell: products of leaves"]
    inner = {tree.word for root in trees for tree in nodes(root) if tree.children}
    assert row.launches == 1
    assert row.nodes == len(inner)
    without = assert_same(TreeModel(), trees, lambda net, tree: net(tree).sum(), without=("hoisting",))
    assert "cell: products of leaves" not in without.kinds


def nodes(tree: Tree) -> list[Tree]:
    return [tree, *[inner for child in tree.children for inner in nodes(child)]]
