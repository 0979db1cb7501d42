"""Programs with the habits of PyTorch's and Gluon's users do batched what they do eagerly.

The table is in `habits/`: each habit runs on a net as it is and on an equal one that is batched, and values, gradients,
side effects and errors are to be the same.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from frameworks_support import INSTALLED
from habits import ENGINES, FORMS, habit, load_table
from habits.outcomes import Raised, differences
from habits.trial_mxnet import MXNetTrial
from habits.trial_torch import TorchTrial

from gluonjit.errors import CaptureError, GluonJITWarning

TABLE = load_table()
TRIALS = {"torch": TorchTrial, "mxnet": MXNetTrial}
CASES = [
    pytest.param(name, engine, form, id=f"{name}-{engine}-{form}")
    for name, entry in TABLE.items()
    for engine in entry.engines
    if engine in INSTALLED
    for form in entry.forms
]


def outcome(name: str, engine: str, form: str, batched: bool) -> list[tuple[str, Any]]:
    """What a habit shows; batched, also that something was captured."""
    entry = TABLE[name]
    trial = TRIALS[engine](form, batched, entry.options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GluonJITWarning)
            entry.run(trial)
    finally:
        trial.close()
    assert trial.captured or not batched, "nothing was captured"
    return trial.seen


@pytest.mark.parametrize(("name", "engine", "form"), CASES)
def test_a_habit_gives_what_it_gives_eagerly(name: str, engine: str, form: str) -> None:
    eager = outcome(name, engine, form, batched=False)
    batched = outcome(name, engine, form, batched=True)
    assert eager, "a habit shows something"
    found = [line for (label, one), (_, other) in zip(batched, eager) for line in differences(one, other, label)]
    assert not found, "\n".join(found)
    assert [label for label, _ in batched] == [label for label, _ in eager]


def test_the_table_is_as_long_as_it_says() -> None:
    assert len(TABLE) >= 60
    for engine in ENGINES:
        assert sum(engine in entry.engines for entry in TABLE.values()) >= 60
    assert all(set(entry.forms) <= set(FORMS) for entry in TABLE.values())
    with pytest.raises(AssertionError, match="two habits"):
        habit()(next(iter(TABLE.values())).run)


@pytest.mark.parametrize(
    ("batched", "eager"),
    [
        (1.0, 1.001),
        (1, 2),
        (1.0, 1),
        (True, 1),
        ([1.0], [1.0, 2.0]),
        ({"a": None}, {"a": 1.0}),
        ({"a": 1}, {"b": 1}),
        (np.zeros((2, 1), "float32"), np.zeros((1, 2), "float32")),
        (np.zeros(2, "float32"), np.zeros(2, "float64")),
        (np.array([np.nan]), np.array([0.0])),
        (Raised(None), Raised(ValueError())),
        (Raised(CaptureError("")), Raised(ValueError())),
        (Raised(ValueError()), Raised(None)),
        ("one", "other"),
    ],
)
def test_a_difference_is_seen(batched: Any, eager: Any) -> None:
    assert len(differences(batched, eager, "it")) == 1
    assert not differences(eager, eager, "it") and not differences(batched, batched, "it")
