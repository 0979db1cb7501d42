"""Faults planted into programs of MXNet's operators: found where they first run, and harmless."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from planted import Fault, Ran, assert_found, assert_survived, other_instruction, other_slope

import gluonjit
from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.engines.mxnet.operators import binding
from gluonjit.engines.mxnet.run import fused_steps, gradients, memory, program

pytestmark = pytest.mark.filterwarnings("ignore::gluonjit.errors.RuleWarning")
SIZE = 4


class Cell(gluon.HybridBlock):
    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        with self.name_scope():
            self.one = gluon.nn.Dense(SIZE, in_units=SIZE)
            self.two = gluon.nn.Dense(SIZE, in_units=SIZE, use_bias=False)
            self.norm = gluon.nn.LayerNorm(in_channels=SIZE)

    def hybrid_forward(self, F: Any, *given: Any) -> Any:
        return self.body(self, F, *given)


class Net(gluon.Block):
    """Calls a cell on each vector of a sample."""

    def __init__(self, body: Callable[..., Any], calls: Callable[..., Any]) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = Cell(body)
        self.calls = calls

    def forward(self, words: list[Any]) -> Any:
        return self.calls(self.cell, words)


def each(cell: Any, words: Any) -> Any:
    return mx.nd.add_n(*[(cell(word) * (k + 1)).sum() for k, word in enumerate(words)])


def chain(cell: Any, words: Any) -> Any:
    h = words[0]
    for word in words[1:]:
        h = cell(word, h)
    return h


def tree(cell: Any, words: Any) -> Any:
    nodes = [cell(words[0], words[1])]
    for k, word in enumerate(words):
        nodes.append(cell(word, *nodes[-1 - k % 3 :]))
    return nodes[-1]


def pair(body: Callable[..., Any]) -> Any:
    return body, each


def emitted(operator: str, change: Callable[[Any], Any], given: int | None = None) -> Callable[..., None]:
    """Plants a fault into what a rule makes of an operator, or into one of the values that it is given."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        batch_op = program.batch_op

        def faulty(name: str, attrs: Any, vals: Any, outputs: Any, writer: Any) -> Any:
            def changed(val: Any) -> Any:
                return val._replace(slot=writer.apply(change, [val]))

            if name == operator and given is not None:
                vals = [changed(val) if k == given else val for k, val in enumerate(vals)]
            found = batch_op(name, attrs, vals, outputs, writer)
            return [changed(found[0]), *found[1:]] if name == operator and given is None else found

        patch.setattr(program, "batch_op", faulty)

    return plant


def sloped(times: float) -> Callable[[Any], Any]:
    """The same numbers, with so many times their gradient."""
    return lambda x: x * times + apply("BlockGrad", [x * (1 - times)], {})


def sym(name: str, **attrs: Any) -> Callable[[Any], Any]:
    return lambda x: apply(name, [x], attrs)


def over_samples(x: Any) -> Any:
    return apply("broadcast_add", [x * 0, apply("sum", [x], {"axis": 0, "keepdims": True})], {})


def shifted(x: Any) -> Any:
    """Entries one place on along the last axis."""
    parts = [apply("slice_axis", [x], {"axis": -1, "begin": b, "end": e}) for b, e in ((1, None), (0, 1))]
    return apply("Concat", parts, {"dim": 1, "num_args": 2})


def summed(change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Changes what is added up for a node."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        total = binding.segment_sum
        patch.setattr(binding, "segment_sum", lambda rows: change(total(rows)))

    return plant


def owned_by_others(patch: pytest.MonkeyPatch) -> None:
    """Whose child each is, is one too many."""
    of = memory.Segments.of

    def wrong(self: Any, step: int) -> list[Any]:
        owners, ones = of(self, step)
        shape = ones.shape
        columns = (ones.indices.asnumpy() + 1) % shape[1]
        order = ones.data, columns, ones.indptr.asnumpy()
        return [owners, mx.nd.sparse.csr_matrix(order, shape=shape)]

    patch.setattr(memory.Segments, "of", wrong)


def child_sum(c: Any, F: Any, x: Any, *h: Any) -> Any:
    return F.sin(c.one(x) + F.add_n(*[c.two(k) for k in h]))


def recurrent(c: Any, F: Any, x: Any, h: Any) -> Any:
    return F.tanh(c.one(x) + c.two(h))


FULLY, ADD = "FullyConnected", "broadcast_add"
FAULTS = [
    Fault("samples reversed", FULLY, pair(lambda c, F, x: c.one(x)), emitted(FULLY, sym("reverse", axis=0))),
    Fault("a gradient halved", "sin", pair(lambda c, F, x: F.sin(c.one(x))), emitted("sin", sloped(0.5))),
    Fault("a weight's gradient doubled", FULLY, pair(lambda c, F, x: F.sin(c.two(x))), emitted(FULLY, sloped(2.0), 1)),
    Fault("an axis too many", "sum", pair(lambda c, F, x: F.sin(c.one(x).sum(axis=-1))), emitted("sum", over_samples)),
    Fault("entries shifted", "exp", pair(lambda c, F, x: F.exp(c.one(x)) * x), emitted("exp", shifted)),
    Fault(
        "another axis",
        "softmax",
        pair(lambda c, F, x: F.softmax(c.one(x)) * x),
        emitted("softmax", lambda y: apply("softmax", [y], {"axis": 0})),
    ),
    Fault(
        "a neutral element that is none",
        "max",
        pair(lambda c, F, x: F.max(c.one(x) - 3, axis=-1)),
        emitted("max", sym("relu")),
    ),
    Fault(
        "the wrong sign",
        "_rminus_scalar",
        pair(lambda c, F, x: 1 - c.one(x)),
        emitted("_rminus_scalar", sym("negative")),
    ),
    Fault("scaled", "LayerNorm", pair(lambda c, F, x: c.norm(c.one(x)) * x), emitted("LayerNorm", lambda y: y * 0.9)),
    Fault(
        "an operand without gradient",
        "broadcast_mul",
        pair(lambda c, F, x: c.one(x) * c.two(x)),
        emitted("broadcast_mul", sym("BlockGrad"), 1),
    ),
    Fault(
        "operands reversed",
        ADD,
        (lambda c, F, x, h: F.sin(F.broadcast_add(c.one(x), c.two(h))), chain),
        emitted(ADD, sym("reverse", axis=0), 1),
    ),
    Fault(
        "half as much",
        "log_softmax",
        pair(lambda c, F, x: F.log_softmax(c.one(x)) * x),
        emitted("log_softmax", lambda y: y * 0.5),
    ),
    Fault(
        "a root without its slope", "square", pair(lambda c, F, x: F.square(c.one(x))), emitted("square", sloped(0.0))
    ),
    Fault("mean of all", "mean", pair(lambda c, F, x: F.sin(F.mean(c.one(x), axis=1))), emitted("mean", over_samples)),
    Fault(
        "pieces exchanged",
        "SliceChannel",
        pair(lambda c, F, x: F.split(c.one(x), num_outputs=2, axis=1)[0]),
        emitted("SliceChannel", lambda y: y + 1),
    ),
    Fault(
        "an instruction in C",
        "tanh",
        (recurrent, chain),
        other_instruction(fused_steps.FusedSteps, "make", "TANH", "SIGMOID"),
        True,
    ),
    Fault(
        "another in C",
        "broadcast_mul",
        (lambda c, F, x, h: F.sin(c.one(x)) * c.two(h), chain),
        other_instruction(fused_steps.FusedSteps, "make", "MUL", "ADD"),
        True,
    ),
    Fault("a slope in C", "tanh", (recurrent, chain), other_slope("TANH", "SIGMOID"), True),
    Fault("a sum that counts once more", "add_n", (child_sum, tree), summed(lambda y: y * 1.5)),
    Fault("children of the next", "add_n", (child_sum, tree), owned_by_others),
    Fault(
        "a stale product of leaves",
        FULLY,
        (recurrent, chain),
        emitted(
            FULLY,
            lambda y: apply(
                "broadcast_like",
                [apply("slice_axis", [apply("BlockGrad", [y], {})], {"axis": 0, "begin": 0, "end": 1}), y],
                {},
            ),
        ),
    ),
]


def refused_once(module: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Plants a function that raises an error where it is first called."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        given, calls = getattr(module, name), []

        def run(*args: Any) -> Any:
            calls.append(name)
            if len(calls) == 1:
                raise mx.base.MXNetError("shapes do not match")
            return given(*args)

        patch.setattr(module, name, run)

    return plant


def refused(children: bool) -> Callable[[pytest.MonkeyPatch], None]:
    """Plants an error into all programs, or into those for any number of children."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        given = program.Batched.__call__

        def run(self: Any, *args: Any) -> Any:
            if (len(args) > 4 and args[4]) or not children:
                raise mx.base.MXNetError("shapes do not match")
            return given(self, *args)

        patch.setattr(program.Batched, "__call__", run)

    return plant


RAISING = [
    Fault("an operator", FULLY, pair(lambda c, F, x: F.sin(c.one(x)) * 2), refused(False)),
    Fault("a sum over children", "add_n", (child_sum, tree), refused(True)),
]


def run(given: Any, **options: Any) -> Ran:
    """A minibatch; eagerly without options."""
    mx.random.seed(0)
    draw = np.random.RandomState(0)
    net = Net(*given)
    net.initialize(mx.init.Uniform(0.7))
    samples = [[mx.nd.array(draw.uniform(-1, 1, (1, SIZE))) for _ in range(length)] for length in (5, 3, 6, 4)]
    if options:
        net.hybridize(dynamic_batch=True, granularity="cell", **options)
    with autograd.record():
        with gluonjit.batching(granularity="cell", **options) if options else nullcontext() as batch:
            results = [net(words) for words in samples]
            weights = [mx.nd.arange(1, 1 + result.size).reshape(result.shape).cos() for result in results]
            parts = [(result * weight).sum() for result, weight in zip(results, weights)]
            total = gluonjit.add_n(parts) if options else mx.nd.add_n(*parts)
    total.backward()
    gradients = [weight.grad().asnumpy() for weight in net.collect_params().values()]
    return Ran([result.asnumpy() for result in results], gradients, batch and batch.report)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    gluonjit.clear_caches()
    yield
    gluonjit.clear_caches()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_at_once(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(fault, run, monkeypatch)


@pytest.mark.parametrize("check", ["first", "always", "never"])
@pytest.mark.parametrize("fault", RAISING, ids=lambda fault: fault.name)
def test_a_program_that_raises_an_error_is_not_used(fault: Fault, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_survived(fault, run, monkeypatch, check)


@pytest.mark.parametrize("check", ["first", "always"])
def test_one_whose_backward_pass_does_is_not_either(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = pair(lambda c, F, x: F.sin(c.one(x)))
    fault = Fault("an operator", "sin", program, refused_once(gradients, "original_backward"))
    assert_survived(fault, run, monkeypatch, check)
