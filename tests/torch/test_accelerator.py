"""Training on a simulated accelerator: `tests/common/accelerator_tests.py`, in a process of its own.

PyTorch counts the devices it goes backward on once, when it first does: the simulated one has to be there by then.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
FEWEST = 290


@pytest.mark.skipif(not hasattr(torch._C, "_acc"), reason="this PyTorch has no devices whose operators are in Python")
def test_models_train_on_a_simulated_accelerator() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-W", "ignore"]
    done = subprocess.run(
        [*command, "tests/common/accelerator_tests.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= FEWEST, done.stdout[-500:]
