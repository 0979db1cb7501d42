"""Shift-reduce encoder (SPINN, Bowman et al. 2016) that follows given actions: a stack, a buffer and a tracker."""

from __future__ import annotations

from typing import Any

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn, rnn

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import FEW_CLASSES, SHIFT, WORDS, transitions

SIZE, TRACKED = 12, 8


class Reduce(gluon.HybridBlock):
    """A Tree-LSTM node that also sees the tracker."""

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.gates = nn.Dense(5 * size)

    def hybrid_forward(self, F: Any, left: Any, right: Any, tracker: Any) -> Any:
        """Return (h, c)."""
        gates = self.gates(F.concat(left[0], right[0], tracker, dim=1))
        i, o, u, f_left, f_right = F.split(gates, num_outputs=5, axis=1)
        c = F.sigmoid(i) * F.tanh(u) + F.sigmoid(f_left) * left[1] + F.sigmoid(f_right) * right[1]
        return F.sigmoid(o) * F.tanh(c), c


class ShiftReduce(gluon.Block):
    """The class of a sentence, and at each step the scores of the actions."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.embed = nn.Embedding(WORDS, 2 * SIZE)
            self.tracker = rnn.LSTMCell(TRACKED)
            self.reduce = Reduce(SIZE)
            self.action = nn.Dense(2)
            self.out = nn.Dense(FEW_CLASSES)

    def forward(self, tokens: Any, actions: list[int]) -> Any:
        """Return scores of the classes (1, FEW_CLASSES) and of the actions (steps, 2)."""
        nothing = mx.nd.zeros((1, SIZE)), mx.nd.zeros((1, SIZE))
        words = self.embed(tokens)
        buffer = [mx.nd.split(words[k : k + 1], num_outputs=2, axis=1) for k in reversed(range(len(tokens)))]
        stack, tracked, states = [nothing, nothing], [], self.tracker.begin_state(batch_size=1)
        for action in actions:
            following = buffer[-1] if buffer else nothing
            seen = mx.nd.concat(following[0], stack[-1][0], stack[-2][0], dim=1)
            output, states = self.tracker(seen, states)
            tracked.append(output)
            if action == SHIFT:
                stack.append(buffer.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self.reduce(left, right, output))
        return self.out(stack[-1][0]), self.action(mx.nd.concat(*tracked, dim=0))


_loss = gluon.loss.SoftmaxCrossEntropyLoss()


def loss(net: gluon.Block, sample: Any) -> Any:
    """Return the loss of the class and the mean loss of the actions."""
    tokens, actions, action_labels, label = sample
    scores, action_scores = net(tokens, actions)
    return _loss(scores, label) + _loss(action_scores, action_labels).mean()


ROW = Row("shift-reduce", "shift-reduce encoder with a stack and a tracker", ShiftReduce, transitions, loss)
