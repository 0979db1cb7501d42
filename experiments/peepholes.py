"""Measures the gain of each peephole: one batched launch of a cell with and without it, forward and with backward.

The cells are minimal for each, and two are Gluon's LSTMCell: its first call, with a state of zeros, and a later one
with all peepholes. Times come from the report of a profiled flush, without capture, analysis and gathers; with and
without take turns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from experiments.bench.arguments import count
from experiments.bench.environment import limit_threads

SIZES = (16, 64, 256)
ZEROS = "zeros"
ALL = "all"


class Line(NamedTuple):
    """Microseconds of one launch: forward in inference, forward and backward in training."""

    peephole: str
    rows: int
    forward: float
    forward_without: float
    training: float
    training_without: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 is success, 2 bad arguments, 130 an interruption."""
    options = _parser().parse_args(arguments)
    limit_threads()
    try:
        lines = [
            measured(name, rows, options.width, options.rounds)
            for name in (*functions(), ZEROS, ALL)
            for rows in options.rows
        ]
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was written", file=sys.stderr)
        return 130
    print(f"width {options.width}; microseconds per launch, median of {options.rounds}")
    print(f"{'peephole':<12}{'rows':>6}{'forward':>10}{'without':>10}{'training':>10}{'without':>10}")
    for line in lines:
        print(f"{line.peephole:<12}{line.rows:>6}" + "".join(f"{time:>10.0f}" for time in line[2:]))
    if options.json:
        from experiments.bench.environment import environment
        from experiments.bench.files import write_json

        rows = [line._asdict() for line in lines]
        write_json(options.json, {"width": options.width, "rows": rows, "environment": environment()})
    return 0


Function = Callable[[Any, Any, Any], Any]


def functions() -> dict[str, Function]:
    """Return a cell for each peephole to rewrite, of F and two arrays, the second 4 times as wide."""

    def activations(F: Any, x: Any, gates: Any) -> Any:
        return F.tanh(gates) * F.sigmoid(gates)

    def splits(F: Any, x: Any, gates: Any) -> Any:
        a, b, c, d = F.split(gates, num_outputs=4, axis=1)
        return a * b + c * d

    return {function.__name__: function for function in (activations, splits)}


def measured(name: str, rows: int, width: int, rounds: int) -> Line:
    """Time one peephole's cell at one number of rows."""
    import mxnet as mx
    from mxnet import gluon

    import gluonjit  # noqa: F401  before `hybridize`, which else takes its option for one of MXNet's

    class Made(gluon.HybridBlock):
        """A cell of one function."""

        def hybrid_forward(self, F: Any, x: Any, gates: Any) -> Any:
            """Return what the function makes of the rows."""
            return functions()[name](F, x, gates)

    class Net(gluon.Block):
        """One call of the cell."""

        def __init__(self) -> None:
            super().__init__()
            self.cell = gluon.rnn.LSTMCell(width, input_size=width) if name in (ZEROS, ALL) else Made()

        def forward(self, x: Any, gates: Any) -> Any:
            """Return its first result."""
            if name in (ZEROS, ALL):
                return self.cell(x, self.cell.begin_state(batch_size=1) if name == ZEROS else [x, x])[0]
            result = self.cell(x, gates)
            return result[0] if isinstance(result, tuple) else result

    net = Net()
    net.initialize()
    x, wide = (mx.nd.random.uniform(-1, 1, (rows, size)) for size in (width, 4 * width))
    for array in (x, wide):
        array.attach_grad()

    def calls() -> list[Any]:
        """Call the cell on each row; begun under recording, so that the rows are learned."""
        return [net(x[k : k + 1], wide[k : k + 1]) for k in range(rows)]

    every = (*functions(),)
    found: dict[tuple[bool, bool], list[float]] = {}
    for _ in range(rounds + 2):
        for left_out in (False, True):
            always = ("hoisting", "fused")  # what runs in C has no use for them, but for zeros
            without = (*always, *(every if name == ALL else (name,))) if left_out else always
            net.hybridize(dynamic_batch=True, without=without, granularity="cell", sharing=False, profile=True)
            for training in (False, True):
                found.setdefault((training, left_out), []).append(launched(net.cell.name, calls, training))
    times = [median(found[training, left_out][2:]) for training in (False, True) for left_out in (False, True)]
    return Line(name, rows, *times)


def launched(name: str, calls: Callable[[], list[Any]], training: bool) -> float:
    """Run all calls as one launch and return its microseconds, backward included if `training`."""
    from mxnet import autograd

    import gluonjit

    with autograd.record() if training else autograd.pause():
        results = calls()
        total = gluonjit.add_n(results)
    total.wait_to_read()
    if training:
        total.backward()
    report = gluonjit.explain()
    if [step.nodes for step in report.steps if step.name == name] != [len(results)]:
        raise RuntimeError(f"the calls of {name} did not run as one launch: {report}")
    events = [event for event in report.timeline if event.name == name and event.part in ("compute", "backward")]
    return 1e6 * sum(event.end - event.begin for event in events)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.peepholes", description=__doc__)
    parser.add_argument("--rows", type=count, nargs="+", default=list(SIZES), help="rows per launch")
    parser.add_argument("--width", type=count, default=150, help="columns per gate")
    parser.add_argument("--rounds", type=count, default=21)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the times to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
