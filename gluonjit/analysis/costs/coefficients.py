"""Coefficients: the cost of each piece of work on one machine, and the file that stores them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from gluonjit.analysis.table import TABLE
from gluonjit.writing import read_regular, replace_file, write_whole

VERSION = 2
_LARGEST = 1 << 20  # bytes of a file
_MOST_SECONDS = 1e6
Analysis = tuple[float, float, float]


class CoefficientsError(ValueError):
    """A file that holds no coefficients, or those of another version."""


@dataclass(frozen=True)
class Coefficients:
    """Seconds for each unit of work; the defaults were measured on one core of an AMD EPYC.

    capture: `call_cell`, `call_op` a call of a cell or an operator; `capture_node` more where no equal call was there;
        `capture_input` an array or an entry of a table that is read.
    analysis: by scheduler, for each flush, node and step.
    inputs: `session` a flush; `session_step` a step; `leaf` an array; `input_byte` a byte of rows; `arena`
        an arena of rows; `index_entry` an entry of an index array.
    gather: `slice` a group of operands that lie together; `gather` one that is copied, `gather_row` and `gather_byte`
        for each row and byte of it.
    compute: `launch` a step, or where they run alone a node; `record` more under recording; `push` an operator; `flop`
        a floating-point operation; `byte` one of operands and results; `weight_byte` one of weights. `row_step` to
        `row_byte` the same where a step runs in C as a whole, gathers included.
    results: `flush` a flush; `result` a node that can still be read; `copy` a place that is copied out; `copy_byte`.
    backward: `back_step` to `back_gather_byte` the same for going back through a step; `back` a backward;
        `back_reach` a step, for what it reaches; `back_zero_byte` a byte of its arenas; `back_parameter_byte` a byte of
        weights, once a backward.
    """

    call_cell: float = 1.7e-6
    call_op: float = 3.6e-6
    capture_node: float = 5.1e-6
    capture_input: float = 10e-6
    analysis: Mapping[str, Analysis] = field(default_factory=lambda: dict(TABLE))
    session: float = 50e-6
    session_step: float = 2.3e-6
    leaf: float = 4.2e-6
    input_byte: float = 0.22e-9
    arena: float = 110e-6
    index_entry: float = 10e-9
    slice: float = 13e-6
    gather: float = 28e-6
    gather_row: float = 20e-9
    gather_byte: float = 0.1e-9
    launch: float = 25e-6
    record: float = 25e-6
    push: float = 6.9e-6
    flop: float = 4.5e-12
    byte: float = 0.3e-9
    weight_byte: float = 16e-12
    flush: float = 20e-6
    result: float = 3e-6
    copy: float = 16e-6
    copy_byte: float = 0.1e-9
    row_step: float = 12e-6
    row_push: float = 0.3e-6
    row_flop: float = 10e-12
    row_byte: float = 0.02e-9
    back_row_step: float = 15e-6
    back_row_push: float = 0.3e-6
    back_row_flop: float = 20e-12
    back_row_byte: float = 0.04e-9
    back_step: float = 57e-6
    back_push: float = 15e-6
    back_flop: float = 9.1e-12
    back_byte: float = 0.12e-9
    back_weight_byte: float = 0.23e-9
    back_gather: float = 14e-6
    back_gather_row: float = 30e-9
    back_gather_byte: float = 0.3e-9
    back: float = 1200e-6
    back_zero_byte: float = 0.39e-9
    back_reach: float = 15e-6
    back_parameter_byte: float = 0.23e-9

    def with_changes(self, found: Mapping[str, float], analysis: Mapping[str, Analysis]) -> Coefficients:
        """Returns these coefficients with measured ones replaced."""
        return replace(self, **found, analysis={**self.analysis, **analysis})

    def save(self, path: Path, made: Mapping[str, Any], follow: bool = True) -> None:
        """Writes them to a file atomically, with a description of their origin; `follow`: also through a link."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"version": VERSION, "made": dict(made), "seconds": asdict(self)}, indent=2)
        (write_whole if follow else replace_file)(path, (text + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Coefficients:
        """Reads them. Raises CoefficientsError for a damaged file or another version, OSError for a missing file."""
        try:
            found = json.loads(read_regular(path, _LARGEST))
        except (ValueError, RecursionError) as error:
            raise CoefficientsError(f"{path} is not JSON: {error}") from error
        version = found.get("version") if isinstance(found, dict) else None
        if version != VERSION:
            raise CoefficientsError(f"{path} has version {version!r}, not {VERSION}")
        return cls(**_checked(path, found.get("seconds")))


def _checked(path: Path, seconds: Any) -> dict[str, Any]:
    names = {entry.name for entry in fields(Coefficients)}
    if not isinstance(seconds, dict) or set(seconds) != names:
        raise CoefficientsError(f"{path} does not hold the coefficients {', '.join(sorted(names))}")
    analysis = seconds["analysis"]
    if not isinstance(analysis, dict) or not all(
        isinstance(row, list) and len(row) == 3 and all(map(_is_cost, row)) for row in analysis.values()
    ):
        raise CoefficientsError(f"{path}: analysis is {analysis!r}, not three numbers for each scheduler")
    for name in names - {"analysis"}:
        if not _is_cost(seconds[name]):
            raise CoefficientsError(f"{path}: {name} is {seconds[name]!r}, not a number of seconds")
    return {**seconds, "analysis": {name: tuple(row) for name, row in analysis.items()}}


def _is_cost(number: Any) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < _MOST_SECONDS
