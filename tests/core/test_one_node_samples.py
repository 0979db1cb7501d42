"""Models whose call is one node: each call is a sample, as that of a model which makes several."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gluonjit
from gluonjit.errors import FlushError


class Way(NamedTuple):
    """A framework: a layer, a table whose look-up may fail, an array of numbers, the numbers of an array, and a region
    without gradients.
    """

    net: Any
    table: Any
    array: Callable[[Any], Any]
    numbers: Callable[[Any], Any]
    region: Callable[[], Any]


def mxnet_way() -> Way:
    from mxnet import gluon, nd

    class Table(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.rows = self.params.get("rows", shape=(5, 3))

        def hybrid_forward(self, F: Any, x: Any, rows: Any) -> Any:
            return F.take(rows, x.sum(axis=-1) * 4, mode="raise")

    net, table = gluon.nn.Dense(3, in_units=3), Table()
    net.initialize()
    table.initialize()
    return Way(net, table, nd.array, lambda array: array.asnumpy(), contextlib.nullcontext)


def torch_way() -> Way:
    import torch

    class Table(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Parameter(torch.ones(5, 3))

        def forward(self, x: Any) -> Any:
            return torch.nn.functional.embedding((x.sum(-1) * 4).long(), self.rows)

    return Way(
        torch.nn.Linear(3, 3), Table(), lambda found: torch.tensor(found).float(), lambda t: t.numpy(), torch.no_grad
    )


@pytest.fixture
def way(engine: str) -> Way:
    return {"mxnet": mxnet_way, "torch": torch_way}[engine]()


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


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0.1, 0.2, 3.0, 0.3), " in sample 2"),
        ((3.0, 0.2), " in sample 0"),
        ((0.1, 0.1, 3.0), "( in sample 2)?"),  # equal samples may be one node: which one is the third is not known then
    ],
)
def test_a_failing_sample_is_named(way: Way, numbers: tuple[float, ...], said: str) -> None:
    gluonjit.hybridize(way.table, dynamic_batch=True, granularity="cell")
    for _ in range(2):
        with way.region():
            found = [way.table(way.array([[number, 0.0]])) for number in numbers]
            with pytest.raises(FlushError, match=rf"call of [Tt]able\d*{said} at"):
                way.numbers(found[0])
