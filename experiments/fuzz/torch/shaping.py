"""Instructions that move elements: shapes, slices, joins, look-ups."""

from __future__ import annotations

import numpy as np

from experiments.fuzz.run import WIDTH, WORDS, Run, Var, fits
from experiments.fuzz.torch.axes import shaped
from experiments.fuzz.torch.table import op


def _chosen(options: list[str | None], k: int) -> str | None:
    """One of the codes; None stands for one that has no room here."""
    return options[k % len(options)]


@op
def reshape(run: Run, a: int, b: int, c: int) -> str | None:
    x = shaped(run, a)
    if x is None:
        return None
    even, one = x.size % 2 == 0, 1 in x.shape and x.ndim > 1
    dense = bool(run.names[x.name].is_contiguous())
    view = "view" if dense else "reshape"
    return _chosen(
        [
            f"{x}.reshape(-1)",
            f"{x}.{view}(1, -1)",
            f"{x}.reshape((-1, 1))",
            f"{x}.{view}({x.shape[0]}, -1)",
            f"torch.reshape({x}, ({', '.join(map(str, x.shape))},))",
            f"{x}.reshape(-1, {x.shape[-1]})",
            f"{x}.{view}({x}.shape)",
            f"torch.flatten({x})",
            f"{x}.reshape_as({run.like(x, c)})",
            f"{x}.unsqueeze({b % (x.ndim + 1)})" if fits(*x.shape, 1) else None,
            f"{x}.unsqueeze({-1 - b % (x.ndim + 1)})" if fits(*x.shape, 1) else None,
            f"{x}.{view}(-1, 2)" if even else None,
            f"{x}.reshape(2, -1, 1)" if even else None,
            f"{x}.squeeze()",
            f"{x}.squeeze({x.shape.index(1)})" if one else None,
            f"{x}.squeeze({b % x.ndim})",
            f"{x}.flatten(0, 1)" if x.ndim > 1 else None,
            f"{x}.flatten(1)" if x.ndim > 1 else None,
            f"{x}.flatten(-2)" if x.ndim > 1 else None,
            f"{x}.view_as({x})",
            f"{x}.unflatten(-1, (-1, {x.shape[-1]}))" if x.ndim < 4 else None,
            f"torch.atleast_2d({x})",
            f"{x}.ravel()",
            f"{x}.reshape({x.size})",
            f"{x}.reshape(1, {x.size}, 1)",
            f"{x}.contiguous().view({x.size})",
            f"{x}.view(torch.{x.dtype}) * 0.9" if dense else None,
        ],
        b + c,
    )


@op
def turn(run: Run, a: int, b: int, c: int) -> str | None:
    x = shaped(run, a)
    if x is None:
        return None
    order = tuple(np.random.RandomState(b).permutation(x.ndim).tolist())
    return _chosen(
        [
            f"{x}.t()" if x.ndim <= 2 else f"{x}.mT",
            f"{x}.permute{order}" if len(order) > 1 else f"{x}.permute(0)",
            f"torch.permute({x}, {order})",
            f"{x}.transpose({b % x.ndim}, {c % x.ndim})",
            f"torch.swapaxes({x}, {b % x.ndim}, {c % x.ndim})",
            f"torch.flip({x}, ({b % x.ndim},))",
            f"torch.roll({x}, {c % 3}, {b % x.ndim})",
            f"{x}.transpose(0, -1).contiguous()",
            f"{x}.transpose(0, -1).reshape(-1)",
            f"torch.movedim({x}, 0, -1)",
            f"{x}.permute{order}.reshape({x.shape})" if len(order) > 1 else None,
            f"{x}.rot90(1, (0, 1))" if x.ndim > 1 else None,
        ],
        a + b,
    )


@op
def images(run: Run, a: int, b: int, c: int) -> str | None:
    """Operators on images and sequences."""
    x = shaped(run, a)
    if x is None or x.dtype == "float16":
        return None
    last = x.shape[-1]
    image = f"{x}.reshape(1, 1, -1, {last})"
    single = f"{x}.reshape(1, -1, {last})"
    wide, own = fits(x.size * 4), x.dtype == run.dtype
    return _chosen(
        [
            f"F.pad({image}, (0, 1, 1, 0), value=0.3)" if wide else None,
            f"F.pad({x}, (1, 0))" if wide else None,
            f"F.pad({image}, (0, 1, 1, 0), mode='replicate')" if wide else None,
            f"F.interpolate({image}, scale_factor=2)" if wide else None,
            f"F.avg_pool2d({image}, (1, {last}))",
            f"F.adaptive_avg_pool2d({image}, 1)",
            f"F.max_pool2d({run.exact(a)}.reshape(1, 1, -1, 1), (1, 1))",
            f"F.avg_pool1d({single}, {last}) * 0.5",
            f"F.adaptive_avg_pool1d({single}, 1)",
            f"net.image({image}).tanh()" if own and wide else None,
            f"net.image({single}).tanh()" if own and wide else None,
            f"F.conv1d({single}.reshape(1, 1, -1), torch.ones(1, 1, 1, dtype=torch.{x.dtype})) * 0.5",
            f"F.pixel_shuffle({x}.reshape(1, 4, -1, 1), 2)" if x.size % 4 == 0 else None,
            f"F.unfold({image}, (1, {last})) * 0.5",
        ],
        b + c,
    )


@op
def join(run: Run, a: int, b: int, c: int) -> str | None:
    x = shaped(run, a)
    if x is None:
        return None
    parts = [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]
    if not fits(x.size * len(parts)):
        return None
    call = ["torch.cat", "torch.concat", "torch.cat"][b % 3]
    return f"{call}([{_listed(parts)}], dim={b % x.ndim - (x.ndim if a % 2 else 0)})"


@op
def join_other(run: Run, a: int, b: int, c: int) -> str | None:
    """Concatenation along an axis on which the parts differ."""
    x = run.pick(a, lambda x: x.ndim == 2)
    if x is None:
        return None
    axis = b % 2
    y = run.pick(c, lambda y: y.ndim == 2 and y.shape[1 - axis] == x.shape[1 - axis] and y.dtype == x.dtype)
    if not fits(x.size + y.size):
        return None
    return [f"torch.cat(({x}, {y}), {axis})", f"torch.{'hstack' if axis else 'vstack'}([{x}, {y}])"][a % 2]


@op
def stack(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    parts = [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]
    if not fits(*x.shape, len(parts)):
        return None
    return [
        f"torch.stack([{_listed(parts)}], dim={b % (x.ndim + 1)})",
        f"torch.stack(({_listed(parts)},))",
        f"torch.stack([{_listed(parts)}], -1).sum(-1) * 0.4",
        f"torch.stack([{_listed(parts)}]).mean(0)",
    ][(a + b) % 4]


def _listed(parts: list[Var]) -> str:
    return ", ".join(map(str, parts))


@op
def split(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a, lambda x: x.ndim > 0 and max(x.shape) <= 4)
    if x is None:
        return None
    axis = b % x.ndim
    size = x.shape[axis]
    first = c % size + 1
    sections = [first, size - first] if first < size else [size]
    return [
        f"torch.split({x}, {first}, dim={axis})",
        f"{x}.split({sections}, {axis})",
        f"{x}.chunk({first}, {axis})",
        f"torch.chunk({x}, 2, dim={axis - x.ndim})",
        f"{x}.unbind({axis})",
        f"torch.unbind({x})",
        f"torch.tensor_split({x}, {first}, dim={axis})",
        f"{x}.split({first})",
    ][(a + c) % 8]


@op
def cut(run: Run, a: int, b: int, c: int) -> str | None:
    """Slices by operators."""
    x = shaped(run, a)
    if x is None:
        return None
    axis = b % x.ndim
    size = x.shape[axis]
    begin = c % size
    end = begin + 1 + b % (size - begin)
    return _chosen(
        [
            f"{x}.narrow({axis}, {begin}, {end - begin})",
            f"torch.narrow({x}, {axis - x.ndim}, {begin}, {end - begin})",
            f"{x}.select({axis}, {begin})",
            f"torch.select({x}, {axis - x.ndim}, {begin - size})",
            f"torch.take_along_dim({x}, torch.zeros({(1,) * x.ndim}, dtype=torch.int64), dim={axis})",
            f"{x}.diagonal()" if x.ndim == 2 else None,
            f"{x}.unfold({axis}, 1, 1).squeeze(-1)",
            f"{x}.tril()" if x.ndim == 2 else None,
            f"{x}.triu({begin - 1})" if x.ndim > 1 else None,
        ],
        a + c,
    )


@op
def index(run: Run, a: int, b: int, c: int) -> str | None:
    """Slices by brackets, chained ones too."""
    x = shaped(run, a)
    if x is None:
        return None
    n, last = x.shape[0], x.shape[-1]
    i = b % n
    j = i + 1 + c % (n - i)
    keys: list[str | None] = [
        f"{x}[{i}]",
        f"{x}[{i - n}]",
        f"{x}[{i}:{j}]",
        f"{x}[{i - n}:]",
        f"{x}[:{i - n}]" if i else f"{x}[:]",
        f"{x}[{i}:{j}][0]",
        f"{x}[{i}:][-1:]",
        f"{x}[::2]",
        f"{x}[{i}:{j}:2]",
        f"{x}[..., -1]",
        f"{x}[..., {c % last}:{last}]",
        f"{x}[None]" if fits(1, *x.shape) else None,
        f"{x}[[{i}, {b % n}]]",
        f"{x}[torch.tensor([{i}, 0])]",
        f"{x}[torch.tensor({i})]",
        f"{x}[...]",
        f"{x}[()]",
        f"{x}[..., None]" if x.ndim < 4 else None,
        f"{x}[{i}, None]" if x.ndim < 4 else None,
        f"{x}[True]" if x.ndim < 4 else None,
        f"{x}[torch.arange({n}) <= {i}]",
        f"{x}[-1:0:1] if {n} > 1 else {x}",
    ]
    if x.ndim > 1:
        m = x.shape[1]
        keys += [
            f"{x}[:, {c % m}]",
            f"{x}[:, {c % m}:{m}]",
            f"{x}[{i}, {c % m}]",
            f"{x}[{i}:{j}, {c % m - m}]",
            f"{x}[{i}][{c % m}]",
            f"{x}[:, ::2][{i}:{j}]",
            f"{x}[{i}, {c % m}:]",
            f"{x}[:, [{c % m}, 0]]",
            f"{x}[:, None]" if x.ndim < 4 else None,
            f"{x}[[{i}, 0], [{c % m}, {b % m}]]",
            f"{x}[torch.tensor([{i}]), {c % m}:]",
            f"{x}[{i}:, torch.tensor([0, {c % m}])]",
            f"{x}[:][:, -1]",
        ]
    return _chosen(keys, a + b + c)


@op
def every_row(run: Run, a: int, b: int, c: int) -> str | None:
    """Iteration over a tensor."""
    x = run.pick(a, lambda x: x.ndim > 1)
    if x is None:
        return None
    n = x.shape[0]
    return [
        f"(lambda rows: rows[{b % n}] + rows[{c % n}] * 0.5)(list({x}))",
        f"sum(row * 0.3 for row in {x})",
        f"torch.stack([row.tanh() for row in {x}])",
        f"torch.cat([row.unsqueeze(0) for row in reversed({x}.unbind(0))])",
        f"(lambda first, *rest: first + len(rest))(*{x})",
    ][(a + b) % 5]


@op
def take(run: Run, a: int, b: int, c: int) -> str | None:
    x = shaped(run, a)
    if x is None or not fits(x.size * 2):
        return None
    axis = b % x.ndim
    size = x.shape[axis]
    chosen = f"torch.tensor([{c % size}, {b % size}])"
    return _chosen(
        [
            f"torch.index_select({x}, {axis}, {chosen})",
            f"{x}.index_select({axis - x.ndim}, {chosen})",
            f"torch.take({x}, torch.tensor([[{c % x.size}, {b % x.size}]]))",
            f"{x}.gather({axis}, torch.full({x.shape}, {c % size}))",
            f"torch.repeat_interleave({x}, 2, dim={axis})",
            f"{x}.index_add({axis}, torch.tensor([{c % size}]), {x}.narrow({axis}, 0, 1))",
            f"{x}.index_fill({axis}, torch.tensor([{c % size}]), 0.25)",
            f"torch.masked_select({x}, torch.ones({x.shape}, dtype=torch.bool))",
            f"{x}.scatter({axis}, torch.zeros({x.shape}, dtype=torch.int64), 0.5)",
            f"{x}.scatter_add({axis}, torch.full({x.shape}, {c % size}), {x}) * 0.4",
            f"{x}.select_scatter({x}.select({axis}, 0) * 0.5, {axis}, {c % size})",
            f"torch.index_copy({x}, {axis}, torch.tensor([{c % size}]), {x}.narrow({axis}, 0, 1) * 0.5)",
        ],
        a + b,
    )


@op
def pick_columns(run: Run, a: int, b: int, c: int) -> str | None:
    """One element of each row, by numbers that are known."""
    x = run.pick(a, lambda x: x.ndim == 2)
    if x is None:
        return None
    columns = [(b + k * c) % x.shape[1] for k in range(x.shape[0])]
    return [
        f"{x}.gather(1, torch.tensor({columns}).unsqueeze(1)).squeeze(1)",
        f"{x}[torch.arange({x.shape[0]}), torch.tensor({columns})]",
        f"F.one_hot(torch.tensor({columns}), {x.shape[1]}) * {x}",
    ][a % 3]


@op
def lookup(run: Run, a: int, b: int, c: int) -> str | None:
    """Embeddings of the sample's words, in several ways."""
    tokens = run.tokens
    k = a % tokens.shape[0]
    return _chosen(
        [
            f"net.embed({tokens})",
            f"F.embedding({tokens}, net.embed.weight)",
            f"net.embed.weight[{tokens}]",
            f"net.embed({tokens})[{k}]",
            f"net.embed(torch.tensor([{a % WORDS}, {b % WORDS}]))",
            f"net.embed({tokens}[:1])",
            f"net.embed({tokens}[{k}])",
            f"net.embed(torch.tensor({b % WORDS}))",
            f"net.embed({tokens}.unsqueeze(0))",
            f"net.padded({tokens})",
            f"net.embed.weight[{b % WORDS}]",
            f"net.embed.weight.index_select(0, {tokens}) * 0.9",
            f"torch.stack([net.embed(word) for word in {tokens}])",
            f"net.bag({tokens}.unsqueeze(0))",
            f"net.embed(({tokens} + 1) % {WORDS})",
            f"F.embedding({tokens}.long(), torch.eye({WORDS}, {WIDTH}, dtype=torch.{run.dtype})) * 0.5",
            f"net.embed(torch.cat([{tokens}, {tokens}])[:3])",
        ],
        b + c,
    )
