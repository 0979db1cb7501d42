"""Models for whole minibatches in PyTorch, as experts write them, by name and family. PyTorch is not imported here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

CLASSES = {"pairs": "Relatedness", "phrases": "Sentiment", "tagged": "Tagger"}

HERE = "experiments.throughput.peers.with_torch"
OWN_BACKWARD = "torch-handbatched-ownbwd"
MODULES = {
    OWN_BACKWARD: {"pairs": "pairs", "phrases": "phrases", "tagged": "tagged"},
    "torch-handbatched": {"pairs": "bylevel", "phrases": "bylevel", "tagged": "packed"},
    "torch-compile": {"pairs": "compiled", "phrases": "compiled"},
    "torchfold": {"pairs": "folded", "phrases": "folded", "tagged": "folded"},
}


def model(name: str, family: str) -> Any:
    """Return the class of a model. Raises KeyError if the family has none of this name."""
    return getattr(import_module(f"{HERE}.{MODULES[name][family]}"), CLASSES[family])
