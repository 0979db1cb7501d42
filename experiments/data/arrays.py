"""Conversion of samples to arrays of an engine, and back: the data themselves are numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from experiments.data.trees import Pair

Make = Callable[[np.ndarray], Any]
"""Makes an array of an engine: integers and floats stay what they are."""


def maker(engine: str, device: str | None = None) -> Make:
    """Return a function that makes arrays of `mxnet` or `torch`; `device` is torch's, by default the CPU."""
    return {"mxnet": _mxnet, "torch": _torch}[engine](device)


def _mxnet(device: str | None) -> Make:
    import mxnet as mx

    return lambda array: mx.nd.array(array, dtype=array.dtype)


def _torch(device: str | None) -> Make:
    import torch

    # Indices of PyTorch have 64 bits; its embeddings take fewer, but selection by index does not.
    wide = {"i": torch.int64, "f": torch.float32}
    return lambda array: torch.tensor(array, dtype=wide[array.dtype.kind], device=device)


def give(pairs: Iterable[Pair], make: Make) -> None:
    """Give pairs their targets, and their sentences tokens; each sentence once, wherever it comes back.

    A target is (1, 5) in MXNet, where one vector is a row, and (5,) in PyTorch.
    """
    given: set[int] = set()
    for pair in pairs:
        pair.target = _row(make(pair.distribution))
        for sentence in (pair.left, pair.right):
            if id(sentence) not in given:
                given.add(id(sentence))
                sentence.tokens = make(sentence.ids)


def _row(array: Any) -> Any:
    return array.reshape((1, -1)) if hasattr(array, "asnumpy") else array


def host(array: Any) -> np.ndarray:
    """Return an array of any engine as numpy's."""
    if hasattr(array, "asnumpy"):
        return np.asarray(array.asnumpy())
    return np.asarray(array.detach().cpu()) if hasattr(array, "detach") else np.asarray(array)
