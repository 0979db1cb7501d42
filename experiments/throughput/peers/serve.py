"""The process of a peer: it loads samples and weights once, and then obeys commands, one line of JSON at a time.

It runs in the peer's environment, which has neither MXNet nor gluonjit: `python -m ...serve --peer NAME ...`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TextIO

import numpy as np

from experiments.throughput.peers import with_torch
from experiments.throughput.peers.samples import load

HERE = "experiments.throughput.peers"


class Model(Protocol):
    """The parts of a workload that each peer has."""

    def differentiate(self, samples: Sequence[Any]) -> dict[str, np.ndarray]:
        """Return `losses` of the samples and the gradient of their sum for each weight."""

    def step(self, samples: Sequence[Any]) -> None:
        """Learn from one minibatch."""

    def infer(self, samples: Sequence[Any]) -> np.ndarray:
        """Return the outputs on the host."""


def _dynet(family: str, threads: int) -> Any:
    """Import the model of a family, DyNet's own batching switched on."""
    import dynet_config

    dynet_config.set(autobatch=1, mem=1024, random_seed=1)
    modules = {"pairs": "Relatedness", "phrases": "Sentiment", "tagged": "Tagger"}
    return getattr(import_module(f"{HERE}.with_dynet.{family}"), modules[family])


def _torch(family: str, threads: int) -> Any:
    """Import the model of a family, without autograd."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return with_torch.model(with_torch.OWN_BACKWARD, family)


MODELS: dict[str, Callable[[str, int], Any]] = {"dynet": _dynet, with_torch.OWN_BACKWARD: _torch}


class Server:
    """A model and its samples, which are named by their places."""

    def __init__(self, model: Model, samples: Sequence[Any]) -> None:
        self._model = model
        self._samples = samples
        self.commands = {"differentiate": self._differentiate, "time": self._time}
        # Samples and weights stay: Python's collector need not go through them ever again.
        gc.collect()
        gc.freeze()

    def _differentiate(self, order: dict[str, Any]) -> dict[str, Any]:
        """Write losses and gradients to a file."""
        np.savez(order["path"], **self._model.differentiate(self._of(order["samples"])))
        return {}

    def _time(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run minibatches, and return the seconds of each."""
        run = {"train": self._model.step, "inference": self._model.infer}[order["phase"]]
        seconds = []
        for places in order["minibatches"]:
            samples = self._of(places)
            began = perf_counter()
            run(samples)
            seconds.append(perf_counter() - began)
        return {"seconds": seconds}

    def _of(self, places: Sequence[int]) -> list[Any]:
        return [self._samples[place] for place in places]


def serve(server: Server, orders: TextIO, replies: TextIO) -> None:
    """Answer each line with one line, until the input ends."""
    for line in orders:
        order = json.loads(line)
        try:
            reply = server.commands[order["do"]](order)
        except Exception as error:  # what failed is the answer, and the traceback goes to the log
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)


def main() -> None:
    """Load, say so, and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=MODELS, required=True)
    parser.add_argument("--family", required=True)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    # What a library prints must not come between replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    model = MODELS[options.peer](options.family, options.threads)
    samples, weights = load(options.path, options.family)
    server = Server(model(weights, options.rate), samples)
    print(json.dumps({"ready": options.peer}), file=replies, flush=True)
    serve(server, sys.stdin, replies)


if __name__ == "__main__":
    main()
