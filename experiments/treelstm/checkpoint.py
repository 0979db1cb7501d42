"""A training run on disk: after each epoch all that is needed to go on to the same numbers."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.treelstm.base import BaseSystem
from experiments.treelstm.files import write_json

Weights = dict[str, np.ndarray]
MAY_DIFFER = ("epochs",)  # a finished run can be made longer
SINCE = {"engine": "mxnet"}  # what runs had that were saved before this was a setting


class CheckpointError(Exception):
    """A checkpoint is missing, broken, or belongs to another run."""


@dataclass
class Progress:
    """What a run has done so far; `best` holds the weights of the epoch with the best dev Pearson."""

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best: Weights = field(default_factory=dict)


def save(folder: Path, setting: dict[str, Any], progress: Progress, system: BaseSystem) -> None:
    """Write a new epoch beside the old one; `state.json` names the one that counts, and changes last."""
    name = f"epoch-{len(progress.epochs):04d}"
    partial, final = folder / f".{name}.partial", folder / name
    for stale in (partial, final):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    np.savez(partial / "weights.npz", **system.weights())
    np.savez(partial / "best.npz", **progress.best)
    system.save_states(partial / "trainer.states")
    os.replace(partial, final)
    state = {"setting": setting, "epochs": progress.epochs, "best_epoch": progress.best_epoch, "files": name}
    write_json(folder / "state.json", state)
    for old in folder.glob("epoch-*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)


def exists(folder: Path) -> bool:
    """Return whether a run has finished an epoch here."""
    return (folder / "state.json").is_file()


def load(folder: Path, setting: dict[str, Any], system: BaseSystem) -> Progress:
    """Bring a system to where the run stopped."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        _check_setting(folder, state["setting"], setting)
        files = folder / state["files"]
        system.set_weights(dict(np.load(files / "weights.npz")))
        system.load_states(files / "trainer.states")
        return Progress(state["epochs"], state["best_epoch"], dict(np.load(files / "best.npz")))
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder} holds a broken checkpoint ({error}); start again in another folder") from error


def _check_setting(folder: Path, saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse to mix two runs."""
    for name in given:
        if name not in MAY_DIFFER and saved.get(name, SINCE.get(name)) != given[name]:
            raise CheckpointError(
                f"{folder} holds a run with {name} = {saved.get(name)!r}, but this one has {given[name]!r}; "
                "resume with the same setting, or choose another --checkpoint"
            )
