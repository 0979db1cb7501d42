"""Rows of a value."""

from collections.abc import Sequence
from typing import Any

from gluonjit.graph.recorder import Value
from gluonjit.graph.values import Spec

def sliced(value: Value, key: Any) -> Value | None: ...
def picked(value: Value, numbers: Sequence[int]) -> Value | None: ...
def one_row(value: Value, row: int, spec: Spec, place: Any) -> Value: ...
