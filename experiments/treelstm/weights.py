"""Initial weights, the same numbers for every way of running the model."""

from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet import gluon

# How each version of the model ends its parameters' names; beside each, the matrix that gives its fan-in.
FED_BY = {
    "x_weight": "x_weight",
    "x_bias": "x_weight",
    "h_weight": "h_weight",
    "f_weight": "f_weight",
    "product_weight": "product_weight",
    "distance_weight": "distance_weight",
    "hidden_bias": "product_weight",
    "out_weight": "out_weight",
    "out_bias": "out_weight",
}


def named_parameters(net: gluon.Block) -> dict[str, gluon.Parameter]:
    """Return the trained parameters of a net by their common names, in a fixed order."""
    parameters = net.collect_params()
    found = {name: parameter for full, parameter in parameters.items() for name in FED_BY if full.endswith(name)}
    return {name: found[name] for name in FED_BY}


def initialize(net: gluon.Block, vectors: np.ndarray, seed: int) -> None:
    """Draw every weight uniformly within 1 / sqrt(fan-in), and set the fixed word vectors."""
    net.initialize(mx.init.Zero())
    rng = np.random.default_rng([seed, 1])
    named = named_parameters(net)
    for name, parameter in named.items():
        bound = 1.0 / np.sqrt(named[FED_BY[name]].shape[1])
        parameter.set_data(mx.nd.array(rng.uniform(-bound, bound, parameter.shape)))
    net.embed.weight.set_data(mx.nd.array(vectors))


def copy_weights(source: gluon.Block, target: gluon.Block) -> None:
    """Give `target` the trained weights of `source`."""
    goal = named_parameters(target)
    for name, parameter in named_parameters(source).items():
        goal[name].set_data(parameter.data())
