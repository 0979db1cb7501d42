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
    """Return the class of a model; a KeyError says that there is none of this name for the family."""
    return getattr(import_module(f"{HERE}.{MODULES[name][family]}"), CLASSES[family])
