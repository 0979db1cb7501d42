"""Instructions that look at values, leave the recording, throw results away, or raise."""

from __future__ import annotations

from experiments.fuzz.mxnet.table import error, op
from experiments.fuzz.run import Run


@op
def unread(run: Run, a: int, b: int, c: int) -> str | None:
    """Results that nobody looks at."""
    x = run.pick(a)
    return f"nd.sin({x} * 1.7) + nd.cos({x})\nnet.squash({run.rows(b)})[0:1] * 3\n"


@op
def without_history(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    result = f"p * {x}" if c % 2 else "p * 1.0"
    return f"with autograd.pause(train_mode={bool(b % 2)}):\n    p = nd.sin({x}) + 0.5\n{result}"


@op
def read(run: Run, a: int, b: int, c: int) -> str | None:
    """A value that is needed in the middle."""
    x = run.pick(a)
    if b % 3 == 0:
        return f"{x}.asnumpy()\n"
    test = [f"{x}.mean().asscalar() > 0.0123", f"bool({x}.sum() < 0.0321)"][b % 2]
    return f"with autograd.pause():\n    chosen = {test}\n{x} * 0.5 if chosen else nd.sin({x})"


@op
def copies(run: Run, a: int, b: int, c: int) -> str | None:
    """An array of the program's own that is written to."""
    x = run.pick(a)
    return [
        f"with autograd.pause():\n    p = {x}.copy()\n    p[:] = p * 0.5\n{x} + p",
        f"with autograd.pause():\n    p = nd.zeros({x.shape}, dtype='{x.dtype}')\n    p[0:1] = {x}[0:1]\n{x} * p",
        f"with autograd.pause():\n    p = nd.sin({x})\n    p += {x}\n{x} - p * 0.25",
    ][c % 3]


@error
def fail(run: Run, a: int, b: int, c: int) -> str | None:
    """The user's own exception."""
    return f"raise {['ValueError', 'KeyError', 'ZeroDivisionError'][a % 3]}('in the middle of a sample')\n"


@error
def misuse(run: Run, a: int, b: int, c: int) -> str | None:
    """Something that MXNet refuses."""
    x = run.pick(a)
    return [
        f"{x} + nd.ones((9, 8, 7))",
        f"nd.dot({x}, nd.ones((11, 2)))",
        f"nd.concat({x}.reshape((1, -1)), nd.ones((3, 2, 2)), dim=1)",
        f"{x}.reshape((1, -1)).slice_axis(axis=5, begin=0, end=1)",
        f"net.squash(nd.ones((1, 5)) + 0 * nd.sum({x}).reshape((1, 1)))",
        f"{x}[77]",
    ][b % 6]
