"""Blocks: hooks, changes of structure, files, copies, and whatever a cell may take and give."""

from __future__ import annotations

import contextlib
import copy
import io
from collections import namedtuple
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, assert_same, rows

import gluonjit
from gluonjit.errors import OptionError

SIZE = 4
X, Y = rows(2, SIZE, seed=1), rows(2, SIZE, seed=2)


class Pair(gluon.HybridBlock):
    """A cell of two layers."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.a = nn.Dense(SIZE, in_units=SIZE)
            self.b = nn.Dense(SIZE, in_units=SIZE)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.b(F.tanh(self.a(x)))


class Outer(gluon.Block):
    """A plain block around it."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.pair = Pair()

    def forward(self, x: Any) -> Any:
        return self.pair(x + 1) * 2


def made(kind: Any) -> Any:
    net = kind()
    net.initialize(mx.init.Uniform(0.7))
    return net


def assert_eager(net: Any, value: Any) -> None:
    net.hybridize(dynamic_batch=False)
    assert_close(value.asnumpy(), net(X).asnumpy(), "value")


HOOKED: dict[str, Callable[[Any], Any]] = {
    "outer block": lambda net: net,
    "cell": lambda net: net.pair,
    "block in a cell": lambda net: net.pair.a,
}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("place", HOOKED)
def test_hooks_run_for_each_sample(place: str, late: bool) -> None:
    """Also those registered when the cell has long been traced; they may read; what they return is ignored."""
    found = []
    for dynamic in (False, True):
        mx.random.seed(0)
        net, seen = made(Outer), []
        net.hybridize(dynamic_batch=dynamic)
        if late:
            net(X).wait_to_read()
        first = HOOKED[place](net).register_forward_hook(
            lambda b, args, out, seen=seen: seen.append(out.asnumpy()) or 5
        )
        second = HOOKED[place](net).register_forward_pre_hook(lambda b, args, seen=seen: seen.append(args[0].asnumpy()))
        values = [net(x) for x in (X, Y, X)]
        first.detach()
        second.detach()
        values.append(net(Y))
        found.append([*seen, *[value.asnumpy() for value in values]])
        if dynamic:
            net(X).wait_to_read()
            assert not gluonjit.explain().unbatched, "one node again"
    assert len(found[0]) == len(found[1]) == 10
    for actual, expected in zip(found[1], found[0]):
        assert_close(actual, expected, "value")


def test_summary_and_operator_hooks() -> None:
    """`register_op_hook` sees compiled graphs only: nothing in an eager block, nothing in a batched one."""
    net, printed, seen = made(Pair), [], []
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        with contextlib.redirect_stdout(io.StringIO()) as text:
            net.summary(X)
        printed.append(text.getvalue())
        net.register_op_hook(lambda *args: seen.append(args))
        net(X).wait_to_read()
    assert printed[0] == printed[1] and not seen
    assert_eager(net, net(X))


def replace_child(net: Any) -> None:
    net.pair.a = nn.Dense(SIZE, in_units=SIZE)
    net.pair.a.initialize(mx.init.One())


def replace_cell(net: Any) -> None:
    net.pair = made(Pair)


@pytest.mark.parametrize("change", [replace_child, replace_cell])
def test_a_block_that_is_replaced(change: Any) -> None:
    net = made(Outer)
    net.hybridize(dynamic_batch=True)
    net(X).wait_to_read()
    before = net(X)
    expected = before.asnumpy()
    before = net(X)
    change(net)
    after = net(X)
    assert_close(before.asnumpy(), expected, "captured before")
    assert_eager(net, after)


def test_a_layer_that_is_added() -> None:
    for scope in (False, True):
        net = nn.HybridSequential()
        net.add(nn.Dense(SIZE, in_units=SIZE), nn.HybridSequential())
        net.initialize()
        net.hybridize(dynamic_batch=not scope)
        with gluonjit.batching() if scope else contextlib.nullcontext():
            net(X).wait_to_read()
            net[1].add(nn.Dense(SIZE, in_units=SIZE))
            net[1][0].initialize(mx.init.One())
            value = net(X)
        assert_eager(net, value)


def test_what_hybridize_leaves_as_it_was() -> None:
    net = made(Pair)

    def public() -> Any:
        names = {name for name in net.__dict__ if not name.startswith("_")}
        return type(net), net.name, net.prefix, list(net.collect_params()), repr(net), names

    before, expected = public(), net(X).asnumpy()
    for options in ({"dynamic_batch": True}, {"dynamic_batch": True}, {}, {"dynamic_batch": True}, {"active": False}):
        net.hybridize(**options)
        assert public() == before and isinstance(net, gluon.HybridBlock)
        assert_close(net(X).asnumpy(), expected, str(options))
    for static in ("static_alloc", "static_shape"):
        with pytest.raises(OptionError, match=f"unknown option '{static}'"):
            net.hybridize(dynamic_batch=True, **{static: True})
    net.hybridize()
    assert type(net(X)) is nd.NDArray and net._active


class Layers(gluon.Block):
    """Layers that are called as the operators are that they call, and a sum over any number of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.drop = nn.Embedding(5, SIZE), nn.LayerNorm(in_channels=SIZE), nn.Dropout(0.5)

    def forward(self, words: Any) -> Any:
        return self.drop(self.norm(self.embed(words) * 2).sum(axis=0))


@pytest.mark.parametrize("granularity", ["eager", "op", "cell"])
def test_names_of_blocks_that_are_made_later(granularity: str) -> None:
    """MXNet numbers blocks by their class, and the operators of graphs in the same way."""
    net = made(Layers)
    net.hybridize(dynamic_batch=True, granularity=granularity)
    gluonjit.clear_caches()
    with mx.name.NameManager():
        for number in range(2):
            assert Layers().embed.name == f"embedding{number}" and nn.LayerNorm().name == f"layernorm{2 * number + 1}"
            with autograd.record():
                total = gluonjit.add_n([net(nd.arange(count)).sum() for count in (1, 2, 3)])
            total.backward()
        assert mx.sym.dot(mx.sym.var("x"), mx.sym.var("y")).name == "dot0"


def test_hybridizing_parts() -> None:
    net = made(Outer)
    expected = net(X).asnumpy()
    net.pair.hybridize(static_alloc=True)
    net(X)
    net.hybridize(dynamic_batch=True)
    assert_close(net(X).asnumpy(), expected, "parent of a compiled child")
    net.hybridize(dynamic_batch=False)
    assert net.pair._active
    net.hybridize(False)
    net.pair.hybridize(dynamic_batch=True)
    value = net(X)
    assert type(value) is not nd.NDArray
    assert_close(value.asnumpy(), expected, "child only")


def test_export_symbols_and_symbol_blocks(tmp_path: Any) -> None:
    net = made(Pair)
    net.hybridize(dynamic_batch=True)
    expected = net(X).asnumpy()
    data = mx.sym.var("data")
    assert isinstance(net(data), mx.sym.Symbol)
    with gluonjit.batching():
        assert isinstance(net(data), mx.sym.Symbol)
    with pytest.raises(RuntimeError, match=r"Call hybridize\(\) and the block once"):
        net.export(str(tmp_path / "net"))
    net.hybridize()
    net(X)
    net.export(str(tmp_path / "net"))
    files = [str(tmp_path / name) for name in ("net-symbol.json", "net-0000.params")]
    loaded = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    assert_close(loaded(X).asnumpy(), expected, "exported")
    block = gluon.SymbolBlock(net(data), data, params=net.collect_params())
    assert_same(block, [rows(1, SIZE, seed=k) for k in range(4)], lambda net, x: (net(x) ** 2).sum())


def test_copies_have_their_own_parameters() -> None:
    net = made(Pair)
    net.hybridize(dynamic_batch=True, sharing=False)
    expected = net(X).asnumpy()
    twin = copy.deepcopy(net)
    assert_close(copy.copy(net)(X).asnumpy(), expected, "a shallow copy")
    with gluonjit.batching():
        before = twin(X)
        for parameter in twin.collect_params().values():
            parameter.set_data(parameter.data() * 0)
        after = twin(X), net(X)
    assert_close(before.asnumpy(), expected, "copy")
    assert not np.any(after[0].asnumpy())
    assert_close(after[1].asnumpy(), expected, "original")


State = namedtuple("State", "h c")


@gluonjit.cell
def of_state(state: Any, k: float = 1.0) -> Any:
    return State(state.h * k, state.c + state.h)


@gluonjit.cell
def to_state(h: Any, c: Any) -> Any:
    return State(h * 2, [c + h, (h - c, h)])


@gluonjit.cell
def of_dict(parts: Any) -> Any:
    return {"a": parts["a"] * 2, "b": [parts["b"] + 1]}


@gluonjit.cell
def of_lists(parts: Any) -> Any:
    return parts[0] + parts[1][0], [parts[1][1]]


@gluonjit.cell
def of_none(h: Any, c: Any = None) -> Any:
    return (h * 2, None) if c is None else (h * 2, c)


@gluonjit.cell
def scaled(h: Any, by: Any = 2, *, mode: str = "up") -> Any:
    number = float(np.sum(by))
    return h * number if mode == "up" else h / number


CALLS: dict[str, Callable[[], Any]] = {
    "named tuple": lambda: of_state(State(X, Y)),
    "named tuple and keyword": lambda: of_state(State(X, Y), k=2.5),
    "nested result": lambda: to_state(X, Y),
    "keywords": lambda: [to_state(c=X, h=Y), scaled(X, mode="down"), scaled(h=X, by=3)],
    "dictionary": lambda: of_dict({"a": X, "b": Y}),
    "lists": lambda: of_lists([X, (Y, X)]),
    "None": lambda: [of_none(X), of_none(X, None), of_none(X, Y), of_none(X, c=Y)],
    "numbers": lambda: [scaled(X, by) for by in (1, True, 1.5, np.float32(2), np.float64(2), np.int64(4), np.ones(3))],
    "strings": lambda: [scaled(X), scaled(X, mode="down"), scaled(X, 3, mode="up")],
    "zeros with signs": lambda: [nd.sign(1 / scaled(X, by)) for by in (0.0, -0.0)],
    "operators on zeros with signs": lambda: [nd.sign(1 / (scaled(X) * by)) for by in (0.0, -0.0)],
    "equal numbers": lambda: [scaled(X).sum(axis=1, keepdims=keep) for keep in (True, False, 1, 0)],
}


def assert_alike(actual: Any, expected: Any) -> None:
    if isinstance(expected, nd.NDArray):
        assert isinstance(actual, nd.NDArray)
        assert_close(actual.asnumpy(), expected.asnumpy(), "value")
    elif isinstance(expected, dict):
        assert_alike(list(actual.items()), list(expected.items()))
    elif isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected) and len(actual) == len(expected)
        for one, other in zip(actual, expected):
            assert_alike(one, other)
    else:
        assert actual == expected


@pytest.mark.parametrize("call", CALLS)
def test_what_a_cell_may_take_and_give(call: str) -> None:
    expected = CALLS[call]()
    with gluonjit.batching():
        actual, again = CALLS[call](), CALLS[call]()
    assert_alike(actual, expected)
    assert_alike(again, expected)


def test_a_cell_that_gives_a_named_tuple_is_one_node() -> None:
    with gluonjit.batching() as batch:
        kept = [to_state(X, Y), to_state(Y, X)]
    assert batch.report.launches == 1 and not batch.report.unbatched and len(kept) == 2
