"""BiLSTM tagger: frequent words are looked up, rare ones spelled by a BiLSTM over their letters."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

from experiments.zoo.row import Row
from experiments.zoo.samples.sequences import LETTERS, TAGS, WORDS, spelled

SIZE = 12


class Tagger(gluon.Block):
    """Scores of the tags for each word of a sentence."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.words = nn.Embedding(WORDS, 2 * SIZE)
            self.letters = nn.Embedding(LETTERS, SIZE)
            self.forwards = rnn.LSTMCell(SIZE)
            self.backwards = rnn.LSTMCell(SIZE)
            self.sentence = rnn.BidirectionalCell(rnn.LSTMCell(SIZE), rnn.LSTMCell(SIZE))
            self.out = nn.Dense(TAGS)

    def forward(self, sentence: list[tuple[bool, Any]]) -> Any:
        """Return (words, TAGS). A word is (whether it is rare, its letters or its number)."""
        vectors = [self.spell(numbers) if rare else self.words(numbers) for rare, numbers in sentence]
        states, _ = self.sentence.unroll(len(vectors), vectors, merge_outputs=False)
        return self.out(mx.nd.concat(*states, dim=0))

    def spell(self, numbers: Any) -> Any:
        """Return the vector of a rare word, (1, 2 * SIZE): the last state of either direction."""
        letters = self.letters(numbers)
        steps = [letters[k : k + 1] for k in range(len(letters))]
        ends = [self.run(self.forwards, steps), self.run(self.backwards, steps[::-1])]
        return mx.nd.concat(*ends, dim=1)

    def run(self, cell: gluon.Block, steps: list[Any]) -> Any:
        """Return the last output of a recurrent cell."""
        states = cell.begin_state(batch_size=1)
        for step in steps:
            output, states = cell(step, states)
        return output


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the mean loss of a sentence's words."""
    sentence, tags = sample
    return _loss(net(sentence), tags).mean()


ROW = Row("bilstm-char", "BiLSTM tagger, rare words by a BiLSTM over letters", Tagger, spelled, loss)
