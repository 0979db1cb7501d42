"""Weights that a traced call uses again and again, as a loop over a sequence does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gluonjit.engines.torch.operators.recurrent import RECURRENT

_PRODUCTS = {f"{name}.default" for name in "mm addmm mv addmv bmm baddbmm addbmm convolution _trilinear".split()}.union(
    RECURRENT
)


class Loops:
    """Finds a weight that is used on what depends on an earlier use of it, as one of a loop over a sequence is.

    Of what is constant only parameters are weights: zeros that a cell begins with may be used twice.
    """

    __slots__ = ("_passed", "_weights", "found")

    def __init__(self) -> None:
        self.found = False
        self._weights: dict[int, int] = {}  # a bit each, by the positions of weights and of what is made of one alone
        self._passed: dict[int, int] = {}  # the bits of weights that a result depends on, where there are some

    def add_constant(self, position: int, tensor: Any) -> None:
        """Notes a constant."""
        if isinstance(tensor, torch.nn.Parameter) and tensor.dim() >= 2:
            self._weights[position] = 1 << position

    def add(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Notes an operator. A weight is used in products alone: to add one, as a learned query, makes no loop."""
        used = through = weights = 0
        for position in inputs:
            weight = self._weights.get(position, 0)
            weights += weight > 0
            used |= weight
            through |= self._passed.get(position, 0)
        self.found = self.found or (name in _PRODUCTS and used & through != 0)
        found = self._weights if inputs and weights == len(inputs) else self._passed
        if used | through:
            for position in outputs:
                found[position] = used | through
