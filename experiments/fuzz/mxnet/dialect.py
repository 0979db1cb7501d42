"""MXNet's spelling, and the instructions that its programs have in addition to those of every framework."""

from __future__ import annotations

import numpy as np
from mxnet import nd

from experiments.fuzz.mxnet.lines import AXES, CONTROL, ELEMENTWISE, LAYERS, SHAPING
from experiments.fuzz.run import Run, fits
from experiments.fuzz.vocabulary import COMMON, Dialect, Spelling, Table

SPELLING = Spelling(
    prefix="nd.",
    names={
        **{"axis": "axis", "keepdims": "keepdims", "to": "astype", "copy": "copy", "item": "asscalar"},
        **{"expand_dims": "expand_dims", "flatten": "nd.Flatten", "permute": "nd.transpose", "amax": "nd.max"},
        **{"amin": "nd.min", "multiply": "nd.elemwise_mul", "hypot": "nd.broadcast_hypot"},
    },
    dtype='"{}"',
    cat="nd.concat({parts}, dim={axis})",
    stack="nd.stack({parts}, axis={axis})",
    methods=frozenset(dir(nd.NDArray)),
    data=".data()",
    paused="with autograd.pause():",
    copied=" * 0.9",
    vectors=False,
    halves=True,
)

DIALECT = Dialect(SPELLING, ELEMENTWISE, SHAPING, AXES, LAYERS, CONTROL)
TABLE = Table(COMMON)


@TABLE.op
def call_pairs(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.rows(a)
    return run.say("call_pairs", a, b, c, x=x, y=run.like(x, b), z=run.like(x, c), scale=[0.5, 1.0][b % 2])


@TABLE.op
def rows_by_number(run: Run, a: int, b: int, c: int) -> str | None:
    """Rows picked by numbers that are known, some of them twice, and rows put by such, none of them twice."""
    x = run.pick(a)
    n, rest = x.shape[0], x.size // x.shape[0]
    numbers = [(b + k * c) % n for k in range(1 + c % 3)]
    return run.say(
        "rows_by_number",
        *(a, b, c),
        x=x,
        y=run.like(x, c),
        t=run.tokens,
        n=n,
        numbers=numbers,
        numbered=f"nd.array({numbers}, dtype='{'int32' if b % 2 else 'float32'}')",
        columns=[(b + k) % x.shape[1] for k in range(len(numbers))] if x.ndim == 2 else [],
        places=np.random.RandomState(b).permutation(n + c % 3)[:n].tolist(),
        inside=np.random.RandomState(a).permutation(n)[: 1 + c % n].tolist(),
        many=fits(run.tokens.size * rest),
        room=fits(len(numbers) * rest),
    )


@TABLE.op
def sequence(run: Run, a: int, b: int, c: int) -> str | None:
    """Operators on sequences of known length; the first axis is time."""
    x = run.pick(a, lambda x: x.ndim == 3 and x.dtype == "float32")
    if x is None:
        return None
    return run.say("sequence", a, b, c, x=x, length=[(b + k) % x.shape[0] + 1 for k in range(x.shape[1])])
