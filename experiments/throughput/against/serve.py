"""The process of one checkout: it loads a workload once, and then obeys commands, one line of JSON at a time.

It runs as a file, and serves the code of another folder, which may be older than this file: `Server` and `main` contain
everything that it needs of that code. `python serve.py CHECKOUT --engine torch --workload NAME --system NAME ...`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

ZOO = "zoo/"
"""What the names of workloads that are models of the zoo begin with."""
FIXED = {"granularity": "cell", "scheduler": "depth"}
FEW = 64  # samples of a model of the zoo


class Server:
    """One system of a workload, and its samples, which are named by their places."""

    def __init__(self, system: Any, samples: Sequence[Any]) -> None:
        self._system = system
        self._samples = samples
        self.commands = {"differentiate": self._differentiate, "time": self._time, "meet": self._meet}
        # Samples and nets stay: Python's collector need not go through them ever again.
        gc.collect()
        gc.freeze()

    def _differentiate(self, order: dict[str, Any]) -> dict[str, Any]:
        """Write losses and gradients to a file."""
        import numpy as np

        np.savez(order["path"], **self._system.results(self._of(order["samples"])))
        return {}

    def _time(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one minibatch, on request after a collection, and return its seconds of processor time."""
        if order["collect"]:
            gc.collect()
        samples = self._of(order["samples"])
        began = process_time()
        self._system.timed(order["phase"], samples)
        return {"seconds": process_time() - began}

    def _meet(self, order: dict[str, Any]) -> dict[str, Any]:
        """See all samples, where captures are reused."""
        if hasattr(self._system, "meet"):
            self._system.meet(self._samples, order["size"])
        return {}

    def _of(self, places: Sequence[int]) -> list[Any]:
        return [self._samples[place] for place in places]


class Model:
    """A model of the zoo, each call of a cell one node, by depth."""

    def __init__(self, engine: str, name: str, seed: int) -> None:
        self._engine = import_module(f"experiments.zoo.{engine}.engine")
        self._row = self._engine.ROWS[name]
        self.samples = self._engine.samples(self._row, FEW, seed)
        self._net = self._engine.make_net(self._row, seed)
        for sample in self.samples:  # a layer of MXNet has no weights before one reaches it
            self._row.loss(self._net, sample)
        self._engine.batch(self._net, **FIXED)
        self._runs = {
            phase: self._engine.runner(self._net, self._row, phase == "train") for phase in ("train", "infer")
        }

    def results(self, samples: Sequence[Any]) -> Any:
        """Return losses, and gradients by name."""
        return self._engine.run(self._net, samples, self._row, True)

    def timed(self, phase: str, samples: Sequence[Any]) -> None:
        """Run one minibatch up to updated weights, or to losses on the host."""
        self._runs["train" if phase == "train" else "infer"](samples)


def main() -> None:
    """Load, say what was loaded, and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    for name in ("engine", "workload", "system"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--data-dir")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    sys.path[0] = str(options.checkout)  # in place of this file's folder
    # What a library prints must not come between replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    import gluonjit
    from experiments.throughput.peers.serve import serve

    if Path(gluonjit.__file__).resolve().parent.parent != options.checkout.resolve():
        raise SystemExit(f"gluonjit was imported from {gluonjit.__file__}")
    system, samples, note = _loaded(options)
    server = Server(system, samples)
    ready = {"version": gluonjit.__version__, "note": note, "samples": len(samples)}
    print(json.dumps(ready), file=replies, flush=True)
    serve(server, sys.stdin, replies)  # type: ignore[arg-type]  # all it takes of a server is `commands`


def _loaded(options: argparse.Namespace) -> tuple[Any, Sequence[Any], str]:
    """Return the system, its samples, and a note of them."""
    if options.workload.startswith(ZOO):
        model = Model(options.engine, options.workload[len(ZOO) :], options.seed)
        return model, model.samples, "drawn by the model"
    engine = import_module(f"experiments.throughput.on_{options.engine}")
    task = engine.load(options.workload, options.data_dir, options.seed, options.limit)
    systems, missing = engine.make_systems(task, [options.system], [], [])
    if not systems:
        raise SystemExit("; ".join(missing.values()))
    return systems[0], task.samples, task.note


if __name__ == "__main__":
    main()
