"""Methods of a model that a program calls itself, as `net.likelihood(x, y)`: each call is a sample."""

from __future__ import annotations

import inspect
from typing import Any

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

import gluonjit
from gluonjit.hybrid.capture.entrances import entrance_of


class Tagger(gluon.Block):
    """Scores of words, which `likelihood` and `decode` use; `forward` is a third way to run a sample."""

    def __init__(self) -> None:
        super().__init__(prefix="tagger_")
        with self.name_scope():
            self.words, self.hidden = gluon.nn.Embedding(9, 4), gluon.nn.Dense(4, in_units=4)
            self.moves = self.params.get("moves", shape=(4, 4))

    def scores(self, words: Any) -> Any:
        return nd.tanh(self.hidden(self.words(words)))

    def likelihood(self, words: Any, tags: list[int], scale: float = 1.0) -> Any:
        scores, total = self.scores(words), nd.zeros((1,))
        for k, tag in enumerate(tags):
            total = total + nd.log(nd.sum(nd.exp(nd.dot(scores[k : k + 1], self.moves.data())))) - scores[k, tag]
        return total * scale

    def decode(self, words: Any) -> list[float]:
        found: list[float] = self.scores(words).argmax(axis=1).asnumpy().tolist()
        return found

    def forward(self, words: Any) -> Any:
        return self.scores(words).sum()

    def fit(self, words: Any, tags: list[int]) -> Any:
        with autograd.record():
            loss = self.likelihood(words, tags)
        loss.backward()
        return loss


def samples(count: int = 8) -> list[tuple[Any, list[int]]]:
    draw = np.random.RandomState(0)
    lengths = [2 + k % 3 for k in range(count)]
    return [(nd.array(draw.randint(9, size=n)), draw.randint(4, size=n).tolist()) for n in lengths]


def made() -> Tagger:
    mx.random.seed(0)
    net = Tagger()
    net.initialize(mx.init.Normal(0.5))
    net(nd.array([1, 2]))
    return net


def trained(net: Tagger, **given: Any) -> list[np.ndarray]:
    with autograd.record():
        losses = [net.likelihood(words, tags, **given) for words, tags in samples()]
        total = gluonjit.add_n(losses)
    total.backward()
    return [total.asnumpy(), *[each.grad().asnumpy() for each in net.collect_params().values()]]


def test_a_call_of_a_method_is_a_sample() -> None:
    eager, net = made(), made()
    net.hybridize(dynamic_batch=True, granularity="cell", scheduler="depth")
    for given in ({}, {"scale": 0.5}):
        for one, other in zip(trained(net, **given), trained(eager, **given)):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    report = gluonjit.explain()
    assert report.flushes == 1 and any("Tagger.likelihood" in name for name in report.outlined)
    assert [net.decode(words) for words, _ in samples()] == [eager.decode(words) for words, _ in samples()]
    for words, tags in samples(2):
        np.testing.assert_allclose(net.fit(words, tags).asnumpy(), eager.fit(words, tags).asnumpy(), rtol=1e-5)


def test_methods_that_train_stay_as_they_are() -> None:
    net = made()
    net.hybridize(dynamic_batch=True)
    entrances = {name for name, item in vars(Tagger).items() if inspect.isfunction(item) and entrance_of(item)}
    assert entrances == {"likelihood", "decode"}
    net.hybridize(dynamic_batch=False)
    assert type(net.likelihood(*samples()[0])) is nd.NDArray


def test_calls_of_methods_are_timed_like_those_of_the_model(free: None) -> None:
    net = made()
    net.hybridize(dynamic_batch=True)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    for _ in range(4):
        trained(net)
        trainer.step(8)
    assert any("(8 calls)" in way and "in training" in way for way in gluonjit.explain().ways)
