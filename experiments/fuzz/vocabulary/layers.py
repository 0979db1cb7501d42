"""Instructions that call layers, cells and losses, and structures of such calls."""

from __future__ import annotations

import numpy as np

from experiments.fuzz.run import WIDTH, Run, fits
from experiments.fuzz.vocabulary.table import COMMON, LINES

op = COMMON.op

LINES["call_squash"] = "net.squash({x})"
LINES["call_dense"] = "net.dense({x})"
LINES["call_memory"] = """
net.memory({x}, None, {scale})
net.memory({x}, [{y}, {y}], {scale})
net.memory({x}, ({x}, {x}), {scale})
net.memory({x}, [{x}, {y}], {scale})
"""
LINES["call_nested"] = """
net.nested({x})
net.nested({x}, {x})
net.nested({x}, {x}, {x})
"""
LINES["call_reader"] = "net.reader({x})"
LINES["call_blend"] = """
blend({x}, {y})
blend({x}, {y}, 0.25)
blend({x}, share=0.75, y={y})
"""
LINES["call_fold"] = """
fold([{rows}])
fold(({rows},), scale=0.3)
fold([{rows}], start={x}, scale=0.7)
"""
LINES["call_loss"] = """
net.huber({x}, {y} * 0.3)
net.entropy({x}, @array({classes}))
net.logistic({x}, @sigmoid({y}))
"""

# Steps of recurrent programs, of a word x and a state h; how two nodes of a tree become one; a look-up's place k.
LINES["step_of_chain"] = """
net.nested({x}, {h})[0]
net.memory({x}, [{h}, {h}], 1.0)[0]
"""
LINES["node_of_tree"] = """
net.nested({left}, {right})[0]
net.squash({left} + {right})
"""


@op
def call_squash(run: Run, a: int, b: int, c: int) -> str | None:
    return run.say("call_squash", a, b, c, x=run.states(a))


@op
def call_dense(run: Run, a: int, b: int, c: int) -> str | None:
    least = 1 if run.spelling.vectors else 2
    x = run.pick(a, lambda x: x.ndim >= least and x.shape[-1] == WIDTH and x.dtype == run.dtype)
    return None if x is None else run.say("call_dense", a, b, c, x=x)


@op
def call_memory(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.states(a)
    return run.say("call_memory", a, b, c, x=x, y=run.like(x, b), scale=[0.5, 1.0, 1][b % 3])


@op
def call_nested(run: Run, a: int, b: int, c: int) -> str | None:
    return run.say("call_nested", a, b, c, x=run.states(a))


@op
def call_reader(run: Run, a: int, b: int, c: int) -> str | None:
    return run.say("call_reader", a, b, c, x=run.states(a))


@op
def call_blend(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    return run.say("call_blend", a, b, c, x=x, y=run.like(x, b))


@op
def call_fold(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    return run.say("call_fold", a, b, c, x=x, rows=", ".join(str(run.like(x, b + k)) for k in range(c % 3 + 1)))


@op
def call_project(run: Run, a: int, b: int, c: int) -> str | None:
    axes = (1, 2) if run.spelling.vectors else (2,)
    x = run.pick(a, lambda x: x.ndim in axes and x.shape[-1] <= 4 and x.dtype == run.dtype)
    return None if x is None or not fits(*x.shape[:-1], 4) else f"net.projector.project({x}, {x.shape[-1]})"


@op
def call_recurrent(run: Run, a: int, b: int, c: int) -> str | None:
    """A step of recurrent cells, or a few."""
    x = run.states(a)
    return run.say("call_recurrent", a, b, c, x=x, y=run.like(x, b))


@op
def call_layer(run: Run, a: int, b: int, c: int) -> str | None:
    """The framework's layers."""
    x = run.rows(a)
    return run.say("call_layer", a, b, c, x=x, y=run.like(x, b), n=x.shape[0])


@op
def call_loss(run: Run, a: int, b: int, c: int) -> str | None:
    """Losses inside the sample."""
    x = run.rows(a)
    classes = [(b + k) % WIDTH for k in range(x.shape[0])]
    return run.say("call_loss", a, b, c, x=x, y=run.like(x, b), classes=classes, given=run.exact(a))


def words_of(run: Run) -> str:
    """Look the sample's words up."""
    return run.do(f"net.embed({run.tokens})")[0].name


def rows_of(run: Run, vectors: bool) -> list[str]:
    """Look the words up; each of them as a vector, where cells take it, or as a matrix of one row."""
    words, vectors = words_of(run), vectors and run.spelling.vectors
    return [f"{words}[{k}]" if vectors else f"{words}[{k}:{k + 1}]" for k in range(run.tokens.shape[0])]


@op
def chain(run: Run, a: int, b: int, c: int) -> str | None:
    """A recurrent program over the words."""
    first, *rows = rows_of(run, bool(b % 2))
    lines = [f"h = net.squash({first})"]
    lines += [f"h = {run.say('step_of_chain', 0, 0, c, x=row, h='h')}" for row in rows]
    return "\n".join([*lines, "h * 1.0"])


@op
def tree(run: Run, a: int, b: int, c: int) -> str | None:
    """A random binary tree over the words, as one expression."""
    random = np.random.RandomState(1000 * a + 10 * b + c)
    loose = [f"net.squash({row})" for row in rows_of(run, bool(c % 2))]
    while len(loose) > 1:
        at = random.randint(len(loose) - 1)
        left, right = loose[at : at + 2]
        loose[at : at + 2] = [str(run.say("node_of_tree", random.randint(24), 0, 0, left=left, right=right))]
    return loose[0]


@op
def graph(run: Run, a: int, b: int, c: int) -> str | None:
    """Nodes that have several parents."""
    words = words_of(run)
    random = np.random.RandomState(1000 * a + 10 * b + c)
    names, lines = [f"{words}[0:1]"], []
    for k in range(3 + a % 3):
        below = [names[random.randint(len(names))] for _ in range(random.randint(1, 3))]
        lines.append(f"g{k} = net.nested({words}[{k % run.tokens.shape[0]}:][:1], {', '.join(below)})[0]")
        names.append(f"g{k}")
    return "\n".join([*lines, run.spelling.joined(names[1:], 0)])
