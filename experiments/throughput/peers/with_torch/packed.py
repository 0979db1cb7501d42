"""The BiLSTM tagger with PyTorch's own LSTM over packed sentences: a whole minibatch in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from experiments.throughput.peers.samples import Arrays, Tagged
from experiments.throughput.peers.with_torch.functions import per_sample
from experiments.throughput.peers.with_torch.learner import Differentiated
from experiments.throughput.peers.with_torch.tagged import steps_of

PARTS = {"i2h_weight": "weight_ih_l0", "h2h_weight": "weight_hh_l0", "i2h_bias": "bias_ih_l0", "h2h_bias": "bias_hh_l0"}
SIDES = {"ahead": "", "back": "_reverse"}


class Tagger(Differentiated):
    """The model."""

    def __init__(self, weights: Arrays, rate: float, device: str = "cpu") -> None:
        super().__init__(weights, rate, device)
        rows, width = weights["ahead_i2h_weight"].shape
        self._lstm = nn.LSTM(width, rows // 4, bidirectional=True).to(device)
        for side, suffix in SIDES.items():
            for part, own in PARTS.items():
                parameter = getattr(self._lstm, own + suffix)
                parameter.data.copy_(self.weights[f"{side}_{part}"].data)
                self.weights[f"{side}_{part}"] = parameter  # one buffer for all, as cuDNN wants it

    def losses(self, samples: Sequence[Tagged]) -> Tensor:
        """Return the mean loss of each sentence's tokens."""
        labels = self.tensor(np.concatenate([sample.labels for sample in samples]))
        found = functional.cross_entropy(self.scores(samples), labels, reduction="none")
        sizes = [len(sample.labels) for sample in samples]
        return per_sample(found, sizes) / self.tensor(np.array(sizes))

    def scores(self, samples: Sequence[Tagged]) -> Tensor:
        """Return the scores of all tokens, sentence by sentence."""
        steps = steps_of(samples)
        words = np.concatenate([sample.words for sample in samples])[steps.tokens["ahead"]]
        x = self.table.index_select(0, self.tensor(words))
        counts = torch.tensor([rows.stop - rows.start for rows in steps.bounds])
        states = self._lstm(PackedSequence(x, counts))[0].data
        states = states.index_select(0, self.tensor(np.argsort(steps.tokens["ahead"])))
        return torch.addmm(self.weights["out_bias"], states, self.weights["out_weight"].T)
