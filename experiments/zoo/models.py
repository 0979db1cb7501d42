"""The models of the zoo, in the order of its table. No framework is needed here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from experiments.zoo.row import Row

NAMES = (
    "treelstm-cell",
    "treelstm-plain",
    "treelstm-binary",
    "tree-gru",
    "mv-rnn",
    "bilstm-char",
    "lattice-lstm",
    "dag-rnn",
    "mpnn",
    "set-attention",
    "pointer-net",
    "seq2seq",
    "shift-reduce",
    "tree-crf",
    "readme-tree",
)


def rows_of(engine: str) -> dict[str, Row]:
    """Return the rows of all models for an engine, "mxnet" or "torch"."""
    rows: list[Row] = [import_module(f"experiments.zoo.{engine}.{_module(name)}").ROW for name in NAMES]
    return {row.name: row for row in rows}


def source_of(engine: str, name: str) -> str:
    """Return the text of the module that has a model for an engine."""
    return (Path(__file__).parent / engine / f"{_module(name)}.py").read_text(encoding="utf-8")


def _module(name: str) -> str:
    return name.replace("-", "_")
