"""Cells on operands of any length: one kind for all lengths, with values and gradients as for each sample alone."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from support import assert_close, flat

import gluonjit
from gluonjit.compiled import FAST
from gluonjit.engines.mxnet.capture import cells
from gluonjit.engines.mxnet.lengths.program import Ragged
from gluonjit.engines.mxnet.tracing import kinds
from gluonjit.errors import RuleWarning

C = 8


class Model(gluon.HybridBlock):
    """Layers that a program for the states of the words of one sentence is made of."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__(prefix="model_")
        self.body = body
        with self.name_scope():
            self.q, self.k, self.out, self.one = [
                nn.Dense(units, in_units=C, flatten=False, prefix=name)
                for name, units in (("q_", C), ("k_", C), ("out_", 3), ("one_", 1))
            ]
            self.norm, self.scaled = nn.LayerNorm(in_channels=C), nn.BatchNorm(in_channels=C, use_global_stats=True)
            self.narrow = nn.Conv1D(C, 3, padding=1, in_channels=C)
            self.wide = nn.Conv1D(C, 2, strides=2, in_channels=C)
            self.embed, self.drop = nn.Embedding(30, C), nn.Dropout(0.0)
            self.table = self.params.get("table", shape=(40, C))

    def hybrid_forward(self, F: Any, *words: Any, table: Any) -> Any:
        return self.body(self, F, table, *words)


def turned(F: Any, x: Any) -> Any:
    """(words, C) as a convolution takes it."""
    return F.expand_dims(F.transpose(x), axis=0)


def attended(net: Model, F: Any, x: Any, y: Any) -> Any:
    scores = F.dot(net.q(x), net.k(y), transpose_b=True) / C**0.5
    return F.dot(F.softmax(scores, axis=-1), y)


def in_heads(net: Model, F: Any, x: Any) -> Any:
    heads = F.transpose(F.reshape(net.q(x), shape=(0, 2, 4)), axes=(1, 0, 2))
    return F.sum(F.batch_dot(F.softmax(F.batch_dot(heads, heads, transpose_b=True)), heads), axis=1)


def gated(net: Model, F: Any, x: Any) -> Any:
    one, other = F.split(net.q(x), num_outputs=2, axis=1)
    return F.sum(F.sigmoid(one) * F.tanh(other), axis=0)


def part(F: Any, x: Any, begin: int, end: Any) -> Any:
    return F.slice_axis(x, axis=0, begin=begin, end=end)


ONE: dict[str, Callable[..., Any]] = {
    "softmax over the words": lambda net, F, t, x: F.sum(F.broadcast_mul(F.softmax(net.one(x), axis=0), x), axis=0),
    "log softmax over the words": lambda net, F, t, x: F.sum(F.log_softmax(net.q(x), axis=0) * x, axis=0),
    "attention": lambda net, F, t, x: net.norm(x + attended(net, F, x, x)),
    "attention, pooled": lambda net, F, t, x: F.mean(attended(net, F, x, x), axis=0),
    "attention with a query": lambda net, F, t, x: F.dot(
        F.softmax(F.dot(part(F, t, 0, 1), net.k(x), transpose_b=True)), x
    ),
    "attention in heads": lambda net, F, t, x: in_heads(net, F, x),
    "the largest of the words": lambda net, F, t, x: net.out(F.max(F.tanh(x), axis=0, keepdims=True)),
    "the smallest of all": lambda net, F, t, x: F.min(net.q(x)),
    "the mean of what attends": lambda net, F, t, x: F.mean(attended(net, F, x, x)),
    "a convolution": lambda net, F, t, x: F.max(F.relu(net.narrow(turned(F, x))), axis=2),
    "a convolution in steps": lambda net, F, t, x: F.mean(net.wide(turned(F, x)), axis=2),
    "the largest of windows": lambda net, F, t, x: F.sum(
        F.Pooling(turned(F, net.q(x)), kernel=(2,), stride=(2,), pool_type="max"), axis=2
    ),
    "means of windows": lambda net, F, t, x: F.max(
        F.Pooling(turned(F, net.q(x)), kernel=(2,), pool_type="avg"), axis=2
    ),
    "the mean as a pooling": lambda net, F, t, x: F.flatten(
        F.Pooling(turned(F, net.q(x)), kernel=(2,), global_pool=True, pool_type="avg")
    ),
    "the largest as a pooling": lambda net, F, t, x: F.flatten(
        F.Pooling(turned(F, net.q(x)), kernel=(2,), global_pool=True, pool_type="max")
    ),
    "a norm": lambda net, F, t, x: F.norm(net.q(x), axis=0),
    "what a sample has once": lambda net, F, t, x: F.max(
        F.tanh(F.broadcast_add(net.q(x), F.max(x, axis=0, keepdims=True))), axis=0
    ),
    "moved by a word": lambda net, F, t, x: F.max(
        x * F.concat(part(F, net.q(x), 1, None), part(F, x, 0, 1), dim=0), axis=0
    ),
    "the first and the last word": lambda net, F, t, x: part(F, net.q(x), 0, 1) + part(F, x, -1, None),
    "by indices": lambda net, F, t, x: F.max(x[1:], axis=0) + x[-1] * x[0],
    "turned around": lambda net, F, t, x: F.max(F.reverse(net.q(x), axis=0) * x, axis=0),
    "gates, and the largest": lambda net, F, t, x: gated(net, F, x) * F.max(F.slice_axis(x, axis=1, begin=0, end=4)),
    "places": lambda net, F, t, x: F.max(x + F.slice_like(t, x, axes=(0,)), axis=0),
    "numbered places": lambda net, F, t, x: F.max(
        F.broadcast_mul(net.q(x), F.expand_dims(F.contrib.arange_like(x, axis=0), axis=1)), axis=0
    ),
    "by the largest": lambda net, F, t, x: F.sum(
        F.dot(F.max(net.q(x), axis=0, keepdims=True), x, transpose_b=True), axis=1
    ),
    "some of them": lambda net, F, t, x: F.max(F.where(x > 0, net.q(x), F.zeros_like(x) - 1), axis=0),
    "with fixed statistics": lambda net, F, t, x: F.max(net.scaled(net.q(x)), axis=0),
    "several results": lambda net, F, t, x: (net.out(x), F.max(x, axis=0), F.softmax(F.sum(x, axis=1), axis=0)),
    "by the number of words": lambda net, F, t, x: F.max(net.q(x), axis=0) / x.shape[0],
    "each beside each": lambda net, F, t, x: F.max(
        F.repeat(net.q(x), x.shape[0], axis=0) * F.tile(x, (x.shape[0], 1)), axis=0
    ),
    "each three times": lambda net, F, t, x: F.max(F.repeat(net.q(x), 3, axis=0) * F.tile(x, (3, 2))[:, :C], axis=0),
    "one for each": lambda net, F, t, x: F.max(net.q(x) * F.tile(part(F, t, 0, 1), (x.shape[0], 1)), axis=0),
    "as many classes as words": lambda net, F, t, x: F.sum(
        F.dot(F.one_hot(F.sum(x > 0, axis=1), x.shape[0]), net.q(x)), axis=0
    ),
    "a variance": lambda net, F, t, x: F.max(
        F.square(F.broadcast_sub(net.q(x), F.mean(x, axis=0, keepdims=True))), axis=0
    ),
    "what drops nothing": lambda net, F, t, x: F.max(net.norm(net.drop(x) * 2), axis=0),
    "classes": lambda net, F, t, x: F.max(F.dot(F.one_hot(F.argmax(x, axis=1), C), part(F, t, 0, C)), axis=0),
    "the place of the largest": lambda net, F, t, x: F.argmax(net.q(x), axis=0) + F.max(x, axis=0),
    "the words themselves": lambda net, F, t, x: (
        F.max(x, axis=0),
        part(F, x, 0, None),
        F.pick(x, F.argmax(x, axis=1)),
    ),
    "sorted, for each length": lambda net, F, t, x: F.topk(net.q(x), axis=0, k=1, ret_typ="value"),
}
TWO: dict[str, Callable[..., Any]] = {
    "to another sentence": lambda net, F, t, x, y: F.sum(attended(net, F, x, y), axis=0),
    "each word with each": lambda net, F, t, x, y: (
        F.max(F.dot(net.q(x), y, transpose_b=True)) + F.sum(F.softmax(F.dot(y, x, transpose_b=True)))
    ),
    "one after the other": lambda net, F, t, x, y: F.max(F.concat(net.q(x), y, dim=0), axis=0),
}
MINIBATCHES = ((5, 3), (4, 6, 5, 7), (3, 8, 8, 2, 9, 5), (12, 30, 2, 4))


def both(body: Callable[..., Any]) -> list[Model]:
    """The per-sample program, and the same batched."""
    nets = []
    for _ in range(2):
        mx.random.seed(1)
        nets.append(Model(body))
        nets[-1].initialize(mx.init.Uniform(0.6))
    nets[1].hybridize(dynamic_batch=True)
    return nets


def words(*lengths: int, seed: int = 0) -> list[Any]:
    draw = np.random.RandomState(seed)
    return [nd.array(draw.uniform(-1, 1, (length, C))) for length in lengths]


def run(net: Model, samples: list[Any], **options: Any) -> tuple[list[Any], list[Any], Any]:
    """Results and gradients of a minibatch; its report if the model is hybridized, which otherwise runs eagerly."""
    net.collect_params().zero_grad()
    for array in flat(samples):
        array.attach_grad()
    lazily = "_gluonjit" in net.__dict__
    with gluonjit.batching(**{"granularity": "cell", **options}) if lazily else nullcontext() as batch:
        with autograd.record():
            found = [array for sample in samples for array in flat(net(*sample))]
            heads = [nd.array(np.linspace(1, 2, array.size).reshape(array.shape)) for array in found]
            total = nd.add_n(*[(array * head).sum() for array, head in zip(found, heads)])
        total.backward()
    learned = [each for each in net.collect_params().values() if each.grad_req != "null"]
    gradients = [array.grad.asnumpy() for array in flat(samples)] + [each.grad().asnumpy() for each in learned]
    return [array.asnumpy() for array in found], gradients, batch and batch.report


def assert_as_alone(nets: list[Model], samples: list[Any], **options: Any) -> Any:
    """Compare a minibatch with the per-sample program, and return its report."""
    wanted, gradients, _ = run(nets[0], samples)
    found, own, report = run(nets[1], samples, **options)
    assert len(found) == len(wanted)
    for number, (one, other) in enumerate(zip(found, wanted)):
        assert_close(one, other, f"result {number}")
    scale = max([np.abs(each).max() for each in gradients])
    for number, (one, other) in enumerate(zip(own, gradients)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * scale, err_msg=f"gradient {number}")
    assert not report.distrusted
    return report


@pytest.mark.parametrize("name", ONE)
def test_a_program_for_one_sentence_is_one_kind_for_all_lengths(name: str) -> None:
    nets = both(ONE[name])
    for lengths in MINIBATCHES:
        report = assert_as_alone(nets, [(each,) for each in words(*lengths, seed=len(lengths))])
    assert report.kinds["model"].launches == 1
    assert all(kind.apart for kind in nets[1].__dict__["_gluonjit"].kinds.values())


@pytest.mark.parametrize("name", TWO)
def test_sentences_of_two_lengths_are_one_kind(name: str) -> None:
    nets = both(TWO[name])
    for seed in range(4):
        draw = random.Random(seed)
        pairs = [tuple(words(draw.randint(2, 7), draw.randint(2, 7), seed=k)) for k in range(5)]
        report = assert_as_alone(nets, pairs)
    assert report.kinds["model"].launches == 1


_TOO_SHORT = {"a convolution in steps", "the largest of windows", "means of windows", "moved by a word", "by indices"}


@pytest.mark.parametrize("name", sorted({*ONE} - _TOO_SHORT))
def test_sentences_of_one_word(name: str) -> None:
    nets = both(ONE[name])
    for lengths in ((4, 6), (5, 1, 3), (3, 3), (1, 1), (1, 9)):
        report = assert_as_alone(nets, [(each,) for each in words(*lengths, seed=len(lengths))])
    assert report.kinds["model"].launches <= 2  # what is equal in a sentence of one word may differ in others


@pytest.mark.parametrize("strange", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    "name", ["softmax over the words", "attention", "a norm", "the largest of windows", "by indices"]
)
def test_what_is_no_number_stays_in_its_sentence(name: str, strange: float) -> None:
    nets = both(ONE[name])
    assert_as_alone(nets, [(each,) for each in words(5, 3)])
    samples = words(4, 7, 5, 6)
    samples[1][-1:] = strange
    samples[2][:1] = strange
    wanted, found = [run(net, [(each,) for each in samples]) for net in nets]
    assert found[2].kinds["model"].launches == 1 and not found[2].distrusted
    for one, other in zip(found[0] + found[1][:4], wanted[0] + wanted[1][:4]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ONE)
def test_operators_outside_of_cells_run_for_all_lengths_at_once(name: str) -> None:
    nets = both(ONE[name])
    for lengths in (*MINIBATCHES, (5, 1, 3)[: 3 * (name not in _TOO_SHORT)], MINIBATCHES[2]):
        samples = [(each,) for each in words(*lengths, seed=len(lengths))]
        report = assert_as_alone(nets, samples, granularity="op") if samples else None
    assert report.launches < report.nodes / 2


class Messages(gluon.Block):
    """A graph's edges, added up at the nodes where they end."""

    def forward(self, edges: Any, ends: Any, nodes: Any) -> Any:
        return nd.dot(nd.one_hot(ends, nodes.shape[0]), edges, transpose_a=True) + nodes


class Weighted(gluon.Block):
    """Words, each with a number of its own and beside a place that is turned around."""

    def forward(self, words: Any, numbers: Any, places: Any) -> Any:
        return nd.broadcast_mul(nd.softmax(numbers).expand_dims(1), nd.tanh(words) + nd.reverse(places, axis=0))


def edges_of(count: int, draw: Any) -> tuple[Any, ...]:
    ends = draw.randint(0, count, 2 * count)
    return nd.array(draw.randn(2 * count, C)), nd.array(ends), nd.array(draw.randn(count, C))


def weights_of(count: int, draw: Any) -> tuple[Any, ...]:
    return nd.array(draw.randn(count, C)), nd.array(draw.randn(count)), nd.array(draw.randn(count, C))


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize(("make", "sample"), [(Messages, edges_of), (Weighted, weights_of)])
def test_operators_on_arrays_of_the_program_run_for_all_lengths_at_once(make: Any, sample: Any, learns: bool) -> None:
    gluonjit.clear_caches()
    alone, net = make(), make()
    net.hybridize(dynamic_batch=True)
    for seed, counts in enumerate(((3, 5), (4, 6, 3), (2, 7, 9, 5))):
        samples = [sample(count, np.random.RandomState(seed + count)) for count in counts]
        found = []
        for block in (alone, net):
            for arrays in samples if learns else ():
                arrays[0].attach_grad()
                arrays[2].attach_grad()
            with gluonjit.batching(granularity="cell") if block is net else nullcontext() as batch:
                with autograd.record(learns):
                    results = [block(*arrays) for arrays in samples]
                    total = nd.add_n(*[(result**2).sum() for result in results])
                if learns:
                    total.backward()
                found.append([each.asnumpy() for each in results])
            found[-1] += [array.grad.asnumpy() for arrays in samples for array in arrays if array.grad is not None]
        for one, other in zip(*found):
            assert_close(one, other, "result")
    assert all(kind.launches == 1 for name, kind in batch.report.kinds.items() if name in ("one_hot", "dot", "softmax"))


@gluonjit.cell
def _both_turned(one: Any, other: Any) -> tuple[Any, Any]:
    return nd.expand_dims(one, axis=0), nd.expand_dims(other, axis=0)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_result_of_an_operand_that_does_not_learn(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no history of its own; and results of two axes that differ run one by one, too, if that has to be."""
    nets = both(lambda net, F, t, x: F.sum(net.q(x), axis=1))
    numbers = [nd.array(np.linspace(-1, 1, n)) for n in (4, 6, 3, 5)]

    def losses(net: Model) -> Any:
        with autograd.record():
            pairs = [_both_turned(net(each), number) for each, number in zip(words(4, 6, 3, 5), numbers)]
            return nd.add_n(*[(one * other).sum(axis=1) for one, other in pairs])

    if wrong:
        monkeypatch.setattr(Ragged, "__call__", broken)
    with pytest.warns(RuleWarning, match="no launch") if wrong else nullcontext():
        for _ in range(2):
            found = []
            for net in nets:
                net.collect_params().zero_grad()
                lazily = gluonjit.batching(granularity="cell", without=("fused",))
                with lazily if net is nets[1] else nullcontext():
                    total = losses(net)
                    total.backward()
                found.append([total.asnumpy(), net.q.weight.grad().asnumpy()])
            for one, other in zip(*found):
                assert_close(one, other, "a loss and its gradient")


def broken(*_: Any, **__: Any) -> None:
    raise ValueError("no launch")


def test_parts_by_numbers_that_are_the_length_of_other_samples() -> None:
    """The first part of all that there is, of two words and of three, is of one form; the second of four is not."""
    net = nn.Lambda(lambda x: [x[k : k + 1] * 2 for k in range(len(x))])
    net.hybridize(dynamic_batch=True)
    given = words(1, 2, 3, 4, 1, 2)
    for _ in range(3):
        with autograd.record():
            [net(each) for each in given]
        found = [net(each) for each in given]  # parts of what was captured with a history are nodes
        for parts, each in zip(found, given):
            assert_close(np.concatenate([part.asnumpy() for part in parts]), 2 * each.asnumpy(), "parts")


@pytest.mark.parametrize(
    "body",
    [
        lambda net, F, t, x: F.transpose(net.q(x)),
        lambda net, F, t, x: F.dot(net.q(x), x, transpose_b=True),
    ],
)
def test_results_of_which_other_axes_than_the_first_differ(body: Callable[..., Any]) -> None:
    nets = both(body)
    for lengths in ((5, 3), (4, 6, 5, 4), (3, 7, 1)):
        report = assert_as_alone(nets, [(each,) for each in words(*lengths)])
    assert report.kinds["model"].launches == 1


def test_inference() -> None:
    nets = both(ONE["attention"])
    for lengths in ((5, 3), (4, 6, 5, 7), (2, 9)):
        given = words(*lengths)
        with gluonjit.batching(granularity="cell") as batch:
            found = [nets[1](each) for each in given]
        for one, each in zip(found, given):
            assert_close(one.asnumpy(), nets[0](each).asnumpy(), "a result")
    assert batch.report.kinds["model"].launches == 1


def test_the_switch_of_arity_turns_it_off() -> None:
    nets = both(ONE["attention"])
    for _ in range(2):
        report = assert_as_alone(nets, [(each,) for each in words(3, 5, 4, 5)], without=("arity",))
    assert report.kinds["model"].launches == 3


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_numbers_of_words(dtype: str) -> None:
    nets = both(lambda net, F, t, x: net.out(F.max(net.embed(x), axis=0)))
    for lengths in ((5, 3), (4, 6, 1, 7)):
        tokens = [nd.array(np.random.RandomState(k).randint(0, 30, k), dtype=dtype) for k in lengths]
        for net in nets:
            net.collect_params().zero_grad()
        with autograd.record():
            wanted = [nets[0](each) for each in tokens]
            total = nd.add_n(*wanted).sum()
        total.backward()
        with gluonjit.batching(granularity="cell") as batch:
            with autograd.record():
                found = [nets[1](each) for each in tokens]
                total = nd.add_n(*found).sum()
            total.backward()
        for one, other in zip(found, wanted):
            assert_close(one.asnumpy(), other.asnumpy(), "a result")
        for one, other in zip(*[net.collect_params().values() for net in nets]):
            if one.grad_req != "null":
                assert_close(one.grad().asnumpy(), other.grad().asnumpy(), one.name)
    assert batch.report.kinds["model"].launches == 1


def test_weights_that_are_other_arrays() -> None:
    nets = both(ONE["attention"])
    for _ in range(2):
        for lengths in ((5, 3), (4, 6)):
            report = assert_as_alone(nets, [(each,) for each in words(*lengths)])
        assert report.kinds["model"].launches == 1
        for net in nets:
            mx.random.seed(2)
            net.initialize(mx.init.Uniform(0.3), force_reinit=True)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, traced_once: None) -> list[int]:
    """The lengths of the samples of models that are traced."""
    found: list[int] = []
    trace = kinds._traced
    monkeypatch.setattr(kinds, "_traced", lambda *args: found.append(args[3][0].spec.shape[0]) or trace(*args))
    return found


def test_lengths_are_derived_from_three_traced_ones(traces: list[int]) -> None:
    nets = both(ONE["places"])
    assert_as_alone(nets, [(each,) for each in words(3, 9, 5)])
    assert traces == [3, 9, 5]
    assert_as_alone(nets, [(each,) for each in words(4, 8, 6, 7, 30, 2)])
    assert traces == [3, 9, 5]
    assert_as_alone(nets, [(each,) for each in words(12, 1, 10)])  # one row may be broadcast
    assert traces == [3, 9, 5, 1]


def decided(net: Model, F: Any, t: Any, x: Any) -> Any:
    return F.max(net.q(x), axis=0) if x.shape[0] > 5 else F.min(net.k(x), axis=0)


def halved(net: Model, F: Any, t: Any, x: Any) -> Any:
    return F.max(net.q(part(F, x, 0, x.shape[0] // 2)), axis=0)


def limited(net: Model, F: Any, t: Any, x: Any) -> Any:
    return F.max(net.q(part(F, x, 0, min(4, x.shape[0]))), axis=0)


def begun(net: Model, F: Any, t: Any, x: Any) -> Any:
    return F.max(net.q(x[:4]), axis=0) * x[-1]


@pytest.mark.parametrize("body", [decided, halved, limited, begun])
def test_what_a_program_decides_by_length(body: Callable[..., Any]) -> None:
    nets = both(body)
    for lengths in ((6, 9, 7), (8, 12, 10), (3, 4, 2), (5, 11, 6, 3), (20, 2, 4, 5)):
        assert_as_alone(nets, [(each,) for each in words(*lengths, seed=lengths[0])])


def emphasized(net: Model, F: Any, t: Any, x: Any) -> Any:
    return F.max(net.q(F.broadcast_mul(F.expand_dims(x, axis=1), part(F, t, 0, 1))), axis=0)


@pytest.mark.parametrize("given", ["plain", "computed", "learned", "signed", "in turns"])
def test_numbers_of_any_length(given: str) -> None:
    nets = both(emphasized)
    for count, lengths in enumerate(((5, 3), (4, 6, 1, 7), (3, 3, 9), (2, 8, 5))):
        found = []
        for net in nets:
            rows = [each[:, 0] for each in words(*lengths, seed=count)]
            for number, row in enumerate(rows):
                if given == "learned" or (given == "in turns" and (number + count) % 3 == 0):
                    row.attach_grad()
                if given == "signed" and count > 1:
                    row[:1] = -0.0
            net.collect_params().zero_grad()
            with gluonjit.batching(granularity="cell") if net is nets[1] else nullcontext() as batch:
                with autograd.record():
                    if given == "computed" or (given == "in turns" and count % 2):
                        rows = [row * 2 + 1 for row in rows]
                    outputs = [net(row) for row in rows]
                    total = nd.add_n(*outputs).sum()
                total.backward()
            own = [row.grad.asnumpy() for row in rows if row.grad is not None]
            weights = [each.grad().asnumpy() for each in net.collect_params().values() if each.grad_req != "null"]
            found.append([*[each.asnumpy() for each in outputs], *own, *weights])
        for one, other in zip(*found):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert not batch.report.distrusted
    if given in ("plain", "signed"):
        assert batch.report.kinds["model"].launches == 1


@pytest.mark.skipif(FAST is None, reason="there is no compiled code")
def test_calls_are_captured_in_c_with_rows_that_lie_as_their_kind_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, net = both(emphasized)
    called: list[Any] = []
    as_node = cells.as_node
    monkeypatch.setattr(cells, "as_node", lambda *given: called.append(given) or as_node(*given))
    for lengths in ((5, 3), (4, 6, 1), (3, 5, 4, 6, 1), (1, 6, 6, 5, 3)):
        called.clear()
        rows = [each[:, 0].copy() for each in words(*lengths)]
        with gluonjit.batching(granularity="cell") as batch:
            found = [net(row) for row in rows]
            records = [record for record in batch.records.values() if record.kind.apart]
        for row, one in zip(rows, found):
            assert_close(one.asnumpy(), alone(row).asnumpy(), "result")
    assert records
    assert len(called) < 2  # one in a thousand is traced again


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", ["q", "narrow"])
def test_a_backward_pass_reads_weights_as_they_are_then(layer: str, training: bool) -> None:
    """Outside of training oneDNN lays weights out anew: their copies get what is written to weights since."""

    def mixed(net: Model, F: Any, table: Any, x: Any) -> Any:
        found = net.q(x) if layer == "q" else F.transpose(F.squeeze(net.narrow(turned(F, x)), axis=0))
        return F.softmax(found, axis=0) * x

    found: list[list[Any]] = []
    for net in both(mixed):
        samples = words(2, 3, 5)
        for array in samples:
            array.attach_grad()
        with gluonjit.batching() if found else nullcontext(), autograd.record(training):
            outputs = [nd.square(net(x)).sum() for x in samples]
            total = nd.add_n(*outputs)
        total.wait_to_read()
        weight = getattr(net, layer).weight
        weight.data()[:] *= 0.5
        total.backward()
        found.append([array.grad.asnumpy() for array in samples] + [weight.grad().asnumpy()])
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
