"""The fused recurrent layers of Gluon are one node a call: sequences of one length run together."""

from __future__ import annotations

from typing import Any

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon
from mxnet.gluon import contrib, nn, rnn
from support import assert_close, assert_same, rows

import gluonjit
from gluonjit.engines.mxnet.lengths import program

SIZE = 4

LAYERS = {
    "lstm": lambda: rnn.LSTM(SIZE),
    "lstm of two layers, both ways": lambda: rnn.LSTM(SIZE, num_layers=2, bidirectional=True),
    "gru": lambda: rnn.GRU(SIZE),
    "rnn": lambda: rnn.RNN(SIZE, activation="tanh"),
    "lstm, batch first": lambda: rnn.LSTM(SIZE, layout="NTC"),
}


class Encoder(gluon.Block):
    """A layer over a sequence, then a second one that goes on from its states."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        with self.name_scope():
            self.first, self.second = make(), make()
            self.out = nn.Dense(1, flatten=False)

    def forward(self, x: Any) -> Any:
        x = x.expand_dims(1 if self.first._layout == "TNC" else 0)
        _, states = self.first(x, self.first.begin_state(batch_size=1))
        output, _ = self.second(x, states)
        return self.out(output)


def loss(net: gluon.Block, sample: Any) -> Any:
    return (net(sample) ** 2).sum()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sharing", [True, False])
def test_layer(name: str, sharing: bool) -> None:
    gluonjit.clear_caches()  # what ran before has a part in which lengths have been joined
    net = Encoder(LAYERS[name])
    net.initialize(mx.init.Uniform(0.7))
    samples = [rows(length, 3, seed=k) for k, length in enumerate((3, 5, 3, 1, 5, 3))]
    report = assert_same(net, samples, loss, sharing=sharing)
    assert not report.alone and not report.unbatched
    nodes = [step.nodes for step in report.steps if net.first.name in step.name]
    assert nodes == ([3, 2, 1] if "batch first" in name else [6])


def test_what_is_no_number_leaves_other_sequences_and_the_cell_behind_it_as_they_are() -> None:
    net = Encoder(LAYERS["lstm"])
    net.initialize(mx.init.Uniform(0.7))
    samples = [rows(length, 3, seed=k) for k, length in enumerate((3, 5, 2, 4))]
    samples[2][1, 0] = np.inf
    wanted = [net(sample).asnumpy() for sample in samples]
    net.hybridize(dynamic_batch=True)
    for _ in range(3):
        for one, other in zip([net(sample) for sample in samples], wanted):
            np.testing.assert_allclose(one.asnumpy(), other, rtol=1e-4, atol=1e-6)


class BothWays(gluon.Block):
    """One layer with states and without: what it returns depends on that."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.layer = rnn.GRU(SIZE)
            self.out = nn.Dense(1, flatten=False)

    def forward(self, x: Any) -> Any:
        x = x.expand_dims(1)
        output, states = self.layer(x, self.layer.begin_state(batch_size=1))
        again = self.layer(x)
        last, _ = self.layer(x, states)
        return self.out(output - 2 * again + last)


def test_with_states_and_without() -> None:
    net = BothWays()
    net.initialize(mx.init.Uniform(0.7))
    report = assert_same(net, [rows(length, 3, seed=k) for k, length in enumerate((3, 5, 3))], loss)
    assert not report.alone and not report.unbatched


def test_dropout_between_layers_runs_alone() -> None:
    """The draws of one sample must not depend on how many others there are."""
    net = Encoder(lambda: rnn.LSTM(SIZE, num_layers=2, dropout=0.5))
    net.initialize(mx.init.Uniform(0.7))
    net.hybridize(dynamic_batch=True)
    outputs = [net(rows(3, 3, seed=k)) for k in range(2)]
    assert all(output.shape == (3, 1, 1) for output in [output.asnumpy() for output in outputs])
    assert "RNN" in gluonjit.explain().alone


class ReshapesItsWeight(gluon.HybridBlock):
    """A cell may reshape its parameters by the method."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(SIZE * 3,))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.FullyConnected(x, weight.reshape((SIZE, 3)), num_hidden=SIZE, no_bias=True)


class OfOneCell(gluon.Block):
    """Calls it."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.cell = ReshapesItsWeight()

    def forward(self, x: Any) -> Any:
        return self.cell(x)


def test_a_weight_that_is_reshaped() -> None:
    net = OfOneCell()
    net.initialize(mx.init.Uniform(0.7))
    report = assert_same(net, [rows(2, 3, seed=k) for k in range(4)], loss)
    assert not report.unbatched and not report.alone


def test_a_layer_by_itself_that_does_not_know_its_shapes_yet() -> None:
    layer = rnn.LSTM(SIZE)
    layer.initialize(mx.init.Uniform(0.7))
    layer.hybridize(dynamic_batch=True)
    samples = [rows(length, 1, 3, seed=length) for length in (3, 2, 3)]
    outputs = [layer(x) for x in samples]
    batched = [output.asnumpy() for output in outputs]
    assert gluonjit.explain().launches == 1
    layer.hybridize(dynamic_batch=False)
    for output, x in zip(batched, samples):
        assert_close(output, layer(x).asnumpy(), "output")


class Unrolled(gluon.Block):
    """A cell over a sequence of ones."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        outputs, _ = self.cell.unroll(len(x), x, layout="TNC", merge_outputs=True)
        return outputs[:, 0]


KEEPING = {
    "zoneout": lambda: rnn.ZoneoutCell(rnn.RNNCell(16, input_size=2), zoneout_outputs=0.5),
    "variational dropout": lambda: contrib.rnn.VariationalDropoutCell(rnn.RNNCell(16, input_size=2), 0.5, 0.5, 0.5),
    "zoneout in a sequence": lambda: in_sequence(rnn.ZoneoutCell(rnn.RNNCell(16, input_size=2), 0.5)),
}


def in_sequence(cell: Any) -> Any:
    sequence = rnn.SequentialRNNCell()
    sequence.add(cell)
    return sequence


@pytest.mark.parametrize("name", KEEPING)
def test_a_cell_that_keeps_what_it_computed_is_no_node(name: str) -> None:
    """Zoneout keeps the output before, variational dropout its masks: an output once not 0 stays as it is."""
    net = Unrolled(KEEPING[name]())
    net.initialize(mx.init.Zero())
    net.hybridize(dynamic_batch=True, granularity="cell")
    for parameter in net.collect_params(".*i2h_bias").values():
        parameter.set_data(mx.nd.ones(16))
    for _ in range(2):
        with autograd.record():
            found = [net(mx.nd.ones((length, 1, 2))) for length in (2, 6, 6)]
            total = gluonjit.add_n([output.sum() for output in found])
        total.backward()
        assert "it sets" in " ".join(gluonjit.explain().unbatched.values())
        for output in found:
            numbers = output.asnumpy()
            assert (np.diff(numbers, axis=0) >= 0).all()
            assert 0 < (numbers > 0).sum() < numbers.size


class Letters(gluon.Block):
    """Scores of letters along a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Dense(6, flatten=False, in_units=4)

    def forward(self, x: Any) -> Any:
        return self.out(x)


LOSSES: dict[str, tuple[int, Any]] = {
    "blank first": (1, lambda y, label, told: mx.nd.CTCLoss(y, label, blank_label="first")),
    "several sequences": (2, lambda y, label, told: mx.nd.CTCLoss(y, label, blank_label="last")),
    "told how many labels": (
        1,
        lambda y, label, told: mx.nd.CTCLoss(data=y, label=label, label_lengths=told, use_label_lengths=True),
    ),
    "told how many outputs": (
        2,
        lambda y, label, told: mx.nd.CTCLoss(y, label, told + 3, use_data_lengths=True, blank_label="last"),
    ),
    "of the layer": (1, lambda y, label, told: gluon.loss.CTCLoss(layout="TNC")(y, label)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_ctc_of_outputs_and_labels_of_any_number_runs_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[Any] = []  # what runs for each length by itself
    monkeypatch.setattr(program._Part, "run", lambda part, *given: alone.append(part))
    several, loss = LOSSES[name]
    net, draw, samples = Letters(), np.random.RandomState(3), []
    net.initialize(mx.init.Uniform(0.7))
    for outputs, labels in [(9, 2), (7, 3), (11, 1), (7, 3), (8, 2), (10, 3)]:
        label = mx.nd.array(draw.randint(1, 5, (several, labels)))
        told = mx.nd.array([max(1, labels - number) for number in range(several)])
        samples.append((mx.nd.array(draw.randn(outputs, several, 4)), label, told))
    for _ in range(2):
        report = assert_same(net, samples, lambda net, s: loss(net(s[0]), *s[1:]).sum(), 1e-4, granularity="cell")
    assert not report.alone and not report.distrusted and not alone
    assert report.launches == 5
