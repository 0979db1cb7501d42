"""Find the programs of the collection: the zoo, the README's examples, the tests' habits, and a folder of others."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np

import gluonjit
from experiments.bench.engines import ENGINES, engine_of
from experiments.coverage import BATCH_SIZE
from experiments.coverage.program import Program, Step
from experiments.zoo.models import NAMES

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ROOT.parent / "shared" / "programs"
SOURCES = ("zoo", "readme", "habits", "programs")
MINIBATCHES = 3


def collection(source: str) -> list[Program]:
    """Return all programs of a part of the collection whose framework is installed; none where it is not there."""
    warnings.simplefilter("ignore", gluonjit.errors.GluonJITWarning)  # some are written badly on purpose
    parts = {"zoo": _zoo, "readme": _readme, "habits": _habits, "programs": _others}
    return [program for engine in ENGINES if importlib.util.find_spec(engine) for program in parts[source](engine)]


def _zoo(name: str) -> Iterator[Program]:
    engine = engine_of("zoo", name)
    for model in NAMES:
        for phase in ("training", "inference"):
            yield Program(f"zoo/{name}/{model}/{phase}", partial(_start_model, engine, model, phase == "training"))


def _start_model(engine: Any, model: str, training: bool, options: Mapping[str, Any] | None) -> Step:
    row = engine.ROWS[model]
    batches = [engine.samples(row, BATCH_SIZE, seed) for seed in range(MINIBATCHES)]
    net = engine.make_net(row, 0)
    for samples in batches:  # a layer of MXNet that no sample has reached does not know the shape of its parameters
        engine.run(net, samples, row, False)
    if options is not None:
        engine.batch(net, **options)
    following = cycle(batches)
    return lambda: engine.run(net, next(following), row, training)


def _readme(name: str) -> Iterator[Program]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    yield Program(f"readme/{name}", partial(_start_example, examples[ENGINES.index(name)], name))


def _start_example(code: str, engine: str, options: Mapping[str, Any] | None) -> Step:
    given = "dynamic_batch=False" if options is None else "dynamic_batch=True, **OPTIONS"
    compiled = compile(code.replace("dynamic_batch=True", given), "README.md", "exec")

    framework: Any = importlib.import_module(engine)

    def step() -> Any:
        names: dict[str, Any] = {"OPTIONS": options}
        (framework.random.seed if engine == "mxnet" else framework.manual_seed)(0)
        exec(compiled, names)
        return getattr(names["total"].sum(), {"mxnet": "asscalar", "torch": "item"}[engine])()

    return step


def _habits(name: str) -> Iterator[Program]:
    common = str(ROOT / "tests" / "common")
    if common not in sys.path:
        sys.path.append(common)
    habits: Any = importlib.import_module("habits")
    trial: Any = importlib.import_module(f"habits.trial_{name}")
    trials = {"torch": "TorchTrial", "mxnet": "MXNetTrial"}
    for habit in habits.load_table().values():
        if "interrupt" in habit.name:
            continue  # at each line of the library, so that counts change with it
        for form in habit.forms if name in habit.engines else ():
            start = partial(_start_habit, getattr(trial, trials[name]), habit, form)
            yield Program(f"habits/{name}/{habit.name}/{form}", start, minibatches=1)


def _start_habit(trial: Any, habit: Any, form: str, options: Mapping[str, Any] | None) -> Step:
    def step() -> Any:
        tried = trial(form, options is not None, {**(options or {}), **dict(habit.options)}.items())
        try:
            habit.run(tried)
        finally:
            tried.close()
        return tried.seen

    return step


def _others(name: str, folder: Path = OTHERS) -> Iterator[Program]:
    path = folder / "run.py"
    if not path.is_file():
        return
    spec = importlib.util.spec_from_file_location("others", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    engine = {"torch": "Torch", "mxnet": "MXNet"}[name]
    runner = getattr(module, engine)(folder / name)
    for program in runner.names:
        for phase in ("training", "inference"):
            start = partial(_start_other, runner, program, phase == "training")
            yield Program(f"programs/{name}/{program}/{phase}", start)


def _start_other(runner: Any, name: str, training: bool, options: Mapping[str, Any] | None) -> Step:
    _seed(runner, 0)
    eager, batched = runner.load(name)
    net = eager
    if options is not None:
        gluonjit.hybridize(batched, dynamic_batch=True, **options)
        net = batched
    optimizer = runner.optimizer(net, 0.01) if training else None
    numbers = count()

    def step() -> Any:
        _seed(runner, next(numbers))
        batch = [runner.sample() for _ in range(BATCH_SIZE)]
        return runner.train(net, optimizer, batch) if training else runner.infer(net, batch)

    return step


def _seed(runner: Any, number: int) -> None:
    """Seed all that others' programs draw from: those that are started twice have equal minibatches by number."""
    modules = [each for each in [*sys.modules.values()] if str(OTHERS) in str(getattr(each, "__file__", ""))]
    for place in (runner, *modules):
        for item in vars(place).values():
            if isinstance(item, (random.Random, np.random.RandomState)):
                item.seed(number)
    if hasattr(runner, "torch"):
        runner.torch.manual_seed(number)
    else:
        runner.mx.random.seed(number)
