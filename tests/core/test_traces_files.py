"""Traces as files: what is written is read again, and what is no trace, or a damaged one, is refused with its place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gluonjit.analysis import make_plan, traces
from gluonjit.errors import GluonJITError, TraceError
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec
from gluonjit.graph.entries import rows_of


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
    path = tmp_path / "trace.json"
    traces.write_trace(traces.trace_of(graph, "cell", sharing=True), path)
    assert len(kept) == 2
    return path


def test_the_format_is_as_documented(path: Path) -> None:
    document = json.loads(path.read_text())
    row, two, word = (
        {"shape": shape, "dtype": "float32", "device": "cpu(0)", "mode": mode}
        for shape, mode in (([1, 4], "rows"), ([2, 4], "rows"), ([4], "stack"))
    )
    assert document == {
        "format": "gluonjit-trace",
        "version": 2,
        "granularity": "cell",
        "sharing": True,
        "rows": 11,
        "specs": [two, word, row],
        "leaves": {"bases": [2], "specs": [0]},
        "tables": [{"spec": 1, "rows": [0, 1]}],
        "kinds": [
            {
                "name": "pair",
                "mode": 3,
                "operands": [0],
                "outputs": [{"spec": 2, "offset": 0}, {"spec": 0, "offset": 1}],
                "rows": 3,
                "pure": True,
                "alone": None,
                "operator": True,
                "poly": True,
                "sum_of": 0,
                "family": 0,
                "calls": 5,
                "work": [1, 0, 0, 0],
                "children": [],
                "nodes": {
                    "bases": [4, 7],
                    "depths": [1, 1],
                    "samples": [4, -1],
                    "live": [1, 0],
                    "operands": [2, 3, 1, 0],
                },
            },
            {
                "name": "lone",
                "mode": 0,
                "operands": [2],
                "outputs": [{"spec": 2, "offset": 0}],
                "rows": 1,
                "pure": False,
                "alone": "it has to",
                "operator": False,
                "poly": False,
                "sum_of": 0,
                "family": 1,
                "calls": 1,
                "work": [1, 0, 0, 0],
                "children": [],
                "nodes": {"bases": [10], "depths": [2], "samples": [-1], "live": [1], "operands": [6]},
            },
        ],
    }


@pytest.mark.parametrize("name", ["again.json", "again.json.gz", "again.gz"])
def test_a_trace_is_read_as_it_was_written(name: str, path: Path, tmp_path: Path) -> None:
    again = tmp_path / name
    traces.write_trace(traces.read_trace(path), again)
    data = again.read_bytes()
    assert (gzip.decompress(data) if name.endswith(".gz") else data) == path.read_bytes()
    assert data[:2] == (b"\x1f\x8b" if name.endswith(".gz") else b'{"')


def test_the_graph_of_a_trace_is_the_one_it_was_taken_from(path: Path) -> None:
    graph, _kept = example()
    found = traces.restored(traces.read_trace(path))
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


def test_fields_that_this_version_does_not_know_are_left_aside(path: Path) -> None:
    document = json.loads(path.read_text())
    document["kinds"][0]["weight"] = 3
    path.write_text(json.dumps(document))
    assert traces.read_trace(path).count == 3


def test_a_file_that_cannot_be_written_leaves_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        traces.write_trace(traces.read_trace(path), tmp_path / "taken")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["taken", "trace.json"]


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[1]", "it holds a list, not"),
        (b'{"version": 2}', 'it holds "format": None, not "format": \'gluonjit-trace\''),
        (b'{"format": "gluonjit-trace", "version": 1}', "of version 1, but this gluonjit reads version 2"),
        (b'{"format": "gluonjit-trace", "version": 2}', "specs is missing"),
        (gzip.compress(b"{}", mtime=0)[:-9], "truncated or damaged"),
        (gzip.compress(b"{}", mtime=0)[:-8] + b"\0" * 8, "truncated or damaged"),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        traces.read_trace(path)
    assert says in str(caught.value) and str(caught.value).startswith(f"{path}: ")
    assert "Next: " in str(caught.value)
    assert isinstance(caught.value, GluonJITError)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.json: cannot be read \(No such file"):
        traces.read_trace(tmp_path / "none.json")


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    """A change of one place of a document."""

    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change, says",
    [
        (put("rows", value=-1), "rows is -1, not from 0 to"),
        (put("rows", value=10), "rows is 10, but 11 are made"),
        (put("rows", value=10**9), "rows is 1000000000, but 11 are made"),
        (put("sharing", value=1), "sharing is 1, not true or false"),
        (put("granularity", value=None), "granularity is None, not a string"),
        (put("specs", 0, "mode", value="column"), "specs[0].mode is 'column', not one of 'stack', 'rows', 'rows2'"),
        (put("specs", 0, "shape", value=[0, 4]), "specs[0] has shape (0, 4)"),
        (put("specs", 0, value="spec"), "specs[0] is 'spec', not an object"),
        (put("leaves", "specs", value=[]), "leaves.specs has 0 numbers, not 1"),
        (put("leaves", "specs", value=[3]), "leaves.specs names number 3 of 3"),
        (put("leaves", "bases", value=[10]), "leaves.bases[0] has rows up to 11, but there are 11"),
        (put("tables", 0, "rows", value=[0, 2]), "tables[0].rows makes rows that already exist"),
        (put("tables", 0, "rows", value=[0, None]), "tables[0].rows holds None, not only integers"),
        (put("kinds", 0, "mode", value=4), "kinds[0].mode is 4"),
        (put("kinds", 0, "rows", value=2), "kinds[0].outputs do not fit into its 2 rows"),
        (put("kinds", 0, "sum_of", value=3), "kinds[0].sum_of is 3"),
        (put("kinds", 1, "family", value=0), "kinds[1].family is 0, like that of 'pair', but the kinds differ"),
        (put("kinds", 1, "nodes", "bases", value=[9]), "kinds[1].nodes.bases makes rows that already exist"),
        (put("kinds", 0, "nodes", "bases", value=[4, 4]), "kinds[0].nodes.bases makes rows that already exist"),
        (put("kinds", 0, "nodes", "depths", value=[1]), "kinds[0].nodes.depths has 1 numbers, not 2"),
        (put("kinds", 1, "nodes", "depths", value=[1]), "kinds[1].nodes.depths has nodes that are not deeper"),
        (put("kinds", 0, "nodes", "live", value=[1, 2]), "kinds[0].nodes.live holds 2, not only integers"),
        (put("kinds", 0, "nodes", "samples", value=[-2, 0]), "kinds[0].nodes.samples holds -2"),
        (put("kinds", 0, "nodes", "operands", value=[2.5, 3, 1, 0]), "kinds[0].nodes.operands holds 2.5"),
        (put("kinds", 0, "nodes", "operands", value=[2, 3, 1]), "kinds[0].nodes.operands has 3 numbers, not 4"),
        (put("kinds", 0, "nodes", "operands", value=[2, 4, 1, 0]), "operands reads rows that are made later"),
        (put("specs", 0, "shape", value=[2, 5]), "operands reads rows of another shape, dtype or device"),
        (put("specs", 1, "dtype", value="int32"), "operands reads rows of another shape, dtype or device"),
        (put("kinds", 0, "nodes", "operands", value=[2, 3, 1, 11]), "operands reads rows that are made later"),
        (
            lambda document: document["kinds"][0].update(
                nodes={name: [] for name in ("bases", "depths", "samples", "live", "operands")}
            ),
            "kinds[0].nodes has none",
        ),
    ],
)
def test_a_damaged_trace_is_refused_with_its_place(change: Callable[[Any], None], says: str, path: Path) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(TraceError) as caught:
        traces.read_trace(path)
    assert f"a damaged trace: {says}" in str(caught.value).replace("kinds[0].nodes.operands reads", "operands reads")
