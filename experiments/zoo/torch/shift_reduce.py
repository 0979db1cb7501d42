"""Shift-reduce encoder (SPINN, Bowman et al. 2016) that follows given actions: a stack, a buffer and a tracker."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.zoo.row import Row
from experiments.zoo.samples.trees import FEW_CLASSES, SHIFT, WORDS, transitions

SIZE, TRACKED = 12, 8

State = tuple[Tensor, ...]


class Reduce(nn.Module):
    """A Tree-LSTM node that also sees the tracker."""

    def __init__(self, size: int, tracked: int) -> None:
        super().__init__()
        self.gates = nn.Linear(2 * size + tracked, 5 * size)

    def forward(self, left: State, right: State, tracker: Tensor) -> State:
        """Return (h, c)."""
        (left_h, left_c), (right_h, right_c) = left, right
        i, o, u, f_left, f_right = self.gates(torch.cat([left_h, right_h, tracker])).chunk(5)
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_left) * left_c + torch.sigmoid(f_right) * right_c
        return torch.sigmoid(o) * torch.tanh(c), c


class ShiftReduce(nn.Module):
    """The class of a sentence, and at each step the scores of the actions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 2 * SIZE)
        self.tracker = nn.LSTMCell(3 * SIZE, TRACKED)
        self.reduce = Reduce(SIZE, TRACKED)
        self.action = nn.Linear(TRACKED, 2)
        self.out = nn.Linear(SIZE, FEW_CLASSES)

    def forward(self, tokens: Tensor, actions: list[int]) -> tuple[Tensor, Tensor]:
        """Return scores of the classes (FEW_CLASSES,) and of the actions (steps, 2)."""
        nothing: State = torch.zeros(SIZE), torch.zeros(SIZE)
        buffer = [word.chunk(2) for word in reversed(self.embed(tokens).unbind())]
        stack = [nothing, nothing]
        tracker, tracked = (torch.zeros(TRACKED), torch.zeros(TRACKED)), []
        for action in actions:
            following = buffer[-1] if buffer else nothing
            tracker = self.tracker(torch.cat([following[0], stack[-1][0], stack[-2][0]]), tracker)
            tracked.append(tracker[0])
            if action == SHIFT:
                stack.append(buffer.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self.reduce(left, right, tracker[0]))
        return self.out(stack[-1][0]), self.action(torch.stack(tracked))


def loss(net: nn.Module, sample: Any) -> Tensor:
    """Return the loss of the class and the mean loss of the actions."""
    tokens, actions, action_labels, label = sample
    scores, action_scores = net(tokens, actions)
    return functional.cross_entropy(scores, label) + functional.cross_entropy(action_scores, action_labels)


ROW = Row("shift-reduce", "shift-reduce encoder with a stack and a tracker", ShiftReduce, transitions, loss)
