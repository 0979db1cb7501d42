"""A training run on disk: after each epoch, everything needed to resume with the same numbers."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.base import BaseSystem, check_shapes
from experiments.bench.files import read_arrays, read_json, write_json

Weights = dict[str, np.ndarray]
MAY_DIFFER = ("epochs",)  # a finished run can be made longer
STATES = "states.npz"
_NAMES = 1 << 20  # bytes of names and headers of arrays, at most
SINCE = {"engine": "mxnet"}  # what runs had that were saved before this was a setting


class CheckpointError(Exception):
    """A checkpoint is missing, or belongs to another run."""


class DamagedCheckpoint(CheckpointError):
    """A file of a checkpoint is damaged."""


@dataclass
class Progress:
    """The state of a run so far; `best` holds the weights of the epoch with the best dev Pearson."""

    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best: Weights = field(default_factory=dict)


def save(folder: Path, setting: dict[str, Any], progress: Progress, system: BaseSystem) -> None:
    """Write a new epoch next to the old one; `state.json` names the valid one, and changes last."""
    name = f"epoch-{len(progress.epochs):04d}"
    partial, final = folder / f".{name}.partial", folder / name
    for stale in (partial, final):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    np.savez(partial / "weights.npz", **system.weights())
    np.savez(partial / "best.npz", **progress.best)
    np.savez(partial / STATES, **system.states())
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
    state = _read(folder / "state.json", lambda path: _checked(read_json(path)))
    _check_setting(folder, state["setting"], setting)
    files = folder / state["files"]
    weights = system.weights()
    most = sum(array.nbytes for array in weights.values()) + _NAMES
    shapes = {name: array.shape for name, array in weights.items()}
    found = _read(files / "weights.npz", lambda path: check_shapes(read_arrays(path, most), shapes))
    best = _read(files / "best.npz", lambda path: check_shapes(read_arrays(path, most), shapes))
    if not (files / STATES).exists() and (files / "trainer.states").exists():
        raise DamagedCheckpoint(
            f"{files / 'trainer.states'}: an earlier version wrote it, as a pickle, which can run code and is not "
            "read; start again in another folder"
        )
    _read(files / STATES, lambda path: system.set_states(read_arrays(path, 2 * most)))
    system.set_weights(found)
    return Progress(state["epochs"], state["best_epoch"], best)


def _read(path: Path, read: Callable[[Path], Any]) -> Any:
    """Read a file of a checkpoint, or raise with a one-line reason."""
    try:
        return read(path)
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, MemoryError) as error:
        why = str(error) or "it is too large"
    why = " ".join(why.split())
    raise DamagedCheckpoint(f"{path}: it is no part of a checkpoint: {why:.200}; start again in another folder")


def _checked(state: Any) -> dict[str, Any]:
    """Reads a file written by `save`. Raises ValueError for any other."""
    wanted = {"setting": dict, "epochs": list, "best_epoch": int, "files": str}
    if not isinstance(state, dict):
        raise ValueError(f"it holds a {type(state).__name__}, not an object")
    for name, kind in wanted.items():
        if type(state.get(name)) is not kind:
            raise ValueError(f"{name} is {str(state.get(name))[:40]!r}, no {kind.__name__}")
    if not re.fullmatch(r"epoch-[0-9]{4,9}", state["files"]):
        raise ValueError(f"files is {state['files'][:40]!r}, no folder of an epoch")
    for number, epoch in enumerate(state["epochs"], 1):
        numbers = epoch.values() if isinstance(epoch, dict) else ()
        if not numbers or epoch.get("epoch") != number or type(epoch.get("dev_pearson")) not in (int, float):
            raise ValueError(f"epoch {number} is not described")
        if not all(type(value) in (int, float) and abs(value) < 1e300 for value in numbers):
            raise ValueError(f"epoch {number} has something else than numbers")
    if not state["epochs"] or not 0 <= state["best_epoch"] <= len(state["epochs"]):
        raise ValueError(f"best_epoch is {state['best_epoch']}, and there are {len(state['epochs'])} epochs")
    return state


def _check_setting(folder: Path, saved: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse to mix two runs."""
    for name in given:
        if name not in MAY_DIFFER and saved.get(name, SINCE.get(name)) != given[name]:
            raise CheckpointError(
                f"{folder} holds a run with {name} = {saved.get(name)!r}, but this one has {given[name]!r}; "
                "resume with the same setting, or choose another --checkpoint"
            )
