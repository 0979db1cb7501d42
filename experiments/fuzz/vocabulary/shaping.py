"""Instructions that move elements: shapes, slices, joins, look-ups."""

from __future__ import annotations

import numpy as np

from experiments.fuzz.run import Run, Var, fits
from experiments.fuzz.vocabulary.table import COMMON, LINES

op = COMMON.op

LINES["reshape"] = """
{x}.reshape(-1)
{x}.reshape((1, -1))
{x}.reshape((-1, 1))
{x}.reshape(({x.shape[0]}, -1))
{x}.reshape((-1, {x.shape[-1]}))
{x}.reshape({x.shape})
@flatten({x})
{x}.@expand_dims({b % (x.ndim + 1)}) ?? fits(*x.shape, 1)
{x}.reshape((-1, 2)) ?? x.size % 2 == 0
{x}.reshape((2, -1, 1)) ?? x.size % 2 == 0
{x}.squeeze() ?? x.size > 1
{x}.squeeze(@axis={x.shape.index(1)}) ?? 1 in x.shape and x.ndim > 1
"""

LINES["turn"] = """
{x}.T ?? x.ndim == 2
@permute({x}, {order}) ?? x.ndim > 1
@swapaxes({x}, {b % x.ndim}, {c % x.ndim})
@flip({x}, ({b % x.ndim},))
"""

LINES["join"] = "{cat(parts, b % x.ndim)}"
LINES["join_other"] = "{cat([x, y], axis)}"
LINES["stack"] = "{stack(parts, b % (x.ndim + 1))}"

# Of slices along axis 0 a batch gives views, as MXNet does; of others copies, in which a later write does not show.
LINES["index"] = """
{x}[{i}]{first}
{x}[{i - n}]{first}
{x}[{i}:{j}]{first}
{x}[{i - n}:]{first}
{x}[:{i - n}]{first} ?? i
{x}[:]{first}
{x}[{i}:{j}][0]{first}
{x}[{i}:][-1:]{first}
{x}[::2]{copied}
{x}[{i}:{j}:2]{copied}
{x}[..., -1]{copied}
{x}[..., {c % last}:{last}]{copied}
{x}[None]{copied} ?? fits(1, *x.shape)
{x}[:, {c % m}]{copied} ?? m
{x}[:, {c % m}:{m}]{copied} ?? m
{x}[{i}, {c % m}]{copied} ?? m
{x}[{i}:{j}, {c % m - m}]{copied} ?? m
{x}[{i}][{c % m}]{copied} ?? m
{x}[{i}, {c % m}:]{copied} ?? m
"""

LINES["every_row"] = "(lambda rows: rows[{b % n}] + rows[{c % n}] * 0.5)(list({x}))"

LINES["lookup"] = """
net.embed({t})
net.embed({t})[{k}]
net.embed({t}[:1])
net.embed(@array([{a % WORDS}, {b % WORDS}]))
"""


@op
def reshape(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    return None if x is None else run.say("reshape", a, b, c, x=x, y=run.like(x, c))


@op
def turn(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    if x is None:
        return None
    order = tuple(np.random.RandomState(b).permutation(x.ndim).tolist())
    return run.say("turn", a, b, c, x=x, order=order)


@op
def images(run: Run, a: int, b: int, c: int) -> str | None:
    """Operators on images and sequences: an image of one row and many channels, of one channel, a sequence."""
    x = run.shaped(a, lambda x: x.dtype != "float16" or run.spelling.halves)
    if x is None:
        return None
    last = x.shape[-1]
    made = {
        "channels": f"{x}.reshape((1, -1, 1, {last}))",
        "image": f"{x}.reshape((1, 1, -1, {last}))",
        "single": f"{x}.reshape((1, -1, {last}))",
    }
    return run.say("images", a, b, c, x=x, given=run.exact(a), last=last, wide=fits(x.size * 4), **made)


def _parts(run: Run, x: Var, c: int) -> list[Var]:
    return [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]


@op
def join(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    if x is None:
        return None
    parts = _parts(run, x, c)
    return run.say("join", a, b, c, x=x, parts=parts) if fits(x.size * len(parts)) else None


@op
def join_other(run: Run, a: int, b: int, c: int) -> str | None:
    """Concatenation along an axis on which the parts differ."""
    x = run.pick(a, lambda x: x.ndim == 2)
    if x is None:
        return None
    axis = b % 2
    y = run.pick(c, lambda y: y.ndim == 2 and y.shape[1 - axis] == x.shape[1 - axis] and y.dtype == x.dtype)
    return run.say("join_other", a, b, c, x=x, y=y, axis=axis) if fits(x.size + y.size) else None


@op
def stack(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    parts = _parts(run, x, c)
    return run.say("stack", a, b, c, x=x, parts=parts) if fits(*x.shape, len(parts)) else None


@op
def split(run: Run, a: int, b: int, c: int) -> str | None:
    """An axis in `count` equal parts; or in a first part of some length, and what is left."""
    x = run.shaped(a, lambda x: max(x.shape) <= 6)
    if x is None:
        return None
    axis = b % x.ndim
    size = x.shape[axis]
    counts = [n for n in (1, 2, 3, 4) if size % n == 0]
    first = c % size + 1
    sections = [first, size - first] if first < size else [size]
    return run.say(
        "split", a, b, c, x=x, axis=axis, size=size, count=counts[c % len(counts)], first=first, sections=sections
    )


@op
def cut(run: Run, a: int, b: int, c: int) -> str | None:
    """Slices by operators."""
    x = run.shaped(a)
    if x is None:
        return None
    axis = b % x.ndim
    size = x.shape[axis]
    begin = c % size
    end = begin + 1 + b % (size - begin)
    return run.say("cut", a, b, c, x=x, axis=axis, size=size, begin=begin, end=end)


@op
def index(run: Run, a: int, b: int, c: int) -> str | None:
    """Slices by brackets, chained ones too."""
    x = run.shaped(a)
    if x is None:
        return None
    n, last, m = x.shape[0], x.shape[-1], x.shape[1] if x.ndim > 1 else 0
    i = b % n
    j = i + 1 + c % (n - i)
    first = "" if x.ndim > 1 else run.spelling.copied
    return run.say("index", a, b, c, x=x, n=n, m=m, i=i, j=j, last=last, first=first)


@op
def every_row(run: Run, a: int, b: int, c: int) -> str | None:
    """Iteration over an array."""
    x = run.pick(a, lambda x: x.ndim > 1)
    return None if x is None else run.say("every_row", a, b, c, x=x, n=x.shape[0])


@op
def take(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.shaped(a)
    if x is None or not fits(x.size * 2):
        return None
    axis = b % x.ndim
    return run.say("take", a, b, c, x=x, axis=axis, size=x.shape[axis])


@op
def pick_columns(run: Run, a: int, b: int, c: int) -> str | None:
    """One element of each row, by numbers that are known."""
    x = run.pick(a, lambda x: x.ndim == 2)
    if x is None:
        return None
    columns = [(b + k * c) % x.shape[1] for k in range(x.shape[0])]
    return run.say("pick_columns", a, b, c, x=x, columns=columns)


@op
def lookup(run: Run, a: int, b: int, c: int) -> str | None:
    """Embeddings of the sample's words, in several ways."""
    return run.say("lookup", a, b, c, t=run.tokens, k=a % run.tokens.shape[0])
