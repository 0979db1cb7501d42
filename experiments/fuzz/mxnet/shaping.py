"""Instructions that move elements: shapes, slices, joins, look-ups."""

from __future__ import annotations

import numpy as np

from experiments.fuzz.mxnet.table import op
from experiments.fuzz.run import WIDTH, WORDS, Run, Var, fits


def _chosen(options: list[str | None], k: int) -> str | None:
    """One of the codes; None stands for one that has no room here."""
    return options[k % len(options)]


@op
def reshape(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    even, one = x.size % 2 == 0, 1 in x.shape and x.ndim > 1
    return _chosen(
        [
            f"{x}.reshape(-1)",
            f"{x}.reshape((1, -1))",
            f"{x}.reshape((-1, 1))",
            f"{x}.reshape(({x.shape[0]}, -1))",
            f"nd.reshape({x}, shape=(0, -1))",
            f"{x}.reshape((-1, {x.shape[-1]}))",
            f"{x}.reshape(shape={x.shape})",
            f"nd.Flatten({x})",
            f"nd.reshape_like({x}, {run.like(x, c)})",
            f"{x}.expand_dims({b % (x.ndim + 1)})" if fits(*x.shape, 1) else None,
            f"{x}.reshape((-1, 2))" if even else None,
            f"{x}.reshape((2, -1, 1))" if even else None,
            f"{x}.squeeze()" if x.size > 1 else None,
            f"{x}.squeeze(axis={x.shape.index(1)})" if one else None,
            f"nd.reshape({x}, shape=(-3, 0))" if x.ndim == 3 else None,
        ],
        c,
    )


@op
def turn(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    order = tuple(np.random.RandomState(b).permutation(x.ndim).tolist())
    return _chosen(
        [
            f"{x}.T",
            f"nd.transpose({x}, axes={order})",
            f"nd.swapaxes({x}, dim1={b % x.ndim}, dim2={c % x.ndim})",
            f"nd.flip({x}, axis={b % x.ndim})",
            f"nd.reverse({x}, axis={c % x.ndim})",
        ],
        a + b,
    )


@op
def blocks(run: Run, a: int, b: int, c: int) -> str | None:
    """Operators on images."""
    x = run.pick(a)
    last = x.shape[-1]
    image = f"{x}.reshape((1, -1, 1, {last}))"
    pad = "mode='constant', pad_width=(0, 0, 0, 0, 0, 1, 1, 0)"
    wide = fits(x.size * 4)
    return _chosen(
        [
            f"nd.pad({image}, {pad}, constant_value=0.3)" if wide else None,
            f"nd.pad({image}, mode='edge', pad_width=(0, 0, 0, 0, 0, 1, 1, 0))" if wide else None,
            f"nd.UpSampling({image}, scale=2, sample_type='nearest')" if wide else None,
            f"nd.Pooling({image}, kernel=(1, {last}), pool_type='avg')",
            f"nd.Pooling({image}, global_pool=True, pool_type='avg', kernel=(1, 1))",
            f"nd.Pooling({image}, kernel=(1, 1), pool_type='sum') * 0.5",
            f"nd.space_to_depth({x}.reshape((1, -1, 2, 2)), block_size=2)" if x.size % 4 == 0 else None,
            f"nd.depth_to_space({x}.reshape((1, 4, -1, 1)), block_size=2)" if x.size % 4 == 0 else None,
            f"nd.contrib.BilinearResize2D({image}, height=2, width={last})" if wide and x.dtype == "float32" else None,
        ],
        c,
    )


@op
def join(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    parts = [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]
    return f"nd.concat({_listed(parts)}, dim={b % x.ndim})" if fits(x.size * len(parts)) else None


@op
def join_other(run: Run, a: int, b: int, c: int) -> str | None:
    """Concatenation along an axis on which the parts differ."""
    x = run.pick(a, lambda x: x.ndim == 2)
    if x is None:
        return None
    axis = b % 2
    y = run.pick(c, lambda y: y.ndim == 2 and y.shape[1 - axis] == x.shape[1 - axis] and y.dtype == x.dtype)
    return f"nd.concat({x}, {y}, dim={axis})" if fits(x.size + y.size) else None


@op
def stack(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    parts = [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]
    return f"nd.stack({_listed(parts)}, axis={b % (x.ndim + 1)})" if fits(*x.shape, len(parts)) else None


def _listed(parts: list[Var]) -> str:
    return ", ".join(map(str, parts))


@op
def split(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    axis = b % x.ndim
    size = x.shape[axis]
    parts = [n for n in (1, 2, 3, size) if size % n == 0][c % 3 if size > 1 else 0] if size % 2 == 0 else size
    if parts > 4:
        return None
    squeeze = size == parts and x.ndim > 1 and bool(c % 2)
    if b % 5 == 4 and parts > 1:
        return f"nd.split_v2({x}, {parts}, axis={axis})"
    return f"nd.split({x}, num_outputs={parts}, axis={axis}, squeeze_axis={squeeze})"


@op
def cut(run: Run, a: int, b: int, c: int) -> str | None:
    """Slices by operators."""
    x = run.pick(a)
    axis = b % x.ndim
    size = x.shape[axis]
    begin = c % size
    end = begin + 1 + b % (size - begin)
    first = f"begin=({begin},), end=({end},)" if axis == 0 else "begin=(None,), end=(None,)"
    like = tuple(end - begin if k == axis else n for k, n in enumerate(x.shape))
    return _chosen(
        [
            f"nd.slice_axis({x}, axis={axis}, begin={begin}, end={end})",
            f"nd.slice_axis({x}, axis={axis}, begin={begin - size}, end=None)",
            f"nd.slice_axis({x}, axis={axis - x.ndim}, begin=0, end={end})",
            f"nd.slice({x}, {first})",
            f"{x}.slice_axis(axis={axis}, begin={begin}, end={end})",
            f'nd.slice_like({x}, nd.zeros({like}, dtype="{x.dtype}"))',
        ],
        a,
    )


@op
def index(run: Run, a: int, b: int, c: int) -> str | None:
    """Slices by brackets, chained ones too."""
    x = run.pick(a)
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
        f"{x}[::-1]",
        f"{x}[{i}:{j}:2]",
        f"{x}[..., -1]",
        f"{x}[..., {c % last}:{last}]",
        f"{x}[None]" if fits(1, *x.shape) else None,
    ]
    if x.ndim > 1:
        m = x.shape[1]
        keys += [
            f"{x}[:, {c % m}]",
            f"{x}[:, {c % m}:{m}]",
            f"{x}[{i}, {c % m}]",
            f"{x}[{i}:{j}, {c % m - m}]",
            f"{x}[{i}][{c % m}]",
            f"{x}[:, ::-1][{i}:{j}]",
            f"{x}[{i}, {c % m}:]",
        ]
    # Of slices along axis 0 a batch gives views, as MXNet does; of others copies, in which a later write does not show.
    views = 7 if x.ndim > 1 else 0
    keys[views:] = [key and f"{key} * 0.9" for key in keys[views:]]
    return _chosen(keys, a + b + c)


@op
def every_row(run: Run, a: int, b: int, c: int) -> str | None:
    """Iteration over an array."""
    x = run.pick(a, lambda x: x.ndim > 1)
    if x is None:
        return None
    n = x.shape[0]
    return f"(lambda rows: rows[{b % n}] + rows[{c % n}] * 0.5)(list({x}))"


@op
def take(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    axis = b % x.ndim
    size = x.shape[axis]
    if not fits(x.size * 2):
        return None
    chosen = f'nd.array([{c % size}, {b % size}], dtype="int32")'
    places = f'nd.array([[{c % x.shape[0]}, {b % x.shape[0]}]], dtype="int32")'
    return _chosen(
        [
            f"nd.take({x}, {chosen}, axis={axis})",
            f"nd.take({x}, {chosen}, axis={axis})",
            f"nd.gather_nd({x}, {places})",
        ],
        a,
    )


@op
def rows_by_number(run: Run, a: int, b: int, c: int) -> str | None:
    """Rows picked by numbers that are known, some of them twice, and rows put by such, none of them twice."""
    x = run.pick(a)
    n, tokens, rest = x.shape[0], run.tokens, x.size // x.shape[0]
    numbers = [(b + k * c) % n for k in range(1 + c % 3)]
    places = np.random.RandomState(b).permutation(n + c % 3)[:n].tolist()
    inside = np.random.RandomState(a).permutation(n)[: 1 + c % n].tolist()
    many = fits(tokens.size * rest)
    index = f"nd.array({numbers}, dtype='{'int32' if b % 2 else 'float32'}')"
    columns = f"nd.array({[(b + k) % x.shape[1] for k in range(len(numbers))]})" if x.ndim == 2 else ""
    return _chosen(
        [
            f"nd.take({x}, {tokens}, mode='wrap')" if many else None,
            f"nd.take({x}, {tokens})" if many else None,
            f"{x}.take({tokens}[:1]) * 0.5",
            f"{x}[{index}]" if fits(len(numbers) * rest) else None,
            f"{x}[{numbers}]" if fits(len(numbers) * rest) else None,
            f"nd.gather_nd({x}, nd.array([{numbers}]))" if fits(len(numbers) * rest) else None,
            f"{x}[{index}, {columns}]" if columns else None,
            f"nd.scatter_nd({x}, nd.array([{places}]), {(n + c % 3, *x.shape[1:])})" if fits(x.size * 3) else None,
            f"nd.contrib.index_copy({x}, nd.array({inside}), {run.like(x, c)}[:{len(inside)}] * 0.5)",
            f"nd.contrib.index_copy(nd.ones({x.shape}, dtype='{x.dtype}'), nd.array({inside}), {x}[:{len(inside)}])",
        ],
        a + b + c,
    )


@op
def pick_columns(run: Run, a: int, b: int, c: int) -> str | None:
    """One element of each row, by numbers that are known."""
    x = run.pick(a, lambda x: x.ndim == 2)
    if x is None:
        return None
    columns = [(b + k * c) % x.shape[1] for k in range(x.shape[0])]
    return f"nd.pick({x}, nd.array({columns}), axis=1)"


@op
def lookup(run: Run, a: int, b: int, c: int) -> str | None:
    """Embeddings of the sample's words, in several ways."""
    tokens = run.tokens
    return _chosen(
        [
            f"net.embed({tokens})",
            f"nd.Embedding({tokens}, net.embed.weight.data(), input_dim={WORDS}, output_dim={WIDTH})",
            f"nd.take(net.embed.weight.data(), {tokens})",
            f"net.embed({tokens})[{a % tokens.shape[0]}]",
            f"net.embed(nd.array([{a % WORDS}, {b % WORDS}]))",
            f"net.embed({tokens}[:1])",
        ],
        c,
    )
