"""Instructions on single elements. Values stay small; what jumps is used on given arrays alone."""

from __future__ import annotations

from experiments.fuzz.mxnet.table import op
from experiments.fuzz.run import Run, fits

UNARY = """
nd.tanh({x})
nd.sigmoid({x})
nd.sin({x})
-{x}
1 - {x}
{x} * 0.7 + 0.1
nd.clip({x} ** 2, -2, 2)
2 / ({x} * {x} + 1)
{x} / ({x} * {x} + 1)
nd.sqrt({x} * {x} + 0.3)
nd.exp(-({x} * {x}))
nd.log({x} * {x} + 1.5)
nd.Activation({x}, act_type="softrelu") * 0.5
{x}.copy()
{x}.detach() + {x}
nd.BlockGrad({x}) - {x} * 0.3
nd.zeros_like({x}) + {x} * nd.ones_like({x})
{x}.astype("float64").astype("{dtype}")
nd.where({x} > 0.12345, {x}, {x} * 0.5)
nd.smooth_l1({x}, scalar=1.0)
nd.clip({x}, -0.98765, 0.98765)
{x} + nd.ones({shape}, dtype="{dtype}")
{x} * nd.arange({size}, dtype="{dtype}").reshape({shape}) / {size}
nd.cos({x})
nd.arctan({x})
nd.arcsinh({x})
nd.erf({x})
nd.softsign({x})
nd.cosh({x} * 0.3)
nd.sinh({x} * 0.3)
nd.tan({x} * 0.3)
nd.arcsin({x} * 0.3)
nd.arccos({x} * 0.2)
nd.arctanh({x} * 0.2)
nd.arccosh({x} * {x} + 1.5)
nd.cbrt({x} * {x} + 0.5)
nd.rcbrt({x} * {x} + 0.5)
nd.rsqrt({x} * {x} + 0.4)
nd.reciprocal({x} * {x} + 1)
nd.expm1({x} * 0.3)
nd.log1p({x} * {x})
nd.log2({x} * {x} + 1)
nd.log10({x} * {x} + 1)
nd.gamma({x} * {x} * 0.2 + 1.5)
nd.gammaln({x} * {x} * 0.2 + 1.5)
nd.erfinv({x} * 0.2)
nd.degrees({x}) * 0.01
nd.radians({x})
nd.clip(nd.square({x}), -2, 2)
nd.negative({x})
1.5 ** {x}
({x} * {x} + 0.5) ** 0.75
{x} / 3 - 0.25
nd.hard_sigmoid({x})
nd.Activation({x}, act_type="softsign")
nd.LeakyReLU({x}, act_type="elu", slope=0.4)
nd.LeakyReLU({x}, act_type="gelu")
nd.LeakyReLU({x}, act_type="selu") * 0.5
nd.contrib.quadratic({x}, a=0.1, b=0.2, c=0.3)
nd.contrib.gradientmultiplier({x}, scalar=0.5)
nd.identity({x}) * 0.9
nd.Cast({x}, dtype="float64").astype("{dtype}") * 0.9
nd._internal._hypot_scalar({x}, scalar=0.7) * 0.5
nd.Dropout({x}, p=0)
nd.tanh({x}) - nd.tanh({x}) * 0.5 + nd.tanh({x})
nd.amp_cast({x}.astype("float32"), dtype="float32").astype("{dtype}") * 0.8
nd.contrib.div_sqrt_dim({x})
nd.sum({x}) * 0.05 + {x}
""".strip().splitlines()

JUMPS = """
nd.relu({x})
nd.abs({x})
nd.sign({x}) * 0.5
nd.maximum({x}, 0.1)
nd.minimum({x}, -{x})
({x} > 0) * {x}
({x} >= 0.1) * 0.5 + ({x} < -0.1) * 0.25
({x} <= 0.2) * {x} + ({x} == 0.5)
({x} != 0.5) * 0.3
nd.floor({x} * 3) * 0.3
nd.ceil({x} * 3) * 0.3
nd.round({x} * 3) * 0.3
nd.rint({x} * 3) * 0.3
nd.fix({x} * 3) * 0.3
nd.trunc({x} * 3) * 0.3
nd.logical_not({x} > 0.3)
{x} % 0.7
0.7 % ({x} * {x} + 0.5)
nd.logical_and({x} > 0.1, {x} < 0.6)
nd.logical_or({x} > 0.1, 0) * 0.5
nd.logical_xor({x} > 0.1, {x} > -0.3) * 0.5
nd.logical_and({x} > 0.1, 1) + nd.logical_xor({x} > 0.2, 1)
nd.contrib.round_ste({x} * 3) * 0.3
nd.contrib.sign_ste({x}) * 0.3
nd.maximum({x}, {y})
nd.minimum({x}, {y})
nd._internal._maximum({x}, {y})
nd._internal._minimum({x}, {y})
({x} > {y}) * 0.5 + ({x} >= {y}) * 0.25
({x} < {y}) * 0.5 + ({x} <= {y}) * 0.25
({x} == {y}) * 0.5 + ({x} != {y}) * 0.25
{x} % ({y} * {y} + 0.5)
nd.modulo({x}, 0.4)
nd.where({x} > {y}, {x}, {y})
nd.LeakyReLU({x}, act_type="leaky", slope=0.2)
nd.Activation({x}, act_type="relu")
nd._internal._equal({x}, {y}) + nd._internal._greater({x}, {y})
nd._internal._logical_and({x} > 0.2, {y} > 0.2) * 0.5
""".strip().splitlines()

BINARY = """
nd.clip({x} + {y}, -2, 2)
{x} - 0.5 * {y}
nd.clip({x} * {y}, -2, 2)
{x} / ({y} * {y} + 1)
nd.where({x} > 0.12345, {y}, {x})
nd.broadcast_sub({x}, {y}) * 0.5
nd.clip(nd.add_n({x}, {y}, {x}), -2, 2)
nd.clip(gluonjit.add_n([{x}, {y}, {y}, {x}, {y}, {x}]), -2, 2) * 0.3
nd.clip(nd.elemwise_add({x}, {y}) + {y}, -2, 2)
nd.arctan({x} * {y} + 3)
nd.elemwise_sub({x}, {y}) * 0.5
nd.elemwise_mul({x}, {y}) * 0.5
nd.elemwise_div({x}, {y} * {y} + 1)
nd.broadcast_hypot({x}, {y} * {y} + 0.3) * 0.5
nd.broadcast_power({x} * {x} + 0.5, nd.tanh({y}))
nd._internal._hypot({x} * {x} + 0.2, {y}) * 0.5
nd._internal._power({x} * {x} + 0.5, nd.sin({y}))
nd.amp_multicast({x}.astype("float32"), {y}.astype("float32"), num_outputs=2)
nd.broadcast_div({x}, {y} * {y} + 2)
{x} - {y}.detach() * 0.3
(lambda: {x} * 0.4 + {y} * 0.6)()
sum([{x}, {y}, {x}]) * 0.3
""".strip().splitlines()

INTEGER = """
({t} + 1).astype("float32") * 0.1
({t} * 2).astype("float32") / 7
{t}.astype("float32").expand_dims(1) * 0.1
({t} == {t}[0]).astype("float32")
nd.concat({t}, {t}, dim=0).astype("float32") * 0.1
nd.sum({t}.astype("float32")) * 0.01
nd.Cast({t} % 3, dtype="float32") * 0.2
({t} > 2).astype("float32") * 0.5
nd.one_hot({t}, 3) * 0.5
nd.one_hot({t}, 4, on_value=0.5, off_value=-0.5)
nd.clip({t}, 1, 4).astype("float32") * 0.1
nd.broadcast_maximum({t}, {t}[::-1]).astype("float32") * 0.1
nd.max({t}.astype("float32")) * 0.1
{t} * 3 - 1
{t}.astype("int32") + 2
{t} == 3
nd.abs({t} - 3)
{t} * {t}
""".strip().splitlines()


def _filled(template: str, x: object, y: object = "") -> str:
    shape, dtype, size = getattr(x, "shape", ()), getattr(x, "dtype", ""), getattr(x, "size", 0)
    return template.format(x=x, y=y, shape=shape, dtype=dtype, size=size)


@op
def unary(run: Run, a: int, b: int, c: int) -> str | None:
    return _filled(UNARY[(b + 24 * c) % len(UNARY)], run.pick(a))


@op
def binary(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    return _filled(BINARY[b % len(BINARY)], x, run.like(x, c))


@op
def jump(run: Run, a: int, b: int, c: int) -> str | None:
    """Operations that jump, on arrays that were given."""
    x = run.exact(a)
    same = [y for y in run.env[: run.inputs] if y.shape == x.shape and y.dtype == x.dtype]
    return _filled(JUMPS[(b + 24 * c) % len(JUMPS)], x, same[a % len(same)])


@op
def integers(run: Run, a: int, b: int, c: int) -> str | None:
    """Arithmetic on whole numbers."""
    code = INTEGER[a % len(INTEGER)]
    return code.format(t=run.tokens)


@op
def total_of_several(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    terms = [x, *(run.like(x, c + k) for k in range(b % 10))]
    return f"({' + '.join(map(str, terms))}) * {1 / len(terms):.3f}"


@op
def broadcast(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    y = run.pick(
        b,
        lambda y: (
            y.ndim == x.ndim and y.dtype == x.dtype and all(n in (1, m) or m == 1 for n, m in zip(y.shape, x.shape))
        ),
    )
    if not fits(*map(max, x.shape, y.shape)):
        return None
    call = ["nd.broadcast_add", "nd.broadcast_mul", "nd.broadcast_sub", "nd.broadcast_plus"][c % 4]
    return f"nd.clip({call}({x}, {y}), -2, 2)"


@op
def stretch(run: Run, a: int, b: int, c: int) -> str | None:
    """One axis of length 1 made longer."""
    x = run.pick(a, lambda x: 1 in x.shape and x.ndim > 1)
    if x is None:
        return None
    axis, size = [k for k, n in enumerate(x.shape) if n == 1][b % x.shape.count(1)], c % 3 + 1
    if not fits(x.size * size):
        return None
    shape = tuple(size if k == axis else n for k, n in enumerate(x.shape))
    reps = tuple(size if k == axis else 1 for k in range(len(shape)))
    return [
        f"nd.broadcast_to({x}, shape={shape})",
        f"nd.broadcast_axis({x}, axis={axis}, size={size})",
        f'nd.broadcast_like({x}, nd.zeros({shape}, dtype="{x.dtype}"))',
        f"nd.repeat({x}, repeats={size}, axis={axis})",
        f"nd.tile({x}, reps={reps})",
    ][a % 5]
