"""A kind: what nodes must have in common to run together, and what one of them yields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gluonjit.graph.values import Spec


@dataclass(frozen=True)
class Output:
    """One result of a node: its spec and how many rows lie before it in the node's run of row numbers."""

    spec: Spec
    offset: int


@dataclass(eq=False)
class Kind:
    """Nodes of one signature. `program` is the engine's batched graph and opaque here.

    Kinds whose operands may have any number of rows (`poly`) share one `program`, so `family`, not the kind,
    says what runs together.
    """

    name: str
    operands: tuple[Spec, ...]
    outputs: tuple[Output, ...]
    rows: int
    program: Any
    pure: bool = True
    lone: str | None = None  # why its nodes run alone, if they do
    poly: bool = False
    sum_of: int = 0  # > 0: adds up that many operands of equal spec
    family: Any = None
    structure: Any = None  # how the engine puts the results together again
    bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.bytes = sum(output.spec.bytes for output in self.outputs)
        if self.family is None:
            self.family = self
