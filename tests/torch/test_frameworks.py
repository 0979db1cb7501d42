"""The engine for PyTorch stands beside the other one, or alone, whatever is imported first."""

from __future__ import annotations

import subprocess
import sys

import pytest

_NET = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
given = [torch.randn(4) for _ in range(5)]
expected = torch.stack([net(x) for x in given]).detach()
gluonjit.hybridize(net, dynamic_batch=True, granularity="batched")
found = torch.stack([net(x) for x in given]).detach()
report = gluonjit.explain()
assert torch.allclose(found, expected, atol=1e-6)
assert report.kinds["Sequential"].launches == 1, report
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("imports", ["import torch, gluonjit", "import gluonjit, torch"])
def test_torch_alone_is_enough_and_either_import_may_come_first(imports: str) -> None:
    run(f"{imports}\n{_NET}\nimport sys\nassert 'mxnet' not in sys.modules and 'torch._dynamo' not in sys.modules")


@pytest.mark.parametrize("imports", ["import torch, mxnet, gluonjit", "import gluonjit, mxnet, torch"])
def test_both_engines_live_in_one_process(imports: str) -> None:
    pytest.importorskip("mxnet")
    run(
        f"""
import warnings; warnings.simplefilter("ignore", DeprecationWarning)
{imports}
{_NET}
import mxnet as mx
other = mx.gluon.nn.Dense(3, in_units=4)
other.initialize()
inputs = [mx.nd.random.normal(shape=(1, 4)) for _ in range(5)]
wanted = [other(x).asnumpy() for x in inputs]
gluonjit.hybridize(other, dynamic_batch=True, granularity="batched")
waiting = net(given[0])
results = [other(x) for x in inputs]
with gluonjit.batching() as batch:
    first = [net(x) for x in given]
    second = [other(x) for x in inputs]
for result, want in zip([*results, *second], [*wanted, *wanted]):
    assert abs(result.asnumpy() - want).max() < 1e-6
assert torch.allclose(torch.stack(first).detach(), expected, atol=1e-6)
assert torch.allclose(waiting.detach(), expected[0], atol=1e-6)
assert batch.report.launches == 2, batch.report
"""
    )


def test_importing_gluonjit_imports_no_framework() -> None:
    run("import gluonjit, sys; assert not {'torch', 'mxnet'} & set(sys.modules)")
