"""Checks that all systems agree, before anything is timed: losses, gradients, and losses after a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.bench.agreement import TOLERANCE, Disagreement, deviations
from experiments.throughput.peers.environments import PeerError

# Other libraries, and some systems, compute sigmoid and tanh in other ways, whose rounding adds up on the way down.
GRADIENT_TOLERANCE = {True: 10 * TOLERANCE, False: TOLERANCE}

Found = dict[str, dict[str, float]]


def check(systems: Sequence[Any], samples: Sequence[Any], wider: float = 1.0) -> tuple[Found, dict[str, str]]:
    """Compare all systems with the first by max|a - b| / max|b|; every system takes one training step.

    wider: how many times as wide the model is as usual: sums of more terms round more.

    Returns the deviations of `losses`, of `gradients` (the worst of all weights) and of `losses_after_a_step` by
    label, and by label why a peer could not be asked. Raises Disagreement if a figure is above what is
    allowed: 1e-5, and 1e-4 for gradients of what is `foreign`, of a model as wide as usual.
    """
    found: Found = {}
    lost: dict[str, str] = {}
    expected = _results(systems[0], samples)
    for system in systems[1:]:
        try:
            results = _results(system, samples)
        except PeerError as error:
            lost[system.label] = str(error)
            continue
        before, after = (deviations(mine, theirs) for mine, theirs in zip(results, expected))
        figures = {
            "losses": before.pop("losses"),
            "gradients": max(before.values()),
            "losses_after_a_step": after["losses"],
        }
        for name, figure in figures.items():
            allowed = max(1.0, wider) * (GRADIENT_TOLERANCE[system.foreign] if name == "gradients" else TOLERANCE)
            if not figure <= allowed:
                raise Disagreement(
                    f"{system.label} and {systems[0].label} differ in {name.replace('_', ' ')} by {figure:.1e} of the "
                    f"largest entry, more than {allowed:.0e}: nothing was measured"
                )
        found[system.label] = figures
    return found, lost


def _results(system: Any, samples: Sequence[Any]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return losses and gradients, and the losses after a step."""
    before = system.results(samples)
    system.timed("train", samples)
    return before, {"losses": system.results(samples)["losses"]}
