"""Captured graphs as files: the calls of a batch, without the numbers of arrays (docs/traces.md has the format)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import numpy as np

from gluonjit.analysis.captured import Captured
from gluonjit.analysis.indices import Index
from gluonjit.analysis.splitting import captured_nodes
from gluonjit.compiled import numbers
from gluonjit.errors import TraceError
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import BatchedProgram, Kind, Output, Work, family_key
from gluonjit.graph.values import MODES, Spec, intern_spec
from gluonjit.writing import read_regular, write_whole

VERSION = 3
NO_SAMPLE = -1
"""The sample of a call that was captured outside of any, as losses are."""
MOST_BYTES, MOST_ROWS = 64 << 20, 1 << 24
"""Of a trace: its arrays, unpacked, and the rows that its events make."""
_MOST, _MOST_KINDS = 2**53, 100_000
_AGAIN = "Next: save it anew with batch.save_trace(path) inside of `with gluonjit.batching() as batch:`"
_SMALLER = "Next: save a trace of fewer samples."
_COLUMNS = {"about": 3, "specs": 4, "kinds": 18, "events": 3}  # of tables; all other arrays are lists
_NAMES = ("about", "text", "specs", "shapes", "kinds", "parts", "events", "operands")
_UNREADABLE = (
    *(BadZipFile, zlib.error, TokenError, OSError, EOFError, SyntaxError, ValueError, TypeError),
    *(LookupError, RuntimeError, MemoryError, OverflowError, StopIteration),
)


class TraceKind(NamedTuple):
    """A kind by its fields; those of one `family` run together. `calls` counts shared calls, too."""

    fields: dict[str, Any]
    mode: int
    family: int
    calls: int

    def made(self, family: Kind | None) -> Kind:
        """Makes a kind, of which nothing is known yet."""
        return Kind(**self.fields, family=family)


class BatchTrace(NamedTuple):
    """Captured calls, and the inputs that they read, as events in the order of capture; each makes the next rows.

    fine: whether operators are nodes; sharing: whether equal calls were one. An event of kind k >= 0 is a call, with
    its sample and True if somebody could read a result; one of kind ~k an input that looks like spec k, with the number
    of its table, or -1. Event k reads the rows `operands[firsts[k]:firsts[k + 1]]` and makes those from `bases[k]` on.
    """

    fine: bool
    sharing: bool
    specs: list[Spec]
    kinds: list[TraceKind]
    events: Index
    operands: Index
    firsts: Index
    bases: Index

    @property
    def granularity(self) -> str:
        """The granularity at which it was captured."""
        return "op" if self.fine else "cell"

    @property
    def nodes(self) -> int:
        """The number of calls."""
        return int((self.events[:, 0] >= 0).sum())

    @property
    def samples(self) -> list[int]:
        """The numbers of the samples, in order; none if no batched model was called."""
        found = np.unique(self.events[self.events[:, 0] >= 0, 1])
        return [number for number in found.tolist() if number != NO_SAMPLE]


# --- writing -----------------------------------------------------------------------------------------------------


def save_graph(graph: Graph, path: str | Path, granularity: str, sharing: bool) -> None:
    """Writes the graph of an open batch. Raises TraceError if it is empty, too large, or the folder does not exist."""
    call, path = f"batch.save_trace({str(path)!r})", Path(path)
    for record in graph.records.values():
        record.complete()
    if not graph.nodes:
        raise TraceError(
            f"{call}: nothing is pending in this batch. Next: call it inside of `with gluonjit.batching() as batch:`, "
            "after the calls of the model and before reading any of their values."
        )
    if not path.parent.is_dir():
        raise TraceError(f"{call}: the folder {path.parent} does not exist. Next: create it.")
    packed, arrays = BytesIO(), _Writing(graph, granularity == "op", sharing).arrays
    if graph.rows > MOST_ROWS or sum(array.nbytes for array in arrays.values()) > MOST_BYTES:
        raise TraceError(f"{call}: {graph.nodes} calls of {graph.rows} rows are too many for a trace. {_SMALLER}")
    np.savez_compressed(packed, **arrays)
    write_whole(path, packed.getvalue())


class _Writing:
    """The arrays of a file."""

    def __init__(self, graph: Graph, fine: bool, sharing: bool) -> None:
        captured = captured_nodes(graph, sharing)
        self._texts: dict[str, int] = {}
        self._specs: dict[Spec, int] = {}
        self._families: dict[Any, int] = {}
        self._parts: list[int] = []
        kinds = [self._kind(record) for record in captured.records]
        events, operands = self._events(graph, captured)
        specs = [
            (self._text(spec.dtype), self._text(spec.device), MODES.index(spec.mode), len(spec.shape))
            for spec in self._specs
        ]
        arrays = {
            "about": [(VERSION, fine, sharing)],
            "specs": specs,
            "shapes": [extent for spec in self._specs for extent in spec.shape],
            "kinds": kinds,
            "parts": self._parts,
            "events": events,
            "operands": operands,
        }
        self.arrays = {name: np.array(values, dtype="<i8") for name, values in arrays.items()}
        self.arrays["text"] = np.frombuffer(json.dumps([*self._texts]).encode(), dtype=np.uint8)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _spec(self, spec: Spec) -> int:
        return self._specs.setdefault(spec, len(self._specs))

    def _kind(self, record: Any) -> tuple[int, ...]:
        kind: Kind = record.kind
        self._parts += map(self._spec, kind.operands)
        self._parts += [number for output in kind.outputs for number in (self._spec(output.spec), output.offset)]
        self._parts += [position for role in kind.children for position in role]
        family = self._families.setdefault(kind.family, len(self._families))
        alone = -1 if kind.lone is None else self._text(kind.lone)
        sizes = len(kind.operands), len(kind.outputs), len(kind.children), len(kind.children and kind.children[0])
        flags = kind.pure, kind.operator, kind.poly
        work = [int(amount) for amount in kind.work]
        about = self._text(kind.name), alone, record.mode, record.calls, family, kind.rows, kind.sum_of
        return *about, *flags, *work, *sizes

    def _events(self, graph: Graph, captured: Captured) -> tuple[Index, Index]:
        """Numbers the rows anew, in the order of capture: interrupted calls and shared products leave gaps."""
        inputs = [(leaf.base, ~self._spec(leaf.spec), -1, leaf.spec.rows) for leaf in graph.leaves.values()]
        for number, (table, entries) in enumerate(graph.lookups.items()):
            spec = self._spec(graph.lookup_specs[table])
            inputs += [(row, ~spec, number, 1) for row in entries.values()]
        samples = np.array([NO_SAMPLE, *[NO_SAMPLE if sample is None else sample for _, sample in graph.marks]])
        bases, starts = numbers(captured.bases)[: captured.count], np.array([row for row, _ in graph.marks], dtype=int)
        calls = np.empty((captured.count, 5), dtype=np.int64)
        calls[:, 0] = bases
        calls[:, 1] = numbers(captured.kinds)[: captured.count]
        calls[:, 2] = samples[np.searchsorted(starts, bases, side="right")]
        calls[:, 3] = np.array([record.kind.rows for record in captured.records])[calls[:, 1]]
        calls[:, 4] = np.sign(numbers(captured.alive)[: captured.count])
        given = np.array([(*each, 0) for each in inputs], dtype=np.int64).reshape(-1, 5)
        events = np.concatenate([given, calls])
        order = np.argsort(events[:, 0], kind="stable")
        events = events[order]
        row: Index = np.full(graph.rows, -1, dtype=np.int64)
        row[_spread(events[:, 0], events[:, 3])] = np.arange(events[:, 3].sum())
        read = [rows for k in range(len(captured.records)) for rows in captured.rows_read(k)]
        ordered = [read[k] for k in (order - len(inputs)).tolist() if k >= 0]
        return events[:, (1, 2, 4)], row[np.concatenate([*ordered, np.empty(0, dtype=np.int64)]).astype(np.int64)]


def _spread(begins: Index, counts: Index) -> Index:
    """These many numbers from each of these on, one list after the other."""
    found: Index = np.add(np.repeat(begins - np.cumsum(counts) + counts, counts), np.arange(counts.sum()))
    return found


# --- reading -----------------------------------------------------------------------------------------------------


class _Damaged(Exception):
    """A part of a file that does not fit the others."""


def read_trace(path: str | Path) -> BatchTrace:
    """Reads and checks a trace. Raises TraceError that names the file, the fault, and the next step."""
    path = Path(path)
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}). Next: check the path.") from error
    except ValueError as error:
        raise TraceError(f"{path}: {error}. {_SMALLER}") from error
    if data.startswith((b"{", b"\x1f\x8b")):
        raise TraceError(
            f"{path}: a trace in JSON, which an older gluonjit wrote; traces are .npz files now. {_AGAIN}."
        )
    try:
        return _Reading(_unpacked(data)).trace()
    except _Damaged as error:
        raise TraceError(f"{path}: a damaged trace: {error}. {_AGAIN}.") from error
    except _UNREADABLE as error:
        text = " ".join(str(error).split())[:200]
        raise TraceError(
            f"{path}: not a trace, or a damaged one ({type(error).__name__}: {text}). {_AGAIN}."
        ) from error


def _unpacked(data: bytes) -> dict[str, Any]:
    """The arrays of a file, none larger than it says, which is MOST_BYTES for all at most."""
    with ZipFile(BytesIO(data)) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        if not {*members}.issuperset(_NAMES):
            raise _Damaged(f"it lacks {', '.join(name for name in _NAMES if name not in members)}")
        if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members.values()):
            raise _Damaged("it is packed otherwise than by numpy")
        size = sum(members[name].file_size for name in _NAMES)
        if size > MOST_BYTES:
            raise _Damaged(f"it unpacks to {size} bytes, more than {MOST_BYTES}")
        return {name: np.load(BytesIO(archive.read(members[name])), allow_pickle=False) for name in _NAMES}


class _Reading:
    """The parts of a trace, checked as far as plans rely on them."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        for name, array in arrays.items():
            columns, kind = _COLUMNS.get(name), np.uint8 if name == "text" else np.int64
            if name in ("kinds", "specs") and len(array) > _MOST_KINDS:
                raise _Damaged(f"{name} has {len(array)} entries, more than {_MOST_KINDS}")
            if array.dtype != kind or array.shape[1:] != (() if columns is None else (columns,)) or not array.ndim:
                raise _Damaged(f"{name} is an array of {array.dtype}, {array.shape}")
        self.arrays = arrays
        if len(arrays["about"]) != 1 or arrays["about"][0, 0] != VERSION:
            found = arrays["about"][:1, 0].tolist()
            raise _Damaged(f"its version is {found}, but this gluonjit reads version {VERSION}")
        self.texts = json.loads(arrays["text"].tobytes())
        if not isinstance(self.texts, list) or not all(isinstance(text, str) for text in self.texts):
            raise _Damaged("text is no list of strings")
        for name, array in arrays.items():
            least = -MOST_ROWS if name == "events" else -1 if name == "kinds" else 0
            _ranged(name, array, least, _MOST)
        self.specs = self._specs()

    def trace(self) -> BatchTrace:
        """All of it."""
        kinds, events, operands = self._kinds(), self.arrays["events"], self.arrays["operands"]
        _ranged("events", events[:, 0], -len(self.specs), len(kinds) - 1)
        _ranged("events", events[:, 1:], -1, _MOST)
        # The rows that an event of each kind makes and reads; that of an input, ~k for spec k, counts from the end.
        sizes = [(kind.fields["rows"], sum(spec.rows for spec in kind.fields["operands"])) for kind in kinds]
        sizes += [(spec.rows, 0) for spec in reversed(self.specs)]
        heights, widths = np.array(sizes, dtype=np.int64).reshape(-1, 2)[events[:, 0]].T
        bases, firsts = _begins("events", heights, MOST_ROWS), _begins("operands", widths, len(operands))
        if firsts[-1] != len(operands):
            raise _Damaged(f"operands has {len(operands)} rows, but the calls read {firsts[-1]}")
        if (heights[(events[:, 0] < 0) & (events[:, 1] >= 0)] != 1).any():
            raise _Damaged("events has entries of tables that are no single row")
        _, fine, sharing = self.arrays["about"][0].tolist()
        trace = BatchTrace(bool(fine), bool(sharing), self.specs, kinds, events, operands, firsts, bases)
        _check_operands(trace)
        return trace

    def _specs(self) -> list[Spec]:
        shapes, found = iter(self.arrays["shapes"].tolist()), []
        for dtype, device, mode, axes in self.arrays["specs"].tolist():
            shape = tuple([next(shapes) for _ in range(axes)])
            if 0 in shape or mode > len(shape):
                raise _Damaged(f"specs has shape {shape} in mode {MODES[mode]}")
            spec = intern_spec(shape, self.texts[dtype], self.texts[device], MODES[mode])
            _ranged("specs", np.array([spec.rows]), 1, MOST_ROWS)
            found.append(spec)
        return found

    def _kinds(self) -> list[TraceKind]:
        """The kinds, compared with those that they run together with."""
        parts, found = iter(self.arrays["parts"].tolist()), []
        first: dict[int, TraceKind] = {}
        table = self.arrays["kinds"]
        _ranged("kinds", table[:, [0, *range(2, table.shape[1])]], 0, _MOST)
        _ranged("kinds", table[:, 5:7], 0, MOST_ROWS)
        _ranged("kinds", table[:, 14:], 0, len(self.arrays["parts"]))
        _ranged("kinds", table[:, 16].sum(keepdims=True), 0, _MOST_KINDS)
        for name, alone, mode, calls, family, rows, sum_of, *rest in table.tolist():
            (pure, operator, poly), work, (operands, outputs, roles, each) = rest[:3], rest[3:7], rest[7:]
            fields = {
                "name": self.texts[name],
                "operands": tuple([self.specs[next(parts)] for _ in range(operands)]),
                "outputs": tuple([Output(self.specs[next(parts)], next(parts)) for _ in range(outputs)]),
                "rows": rows,
                "program": BatchedProgram(),  # which nobody runs
                "pure": bool(pure),
                "lone": None if alone < 0 else self.texts[alone],
                "operator": bool(operator),
                "poly": bool(poly),
                "sum_of": sum_of,
                "work": Work(work[0], float(work[1]), *work[2:]),
                "children": tuple([tuple([next(parts) for _ in range(each)]) for _ in range(roles)]),
            }
            kind = TraceKind(fields, mode, family, calls)
            found.append(kind)
            _check_kind(kind, f"kinds[{len(found) - 1}]")
            like = first.setdefault(family, kind)
            if _form(kind) != _form(like):
                raise _Damaged(f"kinds[{len(found) - 1}] is of the family of {like.fields['name']!r}, but they differ")
        return found


def _ranged(name: str, array: Index, least: int, most: int) -> None:
    if array.size and not (least <= array.min() and array.max() <= most):
        raise _Damaged(f"{name} holds numbers from {array.min()} to {array.max()}, not from {least} to {most}")


def _begins(name: str, counts: Index, most: int) -> Index:
    """Sums counts up: the begin of each part, and the end of the last."""
    found: Index = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    if len(counts) and (counts.max() > most or found[-1] > most):
        raise _Damaged(f"{name} has more than {most} rows")
    return found


def _look(spec: Spec) -> tuple[Any, ...]:
    return spec.row_shape, spec.dtype, spec.device


def _check_kind(kind: TraceKind, where: str) -> None:
    fields = kind.fields
    operands, outputs, children = fields["operands"], fields["outputs"], fields["children"]
    listed = [position for role in children for position in role]
    if not outputs or any(output.offset + output.spec.rows > fields["rows"] for output in outputs):
        raise _Damaged(f"{where} has results that do not fit into its {fields['rows']} rows")
    if kind.mode > 3:
        raise _Damaged(f"{where} has mode {kind.mode}, not 2 * recording + training")
    if len({*listed}) != len(listed) or any(len({operands[position] for position in role}) > 1 for role in children):
        raise _Damaged(f"{where} has children {children}, not other operands of one shape for each role")
    terms = sum(spec.rows for spec in operands)
    if fields["sum_of"] and (len(outputs) != 1 or terms != fields["sum_of"] * fields["rows"]):
        raise _Damaged(f"{where} adds up {fields['sum_of']} arrays, but its operands have {terms} rows")


def _form(kind: TraceKind) -> tuple[Any, ...]:
    """The properties that kinds of one family share."""
    fields = kind.fields
    later = {position for role in fields["children"] for position in role[1:]}  # a node may have any number of them
    first = {role[0] for role in fields["children"] if role}
    keys = [
        _look(spec) if fields["poly"] and spec.mode != "stack" else family_key(spec) if position in first else spec
        for position, spec in enumerate(fields["operands"])
        if position not in later
    ]
    outputs = [_look(output.spec) for output in fields["outputs"]]
    return fields["lone"], fields["poly"], *keys, None, *outputs


def _check_operands(trace: BatchTrace) -> None:
    """Raises _Damaged where a call reads rows that are made later, or of another shape, dtype or device."""
    looks: dict[Any, int] = {}
    made, read = {}, {}
    for number in np.unique(trace.events[:, 0]).tolist():  # kinds that no event has may be of any size
        if number < 0:
            made[number], read[number] = _looks([(trace.specs[~number], 0)], trace.specs[~number].rows, looks), _NOTHING
            continue
        fields = trace.kinds[number].fields
        made[number] = _looks([(output.spec, output.offset) for output in fields["outputs"]], fields["rows"], looks)
        ends = [*accumulate(spec.rows for spec in fields["operands"])]
        read[number] = _looks(
            [(spec, end - spec.rows) for spec, end in zip(fields["operands"], ends)], max(ends, default=0), looks
        )
    kinds = trace.events[:, 0].tolist()
    if (trace.operands >= np.repeat(trace.bases[:-1], np.diff(trace.firsts))).any():
        raise _Damaged("operands reads rows that are made later")
    rows, wanted = (np.concatenate([_NOTHING, *[of[kind] for kind in kinds]]) for of in (made, read))
    if (rows[trace.operands] != wanted).any():
        raise _Damaged("operands reads rows of another shape, dtype or device")


_NOTHING: Index = np.empty(0, dtype=np.int64)


def _looks(specs: Sequence[tuple[Spec, int]], rows: int, known: dict[Any, int]) -> Index:
    """Numbers the look of each of so many rows: -1 where no result lies."""
    found: Index = np.full(rows, -1, dtype=np.int64)
    for spec, offset in specs:
        found[offset : offset + spec.rows] = known.setdefault(_look(spec), len(known))
    return found
