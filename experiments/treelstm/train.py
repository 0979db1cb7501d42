"""Train the model as Tai et al. do, and test the weights that were best on the dev split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.bench.base import BaseSystem
from experiments.bench.engines import engine_of
from experiments.bench.environment import environment
from experiments.bench.files import write_json
from experiments.bench.model import HEAD_SIZE, L2, LEARNING_RATE, MEMORY_SIZE
from experiments.data.corpus import Corpus, load
from experiments.data.trees import Pair
from experiments.treelstm import checkpoint
from experiments.treelstm.checkpoint import CheckpointError, Progress
from experiments.treelstm.metrics import fit

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Setting:
    """Settings that decide the numbers of a run."""

    mode: str
    data: str
    epochs: int
    batch_size: int
    seed: int
    limit: int | None = None
    engine: str = "mxnet"
    memory_size: int = MEMORY_SIZE
    head_size: int = HEAD_SIZE
    optimizer: str = "AdaGrad, L2 added to the gradient"
    learning_rate: float = LEARNING_RATE
    l2: float = L2


@dataclass(frozen=True)
class Outputs:
    """Folders that a run is written to, and that it reads from."""

    data_dir: str | None = None
    checkpoint: Path | None = None
    resume: bool = False
    json: Path | None = None


def train(setting: Setting, outputs: Outputs) -> dict[str, Any]:
    """Run or continue a training, and return its results."""
    corpus = load(setting.data, outputs.data_dir, setting.seed, setting.limit, setting.engine)
    print(f"data: {corpus.note}; {len(corpus.train)}/{len(corpus.dev)}/{len(corpus.test)} pairs")
    system = engine_of("treelstm", setting.engine).make_system(setting.mode, corpus.vectors, setting.seed)
    system.repeat()  # a run that is interrupted and resumed ends like one that is not
    progress = _begin(setting, outputs, system)
    result: dict[str, Any] = dict.fromkeys(("test_pearson", "test_spearman", "test_mse", "dev_pearson"))
    result.update(epochs=progress.epochs, note=corpus.note, setting=asdict(setting), environment=environment())
    for epoch in range(len(progress.epochs) + 1, setting.epochs + 1):
        _learn(epoch, setting, corpus, system, progress)
        if outputs.checkpoint:
            checkpoint.save(outputs.checkpoint, asdict(setting), progress, system)
        _keep(result, outputs, progress)
    system.set_weights(progress.best)
    tested = evaluate(system, corpus.test, "test")
    result.update((f"test_{name}", value) for name, value in tested.items())
    _keep(result, outputs, progress)
    return result


def evaluate(system: BaseSystem, pairs: Sequence[Pair], what: str) -> dict[str, float]:
    """Predict all pairs and compare with their scores."""
    chunks = [pairs[at : at + EVALUATION_BATCH] for at in range(0, len(pairs), EVALUATION_BATCH)]
    predicted = [system.scores(chunk) for chunk in tqdm(chunks, desc=what, leave=False, disable=None)]
    return fit(np.concatenate(predicted), np.array([pair.score for pair in pairs]))


def shuffled(count: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of an epoch, which depends on the seed and the epoch alone."""
    return np.random.default_rng([seed, 3, epoch]).permutation(count)


def _begin(setting: Setting, outputs: Outputs, system: BaseSystem) -> Progress:
    """Start afresh, or from a checkpoint."""
    folder = outputs.checkpoint
    if folder is None or not checkpoint.exists(folder):
        if outputs.resume:
            print(f"nothing to resume in {folder}: starting at the first epoch")
        return Progress(best=system.weights())
    if not outputs.resume:
        raise CheckpointError(f"{folder} holds a run already; give --resume to go on with it, or another folder")
    progress = checkpoint.load(folder, asdict(setting), system)
    print(f"resumed after epoch {len(progress.epochs)}")
    return progress


def _learn(epoch: int, setting: Setting, corpus: Corpus, system: BaseSystem, progress: Progress) -> None:
    """Run one epoch, and keep its weights if they are the best so far on the dev split."""
    began = perf_counter()
    loss = _run_epoch(epoch, setting, corpus.train, system)
    system.wait()
    seconds = perf_counter() - began
    dev = evaluate(system, corpus.dev, "dev")
    record = {"epoch": epoch, "loss": loss, "seconds": seconds, "pairs_per_s": len(corpus.train) / seconds}
    record.update((f"dev_{name}", value) for name, value in dev.items())
    best = max((earlier["dev_pearson"] for earlier in progress.epochs), default=-np.inf)
    progress.epochs.append(record)
    if dev["pearson"] > best:
        progress.best_epoch, progress.best = epoch, system.weights()
    print(
        f"epoch {epoch}: loss {loss:.4f}, dev Pearson {dev['pearson']:.4f}, MSE {dev['mse']:.4f}, "
        f"{record['pairs_per_s']:.0f} pairs/s"
    )


def _run_epoch(epoch: int, setting: Setting, pairs: Sequence[Pair], system: BaseSystem) -> float:
    """Learn from all pairs once and return their mean loss."""
    order = shuffled(len(pairs), setting.seed, epoch)
    starts = range(0, len(pairs), setting.batch_size)
    total = 0.0
    for start in tqdm(starts, desc=f"epoch {epoch}", unit="batch", leave=False, disable=None):
        losses = system.step([pairs[index] for index in order[start : start + setting.batch_size]])
        total += system.total(losses)
    return total / len(pairs)


def _keep(result: dict[str, Any], outputs: Outputs, progress: Progress) -> None:
    """Write the results so far, so that an interrupted run keeps its epochs."""
    if progress.best_epoch:
        result["dev_pearson"] = progress.epochs[progress.best_epoch - 1]["dev_pearson"]
    if outputs.json:
        write_json(outputs.json, result)
