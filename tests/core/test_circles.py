"""What a minibatch leaves behind is freed at once: nothing of it waits for the collector of garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

import gluonjit
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import Results

WORDS, SIZE, SAMPLES = 20, 4, 6


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No collection in between."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _mxnet() -> Callable[[], None]:
    import mxnet as mx

    net = mx.gluon.nn.Sequential()
    net.add(mx.gluon.nn.Embedding(WORDS, SIZE), mx.gluon.nn.Dense(SIZE, flatten=False))
    net.initialize()
    net.hybridize(dynamic_batch=True)
    words = [mx.nd.array([k, k + 1]) for k in range(SAMPLES)]

    def run() -> None:
        with mx.autograd.record():
            total = gluonjit.add_n([net(word).sum() for word in words])
        total.backward()

    return run


def _torch() -> Callable[[], None]:
    import torch

    net = torch.nn.Sequential(torch.nn.Embedding(WORDS, SIZE), torch.nn.Linear(SIZE, SIZE))
    gluonjit.hybridize(net, dynamic_batch=True)
    words = [torch.tensor([k, k + 1]) for k in range(SAMPLES)]

    def run() -> None:
        gluonjit.add_n([net(word).sum() for word in words]).backward()

    return run


def _living() -> int:
    return sum(isinstance(item, (Batch, Results)) for item in gc.get_objects())


def test_minibatches_are_freed_at_once(engine: str, uncollected: None) -> None:
    run = {"mxnet": _mxnet, "torch": _torch}[engine]()
    for _ in range(3):
        run()  # as with the first ones programs are traced
    gc.collect()
    before = _living()
    for _ in range(5):
        run()
    assert _living() <= before + 1
