"""Outcomes of a minibatch in no framework's terms: results, gradients, weights, or an error."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Optional

import numpy as np


@dataclass
class Leaf:
    """One array, or another value of a result.

    kind: its dtype, with the layout unless it is dense, or its type. said: shape and dtype that it stated before it was
    computed. noise: how far the rounding of what it is a sum of can move it.
    """

    kind: str
    value: Any
    said: tuple[tuple[int, ...], str] | None = None
    noise: float = 0.0

    @property
    def is_array(self) -> bool:
        """True if it is an array."""
        return isinstance(self.value, np.ndarray)


@dataclass
class Outcome:
    """Results of one minibatch: `containers` are the types that hold them, `parts` their numbers by kind."""

    error: BaseException | None = None
    phase: str = "call"
    trace: str = ""
    containers: list[Any] = field(default_factory=list)
    parts: dict[str, list[Leaf | None]] = field(default_factory=dict)
    distrusted: list[str] = field(default_factory=list)
    batched: bool = False


@dataclass(frozen=True)
class Mode:
    """A way to batch."""

    granularity: str


OP, CELL = Mode("op"), Mode("cell")
Run = Callable[[Optional[Mode], int, bool], Outcome]


@dataclass
class Program:
    """One minibatch: `run(mode, seed, nudged)` runs it, eagerly without a mode, on inputs slightly moved if nudged."""

    name: str
    run: Run
    modes: tuple[Mode, ...] = (OP,)
    values: bool = True  # False where memory is left unwritten
    gradients_of_none: bool = True  # False where None and zeros are the same


@dataclass
class Finding:
    """A difference from eager execution."""

    case: str
    kind: str
    text: str
    trace: str = ""


@dataclass
class Record:
    """Findings about one operator, module or chain."""

    name: str
    cases: int = 0
    equal: int = 0
    batched: int = 0
    refused: int = 0  # cases that eager execution refuses, and a batch too
    by_rounding: int = 0
    random: bool = False
    findings: list[Finding] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    def to_line(self) -> str:
        """The same as a line of JSON."""
        return json.dumps(self.to_json()) + "\n"

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Record:
        """Read what `to_json` gave."""
        return cls(**{**values, "findings": [Finding(**each) for each in values["findings"]]})
