"""Weights of the experiment's models by names common to all systems, to and from PyTorch modules.

Both engines hold the same arrays, so a dictionary of numpy arrays carries weights from one to the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

Weights = Mapping[str, np.ndarray]

EMBED = {"embed_weight": "embed.weight"}
PAIRS = {
    "x_weight": "tree.cell.word.weight",
    "x_bias": "tree.cell.word.bias",
    "h_weight": "tree.cell.total.weight",
    "f_weight": "tree.cell.forget.weight",
    "product_weight": "head.product.weight",
    "distance_weight": "head.distance.weight",
    "hidden_bias": "head.distance.bias",
    "out_weight": "head.out.weight",
    "out_bias": "head.out.bias",
}
PHRASES = {
    "leaf_weight": "leaf.gates.weight",
    "leaf_bias": "leaf.gates.bias",
    "compose_weight": "compose.gates.weight",
    "compose_bias": "compose.gates.bias",
    "out_weight": "out.weight",
    "out_bias": "out.bias",
}
# The gates of both engines' LSTM cells stand in the order i, f, u, o.
TAGGED = {
    "ahead_i2h_weight": "ahead.weight_ih",
    "ahead_h2h_weight": "ahead.weight_hh",
    "ahead_i2h_bias": "ahead.bias_ih",
    "ahead_h2h_bias": "ahead.bias_hh",
    "back_i2h_weight": "back.weight_ih",
    "back_h2h_weight": "back.weight_hh",
    "back_i2h_bias": "back.bias_ih",
    "back_h2h_bias": "back.bias_hh",
    "out_weight": "out.weight",
    "out_bias": "out.bias",
}
NAMES = {"pairs": PAIRS, "phrases": PHRASES, "tagged": TAGGED}
"""By family of models the parameters that are trained: their common names, and those in PyTorch's modules."""


def parameters(net: nn.Module, family: str) -> dict[str, nn.Parameter]:
    """Return the trained parameters of a net by their common names."""
    found = dict(net.named_parameters())
    return {name: found[own] for name, own in NAMES[family].items()}


def weights_of(net: nn.Module, family: str) -> dict[str, np.ndarray]:
    """Copy the trained weights of a net, and the word vectors as `embed_weight`."""
    found = net.state_dict()
    names = {**NAMES[family], **EMBED}
    return {name: found[own].detach().cpu().numpy().copy() for name, own in names.items()}


def set_weights(net: nn.Module, family: str, weights: Weights) -> None:
    """Set the weights that are given; a RuntimeError names one whose shape is not the net's."""
    names = {**NAMES[family], **EMBED}
    wanted = net.state_dict()
    wanted.update((names[name], torch.from_numpy(np.array(array))) for name, array in weights.items())
    net.load_state_dict(wanted)


def gradients_of(net: nn.Module, family: str) -> dict[str, np.ndarray]:
    """Copy the gradient of each trained weight, zeros if there is none."""
    return {
        name: (torch.zeros_like(one) if one.grad is None else one.grad).cpu().numpy().copy()
        for name, one in parameters(net, family).items()
    }
