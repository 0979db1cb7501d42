"""The table of habits: what programs do between and inside calls, each run eagerly and batched.

A habit is a function of a trial (trial.py), which says what engine it runs on and whether nets are batched. What the
habit shows to `trial.see`, and the errors it meets under `trial.raises`, are its outcome.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

ENGINES = ("torch", "mxnet")
FORMS = ("module", "cell", "whole")  # where a habit's body lies (forms.py)


@dataclass(frozen=True)
class Habit:
    """One habit: its name is a sentence, `forms` are those its body is tried in."""

    name: str
    run: Callable[[Any], None]
    engines: tuple[str, ...]
    forms: tuple[str, ...]
    options: tuple[tuple[str, Any], ...] = ()


HABITS: dict[str, Habit] = {}


def habit(
    engine: str = "both", forms: tuple[str, ...] = ("module",), **options: Any
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Put a habit into the table; its name is the function's, options are those of `hybridize`."""

    def put(run: Callable[[Any], None]) -> Callable[[Any], None]:
        name = run.__name__
        assert name not in HABITS, f"two habits are called {name}"
        HABITS[name] = Habit(name, run, ENGINES if engine == "both" else (engine,), forms, tuple(options.items()))
        return run

    return put


def load_table(modules: str = "on_*.py") -> dict[str, Habit]:
    """All habits of the modules in this folder that are about a topic."""
    for path in sorted(Path(__file__).parent.glob(modules)):
        engine = next((name for name in ENGINES if f"_{name}_" in path.stem), None)
        if engine is None or importlib.util.find_spec(engine) is not None:
            importlib.import_module(f"{__name__}.{path.stem}")
    return HABITS
