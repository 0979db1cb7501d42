"""Basic indexing of what a program computes, by numbers that differ from sample to sample (MXNet)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from numpy_support import numpy_program
from support import assert_close, assert_same, gradients, rows

import gluonjit

SIZE = 6


class Scores(gluon.Block):
    """Scores of all rows, of which a function takes some by a sample's own numbers."""

    def __init__(self, take: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.take = take
        with self.name_scope():
            self.out = gluon.nn.Dense(SIZE, in_units=SIZE, activation="tanh")

    def forward(self, x: Any, tags: list[int]) -> Any:
        return self.take(self.out(x), tags)


def scores(take: Callable[[Any, Any], Any]) -> Scores:
    """The block with the same parameters each time."""
    mx.random.seed(0)
    net = Scores(take)
    net.initialize(mx.init.Uniform(0.7))
    return net


def samples() -> list[Any]:
    drawn = np.random.RandomState(0)
    return [(rows(n := k % 4 + 2, SIZE, seed=k), drawn.randint(0, SIZE, n).tolist()) for k in range(9)]


def scored(net: Any, sample: Any) -> Any:
    return net(*sample).sum()


def solid(h: Any) -> Any:
    """The same numbers with three axes."""
    return h.reshape((-1, 2, 3))


TAKEN: dict[str, Callable[[Any, Any], Any]] = {
    "entries": lambda h, tags: sum(h[k, tag] for k, tag in enumerate(tags)),
    "entries from the end": lambda h, tags: sum(h[-1 - k, tag - SIZE] for k, tag in enumerate(tags)),
    "entries of rows": lambda h, tags: sum(h[k][tag] for k, tag in enumerate(tags)),
    "entries of numpy's numbers": lambda h, tags: sum(h[k, np.int64(tag)] for k, tag in enumerate(tags)),
    "entries of three axes": lambda h, tags: sum(solid(h)[k, tag % 2, tag % 3] for k, tag in enumerate(tags)),
    "entries in axes of their own": lambda h, tags: sum(h[k : k + 1, tag : tag + 1] for k, tag in enumerate(tags)),
    "parts of rows": lambda h, tags: sum(h[k, 1:4] for k in range(len(tags))),
    "every other": lambda h, tags: sum(h[k, ::-2] for k in range(len(tags))),
    "rows, and the rest": lambda h, tags: sum(h[k, ...] for k in range(len(tags))),
    "rows with a new axis": lambda h, tags: sum(h[None, k] for k in range(len(tags))),
    "columns of some rows": lambda h, tags: h[1:3, 1:3] * 2,
}
KINDS = {
    "entries": "pick",
    "entries from the end": "pick",
    "entries of numpy's numbers": "pick",
    "parts of rows": "slice",
}


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("name", TAKEN)
def test_what_numbers_take_equals_eager(name: str, sharing: bool) -> None:
    report = assert_same(scores(TAKEN[name]), samples(), scored, sharing=sharing)
    assert report.flushes == 1 and not report.alone


@pytest.mark.parametrize("name", KINDS)
def test_rows_and_entries_by_any_number_are_one_kind(name: str) -> None:
    report = assert_same(scores(TAKEN[name]), samples(), scored, granularity="cell", sharing=False)
    taken = report.kinds[KINDS[name]]
    assert taken.nodes == sum(len(tags) for _, tags in samples()) and taken.launches == 1
    assert {"pick", "slice"} & set(report.kinds) == {KINDS[name]}


def test_few_entries_of_one_row_are_no_operands() -> None:
    gluonjit.clear_caches()
    one = [(rows(1, SIZE, seed=k), []) for k in range(9)]
    net = scores(lambda h, tags: (h[0, 0] + 3) * (h[0, 2] + 3))
    assert {"slice"} == {"pick", "slice"} & set(assert_same(net, one, scored, granularity="cell").kinds)
    many = scores(lambda h, tags: sum(h[0, k] * k for k in range(SIZE)))
    report = assert_same(many, one, scored, granularity="cell")
    assert report.kinds["pick"].launches == 1 and report.kinds["pick"].nodes == 2 * len(one)


def test_a_number_outside_is_refused_as_eagerly() -> None:
    net = scores(lambda h, tags: h[0, SIZE])
    net.hybridize(dynamic_batch=True, granularity="cell")
    with pytest.raises(IndexError):
        net(*samples()[0])


def test_an_entry_is_a_view() -> None:
    """What is written to it is written to the array, and what is written to the array shows in it."""
    found = {}
    for dynamic in (False, True):
        net = scores(lambda h, tags: (h, h[1, tags[0]]))
        net.hybridize(dynamic_batch=dynamic)
        both = [net(*sample) for sample in samples()]
        for _, entry in both[::2]:
            entry[:] = 7
        for whole, _ in both[1::2]:
            whole[:] = whole * 2
        found[dynamic] = [array.asnumpy() for pair in both for array in pair]
    for batched, wanted in zip(found[True], found[False]):
        assert_close(batched, wanted, "a view, or what it is a view of")


@pytest.mark.parametrize("name", TAKEN)
def test_of_arrays_of_numpys_interface(name: str) -> None:
    report = assert_same_in_numpy(TAKEN[name])
    if name in KINDS:
        assert report.kinds[KINDS[name]].launches == 1


def test_truth_values_and_whole_numbers() -> None:
    def taken(h: Any, tags: Any) -> Any:
        kept = h.detach()
        signs, tenths = kept > 0, (kept * 10).astype("int32")
        floats = [(h[k, tag], signs[k, tag].astype("float32"), tenths[k, tag] * 0.5) for k, tag in enumerate(tags)]
        return sum(value * sign + tenth for value, sign, tenth in floats)

    assert_same_in_numpy(taken)


def assert_same_in_numpy(take: Callable[[Any, Any], Any]) -> gluonjit.Report:
    """As assert_same, of mx.np."""
    found = {}
    for dynamic in (False, True):
        with numpy_program():
            net = scores(take)
            net.hybridize(dynamic_batch=dynamic, **({"granularity": "cell", "sharing": False} if dynamic else {}))
            with autograd.record():
                losses = [net(x.as_np_ndarray(), tags).sum() for x, tags in samples()]
            autograd.backward(losses)
            numbers = [np.array([loss.item() for loss in losses]), *gradients(net).values()]
            found[dynamic] = numbers
    for batched, wanted in zip(found[True], found[False]):
        assert_close(batched, wanted, "losses, or gradients")
    report = gluonjit.explain()
    assert report.flushes == 1
    return report
