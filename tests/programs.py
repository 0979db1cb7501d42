"""Random programs for one sample: instructions that mean something for arrays of any shape.

An instruction is the name of an operation and three small numbers. The operation chooses its operands among the
arrays there are, and its attributes, by these numbers modulo what is possible, so every list of instructions runs on
every sample. Values stay small and no operation has a jump or a kink where rounding could fall on either side:
rounding then changes results by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

import gluonjit

WIDTH = 3  # columns of the arrays that cells take
WORDS = 7
MOST = 48  # elements of an array
AXES = 4


class Step(NamedTuple):
    """One instruction."""

    op: str
    a: int = 0
    b: int = 0
    c: int = 0


@dataclass
class Sample:
    """What a program starts from: arrays, tokens, and the program itself."""

    arrays: list[Any]
    tokens: Any
    steps: Sequence[Step]
    outputs: int = 1

    def __repr__(self) -> str:
        looks = [f"{array.shape} {np.dtype(array.dtype).name}" for array in [*self.arrays, self.tokens]]
        return f"Sample({', '.join(looks)}, {[tuple(step) for step in self.steps]}, outputs={self.outputs})"


class Squash(gluon.HybridBlock):
    """One result."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(WIDTH, WIDTH))
            self.b = self.params.get("b", shape=(WIDTH,), init="uniform")

    def hybrid_forward(self, F: Any, x: Any, w: Any, b: Any) -> Any:
        return F.tanh(F.FullyConnected(x, w, b, num_hidden=WIDTH))


class Memory(gluon.HybridBlock):
    """A tuple from states in a list or a tuple, which may be missing, and a number."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(2 * WIDTH, WIDTH))

    def hybrid_forward(self, F: Any, x: Any, states: Any, scale: float, w: Any) -> Any:
        gates = F.FullyConnected(x, w, no_bias=True, num_hidden=2 * WIDTH)
        gate, value = F.split(gates, num_outputs=2, axis=1)
        c = F.sigmoid(gate) * F.tanh(value) * scale
        if states is not None:
            c = c + 0.5 * states[0] * F.sigmoid(states[-1])
        return F.tanh(c), c


class Nested(gluon.HybridBlock):
    """Lists and tuples in each other, and an argument that comes back."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.inner = nn.Dense(WIDTH, in_units=WIDTH, activation="sigmoid")

    def hybrid_forward(self, F: Any, x: Any, *states: Any) -> Any:
        total = self.inner(x)
        for state in states:
            total = total + 0.3 * state
        return [total, (x, [F.sin(total)])]


@gluonjit.cell
def blend(x: Any, y: Any, share: float = 0.5) -> Any:
    """A function as a cell."""
    return [nd.tanh(x * share + y * (1 - share)), x - y * share]


class Interpreter(gluon.Block):
    """Runs a sample's program."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(WORDS, WIDTH)
            self.squash = Squash()
            self.memory = Memory()
            self.nested = Nested()
            self.dense = nn.Dense(2, in_units=WIDTH, flatten=False)
            self.norm = nn.LayerNorm(in_channels=WIDTH)
            self.weights = {columns: self.params.get(f"w{columns}", shape=(4, columns)) for columns in (1, 2, 3, 4)}
            self.vector = self.params.get("vector", shape=(1, WIDTH))

    @gluonjit.cell
    def project(self, x: Any, columns: int) -> Any:
        """A method as a cell, which uses a parameter of its block."""
        return nd.sin(nd.FullyConnected(x, self.weights[columns].data(), no_bias=True, num_hidden=4))

    def forward(self, sample: Sample) -> Any:
        run = Run(self, list(sample.arrays), sample.tokens)
        for step in sample.steps:
            result = OPS[step.op](run, step.a, step.b, step.c)
            run.env += [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
        learned = self.squash(self.embed(sample.tokens))  # whatever the program does, there is something to learn
        return [*run.env[-min(sample.outputs, len(run.env)) :], learned]


@dataclass
class Run:
    """A program in the middle of its run. Arrays that were made last are chosen by small numbers."""

    net: Interpreter
    env: list[Any]
    tokens: Any
    inputs: int = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = len(self.env)

    def pick(self, k: int, fits: Callable[[Any], bool] = lambda x: True) -> Any:
        """An array that fits, or None."""
        found = [x for x in reversed(self.env) if fits(x)]
        return found[k % len(found)] if found else None

    def like(self, x: Any, k: int) -> Any:
        """An array that looks like x: itself at least."""
        return self.pick(k, lambda y: y.shape == x.shape and y.dtype == x.dtype)

    def exact(self, k: int) -> Any:
        """An array that was given, not computed: operations that jump may be used on it."""
        return self.env[k % self.inputs]

    def rows(self, k: int) -> Any:
        """A matrix that cells take, from a look-up if there is no other."""
        found = self.pick(k, lambda x: len(x.shape) == 2 and x.shape[1] == WIDTH and x.dtype == np.float32)
        return self.net.embed(self.tokens) if found is None else found


Op = Callable[[Run, int, int, int], Any]
OPS: dict[str, Op] = {}


def op(function: Op) -> Op:
    """Put an operation into the table."""
    OPS[function.__name__] = function
    return function


def small(x: Any) -> Any:
    """Within [-2, 2]."""
    return nd.clip(x, -2, 2)


def fits(*shape: int) -> bool:
    """Whether there is room for an array of this shape."""
    return int(np.prod(shape)) <= MOST and len(shape) <= AXES


UNARY: list[Callable[[Any], Any]] = [
    nd.tanh,
    nd.sigmoid,
    nd.sin,
    lambda x: -x,
    lambda x: 1 - x,
    lambda x: x * 0.7 + 0.1,
    lambda x: small(x**2),
    lambda x: 2 / (x * x + 1),
    lambda x: x / (x * x + 1),
    lambda x: nd.sqrt(x * x + 0.3),
    lambda x: nd.exp(-(x * x)),
    lambda x: nd.log(x * x + 1.5),
    lambda x: nd.Activation(x, act_type="softrelu") * 0.5,
    lambda x: x.copy(),
    lambda x: x.detach() + x,
    lambda x: nd.BlockGrad(x),
    lambda x: nd.zeros_like(x) + x * nd.ones_like(x),
    lambda x: x.astype("float64").astype(x.dtype),
    lambda x: nd.where(x > 0.12345, x, x * 0.5),
    lambda x: nd.smooth_l1(x, scalar=1.0),
    lambda x: nd.clip(x, -0.98765, 0.98765),
    lambda x: x + nd.ones(x.shape, dtype=x.dtype),
    lambda x: x * nd.arange(x.size, dtype=x.dtype).reshape(x.shape) / x.size,
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: small(x + y),
    lambda x, y: x - 0.5 * y,
    lambda x, y: small(x * y),
    lambda x, y: x / (y * y + 1),
    lambda x, y: nd.where(x > 0.12345, y, x),
    lambda x, y: nd.broadcast_sub(x, y) * 0.5,
    lambda x, y: small(nd.add_n(x, y, x)),
    lambda x, y: small(gluonjit.add_n([x, y, y, x, y, x])) * 0.3,
    lambda x, y: small(nd.elemwise_add(x, y) + y),
    lambda x, y: nd.arctan(x * y + 3),
]


@op
def unary(run: Run, a: int, b: int, c: int) -> Any:
    return UNARY[b % len(UNARY)](run.pick(a))


@op
def binary(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    return BINARY[b % len(BINARY)](x, run.like(x, c))


@op
def total_of_several(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    total = x
    for k in range(b % 5):
        total = total + run.like(x, c + k)
    return total * 0.25


@op
def broadcast(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    narrow = run.pick(
        b,
        lambda y: (
            len(y.shape) == len(x.shape)
            and y.dtype == x.dtype
            and all(n in (1, m) or m == 1 for n, m in zip(y.shape, x.shape))
        ),
    )
    if not fits(*map(max, x.shape, narrow.shape)):
        return None
    call = [nd.broadcast_add, nd.broadcast_mul, nd.broadcast_sub, lambda x, y: x + y][c % 4]
    return small(call(x, narrow))


@op
def stretch(run: Run, a: int, b: int, c: int) -> Any:
    """One axis of length 1 made longer."""
    x = run.pick(a, lambda x: 1 in x.shape and len(x.shape) > 1)
    if x is None:
        return None
    axis, size = [k for k, n in enumerate(x.shape) if n == 1][b % x.shape.count(1)], c % 3 + 1
    if not fits(x.size * size):
        return None
    shape = tuple(size if k == axis else n for k, n in enumerate(x.shape))
    return [
        lambda: nd.broadcast_to(x, shape=shape),
        lambda: nd.broadcast_axis(x, axis=axis, size=size),
        lambda: nd.broadcast_like(x, nd.zeros(shape, dtype=x.dtype)),
        lambda: nd.repeat(x, repeats=size, axis=axis),
        lambda: nd.tile(x, reps=tuple(size if k == axis else 1 for k in range(len(shape)))),
    ][a % 5]()


@op
def parameter(run: Run, a: int, b: int, c: int) -> Any:
    """A parameter in an operator outside any cell."""
    x = run.rows(a)
    vector = run.net.vector.data()
    return x * 0.5 + nd.broadcast_to(vector, shape=x.shape) if b % 2 else nd.broadcast_mul(x, vector)


@op
def fully_connected(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a, lambda x: x.shape[-1] <= 4 and len(x.shape) > 1 and x.dtype == np.float32)
    if x is None:
        return None
    flat = len(x.shape) == 2
    weight = run.net.weights[x.shape[-1]].data()
    if not fits(*x.shape[:-1], 4):
        return None
    return nd.tanh(nd.FullyConnected(x, weight, no_bias=True, num_hidden=4, flatten=flat and bool(b % 2)))


@op
def shared_dot(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a, lambda x: x.shape[-1] <= 4 and len(x.shape) <= 2 and x.dtype == np.float32)
    return None if x is None else nd.tanh(nd.dot(x, run.net.weights[x.shape[-1]].data(), transpose_b=True))


@op
def own_dot(run: Run, a: int, b: int, c: int) -> Any:
    """Products of a sample's own matrices."""
    x = run.pick(a, lambda x: len(x.shape) == 2)
    if x is None:
        return None
    y = run.pick(b, lambda y: len(y.shape) == 2 and y.dtype == x.dtype and y.shape[c % 2] == x.shape[1])
    if y is None:
        y, c = x, 1
    if not fits(x.shape[0], y.shape[1 - c % 2]):
        return None
    if b % 3 == 2 and x.dtype == np.float32:
        return nd.tanh(nd.linalg.gemm2(x, y, transpose_b=bool(c % 2)))
    return nd.tanh(nd.dot(x, y, transpose_b=bool(c % 2)))


@op
def attend(run: Run, a: int, b: int, c: int) -> Any:
    """softmax(x yT) y."""
    x = run.rows(a)
    y = run.rows(b)
    if not fits(x.shape[0], y.shape[0]):
        return None
    return nd.dot(nd.softmax(nd.dot(x, y, transpose_b=True), axis=-1), y)


@op
def batch_dot(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a, lambda x: len(x.shape) == 3 and fits(x.shape[0], x.shape[1], x.shape[1]))
    if x is None:
        return None
    return nd.tanh(nd.batch_dot(x, run.like(x, b), transpose_b=True))


@op
def softmax(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    axis = b % len(x.shape) - (len(x.shape) if c % 2 else 0)
    return [nd.softmax, nd.softmin, lambda x, axis: 0.2 * nd.log_softmax(x, axis=axis)][c % 3](x, axis=axis)


@op
def layer_norm(run: Run, a: int, b: int, c: int) -> Any:
    x = run.exact(a)
    return run.net.norm(x) if x.shape[-1] == WIDTH and x.dtype == np.float32 else None


@op
def reduce(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    axes: Any = [None, b % len(x.shape), -1, (0,), tuple(range(len(x.shape)))[b % len(x.shape) :]][c % 5]
    keep = bool(b % 2)
    return [
        lambda: nd.sum(x, axis=axes, keepdims=keep) * 0.5,
        lambda: nd.mean(x, axis=axes, keepdims=keep),
        lambda: x.mean() if axes is None else x.sum(axis=axes) * 0.5,
        lambda: nd.max(x, axis=axes, keepdims=keep),
        lambda: nd.sqrt(nd.sum(x * x, axis=axes, keepdims=keep) + 0.2),
    ][a % 5]()


@op
def reshape(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    n = x.shape[0]
    targets: list[Any] = [
        lambda: x.reshape(-1),
        lambda: x.reshape((1, -1)),
        lambda: x.reshape((-1, 1)),
        lambda: x.reshape((n, -1)),
        lambda: nd.reshape(x, shape=(0, -1)),
        lambda: x.reshape((-1, x.shape[-1])),
        lambda: x.reshape(shape=x.shape),
        lambda: nd.Flatten(x),
        lambda: nd.reshape_like(x, run.like(x, c)),
        lambda: x.expand_dims(b % (len(x.shape) + 1)) if fits(*x.shape, 1) else None,
        lambda: x.reshape((-1, 2)) if x.size % 2 == 0 else None,
        lambda: x.reshape((2, -1, 1)) if x.size % 2 == 0 else None,
        lambda: x.squeeze() if x.size > 1 else None,
        lambda: x.squeeze(axis=x.shape.index(1)) if 1 in x.shape and len(x.shape) > 1 else None,
    ]
    return targets[c % len(targets)]()


@op
def turn(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    axes = len(x.shape)
    order = tuple(np.random.RandomState(b).permutation(axes).tolist())
    return [
        lambda: x.T,
        lambda: nd.transpose(x, axes=order),
        lambda: nd.swapaxes(x, dim1=b % axes, dim2=c % axes),
        lambda: nd.flip(x, axis=b % axes),
        lambda: nd.reverse(x, axis=c % axes),
    ][(a + b) % 5]()


@op
def join(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    axis = b % len(x.shape)
    parts = [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]
    return nd.concat(*parts, dim=axis) if fits(x.size * len(parts)) else None


@op
def join_other(run: Run, a: int, b: int, c: int) -> Any:
    """Concatenation along an axis on which the parts differ."""
    x = run.pick(a, lambda x: len(x.shape) == 2)
    if x is None:
        return None
    axis = b % 2
    y = run.pick(c, lambda y: len(y.shape) == 2 and y.shape[1 - axis] == x.shape[1 - axis] and y.dtype == x.dtype)
    return nd.concat(x, y, dim=axis) if fits(x.size + y.size) else None


@op
def stack(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    parts = [x, run.like(x, c), run.like(x, c + 1)][: c % 3 + 1]
    room = fits(*x.shape, len(parts))
    return nd.stack(*parts, axis=b % (len(x.shape) + 1)) if room else None


@op
def split(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    axis = b % len(x.shape)
    size = x.shape[axis]
    parts = [n for n in (1, 2, 3, size) if size % n == 0][c % 3 if size > 1 else 0] if size % 2 == 0 else size
    if parts > 4:
        return None
    squeeze = size == parts and len(x.shape) > 1 and bool(c % 2)
    return nd.split(x, num_outputs=parts, axis=axis, squeeze_axis=squeeze)


@op
def cut(run: Run, a: int, b: int, c: int) -> Any:
    """Slices by operators."""
    x = run.pick(a)
    axis = b % len(x.shape)
    size = x.shape[axis]
    begin = c % size
    end = begin + 1 + b % (size - begin)
    return [
        lambda: nd.slice_axis(x, axis=axis, begin=begin, end=end),
        lambda: nd.slice_axis(x, axis=axis, begin=begin - size, end=None),
        lambda: nd.slice_axis(x, axis=axis - len(x.shape), begin=0, end=end),
        lambda: nd.slice(x, begin=(begin,) if axis == 0 else (None,), end=(end,) if axis == 0 else (None,)),
        lambda: x.slice_axis(axis=axis, begin=begin, end=end),
    ][a % 5]()


@op
def index(run: Run, a: int, b: int, c: int) -> Any:
    """Slices by brackets, chained ones too."""
    x = run.pick(a)
    n, last = x.shape[0], x.shape[-1]
    i = b % n
    j = i + 1 + c % (n - i)
    keys: list[Callable[[], Any]] = [
        lambda: x[i],
        lambda: x[i - n],
        lambda: x[i:j],
        lambda: x[i - n :],
        lambda: x[: i - n] if i else x[:],
        lambda: x[i:j][0],
        lambda: x[i:][-1:],
        lambda: x[::2],
        lambda: x[::-1],
        lambda: x[i:j:2],
        lambda: x[..., -1],
        lambda: x[..., c % last : last],
        lambda: x[None] if fits(1, *x.shape) else None,
    ]
    if len(x.shape) > 1:
        m = x.shape[1]
        keys += [
            lambda: x[:, c % m],
            lambda: x[:, c % m : m],
            lambda: x[i, c % m],
            lambda: x[i:j, c % m - m],
            lambda: x[i][c % m],
            lambda: x[:, ::-1][i:j],
            lambda: x[i, c % m :],
        ]
    return keys[(a + b + c) % len(keys)]()


@op
def every_row(run: Run, a: int, b: int, c: int) -> Any:
    """Iteration over an array."""
    x = run.pick(a, lambda x: len(x.shape) > 1)
    if x is None:
        return None
    rows = list(x)
    return rows[b % len(rows)] + rows[c % len(rows)] * 0.5


@op
def take(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    axis = b % len(x.shape)
    size = x.shape[axis]
    chosen = nd.array([c % size, b % size], dtype="int32")
    return nd.take(x, chosen, axis=axis) if fits(x.size * 2) else None


@op
def pick_columns(run: Run, a: int, b: int, c: int) -> Any:
    """One element of each row, by numbers that are known."""
    x = run.pick(a, lambda x: len(x.shape) == 2)
    if x is None:
        return None
    columns = nd.array([(b + k * c) % x.shape[1] for k in range(x.shape[0])])
    return nd.pick(x, columns, axis=1)


@op
def lookup(run: Run, a: int, b: int, c: int) -> Any:
    """Embeddings of the sample's words, in several ways."""
    embed, tokens = run.net.embed, run.tokens
    return [
        lambda: embed(tokens),
        lambda: nd.Embedding(tokens, embed.weight.data(), input_dim=WORDS, output_dim=WIDTH),
        lambda: nd.take(embed.weight.data(), tokens),
        lambda: embed(tokens)[a % tokens.shape[0]],
        lambda: embed(nd.array([a % WORDS, b % WORDS])),
        lambda: embed(tokens[:1]),
    ][c % 6]()


@op
def integers(run: Run, a: int, b: int, c: int) -> Any:
    """Arithmetic on whole numbers, which become an array of floats."""
    tokens = run.tokens
    return [
        lambda: (tokens + 1).astype("float32") * 0.1,
        lambda: nd.one_hot(tokens, WIDTH) if fits(*tokens.shape, WIDTH) else None,
        lambda: (tokens * 2).astype("float32") / 7,
        lambda: tokens.astype("float32").expand_dims(1) * 0.1,
        lambda: (tokens == tokens[0]).astype("float32"),
        lambda: nd.concat(tokens, tokens, dim=0).astype("float32") * 0.1,
        lambda: nd.sum(tokens.astype("float32")) * 0.01,
    ][a % 7]()


@op
def jump(run: Run, a: int, b: int, c: int) -> Any:
    """Operations that jump, on arrays that were given."""
    x = run.exact(a)
    axis = b % len(x.shape)
    return [
        lambda: nd.argmax(x.detach(), axis=axis) * 0.1,
        lambda: nd.sort(x, axis=axis),
        lambda: nd.topk(x, axis=axis, k=1, ret_typ="value"),
        lambda: nd.relu(x),
        lambda: nd.abs(x),
        lambda: nd.sign(x) * 0.5,
        lambda: nd.maximum(x, 0.1),
        lambda: nd.minimum(x, -x),
        lambda: (x > 0) * x,
        lambda: nd.cumsum(x, axis=axis) * 0.3,
        lambda: nd.argsort(x.detach(), axis=axis) * 0.1,
        lambda: nd.L2Normalization(x + 2) if len(x.shape) > 1 else None,
    ][c % 12]()


@op
def sequence(run: Run, a: int, b: int, c: int) -> Any:
    """Operators on sequences of known length; the first axis is time."""
    x = run.pick(a, lambda x: len(x.shape) == 3 and x.dtype == np.float32)
    if x is None:
        return None
    length = nd.array([(b + k) % x.shape[0] + 1 for k in range(x.shape[1])])
    call = [nd.SequenceMask, nd.SequenceLast, nd.SequenceReverse][c % 3]
    return call(x, sequence_length=length, use_sequence_length=True)


@op
def call_squash(run: Run, a: int, b: int, c: int) -> Any:
    return run.net.squash(run.rows(a))


@op
def call_dense(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a, lambda x: x.shape[-1] == WIDTH and len(x.shape) > 1 and x.dtype == np.float32)
    return None if x is None else run.net.dense(x)


@op
def call_memory(run: Run, a: int, b: int, c: int) -> Any:
    x = run.rows(a)
    states: Any = [None, [run.like(x, b) if run.env else x] * 2, (x, x)][c % 3]
    if c % 3 == 1:
        states = [x if state is None else state for state in states]
    return run.net.memory(x, states, [0.5, 1.0, 1][b % 3])


@op
def call_nested(run: Run, a: int, b: int, c: int) -> Any:
    x = run.rows(a)
    first, (second, (third,)) = run.net.nested(x, *[x] * (b % 3))
    return [first, second, third][: c % 3 + 1]


@op
def call_blend(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    y = run.like(x, b)
    return [lambda: blend(x, y), lambda: blend(x, y, 0.25), lambda: blend(x, share=0.75, y=y)][c % 3]()


@op
def call_project(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a, lambda x: len(x.shape) == 2 and x.shape[1] <= 4 and x.dtype == np.float32)
    return None if x is None or not fits(x.shape[0], 4) else run.net.project(x, x.shape[1])


@op
def same_again(run: Run, a: int, b: int, c: int) -> Any:
    """A call that was made before."""
    x = run.pick(a)
    return nd.tanh(x) - nd.tanh(x) * 0.5 + nd.tanh(x)


@op
def unread(run: Run, a: int, b: int, c: int) -> Any:
    """Results that nobody looks at."""
    x = run.pick(a)
    nd.sin(x * 1.7) + nd.cos(x)
    run.net.squash(run.rows(b))[0:1] * 3
    return None


@op
def without_history(run: Run, a: int, b: int, c: int) -> Any:
    x = run.pick(a)
    with autograd.pause(train_mode=bool(b % 2)):
        y = nd.sin(x) + 0.5
    return y * x if c % 2 else y


@op
def read(run: Run, a: int, b: int, c: int) -> Any:
    """A value that is needed in the middle."""
    x = run.pick(a)
    with autograd.pause():
        if b % 3 == 0:
            x.asnumpy()
            return None
        chosen = x.mean().asscalar() > 0.0123 if b % 3 == 1 else bool(x.sum() < 0.0321)
    return x * 0.5 if chosen else nd.sin(x)


def shapes(random: np.random.RandomState) -> tuple[int, ...]:
    """The shape of an input."""
    n = random.randint(1, 5)
    return [(1, WIDTH), (n, WIDTH), (WIDTH,), (n, 2), (2, n, WIDTH), (n,), (1,), (n, 1), (1, 2, 2)][random.randint(9)]


def sample(
    steps: Sequence[Step],
    seed: int,
    outputs: int = 1,
    dtype: str = "float32",
    pool: dict[int, Any] | None = None,
    learn: bool = False,
) -> Sample:
    """A sample whose arrays and words follow from the seed; with a pool, equal seeds give the same objects."""
    if pool is not None and seed in pool:
        made = pool[seed]
        return Sample(made.arrays, made.tokens, steps, outputs)
    random = np.random.RandomState(seed)
    arrays = [nd.array(random.uniform(-1, 1, shapes(random)), dtype=dtype) for _ in range(random.randint(1, 4))]
    words = random.randint(0, WORDS, random.randint(1, 5))
    tokens = nd.array(words, dtype=["int32", "float32", "int64"][random.randint(3)])
    if learn:
        for array in arrays:
            array.attach_grad()
    made = Sample(arrays, tokens, steps, outputs)
    if pool is not None:
        pool[seed] = made
    return made
