"""BiLSTM tagger: one cell for each direction, an output for each token."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn


class Output(gluon.HybridBlock):
    """Scores of the tags of one token, from its states in both directions."""

    def __init__(self, tags: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.scores = nn.Dense(tags)

    def hybrid_forward(self, F: Any, ahead: Any, back: Any) -> Any:
        """Return (1, tags)."""
        return self.scores(F.concat(ahead, back, dim=1))


class Tagger(gluon.Block):
    """Scores of the tags for each token of a sentence."""

    def __init__(self, tokens: int, tags: int, in_size: int = 50, size: int = 128, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(tokens, in_size)
            self.ahead = rnn.LSTMCell(size)
            self.back = rnn.LSTMCell(size)
            self.out = Output(tags)

    def forward(self, sentence: Any) -> Any:
        """Return (tokens, tags)."""
        words = self.embed(sentence)
        steps = [words[k : k + 1] for k in range(len(words))]
        ahead, back = self.run(self.ahead, steps), self.run(self.back, steps[::-1])[::-1]
        return mx.nd.concat(*[self.out(left, right) for left, right in zip(ahead, back)], dim=0)

    def run(self, cell: gluon.Block, steps: list[Any]) -> list[Any]:
        """Return the outputs of a recurrent cell, one for each step."""
        state, outputs = cell.begin_state(batch_size=1), []
        for step in steps:
            output, state = cell(step, state)
            outputs.append(output)
        return outputs
