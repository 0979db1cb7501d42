"""Programs compared with their operators, run for one sample, before their first results are read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import nn

import gluonjit
from gluonjit.engines.mxnet.framework.symbols import apply
from gluonjit.engines.mxnet.run import gradients, program
from gluonjit.errors import RuleWarning


class Step(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.given, self.before = nn.Dense(6, in_units=6), nn.Dense(6, in_units=6)

    def hybrid_forward(self, F: Any, x: Any, h: Any) -> Any:
        return F.sin(self.given(x) + self.before(h))


class Reader(gluon.Block):
    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.step, self.out = Step(), nn.Dense(3, in_units=6)

    def forward(self, words: list[Any]) -> Any:
        h = mx.nd.zeros((1, 6))
        for word in words:
            h = self.step(word, h)
        return self.out(h)


FAULTS: dict[str, Callable[[Any], Any]] = {
    "reversed": lambda symbol: apply("reverse", [symbol], {"axis": 0}),
    "half": lambda symbol: apply("BlockGrad", [symbol * 0.5], {}) + symbol * 0.5,
}
DRAW = np.random.RandomState(0)
WORDS = [[mx.nd.array(DRAW.uniform(-1, 1, (1, 6))) for _ in range(length)] for length in (3, 2, 4)]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    gluonjit.clear_caches()
    yield
    gluonjit.clear_caches()


def planted(monkeypatch: pytest.MonkeyPatch, operator: str, fault: str) -> None:
    """Lets the batched programs of an operator go wrong."""
    batch_op = program.batch_op

    def faulty(name: str, *rest: Any) -> Any:
        found, writer = batch_op(name, *rest), rest[-1]
        if name != operator:
            return found
        return [val._replace(slot=writer.apply(FAULTS[fault], [val])) for val in found]

    monkeypatch.setattr(program, "batch_op", faulty)


def trained(net: Any, **options: Any) -> tuple[Any, list[Any], Any]:
    """The loss of a minibatch, gradients, and the report; eagerly without options."""
    report = None
    with autograd.record():
        if options:
            with gluonjit.batching(granularity="cell", **options) as batch:
                total = gluonjit.add_n([(net(words) ** 2).sum() for words in WORDS])
            report = batch.report
        else:
            total = mx.nd.add_n(*[(net(words) ** 2).sum() for words in WORDS])
    total.backward()
    return total.asnumpy(), [weight.grad().asnumpy() for weight in net.collect_params().values()], report


def both(without: tuple[str, ...] = (), **options: Any) -> tuple[Any, Any]:
    """A minibatch eagerly and batched."""
    mx.random.seed(1)
    net = Reader()
    net.initialize(mx.init.Uniform(0.5))
    expected = trained(net)
    net.hybridize(dynamic_batch=True, granularity="cell")
    return expected, trained(net, without=without, **options)


def assert_equal(expected: Any, found: Any) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for one, other in zip(found[1], expected[1]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("without", [(), ("fused",)])
@pytest.mark.parametrize("check", ["first", "always"])
def test_right_programs_are_compared_and_trusted(without: tuple[str, ...], check: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuleWarning)
        expected, found = both(without, check=check)
    assert_equal(expected, found)
    assert found[2].checked > 0
    assert not found[2].distrusted and not found[2].unchecked


@pytest.mark.parametrize("fault", sorted(FAULTS))
@pytest.mark.parametrize("operator", ["FullyConnected", "sin", "broadcast_add"])
def test_a_wrong_program_is_found_where_it_first_runs(
    monkeypatch: pytest.MonkeyPatch, operator: str, fault: str
) -> None:
    planted(monkeypatch, operator, fault)
    with pytest.warns(RuleWarning, match=operator):
        expected, found = both(("fused",), check="first")
    assert_equal(expected, found)
    assert found[2].distrusted


def test_a_comparison_that_raises_leaves_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    backward, trial, compared = gradients.original_backward, gradients.Tape.trial, []

    def compares(*args: Any) -> Any:
        compared.append(True)
        try:
            return trial(*args)
        finally:
            compared[-1] = False

    def fails(*args: Any) -> None:
        if compared and compared[-1]:
            raise mx.base.MXNetError("no graph")
        backward(*args)

    monkeypatch.setattr(gradients.Tape, "trial", compares)
    monkeypatch.setattr(gradients, "original_backward", fails)
    with pytest.warns(RuleWarning, match="no graph"):
        expected, found = both(("fused",), check="first")
    assert compared and found[2].distrusted
    assert_equal(expected, found)


def test_a_wrong_program_shows_where_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "sin", "reversed")
    expected, found = both(("fused",), check="never")
    with pytest.raises(AssertionError):
        assert_equal(expected, found)
    assert found[2].checked == 0
