"""Checks an installed package: every compiled part is there and, where PyTorch is, a batched step equals an eager one.

A script, which imports nothing of the tests: wheels are tested with it in an empty environment.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

COMPILED = ("_fast", "_rows", "_ordering", "_paths", "_placing", "_searching", "_tables", "_blocks")


def main() -> None:
    """Check, and print what there is. Raises ImportError for a part that was not built."""
    import gluonjit

    for name in COMPILED:
        import_module(f"gluonjit.{name}")
    print(f"gluonjit {gluonjit.__version__} in {gluonjit.__path__[0]}, Python {sys.version.split()[0]}")
    if find_spec("torch") is not None:
        print(f"PyTorch: {_step()} launches of a step")


def _step() -> int:
    """Train one step of a model of sequences, eagerly and batched. Raises ValueError where their gradients differ."""
    import torch

    import gluonjit

    class Chain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, xs: torch.Tensor) -> torch.Tensor:
            h = torch.zeros(8)
            for x in xs:
                h = torch.tanh(self.inner(h) + x)
            return h.sum()

    torch.manual_seed(0)
    net = Chain()
    samples = [torch.randn(n, 8) for n in (3, 5, 2)]
    found = []
    for batched in (False, True):
        gluonjit.hybridize(net, dynamic_batch=batched)
        net.zero_grad()
        with gluonjit.batching() as batch:
            sum(net(xs) for xs in samples).backward()
        found.append(net.inner.weight.grad.clone())
    if not torch.allclose(*found, rtol=0, atol=1e-5 * float(found[0].abs().max())):
        raise ValueError(f"a batched step has other gradients: {found[1]}, not {found[0]}")
    return batch.report.launches


if __name__ == "__main__":
    main()
