"""Elementwise instructions. Values stay small; discontinuous functions are applied only to given arrays."""

from __future__ import annotations

from experiments.fuzz.run import Run, fits
from experiments.fuzz.vocabulary.table import COMMON, LINES

op = COMMON.op

LINES["unary"] = """
@tanh({x})
@sigmoid({x})
@sin({x})
-{x}
1 - {x}
{x} * 0.7 + 0.1
@clip({x} ** 2, -2, 2)
2 / ({x} * {x} + 1)
{x} / ({x} * {x} + 1)
@sqrt({x} * {x} + 0.3)
@exp(-({x} * {x}))
@log({x} * {x} + 1.5)
{x}.@copy()
{x}.detach() + {x}
{x}.detach() - {x} * 0.3
@zeros_like({x}) + {x} * @ones_like({x})
{x}.@to({f64}).@to({of(x.dtype)})
@where({x} > 0.12345, {x}, {x} * 0.5)
@clip({x}, -0.98765, 0.98765)
{x} + @ones({x.shape}, dtype={of(x.dtype)})
{x} * @arange({x.size}, dtype={of(x.dtype)}).reshape({x.shape}) / {x.size}
@cos({x})
@arctan({x})
@arcsinh({x})
@erf({x})
@softsign({x})
@cosh({x} * 0.3)
@sinh({x} * 0.3)
@tan({x} * 0.3)
@arcsin({x} * 0.3)
@arccos({x} * 0.2)
@arctanh({x} * 0.2)
@arccosh({x} * {x} + 1.5)
@rsqrt({x} * {x} + 0.4)
@reciprocal({x} * {x} + 1)
@expm1({x} * 0.3)
@log1p({x} * {x})
@log2({x} * {x} + 1)
@log10({x} * {x} + 1)
@gammaln({x} * {x} * 0.2 + 1.5)
@erfinv({x} * 0.2)
@radians({x})
@clip(@square({x}), -2, 2)
@negative({x})
1.5 ** {x}
({x} * {x} + 0.5) ** 0.75
{x} / 3 - 0.25
@tanh({x}) - @tanh({x}) * 0.5 + @tanh({x})
@sum({x}) * 0.05 + {x}
"""

LINES["jump"] = """
@relu({x})
@abs({x})
@sign({x}) * 0.5
@minimum({x}, -{x})
({x} > 0) * {x}
({x} >= 0.1) * 0.5 + ({x} < -0.1) * 0.25
({x} <= 0.2) * {x} + ({x} == 0.5)
({x} != 0.5) * 0.3
@floor({x} * 3) * 0.3
@ceil({x} * 3) * 0.3
@round({x} * 3) * 0.3
@trunc({x} * 3) * 0.3
@logical_not({x} > 0.3) * 0.5
@logical_and({x} > 0.1, {x} < 0.6) * 0.5
{x} % 0.7
@modulo({x}, 0.4)
@maximum({x}, {y})
@minimum({x}, {y})
({x} > {y}) * 0.5 + ({x} >= {y}) * 0.25
({x} < {y}) * 0.5 + ({x} <= {y}) * 0.25
({x} == {y}) * 0.5 + ({x} != {y}) * 0.25
{x} % ({y} * {y} + 0.5)
@where({x} > {y}, {x}, {y})
"""

LINES["binary"] = """
@clip({x} + {y}, -2, 2)
{x} - 0.5 * {y}
@clip({x} * {y}, -2, 2)
{x} / ({y} * {y} + 1)
@where({x} > 0.12345, {y}, {x})
@clip(gluonjit.add_n([{x}, {y}, {x}]), -2, 2)
@clip(gluonjit.add_n([{x}, {y}, {y}, {x}, {y}, {x}]), -2, 2) * 0.3
@hypot({x}, {y} * {y} + 0.3) * 0.5
@multiply({x}, {y}) * 0.5
(lambda: {x} * 0.4 + {y} * 0.6)()
sum([{x}, {y}, {x}]) * 0.3
{x} - {y}.detach() * 0.3
"""

LINES["integers"] = """
({t} + 1).@to({f32}) * 0.1
({t} * 2).@to({f32}) / 7
{t}.@to({f32}).@expand_dims(1) * 0.1
({t} == {t}[0]).@to({f32})
{cat([t, t], 0)}.@to({f32}) * 0.1
@sum({t}.@to({f32})) * 0.01
({t} % 3).@to({f32}) * 0.2
({t} > 2).@to({f32}) * 0.5
@clip({t}, 1, 4).@to({f32}) * 0.1
@max({t}.@to({f32})) * 0.1
{t} * 3 - 1
{t}.@to({of("int32")}) + 2
{t} == 3
@abs({t} - 3)
{t} * {t}
"""

LINES["broadcast"] = """
@clip({x} + {y}, -2, 2)
@clip({x} * {y}, -2, 2)
({x} - {y}) * 0.5
@clip({y} / ({x} * {x} + 1), -2, 2)
"""

LINES["stretch"] = """
@broadcast_to({x}, {shape})
@repeat({x}, {size}, @axis={axis})
@tile({x}, {reps})
"""


@op
def unary(run: Run, a: int, b: int, c: int) -> str | None:
    return run.say("unary", a, b, c, x=run.pick(a))


@op
def binary(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    return run.say("binary", a, b, c, x=x, y=run.like(x, c))


@op
def jump(run: Run, a: int, b: int, c: int) -> str | None:
    """Operations that jump, on arrays that were given."""
    x = run.exact(a)
    same = [y for y in run.env[: run.inputs] if y.shape == x.shape and y.dtype == x.dtype]
    return run.say("jump", a, b, c, x=x, y=same[a % len(same)])


@op
def integers(run: Run, a: int, b: int, c: int) -> str | None:
    """Arithmetic on integers."""
    return run.say("integers", a, b, c, t=run.tokens, k=c % run.tokens.shape[0])


@op
def total_of_several(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    terms = [x, *(run.like(x, c + k) for k in range(b % 10))]
    return f"({' + '.join(map(str, terms))}) * {1 / len(terms):.3f}"


@op
def broadcast(run: Run, a: int, b: int, c: int) -> str | None:
    """Arrays of other shapes, and of another dtype where that is had, in one operator."""
    x = run.pick(a)
    mixed = run.spelling.vectors
    y = run.pick(
        b,
        lambda y: (
            all(1 in (n, m) or n == m for n, m in zip(reversed(y.shape), reversed(x.shape)))
            and (y.ndim == x.ndim or mixed)
            and (y.dtype == x.dtype or (mixed and c % 3 == 0))
        ),
    )
    axes = max(x.ndim, y.ndim)
    shapes = [(*(1,) * (axes - z.ndim), *z.shape) for z in (x, y)]
    return run.say("broadcast", a, b, c, x=x, y=y) if fits(*map(max, *shapes)) else None


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
    return run.say("stretch", a, b, c, x=x, axis=axis, size=size, shape=shape, reps=reps)
