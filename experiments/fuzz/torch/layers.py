"""Instructions that call layers, cells and losses, and structures of such calls."""

from __future__ import annotations

import numpy as np

from experiments.fuzz.run import WIDTH, Run, Var, fits
from experiments.fuzz.torch.table import op


def states(run: Run, k: int) -> Var:
    """A vector or a matrix that cells take."""
    found: Var | None = run.pick(
        k, lambda x: x.ndim in (1, 2) and x.shape[-1] == WIDTH and x.dtype == run.dtype and x.size <= 24
    )
    return run.rows(k) if found is None else found


@op
def call_squash(run: Run, a: int, b: int, c: int) -> str | None:
    return f"net.squash({states(run, a)})"


@op
def call_dense(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim > 0 and x.shape[-1] == WIDTH and x.dtype == run.dtype)
    if x is None:
        return None
    return f"net.{['dense', 'frozen', 'sequence', 'dense'][b % 4]}({x})"


@op
def call_memory(run: Run, a: int, b: int, c: int) -> str | None:
    x = states(run, a)
    y = run.like(x, b)
    given = ["None", f"[{y}, {y}]", f"({x}, {x})", f"[{x}, {y}]"][c % 4]
    return f"net.memory({x}, {given}, {[0.5, 1.0, 1, '0.5'][b % 3]})"


@op
def call_nested(run: Run, a: int, b: int, c: int) -> str | None:
    x = states(run, a)
    return f"net.nested({', '.join([str(x)] * (b % 3 + 1))})"


@op
def call_named(run: Run, a: int, b: int, c: int) -> str | None:
    x = states(run, a)
    y = run.like(x, b)
    call = [f"net.named({{'x': {x}, 'y': {y}}})", f"net.named({{'x': {x}, 'y': {y}}}, scale=0.5)"][c % 2]
    return f"p = {call}\n[p['sum'], p['x']]"


@op
def call_childsum(run: Run, a: int, b: int, c: int) -> str | None:
    """A node with up to four children, whose states are of two kinds."""
    x = states(run, a)
    children = ", ".join(f"({run.like(x, b + k)}, {run.like(x, c + k)})" for k in range((b + c) % 5))
    return f"net.childsum({x}, [{children}])"


@op
def call_gather(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.shape == (WIDTH,) and x.dtype == run.dtype)
    if x is None:
        x = run.do(f"net.embed({run.tokens})[0]")[0]
    children = [run.like(x, b + k) for k in range(c % 5)]
    listed = ", ".join(map(str, children))
    if children and b % 3 == 0:
        return f"net.gather({x}, torch.stack([{listed}]))"
    if b % 3 == 1:
        return f"gathered({x}, [{listed}])" if children else f"net.gather({x}, [])"
    return f"net.gather({x}, [{listed}])"


@op
def call_reader(run: Run, a: int, b: int, c: int) -> str | None:
    return f"net.{['reader', 'counter'][b % 2]}({states(run, a)})"


@op
def call_drawn(run: Run, a: int, b: int, c: int) -> str | None:
    return f"net.drawn({run.rows(a)})"


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
def call_pieces(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim > 0)
    return None if x is None else f"pieces({x}, {b % x.shape[-1]})"


@op
def call_project(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim in (1, 2) and x.shape[-1] <= 4 and x.dtype == run.dtype)
    return None if x is None or not fits(*x.shape[:-1], 4) else f"net.projector.project({x}, {x.shape[-1]})"


@op
def call_recurrent(run: Run, a: int, b: int, c: int) -> str | None:
    """A step of recurrent cells, or a few."""
    x = states(run, a)
    y = run.like(x, b)
    cell = ["lstm", "gru", "rnn"][c % 3]
    given = f"({y}, {y})" if cell == "lstm" else f"{y}"
    if b % 4 == 3:
        again = f"h = net.{cell}({y}, h)"
        return f"h = net.{cell}({x}, {given})\n{again}\n{again}\n{'h[0] + h[1]' if cell == 'lstm' else 'h * 0.9'}"
    if b % 4 == 2:
        return f"net.{cell}({x})"
    return f"net.{cell}({x}, {given})"


@op
def call_layer(run: Run, a: int, b: int, c: int) -> str | None:
    """Layers of PyTorch's."""
    x = run.rows(a)
    y = run.like(x, b)
    sequence = f"{x}.reshape(1, {x.shape[0]}, {WIDTH})"
    return [
        f"net.convolution({x}.t())",
        f"net.convolution({x}.reshape(-1, {WIDTH}, 1))",
        f"net.prelu({x} + 0.0123)",
        f"net.drop({x}) * 0.9",
        f"net.statistics({x}) * 0.5",
        f"net.layer({sequence})[0]",
        f"net.layer({x})[1][0]",
        f"net.grulayer({sequence})[1]",
        f"net.bilinear({x}, {y})",
        f"net.transposed({x}.t()).tanh()" if fits(2, x.shape[0] + 1) else None,
        f"net.cosine({x} + 2, {y} + 2)",
        f"torch.cat([net.squash({x}), net.dense({x})], dim=1)" if fits(x.shape[0], 5) else None,
        f"net.attention({sequence}, {sequence}, {sequence})[0]",
        f"net.sequence({x}) + net.sequence[0]({x})[:, :3]",
    ][(b + c) % 14]


@op
def call_loss(run: Run, a: int, b: int, c: int) -> str | None:
    """Losses inside the sample."""
    x = run.rows(a)
    y = run.like(x, b)
    classes = [(b + k) % WIDTH for k in range(x.shape[0])]
    return [
        f"net.mse({x}, {y} * 0.5)",
        f"net.l1({x}, {y} * 0.5 + 3)",
        f"net.huber({x}, {y} * 0.3)",
        f"net.smooth({x}, {y} * 0.3) * 0.2",
        f"net.entropy({x}, torch.tensor({classes}))",
        f"net.entropy({x}[0], torch.tensor({classes[0]}))",
        f"net.weighted({x}, torch.tensor({classes})) * 0.2",
        f"net.logistic({x}, torch.sigmoid({y}))",
        f"net.kl(F.log_softmax({x}, -1), F.softmax({y}, -1))",
        f"F.cross_entropy({x}, torch.tensor({classes}), reduction='none')",
        f"F.nll_loss({x}.log_softmax(-1), torch.tensor({classes}))",
        f"F.cross_entropy({x}, {y}.softmax(-1), label_smoothing=0.1)",
        f"F.cross_entropy({x}, torch.tensor({classes}), label_smoothing=0.1, reduction='sum') * 0.2",
        f"F.mse_loss({x}, {y}, reduction='none').mean(0)",
        f"F.multi_margin_loss({run.exact(a)}.reshape(-1)[:3], torch.tensor(0))"
        if x.dtype == run.exact(a).dtype
        else None,
        f"F.triplet_margin_loss({x} + 1, {y}, {x} * 0.3 - 2)",
        f"F.margin_ranking_loss({x}.sum(), {y}.sum() + 3, torch.tensor(1.0, dtype=torch.{x.dtype})) * 0.1",
        f"net.entropy({x}[-1:], torch.tensor({classes[-1:]}))",
    ][(b + c) % 18]


def _words(run: Run) -> str:
    """The name of a look-up of the sample's words."""
    return run.do(f"net.embed({run.tokens})")[0].name


@op
def chain(run: Run, a: int, b: int, c: int) -> str | None:
    """A recurrent program over the words, of vectors or of matrices of one row."""
    words = _words(run)
    count = run.tokens.shape[0]
    cell = [
        "net.nested({x}, {h})[0]",
        "net.memory({x}, [{h}, {h}], 1.0)[0]",
        "net.gru({x}, {h})",
        "net.lstm({x}, ({h}, {h}))[1]",
        "blend(net.squash({x}), {h})[0]",
    ][c % 5]
    rows = [f"{words}[{k}]" if b % 2 else f"{words}[{k}:{k + 1}]" for k in range(count)]
    lines = [f"h = net.squash({rows[0]})"]
    lines += [f"h = {cell.format(x=row, h='h')}" for row in rows[1:]]
    return "\n".join([*lines, "h * 1.0"])


@op
def loop(run: Run, a: int, b: int, c: int) -> str | None:
    """A recurrent program as a loop, whose states are kept in a list."""
    words = _words(run)
    start = [f"torch.zeros({WIDTH}, dtype=torch.{run.dtype})", f"{words}[0] * 0.5", f"{words}.mean(0)"][a % 3]
    step = ["net.gru(word, h)", "net.gather(word, [h])", "net.lstm(word, (h, h))[0]", "torch.tanh(word + h)"][b % 4]
    body = f"h = {start}\nseen = []\nfor word in {words}:\n    h = {step}\n    seen.append(h)\n"
    return (
        body
        + ["torch.stack(seen)", "torch.cat(seen)", "seen[-1]", "sum(seen) * 0.3", "net.squash(torch.stack(seen))"][
            c % 5
        ]
    )


@op
def tree(run: Run, a: int, b: int, c: int) -> str | None:
    """A random binary tree over the words, as one expression."""
    words = _words(run)
    random = np.random.RandomState(1000 * a + 10 * b + c)
    rows = [f"{words}[{k}]" if c % 2 else f"{words}[{k}:{k + 1}]" for k in range(run.tokens.shape[0])]
    loose = [f"net.squash({row})" for row in rows]
    while len(loose) > 1:
        at = random.randint(len(loose) - 1)
        left, right = loose[at : at + 2]
        joined = [f"net.nested({left}, {right})[0]", f"net.squash({left} + {right})", f"net.gru({left}, {right})"]
        loose[at : at + 2] = [joined[random.randint(3)]]
    return loose[0]


@op
def child_sum_tree(run: Run, a: int, b: int, c: int) -> str | None:
    """A random tree over the words whose nodes have any number of children."""
    words = _words(run)
    random = np.random.RandomState(1000 * a + 10 * b + c)
    count = run.tokens.shape[0]
    lines: list[str] = []
    open_nodes: list[int] = []
    for k in range(count):
        taken = 0 if k < count - 1 and random.uniform() < 0.4 else random.randint(len(open_nodes) + 1)
        if k == count - 1:
            taken = len(open_nodes)
        children = [open_nodes.pop() for _ in range(taken)]
        x = f"{words}[{k}]" if c % 2 else f"{words}[{k}:{k + 1}]"
        if b % 3 == 0 and c % 2:
            lines.append(f"t{k} = net.gather({x}, [{', '.join(f't{n}' for n in children)}])")
        else:
            lines.append(f"t{k} = net.childsum({x}, [{', '.join(f't{n}' for n in children)}])")
        open_nodes.append(k)
    return "\n".join([*lines, f"t{count - 1}"])


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
    return "\n".join([*lines, f"torch.cat([{', '.join(names[1:])}])"])
