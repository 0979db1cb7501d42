"""PyTorch's ModuleInfos: every module in training and evaluation, two steps each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from experiments.conformance.compare import examine
from experiments.conformance.outcome import CELL, OP, Mode, Outcome, Program, Record
from experiments.conformance.torch_programs import Net, Sample, internal, nudged, run, seeded

STEPS, SAMPLES, RATE = 2, 4, 0.01


@cache
def infos() -> dict[str, Any]:
    """All ModuleInfos by name."""
    return {info.name: info for info in internal("common_modules").module_db}


def check(name: str, each: int, at: Callable[[str], None]) -> Record:
    """Compare a module, with so many of its inputs."""
    info, record = infos()[name], Record(name)
    for training in (True, False):
        try:
            rows = [_inputs(info, training, seed) for seed in range(1, STEPS * SAMPLES + 1)]
        except Exception as error:
            record.skipped.append(f"inputs: {error!r}"[:200])
            continue
        count = len(rows[0])
        for place in sorted({round(k * (count - 1) / max(1, each - 1)) for k in range(each)}):
            made = rows[0][place]
            if made.forward_input is None:
                continue
            seeded(0)
            module = info.module_cls(*made.constructor_input.args, **made.constructor_input.kwargs).train(training)
            samples = [Sample(row[place].forward_input.args, row[place].forward_input.kwargs) for row in rows]
            samples = [sample for sample in samples if sample.form() == samples[0].form()]
            samples = (samples * STEPS * SAMPLES)[: STEPS * SAMPLES]
            minibatches = [samples[k::STEPS] for k in range(STEPS)]
            label = f"{place} {made.desc or ''} {'training' if training else 'evaluation'}"
            for train in (True,) if training else (True, False):
                name = label if train else f"{label}, inference"
                examine(record, _program(name, module, minibatches, train), at)
    return record


def _inputs(info: Any, training: bool, seed: int) -> list[Any]:
    seeded(seed)
    made = info.module_inputs_func(info, "cpu", torch.float32, requires_grad=True, training=training)
    return list(made)


def _program(name: str, module: Any, minibatches: list[list[Sample]], train: bool) -> Program:
    def ran(mode: Mode | None, seed: int, moved: bool) -> Outcome:
        given = [[nudged(sample) for sample in each] for each in minibatches] if moved else minibatches
        return run(Net(module), given, train, mode, seed, RATE)

    return Program(name, ran, (OP, CELL))
