"""Random programs for one sample, written by the instructions of experiments.fuzz while they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mxnet import gluon, nd

from experiments.fuzz.mxnet.dialect import DIALECT, TABLE
from experiments.fuzz.mxnet.framework import FRAMEWORK
from experiments.fuzz.mxnet.net import LAYERS
from experiments.fuzz.run import WIDTH, WORDS, Run, Step

NAMES = FRAMEWORK.names
OPS = TABLE.ops

__all__ = ["OPS", "Interpreter", "Sample", "Step", "sample"]


@dataclass
class Sample:
    """What a program starts from: arrays, tokens, and the program itself."""

    arrays: list[Any]
    tokens: Any
    steps: Sequence[Step]
    outputs: int = 1

    def __repr__(self) -> str:
        looks = [f"{array.shape} {np.dtype(array.dtype).name}" for array in [*self.arrays, self.tokens]]
        return f"Sample({', '.join(looks)}, {[tuple(step) for step in self.steps]}, outputs={self.outputs})"


class Interpreter(gluon.Block):
    """Runs a sample's program."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            for name, text in LAYERS.items():
                setattr(self, name, eval(text, {**NAMES, "self": self}))

    def forward(self, sample: Sample) -> Any:
        names = [f"x{k}" for k in range(len(sample.arrays))]
        given = {**dict(zip(names, sample.arrays)), "tokens": sample.tokens}
        run = Run({**NAMES, "net": self, **given}, names, "tokens", DIALECT)
        for step in sample.steps:
            TABLE.perform(run, step)
        learned = self.squash(self.embed(sample.tokens))  # whatever the program does, there is something to learn
        outputs = run.env[-min(sample.outputs, len(run.env)) :]
        return [*(run.names[var.name] for var in outputs), learned]


def shapes(random: np.random.RandomState) -> tuple[int, ...]:
    """The shape of an input."""
    n = random.randint(1, 5)
    return [(1, WIDTH), (n, WIDTH), (WIDTH,), (n, 2), (2, n, WIDTH), (n,), (1,), (n, 1), (1, 2, 2)][random.randint(9)]


def sample(
    steps: Sequence[Step],
    seed: int,
    outputs: int = 1,
    dtype: str = "float32",
    pool: dict[int, Any] | None = None,
    learn: bool = False,
) -> Sample:
    """A sample whose arrays and words follow from the seed; with a pool, equal seeds give the same objects."""
    if pool is not None and seed in pool:
        made = pool[seed]
        return Sample(made.arrays, made.tokens, steps, outputs)
    random = np.random.RandomState(seed)
    arrays = [nd.array(random.uniform(-1, 1, shapes(random)), dtype=dtype) for _ in range(random.randint(1, 4))]
    words = random.randint(0, WORDS, random.randint(1, 5))
    tokens = nd.array(words, dtype=["int32", "float32", "int64"][random.randint(3)])
    if learn:
        for array in arrays:
            array.attach_grad()
    made = Sample(arrays, tokens, steps, outputs)
    if pool is not None:
        pool[seed] = made
    return made
