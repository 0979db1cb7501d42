"""Cells that take any number of children: one kind where each child is treated alike, else one for each number."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import pytest
from mxnet import gluon, nd
from support import assert_same, rows

import gluonjit

SIZE = 4


class Cell(gluon.HybridBlock):
    """What the cells below have in common: weights, and a way to be called with the states of children."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(2 * SIZE, SIZE))
            self.u = self.params.get("u", shape=(SIZE, SIZE))
            self.b = self.params.get("b", shape=(SIZE,))

    def take(self, x: Any, states: list[Any]) -> Any:
        return self(x, *states)

    def gates(self, F: Any, x: Any, w: Any) -> Any:
        return F.split(F.FullyConnected(x, w, no_bias=True, num_hidden=2 * SIZE), num_outputs=2, axis=1)

    def keep(self, F: Any, gate: Any, h: Any, c: Any, u: Any, b: Any) -> Any:
        return F.sigmoid(gate + F.FullyConnected(h, u, b, num_hidden=SIZE)) * c


class Spread(Cell):
    """add_n, as the Tree-LSTM of the experiment; states are the last arguments."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        if states:
            h = F.add_n(h, *[h_k for h_k, _ in states])
        c = F.tanh(h)
        if states:
            c = F.add_n(c, *[self.keep(F, gate, h_k, c_k, u, b) for h_k, c_k in states])
        return F.tanh(c) * h, c


class Listed(Cell):
    """Two lists, and chains of additions."""

    def take(self, x: Any, states: list[Any]) -> Any:
        return self(x, [h for h, _ in states], [c for _, c in states])

    def hybrid_forward(self, F: Any, x: Any, hs: Any, cs: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        for h_k in hs:
            h = h + h_k
        c = F.tanh(h)
        for h_k, c_k in zip(hs, cs):
            c = c + self.keep(F, gate, h_k, c_k, u, b)
        return F.tanh(c) * h, c


class Summed(Cell):
    """A list of pairs, the built-in sum, and sums over what was stacked or concatenated."""

    def take(self, x: Any, states: list[Any]) -> Any:
        return self(x, states)

    def hybrid_forward(self, F: Any, x: Any, states: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        if not states:
            return F.tanh(h), h
        total = sum(h_k for h_k, _ in states)
        stacked = F.sum(F.stack(*[h_k * h_k for h_k, _ in states], axis=0), axis=0)
        kept = [self.keep(F, gate, h_k, c_k, u, b) for h_k, c_k in states]
        c = h + total + F.sum(F.concat(*kept, dim=0), axis=0, keepdims=True)
        return F.tanh(c) * stacked, c


class Declared(Cell):
    """gluonjit.nn.sum_over, over arrays and over tuples of arrays."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        c = h
        if states:
            h = h + gluonjit.nn.sum_over(F, [h_k for h_k, _ in states], F.tanh)
            c = c + gluonjit.nn.sum_over(F, states, lambda h_k, c_k: self.keep(F, gate, h_k, c_k, u, b))
        return F.tanh(c) * h, c


class Reduced(Cell):
    """What a child brings is reduced by itself before it is summed."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        if states:
            weighed = [F.broadcast_mul(h_k, F.sum(gate * c_k, axis=1, keepdims=True)) for h_k, c_k in states]
            h = F.add_n(h, *weighed)
        return h, F.tanh(h)


class Stacked(Cell):
    """States of the children side by side, a row each, of which all is computed at once."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        if not states:
            return F.tanh(h), h
        hs = F.concat(*[h_k for h_k, _ in states], dim=0)
        cs = F.Reshape(F.stack(*[c_k for _, c_k in states], axis=0), shape=(-1, SIZE))
        gates = F.sigmoid(F.FullyConnected(hs, u, b, num_hidden=SIZE) + F.broadcast_to(gate, shape=(len(states), SIZE)))
        kept = gates * F.softmax(cs, axis=-1)
        squares = F.concat(kept, F.square(kept), dim=1)
        left, right = F.split(F.sum(squares, axis=0, keepdims=True), num_outputs=2, axis=1)
        return F.tanh(h + left) * right, h


class Joined(Cell):
    """The same on arrays that the program has joined."""

    def take(self, x: Any, states: list[Any]) -> Any:
        if not states:
            return self(x)
        return self(x, *[nd.concat(*each, dim=0) for each in zip(*states)])

    def hybrid_forward(self, F: Any, x: Any, *joined: Any, w: Any, u: Any, b: Any) -> Any:
        gate, h = self.gates(F, x, w)
        if joined:
            h = h + F.sum(self.keep(F, F.broadcast_like(gate, joined[0]), *joined, u, b), axis=0, keepdims=True)
        return F.tanh(h) * gate, h


class Averaged(Cell):
    """Means over children, of rows and of all numbers."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if states:
            hs = F.stack(*[h_k for h_k, _ in states], axis=0)
            h = F.broadcast_add(h + F.mean(hs, axis=0), F.mean(F.square(hs)).reshape((1, 1)))
        return h, F.tanh(h)


class TakenApart(Cell):
    """Rows of all children, one by one."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if states:
            hs = F.tanh(F.concat(*[h_k for h_k, _ in states], dim=0))
            h = F.add_n(h, *[F.slice_axis(hs, axis=0, begin=k, end=k + 1) for k in range(len(states))])
        return h, F.tanh(h)


class Tree(gluon.Block):
    """A tree of nested lists over the rows of x."""

    def __init__(self, cell: gluon.HybridBlock) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = cell

    def forward(self, sample: Any) -> Any:
        tree, x = sample
        self.next = 0
        return self.encode(tree, x)

    def encode(self, tree: Any, x: Any) -> Any:
        word = x[self.next : self.next + 1]
        self.next += 1
        return self.cell.take(word, [self.encode(child, x) for child in tree])


LEAF: list[Any] = []
TREES = [
    [LEAF, [LEAF, LEAF, [LEAF]]],
    [[LEAF], [LEAF, LEAF, LEAF, LEAF, LEAF]],
    [[[LEAF, LEAF], LEAF], LEAF, LEAF],
    LEAF,
    [LEAF],
]


def samples() -> list[Any]:
    return [(tree, rows(10, SIZE, seed=number)) for number, tree in enumerate(TREES)]


def loss(net: gluon.Block, sample: Any) -> Any:
    h, c = net(sample)
    return (h * c).sum()


def made(cell: type[gluon.HybridBlock]) -> gluon.Block:
    mx.random.seed(0)
    net = Tree(cell())
    net.initialize(mx.init.Uniform(0.7))
    return net


def height(tree: Any) -> int:
    return 1 + max(map(height, tree), default=0)


def nodes_of(tree: Any) -> list[Any]:
    return [tree, *[node for child in tree for node in nodes_of(child)]]


HEIGHTS = [height(node) for tree in TREES for node in nodes_of(tree)]
BY_HEIGHT = [HEIGHTS.count(level + 1) for level in range(max(HEIGHTS))]


def steps_of(report: gluonjit.Report, net: gluon.Block) -> list[int]:
    return [step.nodes for step in report.steps if step.name == net.cell.name]


def again(net: gluon.Block, **options: Any) -> gluonjit.Report:
    """A first batch finds out what a cell does, the second one is batched so from the start."""
    assert_same(net, samples(), loss, scheduler="depth", granularity="cell", **options)
    return assert_same(net, samples(), loss, scheduler="depth", granularity="cell", **options)


CELLS = [Spread, Listed, Summed, Declared, Reduced, Stacked, Joined, Averaged, TakenApart]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("sharing", [True, False])
def test_one_kind_for_any_number_of_children(cell: type[gluon.HybridBlock], sharing: bool) -> None:
    net = made(cell)
    report = again(net, sharing=sharing)
    assert steps_of(report, net) == BY_HEIGHT and not report.by_number
    apart = again(net, sharing=sharing, without=("arity",))
    assert len(steps_of(apart, net)) > 4


@pytest.mark.parametrize("cell", CELLS)
def test_the_first_batch_is_one_kind_too(cell: type[gluon.HybridBlock]) -> None:
    net = made(cell)
    report = assert_same(net, samples(), loss, scheduler="depth", granularity="cell")
    assert steps_of(report, net) == BY_HEIGHT


@pytest.mark.parametrize("scheduler", ["bound", "beam"])
@pytest.mark.parametrize("without", [(), ("hoisting",)])
def test_schedulers_and_hoisting_go_with_it(scheduler: str, without: tuple[str, ...]) -> None:
    net = made(Spread)
    report = assert_same(net, samples(), loss, scheduler=scheduler, granularity="cell", without=without)
    assert len(steps_of(report, net)) <= 4


class ByPosition(Cell):
    """Each position counts by another number."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        for k, (h_k, _) in enumerate(states):
            h = h + h_k * (k + 1)
        return h, F.tanh(h)


class Weighed(Cell):
    """Divides by the number of children, which is a number of the program's own."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if states:
            h = h + F.add_n(*[h_k for h_k, _ in states]) / len(states)
        return h, F.tanh(h)


class FirstAlone(Cell):
    """The first child is treated unlike the others, which are children of one kind of their own."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if states:
            h = F.add_n(h, F.tanh(states[0][0]), *[h_k for h_k, _ in states[1:]])
        return h, F.tanh(h)


class Largest(Cell):
    """A maximum over the children, which MXNet has for no segments."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if states:
            h = h + F.max(F.stack(*[h_k for h_k, _ in states], axis=0), axis=0)
        return h, F.tanh(h)


class Neighbours(Cell):
    """Each child meets the next one."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        h = F.add_n(h, *[left * right for (left, _), (right, _) in zip(states, states[1:])])
        return h, F.tanh(h)


@pytest.mark.parametrize("cell", [ByPosition, Weighed, Largest, Neighbours])
def test_a_kind_for_each_number_where_children_are_unlike(cell: type[gluon.HybridBlock]) -> None:
    net = made(cell)
    report = again(net)
    assert len(steps_of(report, net)) > 4
    assert net.cell.name in report.by_number and report.by_number[net.cell.name] in str(report)
    net.hybridize(dynamic_batch=True)
    for _ in range(2):  # what was found out is told again where nothing is traced
        gluonjit.add_n([loss(net, sample) for sample in samples()]).wait_to_read()
        assert net.cell.name in gluonjit.explain().by_number


class OneIsPassedOn(Cell):
    """A single child goes through another path: the others still are one kind."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if len(states) == 1:
            return F.relu(h + states[0][0]), states[0][1] * 2
        h = F.add_n(h, *[h_k for h_k, _ in states])
        return h, F.tanh(h)


@pytest.mark.parametrize(("cell", "numbers"), [(OneIsPassedOn, {2, 3, 5}), (FirstAlone, {1, 2, 4})])
def test_those_that_are_alike_run_together(cell: type[gluon.HybridBlock], numbers: set[int]) -> None:
    net = made(cell)
    report = again(net)
    steps = [step for step in report.last.plan.steps if step.kind.name == net.cell.name and step.kind.children]
    assert {part.record.kind.arity for step in steps for part in step.parts} == numbers


class FiveAreCompared(Cell):
    """From five children on there is a maximum."""

    def hybrid_forward(self, F: Any, x: Any, *states: Any, w: Any, u: Any, b: Any) -> Any:
        _, h = self.gates(F, x, w)
        if len(states) == 5:
            h = h + F.max(F.concat(*[h_k for h_k, _ in states], dim=0), axis=0, keepdims=True)
        elif states:
            h = F.add_n(h, *[h_k for h_k, _ in states])
        return h, F.tanh(h)


@pytest.mark.parametrize("turned", [False, True])
def test_a_number_that_cannot_be_read_child_by_child_runs_apart(turned: bool) -> None:
    net = made(FiveAreCompared)
    ordered = samples()[::-1] if turned else samples()
    for _ in range(2):
        report = assert_same(net, ordered, loss, scheduler="depth", granularity="cell")
    steps = [step for step in report.last.plan.steps if step.kind.name == net.cell.name and step.kind.children]
    assert {part.record.kind.arity for step in steps for part in step.parts} == {1, 2, 3}
    assert net.cell.name in report.by_number


def test_a_child_that_is_used_twice_and_one_in_two_roles() -> None:
    cell = Spread()
    cell.initialize(mx.init.Uniform(0.7))

    def run(net: gluon.Block, x: Any) -> Any:
        leaf = net(x)
        twice = net(x, leaf, leaf)
        return nd.concat(net(x, twice, leaf, twice)[0], net(x, leaf)[0], dim=0).sum()

    inputs = [rows(1, SIZE, seed=seed) for seed in range(3)]
    assert_same(cell, inputs, run)
    assert_same(cell, inputs, run, sharing=False)


def test_a_sum_over_no_children_says_what_to_do() -> None:
    with pytest.raises(
        ValueError, match=r"sum_over\(F, children, each\): a sum needs at least 1 child, and there are 0.*if children:"
    ):
        gluonjit.nn.sum_over(nd, [], lambda h: h)


def test_parameters_that_become_other_arrays() -> None:
    net = made(Spread)
    again(net)
    net.hybridize(dynamic_batch=True, scheduler="depth", granularity="cell")
    for _ in range(2):
        net.initialize(mx.init.Uniform(0.3), force_reinit=True)
        batched = [loss(net, sample) for sample in samples()]
        actual = [value.asscalar() for value in batched]
        report = gluonjit.explain()
        assert steps_of(report, net) == BY_HEIGHT and not report.by_number
    net.hybridize(dynamic_batch=False)
    assert actual == pytest.approx([loss(net, sample).asscalar() for sample in samples()], rel=1e-4)


class Sums(gluon.Block):
    """Sums over rows, of which each sample has another number."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = gluon.nn.Dense(3, in_units=SIZE, flatten=False)

    def forward(self, x: Any) -> Any:
        rows_of_x = self.dense(x)
        along = rows_of_x.sum(axis=0).sum()
        kept = nd.sum(rows_of_x, axis=0, keepdims=True).mean()
        apart = nd.sum(nd.sum(rows_of_x * rows_of_x, axis=1), axis=0)
        return along + kept * apart


@pytest.mark.usefixtures("as_written")
@pytest.mark.parametrize("without", [(), ("arity",)])
def test_sums_over_any_number_of_rows(without: tuple[str, ...]) -> None:
    net = Sums()
    net.initialize(mx.init.Uniform(0.7))
    inputs = [rows(length, SIZE, seed=length) for length in (1, 4, 2, 7, 4)]
    report = assert_same(net, inputs, lambda net, x: net(x), without=without, sharing=False)
    launches = [step.nodes for step in report.steps if step.name == "sum"]
    of_rows = [nodes for nodes in launches if nodes == 5]
    assert len(launches) > 5 if without else of_rows == launches


def test_sums_over_other_axes_and_of_whole_numbers_are_as_they_were() -> None:
    net = gluon.nn.HybridSequential()
    inputs = [rows(length, SIZE, seed=length) for length in (1, 4, 2)]

    def run(net: gluon.Block, x: Any) -> Any:
        return (
            nd.sum(x)
            + nd.sum(x, axis=1)[0]
            + nd.sum(x, axis=0, exclude=True)[0]
            + nd.sum(x.astype("int32")).astype("float32")
        )

    with gluonjit.batching():
        batched = [run(net, x) for x in inputs]
    for actual, x in zip(batched, inputs):
        assert actual.asscalar() == pytest.approx(run(net, x).asscalar(), rel=1e-5)
