"""Two processes that train together: gradients are those of the joint minibatch.

The second one is forked from the first when PyTorch is imported, which takes longer than the training.

Writes what each way of training differs by, and how many flushes and launches it took, to the folder it is given.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_support import TreeModel, gradients, make_trees

import gluonjit
from gluonjit.hybrid.explain.minibatch import MINIBATCH

TREES = make_trees(8)
MINIBATCHES = 3


class Scaled(TreeModel):
    """A model with a buffer, which DistributedDataParallel sends around before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((3,), 1.5))

    def forward(self, tree: Any) -> Any:
        return super().forward(tree) * self.scale


class Unused(TreeModel):
    """A model with a layer that no sample needs."""

    def __init__(self) -> None:
        super().__init__()
        self.never = nn.Linear(2, 2)


class Minibatch(nn.Module):
    """The losses of a minibatch: one call for one backward."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, trees: Any) -> Any:
        return [loss_of(self.net, tree) for tree in trees]


def loss_of(net: Any, tree: Any) -> Any:
    return net(tree).logsumexp(-1)


def together(ddp: Any, trees: Any) -> None:
    (sum(loss_of(ddp, tree) for tree in trees) / len(trees)).backward()


def at_once(ddp: Any, trees: Any) -> None:
    (sum(ddp(trees)) / len(trees)).backward()


def accumulated(ddp: Any, trees: Any) -> None:
    with ddp.no_sync():
        for tree in trees[:-1]:
            (loss_of(ddp, tree) / len(trees)).backward()
    (loss_of(ddp, trees[-1]) / len(trees)).backward()


def hybridized(net: Any) -> Any:
    return gluonjit.hybridize(net, dynamic_batch=True)


Way = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any, Any], None]]
WAYS: dict[str, Way] = {
    "each sample": (TreeModel, lambda net: DistributedDataParallel(hybridized(net)), together),
    "the wrapper hybridized": (TreeModel, lambda net: hybridized(DistributedDataParallel(net)), together),
    "a minibatch": (TreeModel, lambda net: DistributedDataParallel(Minibatch(hybridized(net))), at_once),
    "static": (TreeModel, lambda net: DistributedDataParallel(hybridized(net), static_graph=True), together),
    "views": (TreeModel, lambda net: DistributedDataParallel(hybridized(net), gradient_as_bucket_view=True), together),
    "accumulated": (TreeModel, lambda net: DistributedDataParallel(hybridized(net)), accumulated),
    "unused weights": (
        Unused,
        lambda net: DistributedDataParallel(Minibatch(hybridized(net)), find_unused_parameters=True),
        at_once,
    ),
    "buffers of a minibatch": (Scaled, lambda net: DistributedDataParallel(Minibatch(hybridized(net))), at_once),
    "buffers that stay": (
        Scaled,
        lambda net: DistributedDataParallel(hybridized(net), broadcast_buffers=False),
        together,
    ),
}


def apart(found: dict[str, Any], wanted: dict[str, Any]) -> float:
    """The largest difference, relative to the largest gradient of its weight; 9 where only one has a gradient."""
    worst = 0.0
    for name, expected in wanted.items():
        actual = found[name]
        if expected is None:  # which DistributedDataParallel may leave as zeros
            worst = max(worst, 0.0 if actual is None else float(actual.abs().max()))
        else:
            difference = 9.0 if actual is None else float((actual - expected).abs().max())
            worst = max(worst, difference / max(float(expected.abs().max()), 1e-2))
    return worst


def measure(way: Way, rank: int) -> tuple[float, int, int]:
    make, wrap, backward = way
    torch.manual_seed(0)
    net = make()
    eager = copy.deepcopy(net)
    (sum(loss_of(eager, tree) for tree in TREES) / len(TREES)).backward()
    wanted = gradients(eager)
    ddp = wrap(net)
    worst = 0.0
    for _ in range(MINIBATCHES):
        net.zero_grad()
        backward(ddp, TREES[rank::2])
        worst = max(worst, apart(gradients(net), wanted))
    report = gluonjit.explain()
    return worst, report.flushes, report.launches


def main(folder: str) -> None:
    """Run both processes. Raises SystemExit where the second one fails."""

    child = os.fork()
    train(folder, 0 if child else 1)
    if child and os.waitpid(child, 0)[1]:
        raise SystemExit("the second process failed")


def train(folder: str, rank: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    found: dict[str, Any] = {name: measure(way, rank) for name, way in WAYS.items()}
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    # The report of the last flush keeps its net, and a wrapper that lives longer than the processes' group may keep
    # gloo's threads until the interpreter ends.
    gluonjit.clear_caches()
    MINIBATCH.pieces = []
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
