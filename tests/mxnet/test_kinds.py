"""Which calls of a cell run together: those with the same program, whatever they look like."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, rows

import gluonjit
from gluonjit.compiled import ROWS

SIZE = 4


class MeanOfRows(gluon.HybridBlock):
    """Row-wise but for a number that depends on how many rows there are."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.tanh(x) * (1.0 / x.shape[0])


@gluonjit.cell
def divided(x: Any) -> Any:
    """The same as a function."""
    return nd.tanh(x) / x.shape[0]


class Apply(gluon.Block):
    """Calls a cell on each of its arguments, and adds a layer so that there is something to learn."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(SIZE, in_units=SIZE)
            self.cell = cell

    def forward(self, x: Any) -> Any:
        return self.cell(self.dense(x))


def loss(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


@pytest.mark.parametrize("make", [MeanOfRows, lambda: divided])
def test_a_number_that_depends_on_the_rows_is_each_samples_own(make: Any) -> None:
    net = Apply(make())
    net.initialize(mx.init.Uniform(0.5))
    assert_same(net, [rows(count, SIZE, seed=count) for count in (3, 5, 3, 1, 2, 5)], loss)


class Pair(gluon.HybridBlock):
    """A node of two states."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(SIZE, in_units=2 * SIZE)

    def hybrid_forward(self, F: Any, left: Any, right: Any) -> Any:
        return F.tanh(self.dense(F.concat(left[0], right[0], dim=1))), left[1] + right[1]


class Containers(gluon.Block):
    """States as lists from `split`, and as tuples from the cell."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.pair = Pair()

    def forward(self, x: Any) -> Any:
        states: list[Any] = [nd.split(x[k : k + 1], num_outputs=2, axis=1) for k in range(len(x))]
        while len(states) > 1:
            states.append(self.pair(states.pop(0), states.pop(0)))
        return nd.concat(*states[0], dim=1)


def test_a_list_and_a_tuple_of_states_run_together() -> None:
    net = Containers()
    net.initialize(mx.init.Uniform(0.5))
    samples = [rows(count, 2 * SIZE, seed=count) for count in (4, 3, 4, 2)]
    report = assert_same(net, samples, loss)
    assert [step.nodes for step in report.steps if "pair" in step.name] == [6, 3]


class ByContainer(gluon.HybridBlock):
    """What a cell does may depend on whether it gets a list."""

    def hybrid_forward(self, F: Any, state: Any) -> Any:
        return F.tanh(state[0]) if isinstance(state, list) else F.sigmoid(state[0])


class Both(gluon.Block):
    """The same cell with a list and with a tuple."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.dense, self.cell = nn.Dense(SIZE, in_units=SIZE), ByContainer()

    def forward(self, x: Any) -> Any:
        h = self.dense(x)
        return self.cell([h]) - self.cell((h,))


def test_a_cell_may_look_at_its_container() -> None:
    net = Both()
    net.initialize(mx.init.Uniform(0.5))
    assert_same(net, [rows(1, SIZE, seed=k) for k in range(3)], loss)


class OfAnother(gluon.Block):
    """Its cell is a function that uses a parameter without being given the block."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(SIZE, SIZE))

        @gluonjit.cell
        def project(x: Any) -> Any:
            return nd.tanh(nd.FullyConnected(x, self.weight.data(), no_bias=True, num_hidden=SIZE))

        self.project = project

    def forward(self, x: Any) -> Any:
        return self.project(x)


@pytest.mark.parametrize("make", [OfAnother, lambda: Apply(nn.Dense(SIZE, in_units=SIZE))])
def test_parameters_that_are_initialized_again(make: Any) -> None:
    """A cell traced with the old arrays is traced anew."""
    net, x = make(), rows(1, SIZE)
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize(dynamic_batch=True)
    before = net(x).asnumpy()
    net.initialize(mx.init.Constant(0.2), force_reinit=True)
    after = net(x).asnumpy()
    net.hybridize(dynamic_batch=False)
    assert_close(after, net(x).asnumpy(), "output")
    assert abs(after - before).max() > 1e-3


class Experts(gluon.Block):
    """Equal layers, each with weights of its own, one of which each sample goes through."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.experts = nn.Sequential()
        for _ in range(count):
            self.experts.add(nn.Dense(SIZE, in_units=SIZE, activation="tanh"))

    def forward(self, x: Any, expert: int) -> Any:
        return self.experts[expert](x)


def assemblies(count: int) -> int:
    """Train equal layers for a minibatch; returns how many row programs were assembled."""
    gluonjit.clear_caches()
    mx.random.seed(count)
    net = Experts(count)
    net.initialize(mx.init.Uniform(0.5))
    assert_same(net, [(rows(1, SIZE), k % count) for k in range(4 * count)], lambda net, sample: net(*sample).sum())
    return gluonjit.cache_info()["mxnet.assemblies"]


def test_equal_layers_share_what_is_assembled_for_one_of_them() -> None:
    six = assemblies(6)
    assert six <= assemblies(2) and (six > 0) == (ROWS is not None)


def test_numbers_that_are_equal_but_for_the_sign_of_zero_are_two_programs() -> None:
    @gluonjit.cell
    def up(x: Any) -> Any:
        return nd.tanh(x) * 0.0

    @gluonjit.cell
    def down(x: Any) -> Any:
        return nd.tanh(x) * -0.0

    with gluonjit.batching():
        found = [cell(nd.ones((1, SIZE)) * k) for cell in (up, down) for k in (1, 2)]
    assert (gluonjit.explain().fused > 0) == (ROWS is not None)
    assert [bool(np.signbit(array.asnumpy()).all()) for array in found] == [False, False, True, True]
