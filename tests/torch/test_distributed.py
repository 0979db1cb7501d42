"""Two processes under DistributedDataParallel, on gloo: gradients are those of one with the joint minibatch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

TESTS = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="this PyTorch was built without gloo"
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each process found."""
    folder = tmp_path_factory.mktemp("processes")
    paths = [str(TESTS.parent), str(TESTS / "common"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(TESTS / "common" / "torch_distributed.py"), str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


BATCHED = ("each sample", "the wrapper hybridized", "a minibatch", "static", "views", "unused weights")
BUFFERS = ("buffers of a minibatch", "buffers that stay")


@pytest.mark.parametrize("way", [*BATCHED, *BUFFERS, "accumulated"])
def test_gradients_are_those_of_the_joint_minibatch(found: list[dict[str, Any]], way: str) -> None:
    for process in found:
        worst, _, _ = process[way]
        assert worst <= 1e-6


@pytest.mark.parametrize("way", [*BATCHED, *BUFFERS])
def test_each_process_runs_its_part_as_one_batch(found: list[dict[str, Any]], way: str) -> None:
    for process in found:
        _, flushes, launches = process[way]
        assert flushes == 1
        assert launches <= 16  # of about 50 calls
