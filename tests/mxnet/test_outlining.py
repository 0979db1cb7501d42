"""Cells that are made from the source of plain Blocks' methods: the same values and gradients, in fewer calls."""

from __future__ import annotations

import random
from typing import Any

import mxnet as mx
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

import gluonjit
from gluonjit.hybrid.capture.outlining import outlines

SIZE = 8
BATCHED: dict[str, Any] = {"granularity": "cell"}


def tree(choose: random.Random, begin: int, end: int) -> Any:
    middle = choose.randrange(begin, end)
    parts = [(begin, middle), (middle + 1, end)]
    return middle, [tree(choose, first, last) for first, last in parts if first < last]


def samples(seed: int, count: int = 6) -> list[Any]:
    choose = random.Random(seed)
    found = []
    for _ in range(count):
        size = choose.randint(2, 7)
        found.append((nd.array([choose.randrange(20) for _ in range(size)]), tree(choose, 0, size)))
    return found


class Net(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, SIZE), nn.Dense(1, in_units=SIZE)
        self.word, self.child = (
            nn.Dense(SIZE, activation="tanh", in_units=SIZE),
            nn.Dense(SIZE, use_bias=False, in_units=SIZE),
        )
        self.log: list[Any] = []


class Recursive(Net):
    def forward(self, tokens: Any, root: Any) -> Any:
        return self.head(self.encode(root, self.embed(tokens)))

    def encode(self, node: Any, words: Any) -> Any:
        index, children = node
        below = sum(self.child(self.encode(child, words)) for child in children)
        return nd.tanh(self.word(words[index : index + 1]) + below)


class Steps(Net):
    def forward(self, tokens: Any, root: Any) -> Any:
        x, h, c = self.embed(tokens), nd.zeros((1, SIZE)), nd.zeros((1, SIZE))
        for t in range(len(tokens)):
            gate = nd.sigmoid(self.word(x[t : t + 1]) + self.child(h))
            c = gate * c + (1 - gate) * nd.tanh(x[t : t + 1])
            h = gate * nd.tanh(c)
        return self.head(h) + c.sum()


class Effects(Net):
    """What is logged, and written in place, comes in its order."""

    def note(self, h: Any) -> Any:
        self.log.append("note")
        h[:] = h * 2
        return self.child(h)

    def forward(self, tokens: Any, root: Any) -> Any:
        h = self.embed(tokens).sum(axis=0, keepdims=True)
        with autograd.pause():
            extra = h.copy()
            found = (extra + 1) * 0.5 + self.note(extra) + (extra + 1) * 0.25
        self.log.append("end")
        return (nd.tanh(self.word(h)) * found).sum()


class Values(Net):
    def forward(self, tokens: Any, root: Any) -> Any:
        h = nd.tanh(self.word(self.embed(tokens).mean(axis=0, keepdims=True)))
        if (h * 2).sum().asscalar() > 0:
            return nd.tanh(self.child(h)).sum() * 2
        return nd.sigmoid(self.child(h)).sum() * 3


def made(kind: Any, **options: Any) -> tuple[Any, Any]:
    nets = []
    for _ in range(2):
        mx.random.seed(0)
        net = kind()
        net.initialize(mx.init.Uniform(0.3))
        for sample in samples(9):
            net(*sample)
        nets.append(net)
    for one, other in zip(*[net.collect_params().values() for net in nets]):
        other.set_data(one.data())
    nets[1].hybridize(dynamic_batch=True, **{**BATCHED, **options})
    return nets[0], nets[1]


def run(net: Any, given: list[Any], training: bool) -> Any:
    net.log.clear()
    if training:
        with autograd.record():
            outputs = [net(*sample) for sample in given]
            total = sum(output.sum() for output in outputs)
        total.backward()
    else:
        outputs = [net(*sample) for sample in given]
    found = [parameter.grad() for parameter in net.collect_params().values()] if training else []
    return [array.asnumpy() for array in [*outputs, *found]], list(net.log)


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("kind", [Recursive, Steps, Effects, Values], ids=lambda kind: kind.__name__)
def test_values_gradients_and_effects_are_those_of_the_eager_program(kind: Any, training: bool) -> None:
    eager, net = made(kind)
    for seed in range(3):
        given = samples(seed)
        expected, found = run(eager, given, training), run(net, given, training)
        for one, other in zip(expected[0], found[0]):
            assert abs(one - other).max() <= 1e-5 * max(1.0, abs(one).max())
        assert found[1] == expected[1]


def calls(net: Any) -> Any:
    with gluonjit.batching(**BATCHED) as batch:
        outputs = [net(*sample) for sample in samples(1)]
    assert len(outputs) == 6
    return batch.report


def test_straight_line_code_is_one_call() -> None:
    report, without = calls(made(Recursive)[1]), calls(made(Recursive, outline=False)[1])
    assert report.calls * 2 < without.calls
    assert without.outlined == {}
    assert list(report.outlined.values()) == ["5 operators in one cell"]


class Mixing(Net):
    """What is done to rows mixes them: each number of rows is a kind of its own where lengths are not joined."""

    def forward(self, tokens: Any, root: Any) -> Any:
        self.log.append(root)
        return self.mixed(self.embed(tokens))

    def mixed(self, x: Any) -> Any:
        return nd.softmax(nd.dot(self.child(x), x, transpose_b=True))


@pytest.mark.parametrize(
    ("numbers", "without", "given_up"),
    [
        ((2, 3, 4, 5, 6, 7), ("arity",), True),
        ((2, 3, 4, 5, 6, 7), (), False),
        ((2, 3, 2, 3, 4, 5, 2, 3, 2), ("arity",), False),
    ],
)
def test_a_cell_is_given_up_whose_calls_have_other_shapes_in_each_sample(
    numbers: Any, without: tuple[str, ...], given_up: bool
) -> None:
    eager, net = made(Mixing)
    given = [(nd.arange(n), None) for n in numbers]
    with gluonjit.batching(**BATCHED, without=without) as batch:
        outputs = [net(*sample) for sample in given]
    (reason,) = batch.report.outlined.values()
    assert (reason == outlines.VARIED) is given_up
    assert len(outputs) == len(given)
    for one, other in zip(run(eager, given, True)[0], run(net, given, True)[0]):
        assert abs(one - other).max() <= 1e-5 * max(1.0, abs(one).max())


def test_another_layer_counts() -> None:
    eager, net = made(Recursive)
    run(net, samples(0), True)
    for each in (eager, net):
        with each.name_scope():
            each.child = nn.Dense(SIZE, in_units=SIZE)
        each.child.initialize(mx.init.Constant(0.1))
    for one, other in zip(run(eager, samples(1), False)[0], run(net, samples(1), False)[0]):
        assert abs(one - other).max() <= 1e-5


def test_the_blocks_own_code_comes_back() -> None:
    class Own(Recursive):
        def encode(self, node: Any, words: Any) -> Any:
            return nd.tanh(self.word(words[node[0] : node[0] + 1]) + 1) * 2

    _, net = made(Own)
    code = Own.encode.__code__  # which asks whether it runs a sample
    seen = []
    net.word.register_forward_hook(lambda *call: seen.append(Own.encode.__code__))
    calls(net)
    assert seen[0] is not code
    assert Own.encode.__code__ is code


class Asks(gluon.Block):
    """Asks for its input itself after a read, up to which no call is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.log = nn.Dense(3, in_units=3), []
        self.known: dict[Any, int] = {}

    def forward(self, x: Any) -> Any:
        if self.dense(x).sum().asscalar() > 1e9:
            return x
        self.log.append((self.known.get(x, -1), x in self.known, {x: 7}[x], int((x == x).sum().asscalar())))
        self.known[x] = len(self.known)
        x += 1
        self.log.append(self.known[x])
        return self.dense(x)


@pytest.mark.parametrize("granularity", ["auto", "cell", "op"])
def test_an_input_is_found_where_it_is_a_key(granularity: str) -> None:
    logs = []
    for batched in (False, True):
        net = Asks()
        net.initialize()
        net.hybridize(**({"dynamic_batch": True, "granularity": granularity} if batched else {}))
        inputs = [nd.random.normal(shape=(2, 3)) for _ in range(3)]
        net.known = {inputs[2]: 5}
        for _ in range(2):
            assert all(result.shape == (2, 3) for result in [net(x) for x in inputs])
        logs.append((net.log, [net.known[x] for x in inputs]))
    assert logs[0] == logs[1]
