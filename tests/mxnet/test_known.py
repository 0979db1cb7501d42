"""In MXNet what is read of an input, or of a view of one, is answered from its memory: nothing runs."""

from __future__ import annotations

import mxnet as mx
from mxnet import autograd, gluon

import gluonjit


class Tagged(gluon.Block):
    """Picks rows and a way by numbers of its input."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = gluon.nn.Embedding(20, 6)
            self.out = gluon.nn.Dense(6, in_units=6)

    def forward(self, words: object, tags: object) -> object:
        h = self.embed(words)
        total = h[int(tags[0].asscalar())]
        for k in range(1, len(tags)):
            row = h[int(tags[k : k + 1].asscalar())].reshape((1, -1))
            total = total + (self.out(row) if tags[k].asscalar() > 1 else row.tanh())[0]
        return total


def test_reads_of_inputs_run_nothing() -> None:
    mx.random.seed(0)
    net, own = Tagged(), Tagged()
    for block in (net, own):
        block.initialize(mx.init.Constant(0.1))
    net.embed.weight.set_data(mx.nd.random.normal(shape=(20, 6)))
    own.embed.weight.set_data(net.embed.weight.data())
    own.hybridize(dynamic_batch=True)
    samples = [(mx.nd.array([k, k + 1, k + 2]), mx.nd.array([2, k % 3, 1, 0])) for k in range(8)]
    results = []
    for block in (net, own):
        with autograd.record():
            total = gluonjit.add_n([block(*sample).sum() for sample in samples])
        total.backward()
        results.append((total.asscalar(), block.embed.weight.grad().asnumpy(), block.out.weight.grad().asnumpy()))
    report = gluonjit.explain()
    assert report.flushes == 1 and report.reads["answered"] >= 56 and not report.reads["flushed"]
    for wanted, actual in zip(*results):
        assert abs(wanted - actual).max() <= 1e-4 * abs(wanted).max()


def test_an_input_that_was_written_to_is_read_as_it_is_then() -> None:
    class Writes(gluon.Block):
        def forward(self, x: object) -> object:
            view = x[1:]
            before = float(view[0].asscalar())
            x[1] = 7
            return before, float(view[0].asscalar()), view.asnumpy().tolist()

    net, own = Writes(), Writes()
    own.hybridize(dynamic_batch=True)
    wanted = net(mx.nd.array([1, 2, 3]))
    assert own(mx.nd.array([1, 2, 3])) == wanted
