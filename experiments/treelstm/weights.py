"""Weights of the nets on MXNet by their common names."""

from __future__ import annotations

import mxnet as mx
import numpy as np
from mxnet import gluon

from experiments.bench.model import FED_BY, draw


def named_parameters(net: gluon.Block) -> dict[str, gluon.Parameter]:
    """Return the trained parameters of a net by their common names, in a fixed order; each version ends names so."""
    parameters = net.collect_params()
    found = {name: parameter for full, parameter in parameters.items() for name in FED_BY if full.endswith(name)}
    return {name: found[name] for name in FED_BY}


def initialize(net: gluon.Block, vectors: np.ndarray, seed: int) -> None:
    """Draw every weight uniformly within 1 / sqrt(fan-in), and set the fixed word vectors."""
    net.initialize(mx.init.Zero())
    named = named_parameters(net)
    for name, values in draw({name: parameter.shape for name, parameter in named.items()}, seed).items():
        named[name].set_data(mx.nd.array(values))
    net.embed.weight.set_data(mx.nd.array(vectors))
