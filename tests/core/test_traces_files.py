"""Traces as files: what is written is read again, and what is no trace, or a damaged one, is refused with its place."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZipFile

import numpy as np
import pytest

from gluonjit.analysis import make_plan, trace_file
from gluonjit.analysis.trace_file import read_trace, save_graph
from gluonjit.analysis.trace_graph import restored
from gluonjit.errors import GluonJITError, TraceError
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec
from gluonjit.graph.entries import rows_of

Arrays = dict[str, Any]


def example() -> tuple[Graph, list[Value]]:
    """Two look-ups and a leaf; a kind that joins two rows, one of two results, one that runs alone."""
    row = intern_spec((1, 4), "float32", "cpu(0)", "rows")
    two = intern_spec((2, 4), "float32", "cpu(0)", "rows")
    graph = Graph()
    words = rows_of(graph, graph.entries("words", intern_spec((4,), "float32", "cpu(0)", "stack")), [7, 3, 7])
    leaf = graph.add_leaf("leaf", None, two).base
    pair = Record(Kind("pair", (two,), (Output(row, 0), Output(two, 1)), 3, None, operator=True, poly=True), 3, 0.0)
    lone = Record(Kind("lone", (row,), (Output(row, 0),), 1, None, pure=False, lone="it has to"), 0, 0.0)
    graph.records.update(pair=pair, lone=lone)
    graph.marks += [(graph.rows, 4), (graph.rows + 3, None)]
    first, second = graph.add_node(pair, (leaf,), 1)
    graph.add_node(pair, ((words[1], words[0]),), 1)
    (last,) = graph.add_node(lone, (second.row_list()[1],), 2)
    pair.calls, lone.calls = 5, 1
    return graph, [first, last]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    graph, kept = example()
    save_graph(graph, tmp_path / "trace.npz", "cell", sharing=True)
    assert len(kept) == 2
    return tmp_path / "trace.npz"


def load(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_the_format_is_as_documented(path: Path) -> None:
    arrays = load(path)
    assert arrays.pop("text").tobytes() == b'["pair", "it has to", "lone", "float32", "cpu(0)"]'
    assert {array.dtype.str for array in arrays.values()} == {"<i8"}
    pair = [0, -1, 3, 5, 0, 3, 0, 1, 1, 1, 1, 0, 0, 0, 1, 2, 0, 0]
    lone = [2, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0]
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "about": [[3, 0, 1]],
        "specs": [[3, 4, 1, 2], [3, 4, 1, 2], [3, 4, 0, 1]],
        "shapes": [2, 4, 1, 4, 4],
        "kinds": [pair, lone],
        "parts": [0, 1, 0, 0, 1, 1, 1, 0],
        "events": [[-3, 0, 0], [-3, 0, 0], [-1, -1, 0], [0, 4, 1], [0, -1, 0], [1, -1, 1]],
        "operands": [2, 3, 1, 0, 6],
    }


def test_the_graph_of_a_trace_is_the_one_it_was_taken_from(path: Path) -> None:
    graph, _kept = example()
    found = restored(read_trace(path))
    assert (found.calls, found.graph.rows, len(found.held)) == (6, graph.rows, 3)
    assert found.graph.marks == graph.marks
    for old, new in zip(graph.records.values(), found.graph.records.values()):
        assert (old.bases, old.depths, old.mode, old.calls) == (new.bases, new.depths, new.mode, new.calls)
        assert old.operands == new.operands
        for name in ("name", "operands", "outputs", "rows", "pure", "lone", "operator", "poly", "sum_of", "groups"):
            assert getattr(old.kind, name) == getattr(new.kind, name)
        assert [[value.rows for value in old.values(node)] for node in range(len(old))] == [
            [value.rows for value in new.values(node)] for node in range(len(new))
        ]
    old_plan, new_plan = (make_plan(each, found.sum_kind) for each in (graph, found.graph))
    assert np.array_equal(old_plan.arena, new_plan.arena) and np.array_equal(old_plan.position, new_plan.position)
    assert old_plan.dropped == new_plan.dropped == 1


def test_arrays_that_this_version_does_not_know_are_left_aside(path: Path) -> None:
    np.savez(path, **load(path), weights=np.zeros(3))
    assert read_trace(path).nodes == 3


def test_a_file_that_cannot_be_written_leaves_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    graph, _kept = example()
    with pytest.raises(OSError):
        save_graph(graph, tmp_path / "taken", "cell", sharing=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["taken", "trace.npz"]


def test_what_is_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _kept = example()
    monkeypatch.setattr(trace_file, "MOST_BYTES", 500)
    with pytest.raises(TraceError, match="3 calls of 11 rows are too many for a trace"):
        save_graph(graph, tmp_path / "trace.npz", "cell", sharing=True)
    assert not [*tmp_path.iterdir()]


def packed(**arrays: Any) -> bytes:
    stream = BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def zipped(name: str, data: bytes, method: int = 0) -> bytes:
    stream = BytesIO(packed(**dict.fromkeys(trace_file._NAMES, np.zeros(1))))
    with ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(name, data, method)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "not a trace, or a damaged one"),
        (b"\xff\xfe", "not a trace, or a damaged one"),
        (b"PK\x03\x04" + bytes(40), "not a trace, or a damaged one"),
        (b'{"format": "gluonjit-trace", "version": 2}', "a trace in JSON, which an older gluonjit wrote"),
        (gzip.compress(b"{}", mtime=0), "a trace in JSON, which an older gluonjit wrote"),
        (packed(about=np.zeros(3)), "it lacks text, specs"),
        (zipped("about.npy", b"abc"), "not a trace, or a damaged one"),
        (zipped("about.npy", bytes(1000), ZIP_BZIP2), "it is packed otherwise"),
        (packed(**dict.fromkeys(trace_file._NAMES, np.array([None, 1], dtype=object))), "allow_pickle=False"),
        (packed(**dict.fromkeys(trace_file._NAMES, np.zeros(2))), "about is an array of float64"),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert says in str(caught.value) and str(caught.value).startswith(f"{path}: ")
    assert "Next: save it anew with batch.save_trace(path)" in str(caught.value)
    assert isinstance(caught.value, GluonJITError)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.npz: cannot be read \(No such file"):
        read_trace(tmp_path / "none.npz")


def put(name: str, *place: Any, value: int) -> Callable[[Arrays], None]:
    """A change of one number."""

    def change(arrays: Arrays) -> None:
        arrays[name][place] = value

    return change


def cut(name: str, count: int) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name] = arrays[name][:count]

    return change


@pytest.mark.parametrize(
    "change, says",
    [
        (put("about", 0, 0, value=4), "its version is [4], but this gluonjit reads version 3"),
        (cut("about", 0), "its version is []"),
        (put("about", 0, 1, value=-1), "about holds numbers from -1 to 3, not from 0"),
        (put("text", 0, value=0), "JSONDecodeError"),
        (put("specs", 0, 0, value=9), "IndexError"),
        (put("specs", 0, 2, value=99), "IndexError"),
        (put("specs", 0, 3, value=2**50), "StopIteration"),
        (put("specs", 2, 2, value=2), "specs has shape (4,) in mode rows2"),
        (put("shapes", 0, value=0), "specs has shape (0, 4)"),
        (put("shapes", 0, value=2**40), "specs holds numbers from 1099511627776"),
        (put("kinds", 0, 0, value=-1), "kinds holds numbers from -1"),
        (put("kinds", 0, 2, value=4), "kinds[0] has mode 4"),
        (put("kinds", 0, 5, value=2), "kinds[0] has results that do not fit into its 2 rows"),
        (put("kinds", 0, 6, value=3), "kinds[0] adds up 3 arrays"),
        (put("kinds", 1, 4, value=0), "kinds[1] is of the family of 'pair', but they differ"),
        (put("kinds", 1, 14, value=2**50), "to 1125899906842624, not from 0 to"),
        (put("kinds", 0, slice(16, 18), value=1), "IndexError"),
        (put("kinds", 1, 5, value=2**50), "to 1125899906842624, not from 0 to"),
        (put("kinds", 1, 5, value=2**24), "events has more than 16777216 rows"),
        (put("events", 0, 0, value=2), "events holds numbers from -3 to 2, not from -3 to 1"),
        (put("events", 0, 0, value=-4), "events holds numbers from -4 to 1, not from -3 to 1"),
        (put("events", 3, 1, value=-2), "events holds numbers from -2"),
        (put("events", 5, 0, value=0), "operands has more than 5 rows"),
        (cut("events", 5), "operands has 5 rows, but the calls read 4"),
        (put("events", 2, 1, value=0), "events has entries of tables that are no single row"),
        (put("operands", 1, value=4), "operands reads rows that are made later"),
        (put("operands", 4, value=2**50), "operands reads rows that are made later"),
        (put("operands", 4, value=-1), "operands holds numbers from -1"),
        (put("shapes", 1, value=5), "operands reads rows of another shape, dtype or device"),
        (put("specs", 2, 0, value=0), "operands reads rows of another shape, dtype or device"),
    ],
)
def test_a_damaged_trace_is_refused_with_its_place(change: Callable[[Arrays], None], says: str, path: Path) -> None:
    arrays = load(path)
    change(arrays)
    np.savez(path, **arrays)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert says in str(caught.value)
    assert "damaged" in str(caught.value) and "Next: save it anew" in str(caught.value)


def test_a_trace_without_calls_is_read(path: Path) -> None:
    arrays = load(path)
    for name in ("specs", "shapes", "kinds", "parts", "events", "operands"):
        arrays[name] = arrays[name][:0]
    np.savez(path, **arrays)
    trace = read_trace(path)
    assert trace.nodes == 0 and not trace.samples and restored(trace).graph.rows == 0
