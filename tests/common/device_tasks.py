"""Models whose samples can be on any device, and some steps of training them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch_support import TreeModel, assert_close, gradients, make_trees

from experiments.data.tagged import Sentence
from experiments.data.trees import Pair
from experiments.data.trees import Sentence as Tree
from experiments.torch import relatedness, tagger


class Task(NamedTuple):
    """A model, the loss of one of its samples, and samples on a device."""

    make: Callable[[], Any]
    loss: Callable[[Any, Any], Any]
    samples: Callable[[str], list[Any]]


def trees(device: str) -> list[Any]:
    """Trees whose words stay on the host."""
    return make_trees(4)


def pairs(device: str) -> list[Any]:
    """Pairs of a chain, a leaf, and a node with three children."""
    given = [([1, 2, 3], [2, 3, 0]), ([3], [0]), ([4, 5, 6, 7], [2, 0, 2, 2])]
    made = [Tree([str(word) for word in words], parents) for words, parents in given]
    for sentence, (words, _) in zip(made, given):
        sentence.number(words)
        sentence.tokens = torch.tensor(words, device=device)
    found = [Pair(made[0], made[2], 2.5), Pair(made[1], made[2], 1.0), Pair(made[2], made[0], 4.2)]
    for pair in found:
        pair.target = torch.tensor(pair.distribution, dtype=torch.float32, device=device)
    return found


def sentences(device: str) -> list[Any]:
    given = [([1, 2, 3], [0, 4, 2]), ([4], [1]), ([5, 6], [3, 3]), ([7, 1], [1, 0])]
    return [Sentence(*[torch.tensor(each, device=device) for each in pair]) for pair in given]


class Layer(nn.Module):
    """A BiLSTM as one layer of PyTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer, self.out = nn.Embedding(9, 4), nn.LSTM(4, 3, bidirectional=True), nn.Linear(6, 5)

    def forward(self, sample: Any) -> Any:
        return self.out(self.layer(self.embed(sample.characters))[0])


TASKS = {
    "trees": Task(TreeModel, lambda net, tree: net(tree).logsumexp(-1), trees),
    "pairs": Task(lambda: relatedness.Relatedness(9, 6, 4, 3), relatedness.loss, pairs),
    "bilstm": Task(lambda: tagger.Tagger(9, 5, 4, 3), tagger.loss, sentences),
    "layer": Task(Layer, tagger.loss, sentences),
}


def trained(net: Any, task: Task, samples: list[Any], steps: int = 4) -> list[Any]:
    """Losses and gradients of some steps of gradient descent. No number is read."""
    optimizer = torch.optim.SGD([weight for weight in net.parameters() if weight.requires_grad], 0.1)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses = [task.loss(net, sample) for sample in samples]
        sum(losses).backward()
        found.append((torch.stack(losses).detach(), gradients(net)))
        optimizer.step()
    return found


def compare(found: list[Any], expected: list[Any]) -> None:
    """What was learned on a device is what was learned on the host."""
    for (losses, learned), (others, wanted) in zip(found, expected):
        assert_close(losses.cpu(), others, "losses")
        assert [name for name, gradient in learned.items() if gradient is None] == [
            name for name, gradient in wanted.items() if gradient is None
        ]
        for name, gradient in wanted.items():
            if gradient is not None:
                assert_close(learned[name].cpu(), gradient, f"gradient of {name}", 1e-4)
