"""Reads JSON objects with fields of given types, and checks that the parts of a trace fit together.

This guarantees that plans made from a trace make sense; errors name the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from gluonjit.analysis.indices import Index
from gluonjit.analysis.traces.document import BatchTrace, TraceKind
from gluonjit.graph.kinds import family_key
from gluonjit.graph.values import Spec

T = TypeVar("T")
_MOST = 2**31 - 1


class Damaged(Exception):
    """An invalid part of a file; the text says where and what was found."""


class Fields:
    """The fields of one object of a document; `where` says which. Unknown fields are ignored."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise Damaged(f"{where} is {_shown(value)}, not an object")
        self.where = where or "the document"
        self._prefix = f"{where}." if where else ""
        self._value = value

    def _get(self, name: str, kind: type[T], what: str) -> T:
        if name not in self._value:
            raise Damaged(f"{self._prefix}{name} is missing")
        found = self._value[name]
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise Damaged(f"{self._prefix}{name} is {_shown(found)}, not {what}")
        return found

    def text(self, name: str, *known: str) -> str:
        """Returns a string, which must be one of `known` if given."""
        found = self._get(name, str, "a string")
        if known and found not in known:
            raise Damaged(f"{self._prefix}{name} is {found!r}, not one of {', '.join(map(repr, known))}")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A string or null."""
        return None if name in self._value and self._value[name] is None else self.text(name)

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._get(name, bool, "true or false")

    def number(self, name: str) -> int:
        """An integer of at least 0."""
        found = self._get(name, int, "a whole number")
        if not 0 <= found <= _MOST:
            raise Damaged(f"{self._prefix}{name} is {found}, not from 0 to {_MOST}")
        return found

    def numbers(self, name: str, count: int | None = None, least: int = 0, most: int = _MOST) -> Index:
        """A list of integers between two limits, of length `count` if given."""
        listed = self._get(name, list, "a list")
        if count is not None and len(listed) != count:
            raise Damaged(f"{self._prefix}{name} has {len(listed)} numbers, not {count}")
        wrong = next((item for item in listed if item.__class__ is not int or not least <= item <= most), None)
        if wrong is not None or None in listed:
            raise Damaged(f"{self._prefix}{name} holds {_shown(wrong)}, not only integers from {least} to {most}")
        return np.array(listed, dtype=np.int64)

    def number_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Lists of integers."""
        listed = self._get(name, list, "a list")
        inner = Fields({str(number): item for number, item in enumerate(listed)}, f"{self._prefix}{name}")
        return tuple(tuple(inner.numbers(str(number)).tolist()) for number in range(len(listed)))

    def object(self, name: str) -> Fields:
        """An object in this one."""
        return Fields(self._get(name, dict, "an object"), f"{self._prefix}{name}")

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        listed = self._get(name, list, "a list")
        return [Fields(value, f"{self._prefix}{name}[{number}]") for number, value in enumerate(listed)]

    def chosen(self, items: Sequence[T], number: int, name: str) -> T:
        """The item that a number in the field `name` stands for."""
        if number >= len(items):
            raise Damaged(f"{self._prefix}{name} names number {number} of {len(items)}")
        return items[number]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def check(trace: BatchTrace) -> None:
    """Raises Damaged if rows are made twice, read before they are made, or do not fit their kind."""
    for number, (kind, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        _check_kind(kind, f"kinds[{number}]")
        if not len(nodes.bases):
            raise Damaged(f"kinds[{number}].nodes has none")
    _check_families(trace)
    depths, looks = _made(trace)
    for number, (kind, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        where = f"kinds[{number}].nodes"
        read = nodes.operands
        if (read >= np.minimum(nodes.bases, trace.rows)[:, None]).any():
            raise Damaged(f"{where}.operands reads rows that are made later")
        if (depths[read] < 0).any():
            raise Damaged(f"{where}.operands reads rows that no node makes")
        if (depths[read] >= nodes.depths[:, None]).any():
            raise Damaged(f"{where}.depths has nodes that are not deeper than their operands")
        wanted = np.array([looks.number(spec) for spec in kind.operands for _ in range(spec.rows)], dtype=np.int64)
        if (looks.rows[read] != wanted).any():
            raise Damaged(f"{where}.operands reads rows of another shape, dtype or device")


class _Looks:
    """The spec of each row, as a number."""

    def __init__(self, rows: int) -> None:
        self.rows: Index = np.full(rows, -1, dtype=np.int64)
        self._known: dict[Any, int] = {}

    def number(self, spec: Spec) -> int:
        return self._known.setdefault((spec.row_shape, spec.dtype, spec.device), len(self._known))


def _made(trace: BatchTrace) -> tuple[Index, _Looks]:
    """Returns the depth of each row's node (inputs: 0; nothing: -1), and its spec."""
    total = sum(leaf.spec.rows for leaf in trace.leaves) + sum(len(table.rows) for table in trace.tables)
    total += sum(len(nodes.bases) * kind.rows for kind, nodes in zip(trace.kinds, trace.nodes))
    if not total <= trace.rows <= 2 * total + 1000:  # an interrupted capture leaves rows that nothing makes
        raise Damaged(f"rows is {trace.rows}, but {total} are made")
    inputs = np.zeros(1, dtype=np.int64)
    parts: list[tuple[str, Index, Spec, Index]] = []
    for number, leaf in enumerate(trace.leaves):
        parts.append((f"leaves.bases[{number}]", np.arange(leaf.base, leaf.base + leaf.spec.rows), leaf.spec, inputs))
    parts += [(f"tables[{number}].rows", table.rows, table.spec, inputs) for number, table in enumerate(trace.tables)]
    for number, (kind, nodes) in enumerate(zip(trace.kinds, trace.nodes)):
        for output in kind.outputs:
            rows = (nodes.bases + output.offset)[:, None] + np.arange(output.spec.rows)
            depths = np.repeat(nodes.depths, output.spec.rows)
            parts.append((f"kinds[{number}].nodes.bases", rows.ravel(), output.spec, depths))
    depth: Index = np.full(trace.rows, -1, dtype=np.int64)
    looks = _Looks(trace.rows)
    for where, rows, spec, depths in parts:
        if (rows >= trace.rows).any():
            raise Damaged(f"{where} has rows up to {rows.max()}, but there are {trace.rows}")
        if (depth[rows] >= 0).any() or len(np.unique(rows)) != len(rows):
            raise Damaged(f"{where} makes rows that already exist")
        depth[rows] = depths
        looks.rows[rows] = looks.number(spec)
    return depth, looks


def _check_kind(kind: TraceKind, where: str) -> None:
    if not kind.outputs or any(output.offset + output.spec.rows > kind.rows for output in kind.outputs):
        raise Damaged(f"{where}.outputs do not fit into its {kind.rows} rows")
    if kind.mode > 3:
        raise Damaged(f"{where}.mode is {kind.mode}, not 2 * recording + training")
    _check_children(kind, where)
    if kind.sum_of:
        terms = sum(spec.rows for spec in kind.operands)
        if len(kind.outputs) != 1 or terms != kind.sum_of * kind.rows:
            raise Damaged(f"{where}.sum_of is {kind.sum_of}, but its operands have {terms} rows")


def _check_children(kind: TraceKind, where: str) -> None:
    """Checks that each role of children has equally many operands of one spec."""
    listed = [position for role in kind.children for position in role]
    if any(position >= len(kind.operands) for position in listed) or len(set(listed)) != len(listed):
        raise Damaged(f"{where}.children are {kind.children}, not different ones of {len(kind.operands)} operands")
    if len({len(role) for role in kind.children}) > 1 or any(
        len({kind.operands[position] for position in role}) != 1 for role in kind.children
    ):
        raise Damaged(f"{where}.children are {kind.children}, not as many operands of one shape for each role")


def _check_families(trace: BatchTrace) -> None:
    """Checks that kinds that run together have compatible operands and results."""
    first: dict[int, TraceKind] = {}
    for number, kind in enumerate(trace.kinds):
        if _form(kind) != _form(first.setdefault(kind.family, kind)):
            raise Damaged(
                f"kinds[{number}].family is {kind.family}, like that of {first[kind.family].name!r}, but the "
                "kinds differ"
            )


def _look(spec: Spec) -> tuple[Any, ...]:
    return spec.row_shape, spec.dtype, spec.device


def _form(kind: TraceKind) -> tuple[Any, ...]:
    of_children = {position for role in kind.children for position in role[1:]}  # a node may have any number of them
    first = {role[0] for role in kind.children if role}
    keys: list[Any] = [
        _look(spec) if kind.poly and spec.mode != "stack" else family_key(spec) if position in first else spec
        for position, spec in enumerate(kind.operands)
        if position not in of_children
    ]
    keys += [_look(output.spec) for output in kind.outputs]
    return kind.alone, kind.poly, len(kind.outputs), *keys
