"""Operators without a row of their own run together as `torch.func.vmap` runs them, or alone where it would loop."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch_support import assert_close  # noqa: E402

import gluonjit  # noqa: E402
from gluonjit.engines.torch.operators.table import row_of  # noqa: E402

SAMPLES = 5
WITHOUT_ROW: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "nanmedian": ("nanmedian.dim", lambda h: h.nanmedian(1).values),
    "cholesky_inverse": ("cholesky_inverse.default", lambda h: torch.cholesky_inverse(h.tril() + 3 * torch.eye(4))),
    "a table for each sample": ("embedding.default", lambda h: torch.embedding(h, torch.tensor([1, 0, 1]))),
    "weights for each sample": (
        "convolution.default",
        lambda h: torch.nn.functional.conv1d(h.view(2, 2, 4), h.view(2, 2, 4)[:, :, :3]),
    ),
}


class Net(torch.nn.Module):
    def __init__(self, program: Callable[[Any], Any]) -> None:
        super().__init__()
        self.first, self.program = torch.nn.Linear(4, 4), program

    def forward(self, x: Any) -> Any:
        return self.program(self.first(x).sin())


def both(program: Callable[[Any], Any]) -> Any:
    """Trains one step eagerly and batched; returns the report of the batch."""
    gluonjit.clear_caches()
    torch.manual_seed(0)
    eager, xs = Net(program), [torch.randn(4, 4) for _ in range(SAMPLES)]
    net = Net(program)
    net.load_state_dict(eager.state_dict())
    gluonjit.hybridize(net, dynamic_batch=True, granularity="op")
    with gluonjit.batching() as batch:
        found = [net(x) for x in xs]
        total = sum((result * result).sum() for result in found)
    total.backward()
    wanted = [eager(x) for x in xs]
    sum((result * result).sum() for result in wanted).backward()
    assert_close(torch.stack(list(found)), torch.stack(wanted), "values")
    for one, other in zip(net.parameters(), eager.parameters()):
        assert_close(one.grad, other.grad, "gradient")
    return batch.report


@pytest.mark.parametrize("name", WITHOUT_ROW)
def test_runs_together(name: str) -> None:
    report = both(WITHOUT_ROW[name][1])
    assert not report.alone and not report.unbatched and not report.distrusted
    assert report.launches < report.nodes / 2


def test_what_has_no_row_is_looked_up() -> None:
    assert row_of("nanmedian.dim") is None and row_of("cholesky_inverse.default") is None


def test_what_would_loop_runs_alone_and_says_so() -> None:
    report = both(torch.pdist)
    assert any("_pdist_forward" in reason and "no rule" in reason for reason in report.alone.values()), report.alone


def test_results_in_between_are_not_rounded() -> None:
    """PyTorch's layer norm of half precision computes in single precision; vmap's, of several operators, would not."""

    def normed(h: Any) -> Any:
        half = h.bfloat16()
        return torch.nn.functional.layer_norm(half, (4,), half[0], half[1]).float()

    report = both(normed)
    assert any("layer_norm" in reason for reason in report.alone.values()), report.alone


def test_a_gradient_by_counts_of_each_call_stays_alone() -> None:
    report = both(lambda h: torch.nn.functional.embedding(torch.tensor([1, 1]), h, scale_grad_by_freq=True))
    assert any("frequency" in reason for reason in report.alone.values()), report.alone


def test_a_first_refusal_keeps_no_frame_of_the_program() -> None:
    """Results that a program has let go are dropped at once, not when garbage is collected."""
    gluonjit.clear_caches()
    net = gluonjit.hybridize(Net(torch.pdist), dynamic_batch=True, granularity="op")
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad(), gluonjit.batching():
            let_go = [weakref.ref(net(torch.randn(4, 4))) for _ in range(SAMPLES)]
            assert not any(result() is not None for result in let_go)
    finally:
        gc.enable()


CODE = """
import sys, torch, gluonjit
before = set(sys.modules)
class Net(torch.nn.Module):
    def forward(self, x):
        return (x * 2).nanmedian(1).values + 1
net = gluonjit.hybridize(Net(), dynamic_batch=True, granularity="op")
with gluonjit.batching() as batch:
    results = [net(torch.randn(3, 4)) for _ in range(4)]
assert not batch.report.alone and batch.report.launches < 6, batch.report
heavy = {name.partition(".")[0] for name in set(sys.modules) - before} & {"sympy"}
assert not heavy and not [name for name in sys.modules if name.startswith("torch._dynamo.")], "imported"
"""


def test_it_imports_neither_sympy_nor_dynamo() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
