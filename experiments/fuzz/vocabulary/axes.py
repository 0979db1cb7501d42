"""Instructions along axes and products: reductions, softmax, sorting, matrices."""

from __future__ import annotations

from typing import Any

from experiments.fuzz.run import WIDTH, Run, fits
from experiments.fuzz.vocabulary.table import COMMON, LINES

op = COMMON.op

LINES["reduce"] = """
@sum({x}, @axis={axes}, @keepdims={keep}) * 0.5
@mean({x}, @axis={axes}, @keepdims={keep})
{x}.mean()
{x}.sum(@axis={axes}) * 0.5
@amax({x}, @axis={axes}, @keepdims={keep})
@amin({x}, @axis={axes}, @keepdims={keep})
@sqrt(@sum({x} * {x}, @axis={axes}, @keepdims={keep}) + 0.2)
@prod(@tanh({x}) + 0.2, @axis={axis}, @keepdims={keep})
@nansum({x}, @axis={axes}, @keepdims={keep}) * 0.5
@norm({x} + 3, @axis={axes}, @keepdims={keep}) * 0.2
"""

LINES["softmax"] = """
@softmax({x}, @axis={axis})
@softmin({x}, @axis={axis})
0.2 * @log_softmax({x}, @axis={axis})
"""

LINES["order"] = """
@argmax({x}.detach(), @axis={axis}) * 0.1
@argmin({x}.detach(), @axis={axis}) * 0.1
@argsort({x}.detach(), @axis={axis}) * 0.1
@cumsum({x}, @axis={axis}) * 0.3
"""

LINES["norms"] = "net.norm({x})"


@op
def reduce(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    if x is None:
        return None
    axis = b % x.ndim
    axes: Any = [axis, -1, (0,), tuple(range(x.ndim))[axis:]][c % 4]
    return run.say("reduce", a, b, c, x=x, axis=axis, axes=axes, keep=bool(b % 2))


@op
def softmax(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    return None if x is None else run.say("softmax", a, b, c, x=x, axis=b % x.ndim - (x.ndim if c % 2 else 0))


@op
def order(run: Run, a: int, b: int, c: int) -> str | None:
    """Sorting and places of extremes, on arrays that were given."""
    x = run.exact(a)
    return run.say("order", a, b, c, x=x, axis=b % x.ndim) if x.dtype != "float16" and x.ndim else None


@op
def weights(run: Run, a: int, b: int, c: int) -> str | None:
    """A parameter in an operator outside any cell."""
    x = run.pick(a, lambda x: x.ndim > 0 and x.shape[-1] == WIDTH and x.dtype == run.dtype)
    return run.say("weights", a, b, c, x=run.rows(a) if x is None else x)


@op
def linear(run: Run, a: int, b: int, c: int) -> str | None:
    """Products with a parameter."""
    x = run.pick(a, lambda x: x.ndim > 0 and x.shape[-1] <= 4 and x.dtype == run.dtype)
    if x is None or not fits(*x.shape[:-1], 4):
        return None
    return run.say("linear", a, b, c, x=x, w=f"net.w{x.shape[-1]}{run.spelling.data}")


@op
def own_product(run: Run, a: int, b: int, c: int) -> str | None:
    """Products of a sample's own matrices, of which the second may be `turned`."""
    x = run.pick(a, lambda x: x.ndim == 2 and x.dtype != "float16" and fits(x.shape[0], x.shape[0]))
    if x is None:
        return None
    turned = c % 2 == 1
    y = run.pick(b, lambda y: y.ndim == 2 and y.dtype == x.dtype and y.shape[c % 2] == x.shape[1])
    if y is None:
        y, turned = x, True
    if not fits(x.shape[0], y.shape[0 if turned else 1]):
        return None
    return run.say("own_product", a, b, c, x=x, y=y, turned=turned, rows=x.shape[0])


@op
def attend(run: Run, a: int, b: int, c: int) -> str | None:
    """softmax(x yT) y."""
    x, y = run.rows(a), run.rows(b)
    return run.say("attend", a, b, c, x=x, y=y) if fits(x.shape[0], y.shape[0]) else None


@op
def batch_product(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim == 3 and x.dtype != "float16" and fits(x.shape[0], x.shape[1], x.shape[1]))
    return None if x is None else run.say("batch_product", a, b, c, x=x, y=run.like(x, b))


@op
def norms(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.exact(a)
    return run.say("norms", a, b, c, x=x) if x.ndim and x.shape[-1] == WIDTH and x.dtype == run.dtype else None
