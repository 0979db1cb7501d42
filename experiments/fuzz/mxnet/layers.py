"""Instructions that call layers, cells and losses, and structures of such calls."""

from __future__ import annotations

import numpy as np

from experiments.fuzz.mxnet.table import op
from experiments.fuzz.run import WIDTH, Run, fits


@op
def call_squash(run: Run, a: int, b: int, c: int) -> str | None:
    return f"net.squash({run.rows(a)})"


@op
def call_dense(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.shape[-1] == WIDTH and x.ndim > 1 and x.dtype == run.dtype)
    return None if x is None else f"net.dense({x})"


@op
def call_memory(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.rows(a)
    y = run.like(x, b) if run.env else x
    states = ["None", f"[{y}, {y}]", f"({x}, {x})", f"[{x}, {y}]"][c % 4]
    return f"net.memory({x}, {states}, {[0.5, 1.0, 1][b % 3]})"


@op
def call_nested(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.rows(a)
    return f"net.nested({', '.join([str(x)] * (b % 3 + 1))})"


@op
def call_pairs(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.rows(a)
    y, z = run.like(x, b), run.like(x, c)
    pairs = [f"[({x}, [{y}])]", f"[({x}, [{y}, {z}]), ({z}, ({y},))]", f"([{x}, ({x},)], [{y}, [{z}, {x}]])"][c % 3]
    return f"net.pairs({pairs}, {[0.5, 1.0][b % 2]})"


@op
def call_reader(run: Run, a: int, b: int, c: int) -> str | None:
    return f"net.reader({run.rows(a)})"


@op
def call_blend(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    y = run.like(x, b)
    return [f"blend({x}, {y})", f"blend({x}, {y}, 0.25)", f"blend({x}, share=0.75, y={y})"][c % 3]


@op
def call_fold(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    rows = ", ".join(str(run.like(x, b + k)) for k in range(c % 3 + 1))
    return [f"fold([{rows}])", f"fold(({rows},), scale=0.3)", f"fold([{rows}], start={x}, scale=0.7)"][b % 3]


@op
def call_project(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim == 2 and x.shape[1] <= 4 and x.dtype == run.dtype)
    return None if x is None or not fits(x.shape[0], 4) else f"net.projector.project({x}, {x.shape[1]})"


@op
def call_recurrent(run: Run, a: int, b: int, c: int) -> str | None:
    """A step of Gluon's recurrent cells, or a few."""
    x = run.rows(a)
    y = run.like(x, b)
    cell = ["lstm", "gru", "rnn"][c % 3]
    states = f"[{y}, {y}]" if cell == "lstm" else f"[{y}]"
    if b % 4 == 3:
        return f"net.{cell}.unroll(2, [{x}, {y}], begin_state={states}, layout='NTC')"
    return f"net.{cell}({x}, {states})"


@op
def call_layer(run: Run, a: int, b: int, c: int) -> str | None:
    """Layers of Gluon's."""
    x = run.rows(a)
    image = f"{x}.reshape((-1, {WIDTH}, 1))"
    return [
        f"net.convolution({image})",
        f"net.prelu({x})",
        f"net.swish({x})",
        f"net.keep({x})",
        f"with autograd.predict_mode():\n    p = net.drop({x})\np * 0.9",
        f"net.statistics({x}) * 0.5",
        f"net.layer({x}.expand_dims(1))" if run.dtype == "float32" else None,
        f"nd.concat(net.squash({x}), net.dense({x}), dim=1)" if fits(x.shape[0], 5) else None,
    ][c % 8]


@op
def call_loss(run: Run, a: int, b: int, c: int) -> str | None:
    """Losses inside the sample."""
    x = run.rows(a)
    y = run.like(x, b)
    classes = [(b + k) % WIDTH for k in range(x.shape[0])]
    return [
        f"net.l2({x}, {y} * 0.5)",
        f"net.l1({x}, {y} * 0.5 + 0.0321)",
        f"net.huber({x}, {y} * 0.3)",
        f"net.entropy({x}, nd.array({classes}))",
        f"net.logistic({x}, nd.sigmoid({y}))",
        f"net.kl({x}, nd.softmax({y}))",
        f"nd.softmax_cross_entropy({x}, nd.array({classes})) * 0.2" if run.dtype == "float32" else None,
    ][c % 7]


def _words(run: Run) -> str:
    """The name of a look-up of the sample's words."""
    return run.do(f"net.embed({run.tokens})")[0].name


@op
def chain(run: Run, a: int, b: int, c: int) -> str | None:
    """A recurrent program over the words."""
    words = _words(run)
    count = run.tokens.shape[0]
    cell = ["net.nested({x}, {h})[0]", "net.memory({x}, [{h}, {h}], 1.0)[0]", "net.gru({x}, [{h}])[0]"][c % 3]
    lines = [f"h = net.squash({words}[0:1])"]
    lines += [f"h = {cell.format(x=f'{words}[{k}:{k + 1}]', h='h')}" for k in range(1, count)]
    return "\n".join([*lines, "h * 1.0"])


@op
def tree(run: Run, a: int, b: int, c: int) -> str | None:
    """A random tree over the words, as one expression."""
    words = _words(run)
    random = np.random.RandomState(1000 * a + 10 * b + c)
    loose = [f"net.squash({words}[{k}:{k + 1}])" for k in range(run.tokens.shape[0])]
    while len(loose) > 1:
        at = random.randint(len(loose) - 1)
        left, right = loose[at : at + 2]
        joined = [f"net.nested({left}, {right})[0]", f"net.squash({left} + {right})"][random.randint(2)]
        loose[at : at + 2] = [joined]
    return loose[0]


@op
def graph(run: Run, a: int, b: int, c: int) -> str | None:
    """Nodes that have several parents."""
    words = _words(run)
    random = np.random.RandomState(1000 * a + 10 * b + c)
    names, lines = [f"{words}[0:1]"], []
    for k in range(3 + a % 3):
        below = [names[random.randint(len(names))] for _ in range(random.randint(1, 3))]
        lines.append(f"g{k} = net.nested({words}[{k % run.tokens.shape[0]}:][:1], {', '.join(below)})[0]")
        names.append(f"g{k}")
    return "\n".join([*lines, f"nd.concat({', '.join(names[1:])}, dim=0)"])
