"""Captured graphs as files: the calls of a batch, without the numbers of arrays (docs/traces.md has the format)."""

from __future__ import annotations

import gzip
import json
from bisect import bisect
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import count, cycle
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from gluonjit.analysis.captured import Captured
from gluonjit.errors import TraceError
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import BatchedProgram, Kind, Output, Work, family_key
from gluonjit.graph.values import MODES, Spec, intern_spec
from gluonjit.writing import read_regular, write_whole

VERSION = 4
NO_SAMPLE = -1
"""The sample of a call that was captured outside of any, as losses are."""
MOST_BYTES, MOST_ROWS = 64 << 20, 1 << 24
"""Of a trace: its text, and the rows that its events make."""
_AGAIN = "Next: save it anew with batch.save_trace(path) inside of `with gluonjit.batching() as batch:`."
_SMALLER = "Next: save a trace of fewer samples."

_COUNT, _ROWS, _FLAG, _TEXT = range(2**53), range(MOST_ROWS + 1), {bool}, {str}
_SPEC = [range(1, 2**53)], _TEXT, _TEXT, range(len(MODES))
_COPIED = {
    **{"name": _TEXT, "lone": {str, type(None)}, "pure": _FLAG, "operator": _FLAG},
    **{"poly": _FLAG, "apart": _FLAG, "rows": _ROWS, "sum_of": _ROWS, "children": [[_COUNT]]},
}
_PLACES = {"mode": range(4), "calls": _COUNT, "family": _COUNT}
_PARTS = {"operands": [_SPEC], "outputs": [(_SPEC, _COUNT)], "work": (_COUNT,) * len(Work._fields)}
_FORM = {
    **{"version": range(VERSION, VERSION + 1), "granularity": _TEXT, "sharing": _FLAG, "inputs": [_SPEC]},
    "kinds": [{**_COPIED, **_PLACES, **_PARTS}],
    "events": [(range(-MOST_ROWS, MOST_ROWS), range(NO_SAMPLE, 2**53), range(2), [_ROWS])],
}
"""The form of a file. A list has any number of entries of one form, a tuple one entry of each; a value is in a range or
of one of the types in a set."""


class TraceKind(NamedTuple):
    """A kind of which nothing is known yet, in a mode. `calls` counts shared calls, too."""

    kind: Kind
    mode: int
    calls: int


class BatchTrace(NamedTuple):
    """Captured calls, and the inputs that they read, as events in the order of capture; each makes the next rows.

    sharing: whether equal calls were one. An event is (kind, sample, live, rows that it reads). One of kind k >= 0 is a
    call, live if somebody could read a result; one of kind ~k an input that looks like `inputs[k]`, with the number of
    its table, or -1, for a sample. Event k makes the rows from `bases[k]` to `bases[k + 1]`.
    """

    granularity: str
    sharing: bool
    inputs: list[Spec]
    kinds: list[TraceKind]
    events: list[tuple[int, int, int, list[int]]]
    bases: list[int]

    @property
    def nodes(self) -> int:
        """The number of calls."""
        return sum(kind >= 0 for kind, *_ in self.events)

    @property
    def samples(self) -> list[int]:
        """The numbers of the samples, in order; none if no batched model was called."""
        return sorted({sample for kind, sample, *_ in self.events if kind >= 0} - {NO_SAMPLE})


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
    captured = Captured([record for record in graph.records.values() if len(record)], graph.rows).split(sharing)
    inputs: dict[Spec, int] = {}
    families: dict[Any, int] = {}
    events = _events(graph, captured, inputs)
    kinds = [
        {
            **{name: getattr(record.kind, name) for name in _COPIED},
            **{"mode": record.mode, "calls": record.calls, "family": families.setdefault(record.kind.family, number)},
            "operands": [_plain(spec) for spec in record.kind.operands],
            "outputs": [(_plain(output.spec), output.offset) for output in record.kind.outputs],
            "work": [int(amount) for amount in record.kind.work],
        }
        for number, record in enumerate(captured.records)
    ]
    values = VERSION, granularity, sharing, [_plain(spec) for spec in inputs], kinds, events
    text = json.dumps(dict(zip(_FORM, values)), separators=(",", ":")).encode()
    if graph.rows > MOST_ROWS or len(text) > MOST_BYTES:
        raise TraceError(f"{call}: {graph.nodes} calls of {graph.rows} rows are too many for a trace. {_SMALLER}")
    write_whole(path, gzip.compress(text))


def _plain(spec: Spec) -> tuple[Any, ...]:
    return spec.shape, spec.dtype, spec.device, MODES.index(spec.mode)


def _events(graph: Graph, captured: Captured, specs: dict[Spec, int]) -> list[Any]:
    """The inputs and calls, by the rows that they make. Numbers the rows anew: interrupted calls leave gaps."""
    found = [
        (leaf.base, leaf.spec.rows, ~specs.setdefault(leaf.spec, len(specs)), -1) for leaf in graph.leaves.values()
    ]
    for number, (table, entries) in enumerate(graph.lookups.items()):
        spec = specs.setdefault(graph.lookup_specs[table], len(specs))
        found += [(row, 1, ~spec, number) for row in entries.values()]
    ordered: list[Any] = [(*event, 0, []) for event in found]
    starts = [row for row, _ in graph.marks]
    for number, record in enumerate(captured.records):
        for node, read in enumerate(captured.rows_read(number).tolist(), captured.begins[number]):
            base, mark = captured.bases[node], bisect(starts, captured.bases[node])
            sample = graph.marks[mark - 1][1] if mark else None
            live = int(captured.alive[node] != 0)
            ordered.append((base, record.kind.rows, number, NO_SAMPLE if sample is None else sample, live, read))
    ordered.sort()
    row: dict[int, int] = {}
    new = count()
    for base, rows, *_ in ordered:
        row.update(zip(range(base, base + rows), new))
    return [(*event, [row[of] for of in read]) for _, _, *event, read in ordered]


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
    if data.startswith((b"{", b"PK")):
        raise TraceError(f"{path}: a trace of an older gluonjit. {_AGAIN}")
    try:
        with gzip.open(BytesIO(data)) as stream:
            text = stream.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise _Damaged(f"it unpacks to more than {MOST_BYTES} bytes")
        found = json.loads(text)
        _check("trace", found, _FORM)
        return _trace(**found)
    except _Damaged as error:
        raise TraceError(f"{path}: a damaged trace: {error}. {_AGAIN}") from error
    except Exception as error:  # gzip and json raise errors of many classes
        why = " ".join(str(error).split())[:200]
        raise TraceError(f"{path}: not a trace, or a damaged one ({type(error).__name__}: {why}). {_AGAIN}") from error


def _check(where: str, value: Any, form: Any) -> None:
    """Raises _Damaged with its place for a value that is not of a form."""
    known = type(value)
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(form, dict):
        fits = known is dict and value.keys() == form.keys()
        parts = form.items()
    elif isinstance(form, (list, tuple)):
        fits = known is list and (isinstance(form, list) or len(value) == len(form))
        parts = zip(range(len(value)), cycle(form)) if fits else ()
    else:
        fits = known is int and value in form if isinstance(form, range) else known in form
    if not fits:
        raise _Damaged(f"{where} is {value!r:.60}, not {form!r:.60}")
    for key, part in parts:
        _check(f"{where}[{key!r}]", value[key], part)


def _trace(version: int, inputs: list[Any], kinds: list[Any], events: list[Any], **options: Any) -> BatchTrace:
    """Makes a trace, checked as far as plans rely on it."""
    specs = [_spec(*plain) for plain in inputs]
    known: list[TraceKind] = []
    for number, text in enumerate(kinds):
        mode, calls, family = [text.pop(name) for name in _PLACES]
        text["operands"] = tuple(_spec(*plain) for plain in text["operands"])
        text["outputs"] = tuple(Output(_spec(*plain), offset) for plain, offset in text["outputs"])
        text["children"] = tuple(map(tuple, text["children"]))
        text["work"] = Work(*text["work"])
        like = known[family].kind if family != number else None
        kind = Kind(**text, program=BatchedProgram(), family=like)  # which nobody runs
        known.append(TraceKind(kind, mode, calls))
        _check_kind(kind, f"kinds[{number}]")
    return BatchTrace(inputs=specs, kinds=known, events=events, bases=_bases(specs, known, events), **options)


def _spec(shape: list[int], dtype: str, device: str, mode: int) -> Spec:
    if mode > len(shape) or prod(shape[:mode]) > MOST_ROWS:
        raise _Damaged(f"an array of shape {shape} has its first {mode} axes as rows")
    return intern_spec(tuple(shape), dtype, device, MODES[mode])


def _check_kind(kind: Kind, where: str) -> None:
    operands, terms = kind.operands, sum(spec.rows for spec in kind.operands)
    listed = [position for role in kind.children for position in role]
    if not kind.outputs or any(output.offset + output.spec.rows > kind.rows for output in kind.outputs):
        raise _Damaged(f"{where} has results that do not fit into its {kind.rows} rows")
    if len({*listed}) != len(listed) or any(len({operands[of] for of in role}) > 1 for role in kind.children):
        raise _Damaged(f"{where} has children {kind.children}, not other operands of one shape for each role")
    if kind.sum_of and (len(kind.outputs) != 1 or terms != kind.sum_of * kind.rows):
        raise _Damaged(f"{where} adds up {kind.sum_of} arrays, but its operands have {terms} rows")
    if _shared(kind) != _shared(kind.family):
        raise _Damaged(f"{where} is of the family of {kind.family.name!r}, but they differ")


def _shared(kind: Kind) -> tuple[Any, ...]:
    """The properties that kinds of one family share."""
    later = {position for role in kind.children for position in role[1:]}  # a node may have any number of them
    first = {role[0] for role in kind.children if role}
    keys = [
        _look(spec) if kind.poly and spec.mode != "stack" else family_key(spec) if position in first else spec
        for position, spec in enumerate(kind.operands)
        if position not in later
    ]
    return kind.lone, kind.poly, *keys, None, *[_look(output.spec) for output in kind.outputs]


def _look(spec: Spec) -> tuple[Any, ...]:
    return spec.row_shape, spec.dtype, spec.device


def _bases(inputs: Sequence[Spec], kinds: Sequence[TraceKind], events: Sequence[Any]) -> list[int]:
    """The first row of each event. Raises _Damaged for one that reads what is made later, or looks otherwise."""
    looks: list[Any] = []
    bases = [0]
    for number, (kind, table, _, read) in enumerate(events):
        where = f"events[{number}]"
        if not -len(inputs) <= kind < len(kinds):
            raise _Damaged(f"{where} is of kind {kind}, not of {-len(inputs)} to {len(kinds) - 1}")
        if kind < 0:
            of = Kind("", (), (Output(inputs[~kind], 0),), inputs[~kind].rows, BatchedProgram())
        else:
            of = kinds[kind].kind
        rows, width = of.rows, sum(spec.rows for spec in of.operands)
        if len(looks) + rows > MOST_ROWS:
            raise _Damaged(f"events make more than {MOST_ROWS} rows")
        if kind < 0 <= table and rows != 1:
            raise _Damaged(f"{where} is an entry of a table, but of {rows} rows")
        if len(read) != width:
            raise _Damaged(f"{where} reads {len(read)} rows, not {width}")
        if max(read, default=-1) >= len(looks):
            raise _Damaged(f"{where} reads rows that are made later")
        if [looks[row] for row in read] != [_look(spec) for spec in of.operands for _ in range(spec.rows)]:
            raise _Damaged(f"{where} reads rows of another shape, dtype or device")
        made: list[Any] = [None] * rows  # None where no result lies
        for output in of.outputs:
            made[output.offset : output.offset + output.spec.rows] = [_look(output.spec)] * output.spec.rows
        looks += made
        bases.append(len(looks))
    return bases
