"""Counting nodes and launches of the Tree-LSTM at every granularity."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tqdm", reason="the experiment needs the extra `experiments`")

from experiments.data import builtin
from experiments.data.trees import Pair, Sentence
from experiments.granularity import BY_TREES, Line, by_trees, main
from experiments.workloads import load


def nodes_of_trees() -> list[Any]:
    """The nodes of all trees to train on that the experiment counts."""
    pairs = load("treelstm-builtin", None, 0, None).train
    return [node for pair in pairs for sentence in (pair.left, pair.right) for node in sentence.root]


def test_trees_are_counted_by_depth_and_number_of_children() -> None:
    chain, fork = Sentence("a b c".split(), [2, 3, 0]), Sentence("a b c".split(), [3, 3, 0])
    # The leaves; one node with one child at depth 2 and one at 3; the fork with two children at depth 2.
    assert by_trees([[Pair(chain, fork, 2.0), Pair(fork, fork, 3.0)]]) == Line("reference", BY_TREES, 12, 4)
    assert by_trees([[Pair(chain, fork, 2.0)], [Pair(fork, fork, 3.0)]]) == Line("reference", BY_TREES, 12, 4 + 2)


def test_every_cell_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builtin, "SCENES", 5)
    monkeypatch.setattr(builtin, "SIZES", {"train": 7, "dev": 2, "test": 2})
    path = tmp_path / "counts.json"
    assert main(["--workload", "treelstm-builtin", "--batch-size", "3", "--json", str(path)]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert (result["pairs"], result["batch_size"], result["scheduler"]) == (7, 3, "depth")
    rows = {(row["granularity"], row["part"]): row for row in result["rows"]}
    reference = rows["reference", BY_TREES]
    cells, products = (rows["cell", f"trees: {part}"] for part in ("cells", "products with words"))
    assert cells["nodes"] == reference["nodes"]
    # A leaf's cell is computed of its word alone, so that nothing is cut out of it.
    assert 0 < products["nodes"] == sum(len(node.children) > 0 for node in nodes_of_trees()) < cells["nodes"]
    assert cells["launches"] <= reference["launches"]
    assert products["launches"] == 3
    whole, trees = rows["cell", "whole model"], rows["cell", "trees"]
    assert whole["nodes"] == trees["nodes"] + 2 * 7  # a head and a loss for each pair
    assert rows["op", "trees"]["nodes"] > 10 * cells["nodes"]
    assert f"{reference['nodes']:,}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [("--workload bilstm", "invalid choice: 'bilstm'"), ("--batch-size 0", "0 is less than 1")],
)
def test_bad_arguments_are_explained(arguments: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments.split())
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_missing_data_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'sick' / 'train' / 'a.toks'}: no such file")


def test_help_needs_no_framework() -> None:
    code = "import sys; from experiments.granularity import _parser; _parser(); assert 'mxnet' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
