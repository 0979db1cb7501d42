"""PyTorch's spelling, and the instructions that its programs have in addition to those of every framework."""

from __future__ import annotations

import numpy as np
import torch

from experiments.fuzz.run import WIDTH, Run, Var
from experiments.fuzz.torch.calls import CONTROL, LAYERS
from experiments.fuzz.torch.elements import ELEMENTWISE
from experiments.fuzz.torch.structure import AXES, SHAPING
from experiments.fuzz.vocabulary import COMMON, Dialect, Spelling, Table
from experiments.fuzz.vocabulary.layers import rows_of, words_of

SPELLING = Spelling(
    prefix="torch.",
    names={
        **{"axis": "dim", "keepdims": "keepdim", "to": "to", "copy": "clone", "item": "item", "array": "torch.tensor"},
        **{"expand_dims": "unsqueeze", "repeat": "torch.repeat_interleave", "clip": "torch.clamp"},
        **{"arctan": "torch.atan", "arcsin": "torch.asin", "arccos": "torch.acos", "radians": "torch.deg2rad"},
        **{"arctanh": "torch.atanh", "arcsinh": "torch.asinh", "arccosh": "torch.acosh", "gammaln": "torch.lgamma"},
        **{"negative": "torch.neg", "multiply": "torch.mul", "modulo": "torch.remainder"},
        **{"softsign": "F.softsign", "softmin": "F.softmin"},
    },
    dtype="torch.{}",
    cat="torch.cat([{parts}], dim={axis})",
    stack="torch.stack([{parts}], dim={axis})",
    methods=frozenset(dir(torch.Tensor)),
    data="",
    paused="",
    copied="",
    vectors=True,
    halves=False,
)


def dense(run: Run, x: Var) -> bool:
    """True if a view can give a tensor any shape."""
    return bool(run.names[x.name].is_contiguous())


DIALECT = Dialect(SPELLING, ELEMENTWISE, SHAPING, AXES, LAYERS, CONTROL, dense=dense)
TABLE = Table(COMMON)
op = TABLE.op


@op
def call_named(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.states(a)
    return run.say("call_named", a, b, c, x=x, y=run.like(x, b))


@op
def call_childsum(run: Run, a: int, b: int, c: int) -> str | None:
    """A node with up to four children, whose states are of two kinds."""
    x = run.states(a)
    children = ", ".join(f"({run.like(x, b + k)}, {run.like(x, c + k)})" for k in range((b + c) % 5))
    return f"net.childsum({x}, [{children}])"


@op
def call_gather(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.shape == (WIDTH,) and x.dtype == run.dtype)
    if x is None:
        x = run.do(f"net.embed({run.tokens})[0]")[0]
    return run.say("call_gather", a, b, c, x=x, children=", ".join(str(run.like(x, b + k)) for k in range(c % 5)))


@op
def call_drawn(run: Run, a: int, b: int, c: int) -> str | None:
    return f"net.drawn({run.rows(a)})"


@op
def call_pieces(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    return None if x is None else f"pieces({x}, {b % x.shape[-1]})"


@op
def cells_without_history(run: Run, a: int, b: int, c: int) -> str | None:
    body = run.say("cell_without_history", a, b, 0, x=run.rows(a), t=run.tokens)
    return f"with torch.no_grad():\n    p = {body}\n{['p', 'p * 0.5', 'net.squash(p)', 'torch.stack([p, p])'][c % 4]}"


@op
def hooks(run: Run, a: int, b: int, c: int) -> str | None:
    """Histories that are looked at or changed."""
    return run.say("hooks", a, b, c, x=run.pick(a))


@op
def loop(run: Run, a: int, b: int, c: int) -> str | None:
    """A recurrent program as a loop, whose states are kept in a list."""
    words = words_of(run)
    parts = zip(("loop_start", "loop_step", "loop_end"), (a, b, c))
    start, step, end = (run.say(part, number, 0, 0, w=words) for part, number in parts)
    return f"h = {start}\nseen = []\nfor word in {words}:\n    h = {step}\n    seen.append(h)\n{end}"


@op
def child_sum_tree(run: Run, a: int, b: int, c: int) -> str | None:
    """A random tree over the words whose nodes have any number of children."""
    rows = rows_of(run, bool(c % 2))
    random = np.random.RandomState(1000 * a + 10 * b + c)
    cell = "gather" if b % 3 == 0 and c % 2 else "childsum"
    lines: list[str] = []
    open_nodes: list[int] = []
    for k, x in enumerate(rows):
        last = k == len(rows) - 1
        taken = 0 if not last and random.uniform() < 0.4 else random.randint(len(open_nodes) + 1)
        children = [open_nodes.pop() for _ in range(len(open_nodes) if last else taken)]
        lines.append(f"t{k} = net.{cell}({x}, [{', '.join(f't{n}' for n in children)}])")
        open_nodes.append(k)
    return "\n".join([*lines, f"t{len(rows) - 1}"])
