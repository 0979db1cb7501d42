"""The lines of instructions on shapes, slices, axes and products that PyTorch has in addition."""

from __future__ import annotations

SHAPING = {
    "reshape": """
{x}.view(1, -1) ?? dense(run, x)
{x}.view({x.shape[0]}, -1) ?? dense(run, x)
{x}.view({x}.shape) ?? dense(run, x)
{x}.view(-1, 2) ?? dense(run, x) and x.size % 2 == 0
{x}.view(torch.{x.dtype}) * 0.9 ?? dense(run, x)
torch.reshape({x}, ({', '.join(map(str, x.shape))},))
{x}.reshape_as({y})
{x}.unsqueeze({-1 - b % (x.ndim + 1)}) ?? fits(*x.shape, 1)
{x}.squeeze()
{x}.squeeze({b % x.ndim})
{x}.flatten(0, 1) ?? x.ndim > 1
{x}.flatten(1) ?? x.ndim > 1
{x}.flatten(-2) ?? x.ndim > 1
{x}.view_as({x})
{x}.unflatten(-1, (-1, {x.shape[-1]})) ?? x.ndim < 4
torch.atleast_2d({x})
{x}.ravel()
{x}.reshape({x.size})
{x}.reshape(1, {x.size}, 1)
{x}.contiguous().view({x.size})
""",
    "turn": """
{x}.t() ?? x.ndim <= 2
{x}.mT ?? x.ndim > 2
{x}.permute{order if x.ndim > 1 else '(0)'}
{x}.transpose({b % x.ndim}, {c % x.ndim})
torch.roll({x}, {c % 3}, {b % x.ndim})
{x}.transpose(0, -1).contiguous()
{x}.transpose(0, -1).reshape(-1)
torch.movedim({x}, 0, -1)
{x}.permute{order}.reshape({x.shape}) ?? x.ndim > 1
{x}.rot90(1, (0, 1)) ?? x.ndim > 1
""",
    "images": """
F.pad({image}, (0, 1, 1, 0), value=0.3) ?? wide
F.pad({x}, (1, 0)) ?? wide
F.pad({image}, (0, 1, 1, 0), mode='replicate') ?? wide
F.interpolate({image}, scale_factor=2) ?? wide
F.avg_pool2d({image}, (1, {last}))
F.adaptive_avg_pool2d({image}, 1)
F.max_pool2d({given}.reshape(1, 1, -1, 1), (1, 1)) ?? given.dtype != "float16"
F.avg_pool1d({single}, {last}) * 0.5
F.adaptive_avg_pool1d({single}, 1)
net.image({image}).tanh() ?? wide and x.dtype == run.dtype
net.image({single}).tanh() ?? wide and x.dtype == run.dtype
F.conv1d({single}.reshape(1, 1, -1), torch.ones(1, 1, 1, dtype=torch.{x.dtype})) * 0.5
F.pixel_shuffle({x}.reshape(1, 4, -1, 1), 2) ?? x.size % 4 == 0
F.unfold({image}, (1, {last})) * 0.5
""",
    "join": "{cat(parts, b % x.ndim - x.ndim)}\n{cat(parts, b % x.ndim).replace('torch.cat', 'torch.concat')}",
    "join_other": """
torch.cat(({x}, {y}), {axis})
torch.hstack([{x}, {y}]) ?? axis
torch.vstack([{x}, {y}]) ?? not axis
""",
    "stack": """
torch.stack(({', '.join(map(str, parts))},))
{stack(parts, -1)}.sum(-1) * 0.4
{stack(parts, 0)}.mean(0)
""",
    "split": """
torch.split({x}, {first}, dim={axis})
{x}.split({sections}, {axis})
{x}.chunk({first}, {axis})
torch.chunk({x}, 2, dim={axis - x.ndim})
{x}.unbind({axis})
torch.unbind({x})
torch.tensor_split({x}, {first}, dim={axis})
{x}.split({first})
""",
    "cut": """
{x}.narrow({axis}, {begin}, {end - begin})
torch.narrow({x}, {axis - x.ndim}, {begin}, {end - begin})
{x}.select({axis}, {begin})
torch.select({x}, {axis - x.ndim}, {begin - size})
torch.take_along_dim({x}, torch.zeros({(1,) * x.ndim}, dtype=torch.int64), dim={axis})
{x}.diagonal() ?? x.ndim == 2
{x}.unfold({axis}, 1, 1).squeeze(-1)
{x}.tril() ?? x.ndim == 2
{x}.triu({begin - 1}) ?? x.ndim > 1
""",
    "index": """
{x}[[{i}, {b % n}]]
{x}[torch.tensor([{i}, 0])]
{x}[torch.tensor({i})]
{x}[...]
{x}[()]
{x}[..., None] ?? x.ndim < 4
{x}[{i}, None] ?? x.ndim < 4
{x}[True] ?? x.ndim < 4
{x}[torch.arange({n}) <= {i}]
{x}[-1:0:1] if {n} > 1 else {x}
{x}[:, ::2][{i}:{j}] ?? m
{x}[:, [{c % m}, 0]] ?? m
{x}[:, None] ?? m and x.ndim < 4
{x}[[{i}, 0], [{c % m}, {b % m}]] ?? m
{x}[torch.tensor([{i}]), {c % m}:] ?? m
{x}[{i}:, torch.tensor([0, {c % m}])] ?? m
{x}[:][:, -1] ?? m
""",
    "every_row": """
sum(row * 0.3 for row in {x})
torch.stack([row.tanh() for row in {x}])
torch.cat([row.unsqueeze(0) for row in reversed({x}.unbind(0))])
(lambda first, *rest: first + len(rest))(*{x})
""",
    "take": """
torch.index_select({x}, {axis}, torch.tensor([{c % size}, {b % size}]))
{x}.index_select({axis - x.ndim}, torch.tensor([{c % size}, {b % size}]))
torch.take({x}, torch.tensor([[{c % x.size}, {b % x.size}]]))
{x}.gather({axis}, torch.full({x.shape}, {c % size}))
torch.repeat_interleave({x}, 2, dim={axis})
{x}.index_add({axis}, torch.tensor([{c % size}]), {x}.narrow({axis}, 0, 1))
{x}.index_fill({axis}, torch.tensor([{c % size}]), 0.25)
torch.masked_select({x}, torch.ones({x.shape}, dtype=torch.bool))
{x}.scatter({axis}, torch.zeros({x.shape}, dtype=torch.int64), 0.5)
{x}.scatter_add({axis}, torch.full({x.shape}, {c % size}), {x}) * 0.4
{x}.select_scatter({x}.select({axis}, 0) * 0.5, {axis}, {c % size})
torch.index_copy({x}, {axis}, torch.tensor([{c % size}]), {x}.narrow({axis}, 0, 1) * 0.5)
""",
    "pick_columns": """
{x}.gather(1, torch.tensor({columns}).unsqueeze(1)).squeeze(1)
{x}[torch.arange({x.shape[0]}), torch.tensor({columns})]
F.one_hot(torch.tensor({columns}), {x.shape[1]}) * {x}
""",
    "lookup": """
F.embedding({t}, net.embed.weight)
net.embed.weight[{t}]
net.embed({t}[{k}])
net.embed(torch.tensor({b % WORDS}))
net.embed({t}.unsqueeze(0))
net.padded({t})
net.embed.weight[{b % WORDS}]
net.embed.weight.index_select(0, {t}) * 0.9
torch.stack([net.embed(word) for word in {t}])
net.bag({t}.unsqueeze(0))
net.embed(({t} + 1) % {WORDS})
F.embedding({t}.long(), torch.eye({WORDS}, {WIDTH}, dtype=torch.{run.dtype})) * 0.5
net.embed(torch.cat([{t}, {t}])[:3])
""",
}

AXES = {
    "reduce": """
{x}.sum() * 0.5
torch.logsumexp({x}, dim={axes}, keepdim={keep}) * 0.5
torch.var({x} * 2, dim={axes}, keepdim={keep}, correction=0)
torch.std({x} + torch.arange({x.shape[-1]}), -1, correction=0) ?? x.shape[-1] > 1
{x}.max()
{x}.min() * 0.5
{x}.sum(({axis},), dtype=torch.float64).to(torch.{x.dtype}) * 0.3
torch.linalg.vector_norm({x} + 2, dim={axes}, keepdim={keep}) * 0.2
({x} > 0.1234).any({axis}, keepdim={keep}) * 0.5
(({x} > -0.5678).all(dim={axis})) * 0.5
torch.count_nonzero({x} > 0.1234, dim={axis}) * 0.1
{x}.var(unbiased=False)
torch.var_mean({x}, dim={axes}, keepdim={keep}, correction=0)[0]
{x}.norm() * 0.3 + 0 * {x}.sum()
torch.std_mean({x} + torch.arange({x.shape[-1]}), correction=0) ?? x.shape[-1] > 1
""",
    "softmax": """
F.softmax({x}, dim={axis})
{x}.log_softmax({axis}) * 0.2
torch.softmax({x} / 2.0, dim={axis})
F.glu({x}, {axis}) ?? x.shape[axis] % 2 == 0
F.normalize({x} + 2, dim={axis})
{x}.cumsum({axis}) * 0.3
torch.cumprod({x}.tanh() + 0.5, {axis})
torch.diff({x}, dim={axis}) ?? x.shape[axis] > 1
{x}.logcumsumexp({axis}) * 0.3
""",
    "order": """
{x}.argmax({axis}) * 0.1
torch.argmin({x}, dim={axis}, keepdim=True) * 0.1
torch.argsort({x}, dim={axis}) * 0.1
torch.sort({x}, dim={axis})[0]
torch.topk({x}, 1, dim={axis})[0]
{x}.sort({axis}, descending=True)
{x}.max({axis})
{x}.min(dim={axis}, keepdim=True).values
torch.topk({x}, 2, dim={axis}).values ?? x.shape[axis] > 1
torch.median({x}, dim={axis})[0]
torch.kthvalue({x}, 1, dim={axis})[0]
{x}.argmax() * 0.1
{x}.gather({axis}, {x}.argmax({axis}, keepdim=True))
torch.take_along_dim({x}, torch.argsort({x}, dim={axis}), {axis})
torch.searchsorted(torch.tensor([-0.5, 0.0, 0.5], dtype=torch.{x.dtype}), {x}.detach()) * 0.1
torch.cummax({x}, {axis})[0]
torch.aminmax({x}, dim={axis})[0]
torch.unique({x}.detach()).sum() * 0.3
torch.nonzero({x} > 0).sum() * 0.1
{x}[{x} > -2].sum() * 0.3
""",
    "weights": """
{x} * 0.5 + net.vector
{x} * net.vector
net.vector - {x}
torch.addmm(net.vector, {x}.reshape(-1, {WIDTH}), net.squash.w)
{x} + net.vector.expand({', '.join(map(str, x.shape))})
{x} * net.scale
net.vector.dot({x}) ?? x.ndim == 1
{x} @ net.vector ?? x.ndim > 1
net.squash.w.t() @ {x} ?? x.ndim == 1
{x} @ net.squash.w ?? x.ndim > 1
torch.cat([net.vector.unsqueeze(0), {x}.reshape(-1, {WIDTH})]) ?? x.size <= 24
net.vector
""",
    "linear": """
F.linear({x}, {w}).tanh()
torch.tanh({x} @ {w}.t())
torch.matmul({x}, {w}.T).sin()
torch.tanh(torch.einsum('...i,oi->...o', {x}, {w}))
F.linear({x}, {w}, torch.ones(4, dtype=torch.{x.dtype})).tanh()
torch.tensordot({x}, {w}, dims=([-1], [1])) * 0.5
torch.mm({x}, {w}.t()) * 0.5 ?? x.ndim == 2
torch.mv({w}, {x}) ?? x.ndim == 1
torch.inner({x}, {w}) * 0.5
""",
    "own_product": """
torch.tanh({x} @ {y}{'.t()' * turned})
torch.mm({x}, {y}{'.t()' * turned}).tanh()
torch.matmul({x}, {y}{'.t()' * turned}).sin()
torch.einsum('ij,jk->ik', {x}, {y}{'.t()' * turned}).tanh()
({x} @ {x}.T).diagonal() * 0.3
torch.trace({x} @ {x}.t()) * 0.1
torch.linalg.det({x} @ {x}.t() + 2 * torch.eye({rows}, dtype=torch.{x.dtype})) * 0.01
torch.addmm({x} @ {y}{'.t()' * turned}, {x}, {y}{'.t()' * turned}, beta=0.5, alpha=0.3).tanh()
torch.einsum('ij,ij->i', {x}, {x}) * 0.5
torch.einsum('ij,kj->', {x}, {x}) * 0.1
torch.mv({x}, {y}[0]) * 0.3 ?? turned
({x} @ {y}[:, 0]) * 0.3 ?? not turned
torch.dot({x}[0], {x}[-1]) * 0.3
torch.tril({x}) * 0.5
torch.cdist({x} + 3, {y}{'.t()' * turned}.t()) * 0.1
torch.kron({x}[:1], {x}[:1]) * 0.5 ?? x.shape[1] <= 3
torch.linalg.solve({x} @ {x}.t() + 3 * torch.eye({rows}, dtype=torch.{x.dtype}), {x})
""",
    "attend": """
torch.softmax({x} @ {y}.t(), -1) @ {y}
F.scaled_dot_product_attention({x}, {y}, {y})
(F.softmax(torch.matmul({x}, {y}.transpose(0, 1)) / 3 ** 0.5, dim=-1) @ {y})
net.attention({x}, {y}, {y})[0]
torch.einsum('qk,kd->qd', ({x} @ {y}.T).softmax(1), {y})
""",
    "batch_product": """
torch.tanh(torch.bmm({x}, {y}.transpose(1, 2)))
torch.tanh({x} @ {y}.mT)
torch.einsum('bij,bkj->bik', {x}, {y}) * 0.5
torch.baddbmm({x} @ {y}.mT, {x}, {y}.mT).tanh()
({x} @ {y}[0].t()).tanh()
torch.einsum('bij,bij->b', {x}, {y}) * 0.3
({x} @ {y}[0, 0]).tanh()
""",
    "norms": """
F.layer_norm({x}, ({WIDTH},))
F.layer_norm({x}, ({WIDTH},), net.vector, net.squash.b)
net.group({x}.reshape(-1, {WIDTH}, 1))
F.layer_norm({x}, {x.shape})
net.instance(torch.stack([{x}.reshape(-1, {WIDTH}), {x}.reshape(-1, {WIDTH}) * 0.5], -1))
F.rms_norm({x}, ({WIDTH},))
net.statistics({x}.reshape(-1, {WIDTH}))
""",
}
