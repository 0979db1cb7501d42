"""Models whose call is one node: each call is a sample, as that of a model which makes several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gluonjit


class Way(NamedTuple):
    """A framework: a layer, an array of numbers, the numbers of an array, and a region without gradients."""

    net: Any
    array: Callable[[Any], Any]
    numbers: Callable[[Any], Any]
    region: Callable[[], Any]


def mxnet_way() -> Way:
    from mxnet import gluon, nd

    net = gluon.nn.Dense(3, in_units=3)
    net.initialize()
    return Way(net, nd.array, lambda array: array.asnumpy(), contextlib.nullcontext)


def torch_way() -> Way:
    import torch

    return Way(torch.nn.Linear(3, 3), lambda found: torch.tensor(found).float(), lambda t: t.numpy(), torch.no_grad)


@pytest.fixture(params=[mxnet_way, torch_way], ids=["mxnet", "torch"])
def way(request: Any) -> Way:
    return request.param()


SAMPLES = np.random.RandomState(0).uniform(size=(10, 1, 3))


def test_a_batch_runs_itself_at_a_number_of_calls(way: Way) -> None:
    with way.region():
        wanted = [way.numbers(way.net(way.array(x))) for x in SAMPLES]
    gluonjit.hybridize(way.net, dynamic_batch=True, granularity="cell")
    with way.region(), gluonjit.batching(flush_at=4) as batch:
        found = []
        for x in SAMPLES:
            found.append(way.net(way.array(x)))
            assert batch.report.flushes == len(found) // 4
    assert batch.report.flushes == 3 and "4 samples, as flush_at=4 says" in next(iter(batch.report.reasons))
    for value, expected in zip(found, wanted):
        np.testing.assert_allclose(way.numbers(value), expected, rtol=1e-5, atol=1e-6)


def test_every_way_to_capture_counts_the_same_samples(way: Way) -> None:
    """Else the ways would belong to two studies, each of which waits for the other's, and neither chooses."""
    gluonjit.hybridize(way.net, dynamic_batch=True, granularity="batched")
    for _ in range(40):
        with way.region(), gluonjit.batching() as batch:
            found = [way.net(way.array(x)) for x in SAMPLES]
        assert len([way.numbers(value) for value in found]) == len(SAMPLES)
    assert batch.report.choice.decided
