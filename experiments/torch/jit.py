"""All that the experiment asks of gluonjit on PyTorch, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gluonjit
from experiments.treelstm.engines import MissingSystem


def batch_dynamically(net: Any, sharing: bool, **options: Any) -> None:
    """Make a net batch itself; this is the only change to it. Raises MissingSystem where that is not to be had."""
    hybridize = getattr(gluonjit, "hybridize", None)
    if hybridize is None:
        raise MissingSystem(f"gluonjit {gluonjit.__version__} has no engine for PyTorch")
    try:
        hybridize(net, dynamic_batch=True, sharing=sharing, **options)
    except (gluonjit.errors.EngineError, gluonjit.errors.OptionError) as error:
        raise MissingSystem(str(error)) from error


def executed() -> tuple[str, int]:
    """What ran the plans of the last minibatch, as "replay" or "replay, eager", and how many nodes were padding."""
    report = gluonjit.explain()
    return ", ".join(report.executed.ran), report.padded


def add(losses: Sequence[Any]) -> Any:
    """Return the sum of the losses of a minibatch."""
    return gluonjit.add_n(losses)
