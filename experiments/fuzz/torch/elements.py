"""The lines of elementwise instructions that PyTorch has in addition to those of every framework."""

from __future__ import annotations

ELEMENTWISE = {
    "unary": """
F.softplus({x}) * 0.5
({x} * {x} + 0.3).sqrt()
({x} * {x} + 0.4).rsqrt()
torch.where({x} > 0.12345, {x}, 0.12345)
torch.where({x}.detach() > 0.12345, 0.5, {x})
F.smooth_l1_loss({x}, torch.zeros_like({x}), reduction="none")
{x}.clamp(min=-0.5321)
{x}.clamp(max=0.5321) * 0.9
torch.digamma({x} * {x} * 0.2 + 1.5)
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
{x}.double().to(torch.{x.dtype})
{x}.type_as({x}) * 0.8
{x}.to({x}) * 0.8
{x}.float().to(torch.{x.dtype}) * 0.9
torch.hypot({x}, torch.full_like({x}, 0.7)) * 0.5
F.dropout({x}, 0.5, training=False)
F.dropout({x}, 0.0)
{x} + {x}.mean()
torch.lerp({x}, {x} * {x}, 0.3)
torch.addcmul({x}, {x}, {x}, value=0.3).clamp(-2, 2)
torch.addcdiv({x}, {x}, {x} * {x} + 1, value=0.3)
{x}.masked_fill({x} > 0.5123, 0.25)
{x}.masked_fill(torch.zeros({x.shape}, dtype=torch.bool), 3.0)
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
{x} * torch.tensor([0.5], dtype=torch.{x.dtype})
torch.tensor(2, dtype=torch.int64) * {x} * 0.3
{x}.new_zeros({x.shape}) + {x}
{x}.new_full({x.shape}, 0.3) * {x}
{x}.contiguous() * 0.9
torch.special.expit({x})
torch.special.i0({x}) * 0.5
net.scale * {x} + net.scale
{x} - net.vector[1]
""",
    "jump": """
F.relu({x} - 0.0123)
F.relu6({x} * 3) * 0.3
torch.maximum({x}, torch.full_like({x}, 0.1))
torch.frac({x} * 3) * 0.3
{x}.detach() // 0.3
torch.fmod({x}, 0.4)
torch.div({x}, 0.3, rounding_mode="floor") * 0.1
(({x} > 0.1) | ({x} < -0.1)) * 0.5
(({x} > 0.1) & ({y} > -0.3)) * {x}
(({x} > 0.1) ^ ({x} > -0.3)) * 0.5
(~({x} > 0.1)).to(torch.{x.dtype})
torch.fmax({x}, {y})
torch.clamp({x}, {y} * 0.5 - 1, {y} * 0.5 + 0.4321)
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
torch.eq({x}, {y}).to(torch.{x.dtype}) + torch.gt({x}, 0.2)
torch.ge({x}, {y}).any() * {x}
({x} > 0.1).all() * 0.5 + {x}
({x} > 0.1).sum() * 0.1 + {x}
({x} > 0.1).to(torch.int64) * 2 + {x}
torch.abs({x} - {y}).clamp(0.1, 0.9)
{x}.sgn() * 0.3
torch.signbit({x}) * 0.3
torch.nn.functional.relu({x}) * torch.nn.functional.relu({y})
""",
    "binary": """
torch.sub({x}, {y}, alpha=0.5)
torch.atan2({x}, {y} * {y} + 3)
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
""",
    "integers": """
{t}.sum() * 0.01
F.one_hot({t}.long(), 7).float() * 0.5
torch.maximum({t}, {t}.flip(0)).float() * 0.1
{t}.float().amax() * 0.1
{t} / 2
{t} // 2
{t}.float().mean() + {t}.max() * 0.1
{t}.bool() & ({t} < 4)
-{t} * 0.1
torch.where({t} > 2, {t}, 0)
torch.where({t} > 2, 0.5, 0.25)
{t}[{k}:]
{t}.unsqueeze(0).expand(2, -1) + 1
{t}.cumsum(0) * 0.1
{t} * 0.5
{t}.double() * 0.5
torch.bitwise_and({t}, 3) * 0.1
{t}.long() << 1
""",
    "broadcast": """
torch.sub({x}, {y}) * 0.5
torch.where({x} > 0.12345, {x}, {y}) ?? x.dtype == y.dtype
{y} - {x}
torch.maximum({x} + 3, {y})
torch.lerp({x}, {y}, 0.3) ?? x.dtype == y.dtype
{x} + {y} * 0.3
""",
    "stretch": """
{x}.expand{shape}
{x}.expand({', '.join(str(size) if k == axis else '-1' for k in range(x.ndim))})
{x}.expand_as(torch.zeros({shape}))
{x}.repeat{reps}
{x}.expand(1, *{shape})
""",
}
