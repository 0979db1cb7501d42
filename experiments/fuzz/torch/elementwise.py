"""Instructions on single elements. Values stay small; what jumps is used on given tensors alone."""

from __future__ import annotations

from experiments.fuzz.run import Run, fits
from experiments.fuzz.torch.table import op

UNARY = """
torch.tanh({x})
{x}.sigmoid()
torch.sin({x})
-{x}
1 - {x}
{x} * 0.7 + 0.1
({x} ** 2).clamp(-2, 2)
2 / ({x} * {x} + 1)
{x} / ({x} * {x} + 1)
({x} * {x} + 0.3).sqrt()
torch.exp(-({x} * {x}))
torch.log({x} * {x} + 1.5)
F.softplus({x}) * 0.5
{x}.clone()
{x}.detach() + {x}
{x}.detach() - {x} * 0.3
torch.zeros_like({x}) + {x} * torch.ones_like({x})
{x}.double().to(torch.{dtype})
torch.where({x} > 0.12345, {x}, {x} * 0.5)
torch.where({x} > 0.12345, {x}, 0.12345)
torch.where({x}.detach() > 0.12345, 0.5, {x})
F.smooth_l1_loss({x}, torch.zeros_like({x}), reduction="none")
torch.clamp({x}, -0.98765, 0.98765)
{x}.clamp(min=-0.5321)
{x}.clamp(max=0.5321) * 0.9
{x} + torch.ones({shape}, dtype=torch.{dtype})
{x} * torch.arange({size}, dtype=torch.{dtype}).reshape({shape}) / {size}
{x}.cos()
{x}.atan()
torch.asinh({x})
torch.erf({x})
F.softsign({x})
torch.cosh({x} * 0.3)
torch.sinh({x} * 0.3)
torch.tan({x} * 0.3)
torch.asin({x} * 0.3)
torch.acos({x} * 0.2)
torch.atanh({x} * 0.2)
torch.acosh({x} * {x} + 1.5)
({x} * {x} + 0.4).rsqrt()
torch.reciprocal({x} * {x} + 1)
torch.expm1({x} * 0.3)
torch.log1p({x} * {x})
torch.log2({x} * {x} + 1)
torch.log10({x} * {x} + 1)
torch.lgamma({x} * {x} * 0.2 + 1.5)
torch.digamma({x} * {x} * 0.2 + 1.5)
torch.erfinv({x} * 0.2)
torch.deg2rad({x})
{x}.square().clamp(-2, 2)
torch.neg({x})
1.5 ** {x}
({x} * {x} + 0.5) ** 0.75
{x} / 3 - 0.25
{x}.pow(3).clamp(-2, 2)
torch.pow({x} * {x} + 0.3, 1.5) * 0.5
F.hardtanh({x}, -0.7654, 0.7654)
F.elu({x}, 0.4)
F.gelu({x})
F.gelu({x}, approximate="tanh")
F.selu({x}) * 0.5
F.silu({x})
F.mish({x})
F.logsigmoid({x})
F.tanhshrink({x})
torch.sigmoid({x}) * {x}
{x}.sinc()
torch.nan_to_num({x}) * 0.9
{x}.to(torch.float64).to({x}.dtype) * 0.9
{x}.type_as({x}) * 0.8
{x}.to({x}) * 0.8
{x}.float().to(torch.{dtype}) * 0.9
torch.hypot({x}, torch.full_like({x}, 0.7)) * 0.5
F.dropout({x}, 0.5, training=False)
F.dropout({x}, 0.0)
torch.tanh({x}) - torch.tanh({x}) * 0.5 + torch.tanh({x})
{x}.sum() * 0.05 + {x}
{x} + {x}.mean()
torch.lerp({x}, {x} * {x}, 0.3)
torch.addcmul({x}, {x}, {x}, value=0.3).clamp(-2, 2)
torch.addcdiv({x}, {x}, {x} * {x} + 1, value=0.3)
{x}.masked_fill({x} > 0.5123, 0.25)
{x}.masked_fill(torch.zeros({shape}, dtype=torch.bool), 3.0)
torch.add({x}, {x}, alpha=0.3)
torch.sub({x}, 0.3, alpha=2)
torch.rsub({x}, 0.5)
torch.true_divide({x}, 4)
torch.ldexp({x}, torch.tensor(-1))
torch.xlogy({x}, {x} * {x} + 1)
torch.logaddexp({x}, {x} * 0.5) * 0.5
torch.cos(torch.sin({x} * 2.0)) + torch.sin(torch.cos({x}))
{x} * (1 + 0j).real
{x} * True + False
{x} * torch.tensor(0.5, dtype=torch.float64)
{x} * torch.tensor([0.5], dtype=torch.{dtype})
torch.tensor(2, dtype=torch.int64) * {x} * 0.3
{x}.new_zeros({shape}) + {x}
{x}.new_full({shape}, 0.3) * {x}
{x}.contiguous() * 0.9
torch.special.expit({x})
torch.special.i0({x}) * 0.5
net.scale * {x} + net.scale
{x} - net.vector[1]
""".strip().splitlines()

JUMPS = """
torch.relu({x})
F.relu({x} - 0.0123)
F.relu6({x} * 3) * 0.3
{x}.abs()
torch.sign({x}) * 0.5
torch.maximum({x}, torch.full_like({x}, 0.1))
torch.minimum({x}, -{x})
({x} > 0) * {x}
({x} >= 0.1) * 0.5 + ({x} < -0.1) * 0.25
({x} <= 0.2) * {x} + ({x} == 0.5)
({x} != 0.5) * 0.3
torch.floor({x} * 3) * 0.3
torch.ceil({x} * 3) * 0.3
torch.round({x} * 3) * 0.3
torch.trunc({x} * 3) * 0.3
torch.frac({x} * 3) * 0.3
torch.logical_not({x} > 0.3) * 0.5
{x} % 0.7
{x}.detach() // 0.3
torch.remainder({x}, 0.4)
torch.fmod({x}, 0.4)
torch.div({x}, 0.3, rounding_mode="floor") * 0.1
torch.logical_and({x} > 0.1, {x} < 0.6) * 0.5
(({x} > 0.1) | ({x} < -0.1)) * 0.5
(({x} > 0.1) & ({y} > -0.3)) * {x}
(({x} > 0.1) ^ ({x} > -0.3)) * 0.5
(~({x} > 0.1)).to(torch.{dtype})
torch.maximum({x}, {y})
torch.minimum({x}, {y})
torch.fmax({x}, {y})
torch.clamp({x}, {y} * 0.5 - 1, {y} * 0.5 + 0.4321)
({x} > {y}) * 0.5 + ({x} >= {y}) * 0.25
({x} < {y}) * 0.5 + ({x} <= {y}) * 0.25
({x} == {y}) * 0.5 + ({x} != {y}) * 0.25
{x} % ({y} * {y} + 0.5)
torch.where({x} > {y}, {x}, {y})
torch.where({x} > {y}, {x}, 0.0) + torch.where({x} > {y}, 1.0, 0.5)
F.leaky_relu({x}, 0.2)
F.hardsigmoid({x} * 3)
F.hardswish({x} * 3) * 0.3
F.hardshrink({x}, 0.3)
F.softshrink({x}, 0.3)
F.threshold({x}, 0.1, 0.05)
F.celu({x}, 0.7)
torch.heaviside({x}, {y}) * 0.5
torch.copysign({x}, {y})
torch.isclose({x}, {y}) * 0.5
torch.isfinite({x}) * {x}
torch.eq({x}, {y}).to(torch.{dtype}) + torch.gt({x}, 0.2)
torch.ge({x}, {y}).any() * {x}
({x} > 0.1).all() * 0.5 + {x}
({x} > 0.1).sum() * 0.1 + {x}
({x} > 0.1).to(torch.int64) * 2 + {x}
torch.abs({x} - {y}).clamp(0.1, 0.9)
{x}.sgn() * 0.3
torch.signbit({x}) * 0.3
torch.nn.functional.relu({x}) * torch.nn.functional.relu({y})
""".strip().splitlines()

BINARY = """
({x} + {y}).clamp(-2, 2)
{x} - 0.5 * {y}
({x} * {y}).clamp(-2, 2)
{x} / ({y} * {y} + 1)
torch.where({x} > 0.12345, {y}, {x})
torch.sub({x}, {y}, alpha=0.5)
gluonjit.add_n([{x}, {y}, {x}]).clamp(-2, 2)
gluonjit.add_n([{x}, {y}, {y}, {x}, {y}, {x}]).clamp(-2, 2) * 0.3
torch.atan2({x}, {y} * {y} + 3)
torch.mul({x}, {y}) * 0.5
torch.hypot({x}, {y} * {y} + 0.3) * 0.5
(lambda: {x} * 0.4 + {y} * 0.6)()
sum([{x}, {y}, {x}]) * 0.3
torch.lerp({x}, {y}, 0.25)
torch.lerp({x}, {y}, {x} * {x}).clamp(-2, 2)
torch.addcmul({x}, {x}, {y}, value=0.5).clamp(-2, 2)
torch.addcdiv({x}, {x}, {y} * {y} + 1)
torch.logaddexp({x}, {y}) * 0.5
({x} * {x} + 0.5).pow({y}.clamp(-1.98, 1.98)).clamp(-2, 2)
torch.dist({x}, {y} + 3) * 0.1 + {x}
F.cosine_similarity({x}.reshape(1, -1) + 2, {y}.reshape(1, -1) + 1)
F.mse_loss({x}, {y})
F.l1_loss({x}, {y} + 3, reduction="sum") * 0.1
F.huber_loss({x}, {y}, delta=0.7)
F.binary_cross_entropy(torch.sigmoid({x}), torch.sigmoid({y}))
F.binary_cross_entropy_with_logits({x}, torch.sigmoid({y}), reduction="sum") * 0.1
F.poisson_nll_loss({x}, {y}.sigmoid())
F.gaussian_nll_loss({x}, {y}, {x} * {x} + 0.3)
F.soft_margin_loss({x}, torch.sign({y}.detach() + 0.0123))
F.kl_div({x}.reshape(1, -1).log_softmax(-1), {y}.reshape(1, -1).softmax(-1), reduction="sum")
torch.stack([{x}, {y}]).mean(0)
torch.stack([{x}, {y}]).amax(0) * 0.9
torch.outer({x}.reshape(-1)[:3], {y}.reshape(-1)[:2])
torch.xlogy({x}, {y} * {y} + 1)
""".strip().splitlines()

INTEGER = """
({t} + 1).to(torch.float32) * 0.1
({t} * 2).float() / 7
{t}.to(torch.float32).unsqueeze(1) * 0.1
({t} == {t}[0]).to(torch.float32)
torch.cat([{t}, {t}]).to(torch.float32) * 0.1
{t}.sum() * 0.01
{t}.float().sum() * 0.01
({t} % 3).float() * 0.2
({t} > 2).to(torch.float32) * 0.5
F.one_hot({t}.long(), 7).float() * 0.5
{t}.clamp(1, 4).float() * 0.1
torch.maximum({t}, {t}.flip(0)).float() * 0.1
{t}.float().amax() * 0.1
{t} * 3 - 1
{t}.to(torch.int32) + 2
{t} == 3
({t} - 3).abs()
{t} * {t}
{t} / 2
{t} // 2
{t}.float().mean() + {t}.max() * 0.1
{t}.bool() & ({t} < 4)
-{t} * 0.1
torch.where({t} > 2, {t}, 0)
torch.where({t} > 2, 0.5, 0.25)
{t}[{a}:]
{t}.unsqueeze(0).expand(2, -1) + 1
{t}.cumsum(0) * 0.1
{t} * 0.5
{t}.double() * 0.5
torch.bitwise_and({t}, 3) * 0.1
{t}.long() << 1
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
    return _filled(BINARY[(b + 24 * a) % len(BINARY)], x, run.like(x, c))


@op
def jump(run: Run, a: int, b: int, c: int) -> str | None:
    """Operations that jump, on tensors that were given."""
    x = run.exact(a)
    same = [y for y in run.env[: run.inputs] if y.shape == x.shape and y.dtype == x.dtype]
    return _filled(JUMPS[(b + 24 * c) % len(JUMPS)], x, same[a % len(same)])


@op
def integers(run: Run, a: int, b: int, c: int) -> str | None:
    """Arithmetic on whole numbers."""
    code = INTEGER[(a + 24 * b) % len(INTEGER)]
    return code.format(t=run.tokens, a=c % run.tokens.shape[0])


@op
def total_of_several(run: Run, a: int, b: int, c: int) -> str | None:
    x = run.pick(a)
    terms = [x, *(run.like(x, c + k) for k in range(b % 10))]
    return f"({' + '.join(map(str, terms))}) * {1 / len(terms):.3f}"


@op
def broadcast(run: Run, a: int, b: int, c: int) -> str | None:
    """Tensors of other shapes, and of another dtype, in one operator."""
    x = run.pick(a)

    def suits(shape: tuple[int, ...]) -> bool:
        return all(1 in (n, m) or n == m for n, m in zip(reversed(shape), reversed(x.shape)))

    y = run.pick(b, lambda y: suits(y.shape) and (c % 3 == 0 or y.dtype == x.dtype))
    axes = max(x.ndim, y.ndim)
    shapes = [(*(1,) * (axes - z.ndim), *z.shape) for z in (x, y)]
    if not fits(*map(max, *shapes)):
        return None
    return [
        f"({x} + {y}).clamp(-2, 2)",
        f"({x} * {y}).clamp(-2, 2)",
        f"torch.sub({x}, {y}) * 0.5",
        f"torch.where({x} > 0.12345, {x}, {y})" if x.dtype == y.dtype else f"{y} - {x}",
        f"({y} / ({x} * {x} + 1)).clamp(-2, 2)",
        f"torch.maximum({x} + 3, {y})",
        f"torch.lerp({x}, {y}, 0.3)" if x.dtype == y.dtype else f"{x} + {y} * 0.3",
    ][c % 7]


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
        f"{x}.expand{shape}",
        f"{x}.expand({', '.join(str(size) if k == axis else '-1' for k in range(x.ndim))})",
        f"torch.broadcast_to({x}, {shape})",
        f"{x}.expand_as(torch.zeros({shape}))",
        f"{x}.repeat_interleave({size}, dim={axis})",
        f"{x}.repeat{reps}",
        f"torch.tile({x}, {reps})",
        f"{x}.expand(1, *{shape})",
    ][a % 8]
