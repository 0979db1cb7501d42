"""Names of PyTorch's to compare: operators, modules, chains of operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from experiments.conformance import torch_chains, torch_modules, torch_operators
from experiments.conformance.outcome import Record

GROUPS = ("operator", "module", "chain")


def prepare() -> None:
    """Set what all comparisons need."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def names(group: str, chains: int) -> list[str]:
    """Names of a group: the operators, the modules, or numbers of so many chains."""
    if group == "operator":
        return sorted({*torch_operators.infos()}.difference(torch_operators.LEFT_OUT))
    return sorted(torch_modules.infos()) if group == "module" else [str(seed) for seed in range(chains)]


def check(group: str, name: str, samples: int, at: Callable[[str], None]) -> Record:
    """Compare one of them."""
    if group == "operator":
        return torch_operators.check(name, samples, at)
    return torch_modules.check(name, samples, at) if group == "module" else torch_chains.check(int(name), at)
