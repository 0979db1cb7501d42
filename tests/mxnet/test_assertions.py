"""Assertions and branches that only raise: nothing runs early, and errors are raised when the batch runs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd
from numpy_support import numpy_program
from support import assert_same

import gluonjit
from gluonjit.errors import FlushError


class Model(gluon.Block):
    """A state of a sample, and what a program does with it."""

    def __init__(self, body: Callable[[Any], Any]) -> None:
        super().__init__()
        self.body, self.lift = body, gluon.nn.Dense(4, in_units=3)

    def forward(self, x: Any) -> Any:
        return self.body(self.lift(x))


def model(body: Callable[[Any], Any]) -> Model:
    """With numbers of its own."""
    net = Model(body)
    net.initialize(mx.init.One())
    return net


def samples(bad: int = -1) -> list[Any]:
    return [nd.ones((1, 3)) * (50 if number == bad else 0.1 * number) for number in range(5)]


def total(net: Any, x: Any) -> Any:
    return net(x).sum()


_BODIES: dict[str, Any] = {"mx": mx, "nd": nd}
exec(
    """def asserted(h):
    assert h.max() < 100, "a number is too large"
    return h * 2

def raising(h):
    if nd.sum(h > 100):
        raise OverflowError(f"{h} is out of range")
    bad = h.sum() > 1000
    if not bad:
        return h * 2
    raise ValueError

def asserted_numpy(h):
    assert (h < 100).all() and not mx.np.isnan(h).any()
    return h * 2

def answered(h):
    if h.mean() > 1:
        return h * 2
    return h - 1

def caught(h):
    try:
        return raising(h)
    except OverflowError:
        return h
""",  # which pytest does not write anew
    _BODIES,
)


@pytest.mark.parametrize("name", ["asserted", "raising"])
def test_assertions_run_nothing_early(name: str) -> None:
    assert assert_same(model(_BODIES[name]), samples(), total, granularity="cell").flushes == 1


@pytest.mark.parametrize("name", ["answered", "caught"])
def test_other_branches_are_read_where_they_stand(name: str) -> None:
    assert assert_same(model(_BODIES[name]), samples(4), total, granularity="cell").flushes > 1


def test_assertions_of_numpy_arrays_run_nothing_early() -> None:
    found = []
    for dynamic in (False, True):
        with numpy_program():
            net = model(_BODIES["asserted_numpy"])
            net.hybridize(dynamic_batch=dynamic, **({"granularity": "cell"} if dynamic else {}))
            with autograd.record():
                losses = [net(x.as_np_ndarray()).sum() for x in samples()]
            autograd.backward(losses)
            found.append([loss.item() for loss in losses] + [net.lift.weight.grad().asnumpy().sum()])
    assert gluonjit.explain().flushes == 1
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


FAILING = {"asserted": AssertionError, "raising": OverflowError, "asserted_numpy": AssertionError}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("middle", [False, True], ids=["at_the_end", "where_a_value_is_read"])
def test_an_assertion_that_does_not_hold_raises_when_the_batch_runs(name: str, middle: bool) -> None:
    numpy = "numpy" in name
    with numpy_program() if numpy else nullcontext():
        net = model(_BODIES[name])
        net.hybridize(dynamic_batch=True, granularity="cell")
        given = [x.as_np_ndarray() if numpy else x for x in samples(2)]
        with pytest.raises(FAILING[name], match=f"in {name} in sample 2") as caught, autograd.record():
            outs = [net(x).sum() for x in given]
            outs[3].asnumpy() if middle else autograd.backward(outs)
        assert isinstance(caught.value, FlushError)
        assert net(given[1]).sum().asnumpy() != 0  # and the next batch is as any


def test_what_decided_a_branch_may_be_written_to_after_it() -> None:
    def body(h: Any) -> Any:
        with autograd.pause():
            bad = h.sum() > 1000
            if bad:
                raise OverflowError
            bad += 2
        return h * bad

    assert_same(model(body), samples(), total, granularity="cell")


def test_the_truth_of_several_numbers_is_refused_where_it_is_asked() -> None:
    net = model(lambda h: nd.ones(1) if h else h)
    for dynamic in (False, True):
        net.hybridize(dynamic_batch=dynamic)
        with pytest.raises(ValueError, match="ambiguous"):
            net(nd.ones((1, 3)))
