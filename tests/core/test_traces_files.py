"""Traces as files: what is written is read again, and what is no trace, or a damaged one, is refused with its place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gluonjit.analysis import make_plan
from gluonjit.analysis.simulate import trace_file
from gluonjit.analysis.simulate.trace_file import read_trace, save_graph
from gluonjit.analysis.simulate.trace_graph import restored
from gluonjit.errors import GluonJITError, TraceError
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec
from gluonjit.graph.entries import rows_of

Parts = dict[str, Any]
ROW, TWO, WORD = [[1, 4], "float32", "cpu(0)", 1], [[2, 4], "float32", "cpu(0)", 1], [[4], "float32", "cpu(0)", 0]


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
    first, second = pair.append(graph, (leaf,), 1, None)
    pair.append(graph, ((words[1], words[0]),), 1, None)
    (last,) = lone.append(graph, (second.row_list()[1],), 2, None)
    pair.calls, lone.calls = 5, 1
    return graph, [first, last]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    graph, kept = example()
    save_graph(graph, tmp_path / "trace.json.gz", "cell", sharing=True)
    assert len(kept) == 2
    return tmp_path / "trace.json.gz"


def load(path: Path) -> Parts:
    found: Parts = json.loads(gzip.decompress(path.read_bytes()))
    return found


def save(path: Path, parts: Any) -> None:
    path.write_bytes(gzip.compress(json.dumps(parts).encode()))


def test_the_format_is_as_documented(path: Path) -> None:
    same = {"operator": False, "poly": False, "apart": False, "sum_of": 0, "children": [], "work": [1, 0, 0, 0]}
    pair = {"name": "pair", "lone": None, "pure": True, "rows": 3, "mode": 3, "calls": 5, "family": 0}
    lone = {"name": "lone", "lone": "it has to", "pure": False, "rows": 1, "mode": 0, "calls": 1, "family": 1}
    assert load(path) == {
        "version": 4,
        "granularity": "cell",
        "sharing": True,
        "inputs": [TWO, WORD],
        "kinds": [
            {**same, **pair, "operator": True, "poly": True, "operands": [TWO], "outputs": [[ROW, 0], [TWO, 1]]},
            {**same, **lone, "operands": [ROW], "outputs": [[ROW, 0]]},
        ],
        "events": [
            [-2, 0, 0, []],
            [-2, 0, 0, []],
            [-1, -1, 0, []],
            [0, 4, 1, [2, 3]],
            [0, -1, 0, [1, 0]],
            [1, -1, 1, [6]],
        ],
    }


def test_the_graph_of_a_trace_is_the_one_it_was_taken_from(path: Path) -> None:
    graph, _kept = example()
    found = restored(read_trace(path))
    assert (found.calls, found.graph.rows, len(found.held)) == (6, graph.rows, 3)
    assert found.graph.marks == graph.marks
    for old, new in zip(graph.records.values(), found.graph.records.values()):
        assert (old.bases, old.depths, old.mode, old.calls) == (new.bases, new.depths, new.mode, new.calls)
        assert old.operands == new.operands
        for name in (
            "name",
            "operands",
            "outputs",
            "rows",
            "pure",
            "lone",
            "operator",
            "poly",
            "apart",
            "sum_of",
            "groups",
        ):
            assert getattr(old.kind, name) == getattr(new.kind, name)
        assert [[value.rows for value in old.values(node)] for node in range(len(old))] == [
            [value.rows for value in new.values(node)] for node in range(len(new))
        ]
    old_plan, new_plan = (make_plan(each, found.sum_kind) for each in (graph, found.graph))
    assert np.array_equal(old_plan.arena, new_plan.arena) and np.array_equal(old_plan.position, new_plan.position)
    assert old_plan.dropped == new_plan.dropped == 1


def test_a_file_that_cannot_be_written_leaves_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    graph, _kept = example()
    with pytest.raises(OSError):
        save_graph(graph, tmp_path / "taken", "cell", sharing=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["taken", "trace.json.gz"]


def test_what_is_too_large_to_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _kept = example()
    monkeypatch.setattr(trace_file, "MOST_BYTES", 500)
    with pytest.raises(TraceError, match="3 calls of 11 rows are too many for a trace"):
        save_graph(graph, tmp_path / "trace.json.gz", "cell", sharing=True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "not a trace, or a damaged one"),
        (b"\xff\xfe", "not a trace, or a damaged one"),
        (b"PK\x03\x04" + bytes(40), "a trace of an older gluonjit"),
        (b'{"format": "gluonjit-trace", "version": 2}', "a trace of an older gluonjit"),
        (gzip.compress(b"[1]", mtime=0)[:-4], "not a trace, or a damaged one"),
        (gzip.compress(b"abc", mtime=0), "not a trace, or a damaged one (JSONDecodeError"),
        (gzip.compress(b"[]", mtime=0), "trace is [], not {'version'"),
        (gzip.compress(b"{}", mtime=0), "trace is {}, not {'version'"),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json.gz"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert says in str(caught.value) and str(caught.value).startswith(f"{path}: ")
    assert "Next: save it anew with batch.save_trace(path)" in str(caught.value)
    assert isinstance(caught.value, GluonJITError)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.json\.gz: cannot be read \(No such file"):
        read_trace(tmp_path / "none.json.gz")


def put(*place: Any, value: Any) -> Callable[[Parts], None]:
    """A change of one value."""

    def change(parts: Any) -> None:
        for key in place[:-1]:
            parts = parts[key]
        parts[place[-1]] = value

    return change


def cut(*place: Any) -> Callable[[Parts], None]:
    def change(parts: Any) -> None:
        for key in place[:-1]:
            parts = parts[key]
        del parts[place[-1]]

    return change


@pytest.mark.parametrize(
    "change, says",
    [
        (put("version", value=5), "trace['version'] is 5, not range(4, 5)"),
        (cut("version"), "not {'version'"),
        (put("weights", value=[]), "not {'version'"),
        (put("sharing", value=1), "trace['sharing'] is 1, not {<class 'bool'>}"),
        (put("inputs", 0, 1, value=9), "trace['inputs'][0][1] is 9, not {<class 'str'>}"),
        (put("inputs", 0, 3, value=99), "trace['inputs'][0][3] is 99, not range(0, 10)"),
        (put("inputs", 1, 3, value=2), "an array of shape [4] has its first 2 axes as rows"),
        (put("inputs", 0, 0, 0, value=0), "trace['inputs'][0][0][0] is 0, not range(1"),
        (put("inputs", 0, 0, 0, value=2**40), "an array of shape [1099511627776, 4] has its first 1 axes as rows"),
        (cut("inputs", 0, 3), "trace['inputs'][0] is [[2, 4], 'float32', 'cpu(0)'], not ("),
        (put("kinds", 0, "name", value=None), "trace['kinds'][0]['name'] is None"),
        (cut("kinds", 0, "name"), "trace['kinds'][0] is {"),
        (put("kinds", 0, "mode", value=4), "trace['kinds'][0]['mode'] is 4, not range(0, 4)"),
        (put("kinds", 0, "rows", value=2), "kinds[0] has results that do not fit into its 2 rows"),
        (put("kinds", 0, "rows", value=2**50), "trace['kinds'][0]['rows'] is 1125899906842624, not range"),
        (put("kinds", 0, "sum_of", value=3), "kinds[0] adds up 3 arrays"),
        (put("kinds", 0, "outputs", value=[]), "kinds[0] has results that do not fit"),
        (put("kinds", 0, "children", value=[[0, 0]]), "kinds[0] has children ((0, 0),), not other operands"),
        (put("kinds", 0, "children", value=[[1]]), "IndexError"),
        (put("kinds", 1, "family", value=0), "kinds[1] is of the family of 'pair', but they differ"),
        (put("kinds", 0, "family", value=1), "IndexError"),
        (put("kinds", 1, "rows", value=2**24), "events make more than 16777216 rows"),
        (put("events", 0, 0, value=2), "events[0] is of kind 2, not of -2 to 1"),
        (put("events", 0, 0, value=-3), "events[0] is of kind -3, not of -2 to 1"),
        (put("events", 3, 1, value=-2), "trace['events'][3][1] is -2, not range(-1"),
        (put("events", 5, 0, value=0), "events[5] reads 1 rows, not 2"),
        (put("events", 5, 3, value=[]), "events[5] reads 0 rows, not 1"),
        (cut("events", 5, 3), "trace['events'][5] is [1, -1, 1], not ("),
        (put("events", 2, 1, value=0), "events[2] is an entry of a table, but of 2 rows"),
        (put("events", 3, 3, 1, value=4), "events[3] reads rows that are made later"),
        (put("events", 5, 3, 0, value=2**50), "trace['events'][5][3][0] is 1125899906842624, not range"),
        (put("events", 5, 3, 0, value=-1), "trace['events'][5][3][0] is -1, not range"),
        (put("inputs", 0, 0, 1, value=5), "events[3] reads rows of another shape, dtype or device"),
        (put("inputs", 1, 1, value="int64"), "events[4] reads rows of another shape, dtype or device"),
    ],
)
def test_a_damaged_trace_is_refused_with_its_place(change: Callable[[Parts], None], says: str, path: Path) -> None:
    parts = load(path)
    change(parts)
    save(path, parts)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert says in str(caught.value)
    assert "damaged" in str(caught.value) and "Next: save it anew" in str(caught.value)


def test_a_trace_without_calls_is_read(path: Path) -> None:
    save(path, {**load(path), "inputs": [], "kinds": [], "events": []})
    trace = read_trace(path)
    assert trace.nodes == 0 and not trace.samples and restored(trace).graph.rows == 0
