"""The command `simulate`, where no framework is installed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gluonjit.__main__ import main
from gluonjit.analysis import lower_bound, make_plan
from gluonjit.analysis.schedulers import SCHEDULERS
from gluonjit.analysis.simulate.trace_file import read_trace, save_graph
from gluonjit.analysis.simulate.trace_graph import restored
from gluonjit.graph import Graph, Kind, Output, Record, Value, intern_spec
from tests.core.test_bound import captured, random_nodes
from tests.core.test_environments import run

ROW = intern_spec((1, 4), "float32", "cpu(0)", "rows")


def chains(*lengths: int) -> tuple[Graph, list[Value]]:
    """A chain of nodes in each sample, from one leaf for all, and a loss of each."""
    graph = Graph()
    leaf = graph.add_leaf("leaf", None, ROW).base
    node = graph.records["node"] = Record(Kind("node", (ROW,), (Output(ROW, 0),), 1, None), 0, 0.0)
    loss = graph.records["loss"] = Record(Kind("loss", (ROW,), (Output(ROW, 0),), 1, None, lone="why"), 0, 0.0)
    kept = []
    for sample, length in enumerate(lengths):
        graph.marks.append((graph.rows, sample))
        row = leaf
        for depth in range(length):
            (value,) = node.append(graph, (row,), depth + 1, None)
            row = value.row_list()[0]
        graph.marks.append((graph.rows, None))
        kept += loss.append(graph, (row,), length + 1, None)
    node.calls, loss.calls = sum(lengths), len(lengths)
    return graph, kept


@pytest.fixture
def path(tmp_path: Path) -> Path:
    graph, kept = chains(2, 4, 3)
    assert len(kept) == 3
    save_graph(graph, tmp_path / "trace.json.gz", "cell", sharing=False)
    return tmp_path / "trace.json.gz"


def rows(path: Path, *arguments: str) -> list[dict[str, object]]:
    output = path.with_name("rows.json")
    assert main(["simulate", str(path), "--json", str(output), *arguments]) == 0
    result = json.loads(output.read_text())
    assert result["trace"] == "trace.json.gz"
    found: list[dict[str, object]] = result["rows"]
    return found


def test_every_number_of_a_row(path: Path) -> None:
    separate, shared = rows(path, "--scheduler", "depth")
    for row in (separate, shared):
        assert float(str(row.pop("analysis_ms"))) > 0
        assert float(str(row.pop("forward_ms"))) > 0
    # Losses run alone, at any depth. Steps take 3, 3, 2 and 1 rows: the first three times the one leaf, the third
    # of three results two, the others what lies together.
    assert separate == {
        "granularity": "cell",
        "scheduler": "depth",
        "sharing": False,
        "batch_size": 3,
        "nodes": 12,
        "launches": 4 + 3,
        "lower_bound": 4 + 3,
        "critical_path": 5,
        "gathers": 2,
        "gathered_bytes": (3 + 3) * 16,
        "arena_bytes": 13 * 16,
        "training_ms": None,
    }
    assert (shared["sharing"], shared["nodes"], shared["launches"]) == (True, 4 + 3, 4 + 3)


def test_batch_sizes_and_schedulers(path: Path) -> None:
    found = rows(path, "--batch-size", "1,2,7", "--scheduler", "bound,depth")
    assert [(row["batch_size"], row["sharing"], row["scheduler"]) for row in found] == [
        (size, sharing, scheduler)
        for size in (1, 2, 7)
        for sharing in (False, True)
        for scheduler in ("bound", "depth")
    ]
    nodes = {(row["batch_size"], row["sharing"]): row["nodes"] for row in found}
    assert nodes == {
        (1, False): 2 + 1,
        (1, True): 2 + 1,
        (2, False): 6 + 2,
        (2, True): 4 + 2,
        (7, False): 2 * 9 + 2 + 7,
        (7, True): 4 + 3,
    }


def test_the_table_has_a_line_for_each_row(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(path)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "granularity" and head.endswith("predicted ms  in training ms")
    assert [line.split()[:4] for line in lines] == [
        ["cell", name, sharing, "3"] for sharing in ("off", "on") for name in sorted(SCHEDULERS)
    ]
    assert all(float(line.split()[-2]) > 0 and line.split()[-1] == "-" for line in lines)


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["none.json"], 1, "none.json: cannot be read"),
        (
            ["TRACE", "--scheduler", "fast"],
            2,
            f"no scheduler is called 'fast'; the schedulers are {', '.join(sorted(SCHEDULERS))}",
        ),
        (["TRACE", "--json", "no/such/folder.json"], 2, "the folder no/such does not exist"),
    ],
)
def test_bad_arguments_are_explained(
    arguments: list[str], code: int, says: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *[str(path) if text == "TRACE" else text for text in arguments]]) == code
    caught = capsys.readouterr()
    assert says in caught.err and caught.err.startswith("python -m gluonjit simulate: ") and not caught.out


@pytest.mark.parametrize("sizes", ["0", "4,", "many", "1,-2"])
def test_batch_sizes_are_whole_numbers(sizes: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", str(path), f"--batch-size={sizes}"])
    assert caught.value.code == 2
    assert f"{sizes!r} is not a list of integers of at least 1" in capsys.readouterr().err


def test_a_trace_of_nothing_but_operators_outside_of_a_model_has_no_samples(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph, kept = chains(2)
    graph.marks.clear()
    save_graph(graph, path, "op", sharing=False)
    assert len(kept) == 1
    assert [(row["granularity"], row["batch_size"]) for row in rows(path, "--scheduler", "depth")] == [("op", 0)] * 2
    assert main(["simulate", str(path), "--batch-size", "2"]) == 1
    assert "of a trace that has 0" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_are_planned_as_they_were(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        graph, values = captured(random_nodes(rng))
        kept = rng.sample(values, rng.randint(1, len(values)))
        del values
        save_graph(graph, tmp_path / "trace.json.gz", "cell", sharing=False)
        trace = read_trace(tmp_path / "trace.json.gz")
        for scheduler in SCHEDULERS:
            found = restored(trace)
            old, new = make_plan(graph, found.sum_kind, scheduler), make_plan(found.graph, found.sum_kind, scheduler)
            assert [(step.kind.name, step.count) for step in old.steps] == [
                (step.kind.name, step.count) for step in new.steps
            ]
            assert old.position.tolist() == new.position.tolist()
            assert lower_bound(old) == lower_bound(new) and old.dropped == new.dropped
        assert kept
        assert restored(trace, sharing=True).graph.nodes <= restored(trace).graph.nodes == trace.nodes


def test_it_needs_numpy_alone(path: Path, tmp_path: Path) -> None:
    done = run(tmp_path, ["mxnet", "torch"], "-m", "gluonjit", "simulate", str(path), "--batch-size", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1 + 2 * len(SCHEDULERS)
