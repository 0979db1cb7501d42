"""Sequence to sequence with attention and input feeding (Luong et al. 2015), with teacher forcing."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

from experiments.zoo.row import Row
from experiments.zoo.samples.sequences import SOURCE, TARGET, translations

SIZE = 12


class Attend(gluon.HybridBlock):
    """Computes what the decoder says, from its state and what it reads from the source."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.query = nn.Dense(size, use_bias=False)
            self.combine = nn.Dense(size, activation="tanh")

    def hybrid_forward(self, F: Any, state: Any, memory: Any) -> Any:
        """Return (1, SIZE)."""
        weights = F.softmax(F.dot(self.query(state), memory, transpose_b=True), axis=1)
        return self.combine(F.concat(F.dot(weights, memory), state, dim=1))


class Translator(gluon.Block):
    """Scores of the target's words, each after those before it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.source, self.target = nn.Embedding(SOURCE, SIZE), nn.Embedding(TARGET, SIZE)
            self.encoder = rnn.SequentialRNNCell()
            self.encoder.add(rnn.LSTMCell(SIZE))
            self.encoder.add(rnn.LSTMCell(SIZE))
            self.decoder = rnn.LSTMCell(SIZE)
            self.attend = Attend(SIZE)
            self.out = nn.Dense(TARGET)

    def forward(self, source: Any, target: Any) -> Any:
        """Return (length of the target, TARGET)."""
        words = self.source(source)
        encoded, states = self.encoder.unroll(
            len(words), [words[k : k + 1] for k in range(len(words))], merge_outputs=False
        )
        memory = mx.nd.concat(*encoded, dim=0)
        states, said, outputs = states[-2:], mx.nd.zeros((1, SIZE)), []
        previous = self.target(target)
        for k in range(len(target)):
            state, states = self.decoder(mx.nd.concat(previous[k : k + 1], said, dim=1), states)
            said = self.attend(state, memory)
            outputs.append(said)
        return self.out(mx.nd.concat(*outputs, dim=0))


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the mean loss of the target's words."""
    source, given, target = sample
    return _loss(net(source, given), target).mean()


ROW = Row("seq2seq", "sequence to sequence with attention and teacher forcing", Translator, translations, loss)
