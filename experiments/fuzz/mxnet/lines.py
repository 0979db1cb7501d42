"""The lines of instructions that MXNet has in addition to those of every framework."""

from __future__ import annotations

ELEMENTWISE = {
    "unary": """
nd.Activation({x}, act_type="softrelu") * 0.5
nd.BlockGrad({x}) - {x} * 0.3
nd.smooth_l1({x}, scalar=1.0)
nd.cbrt({x} * {x} + 0.5)
nd.rcbrt({x} * {x} + 0.5)
nd.gamma({x} * {x} * 0.2 + 1.5)
nd.degrees({x}) * 0.01
nd.hard_sigmoid({x})
nd.Activation({x}, act_type="softsign")
nd.LeakyReLU({x}, act_type="elu", slope=0.4)
nd.LeakyReLU({x}, act_type="gelu")
nd.LeakyReLU({x}, act_type="selu") * 0.5
nd.contrib.quadratic({x}, a=0.1, b=0.2, c=0.3)
nd.contrib.gradientmultiplier({x}, scalar=0.5)
nd.identity({x}) * 0.9
nd.Cast({x}, dtype="float64").astype("{x.dtype}") * 0.9
nd._internal._hypot_scalar({x}, scalar=0.7) * 0.5
nd.Dropout({x}, p=0)
nd.amp_cast({x}.astype("float32"), dtype="float32").astype("{x.dtype}") * 0.8
nd.contrib.div_sqrt_dim({x})
nd.cast_storage({x}, "row_sparse").tostype("default") * 0.7
""",
    "jump": """
nd.maximum({x}, 0.1)
nd.rint({x} * 3) * 0.3
nd.fix({x} * 3) * 0.3
0.7 % ({x} * {x} + 0.5)
nd.logical_or({x} > 0.1, 0) * 0.5
nd.logical_xor({x} > 0.1, {x} > -0.3) * 0.5
nd.logical_and({x} > 0.1, 1) + nd.logical_xor({x} > 0.2, 1)
nd.contrib.round_ste({x} * 3) * 0.3
nd.contrib.sign_ste({x}) * 0.3
nd._internal._maximum({x}, {y})
nd._internal._minimum({x}, {y})
nd.LeakyReLU({x}, act_type="leaky", slope=0.2)
nd.Activation({x}, act_type="relu")
nd._internal._equal({x}, {y}) + nd._internal._greater({x}, {y})
nd._internal._logical_and({x} > 0.2, {y} > 0.2) * 0.5
""",
    "binary": """
nd.broadcast_sub({x}, {y}) * 0.5
nd.clip(nd.add_n({x}, {y}, {x}), -2, 2)
nd.clip(nd.elemwise_add({x}, {y}) + {y}, -2, 2)
nd.arctan({x} * {y} + 3)
nd.elemwise_sub({x}, {y}) * 0.5
nd.elemwise_div({x}, {y} * {y} + 1)
nd.broadcast_power({x} * {x} + 0.5, nd.tanh({y}))
nd._internal._hypot({x} * {x} + 0.2, {y}) * 0.5
nd._internal._power({x} * {x} + 0.5, nd.sin({y}))
nd.amp_multicast({x}.astype("float32"), {y}.astype("float32"), num_outputs=2)
nd.broadcast_div({x}, {y} * {y} + 2)
""",
    "integers": """
nd.Cast({t} % 3, dtype="float32") * 0.2
nd.one_hot({t}, 3) * 0.5
nd.one_hot({t}, 4, on_value=0.5, off_value=-0.5)
nd.broadcast_maximum({t}, {t}[::-1]).astype("float32") * 0.1
""",
    "broadcast": """
nd.clip(nd.broadcast_add({x}, {y}), -2, 2)
nd.clip(nd.broadcast_mul({x}, {y}), -2, 2)
nd.clip(nd.broadcast_sub({x}, {y}), -2, 2)
nd.clip(nd.broadcast_plus({x}, {y}), -2, 2)
""",
    "stretch": """
nd.broadcast_axis({x}, axis={axis}, size={size})
nd.repeat({x}, repeats={size}, axis={axis})
nd.tile({x}, reps={reps})
nd.broadcast_like({x}, nd.zeros({shape}, dtype="{x.dtype}"))
""",
}

SHAPING = {
    "reshape": """
nd.reshape({x}, shape=(0, -1))
nd.reshape_like({x}, {y})
nd.reshape({x}, shape=(-3, 0)) ?? x.ndim == 3
""",
    "turn": """
{x}.T ?? x.ndim != 2
nd.transpose({x}, axes={order})
nd.swapaxes({x}, dim1={b % x.ndim}, dim2={c % x.ndim})
nd.reverse({x}, axis={c % x.ndim})
""",
    "images": """
nd.pad({channels}, mode='constant', pad_width=(0, 0, 0, 0, 0, 1, 1, 0), constant_value=0.3) ?? wide
nd.pad({channels}, mode='edge', pad_width=(0, 0, 0, 0, 0, 1, 1, 0)) ?? wide
nd.UpSampling({channels}, scale=2, sample_type='nearest') ?? wide
nd.Pooling({channels}, kernel=(1, {last}), pool_type='avg')
nd.Pooling({channels}, global_pool=True, pool_type='avg', kernel=(1, 1))
nd.Pooling({channels}, kernel=(1, 1), pool_type='sum') * 0.5
nd.space_to_depth({x}.reshape((1, -1, 2, 2)), block_size=2) ?? x.size % 4 == 0
nd.depth_to_space({x}.reshape((1, 4, -1, 1)), block_size=2) ?? x.size % 4 == 0
nd.contrib.BilinearResize2D({channels}, height=2, width={last}) ?? wide and x.dtype == "float32"
""",
    "split": """
nd.split({x}, num_outputs={count}, axis={axis}, squeeze_axis=False)
nd.split({x}, num_outputs={count}, axis={axis}, squeeze_axis=True) ?? size == count and x.ndim > 1
nd.split_v2({x}, {count}, axis={axis}) ?? count > 1
""",
    "cut": """
nd.slice_axis({x}, axis={axis}, begin={begin}, end={end})
nd.slice_axis({x}, axis={axis}, begin={begin - size}, end=None)
nd.slice_axis({x}, axis={axis - x.ndim}, begin=0, end={end})
nd.slice({x}, begin=({begin},), end=({end},)) ?? axis == 0
nd.slice({x}, begin=(None,), end=(None,))
{x}.slice_axis(axis={axis}, begin={begin}, end={end})
nd.slice_like({x}, nd.zeros({(*x.shape[:axis], end - begin, *x.shape[axis + 1:])}, dtype="{x.dtype}"))
""",
    "index": """
{x}[::-1]{copied}
{x}[:, ::-1][{i}:{j}]{copied} ?? m
""",
    "take": """
nd.take({x}, nd.array([{c % size}, {b % size}], dtype="int32"), axis={axis})
nd.gather_nd({x}, nd.array([[{c % x.shape[0]}, {b % x.shape[0]}]], dtype="int32"))
""",
    "pick_columns": "nd.pick({x}, nd.array({columns}), axis=1)",
    "lookup": """
nd.Embedding({t}, net.embed.weight.data(), input_dim={WORDS}, output_dim={WIDTH})
nd.take(net.embed.weight.data(), {t})
""",
    "rows_by_number": """
nd.take({x}, {t}, mode='wrap') ?? many
nd.take({x}, {t}) ?? many
{x}.take({t}[:1]) * 0.5
{x}[{numbered}] ?? room
{x}[{numbers}] ?? room
nd.gather_nd({x}, nd.array([{numbers}])) ?? room
{x}[{numbered}, nd.array({columns})] ?? columns
nd.scatter_nd({x}, nd.array([{places}]), {(n + c % 3, *x.shape[1:])}) ?? fits(x.size * 3)
nd.contrib.index_copy({x}, nd.array({inside}), {y}[:{len(inside)}] * 0.5)
nd.contrib.index_copy(nd.ones({x.shape}, dtype='{x.dtype}'), nd.array({inside}), {x}[:{len(inside)}])
""",
}

AXES = {
    "reduce": """
nd.sum({x}, axis=None, keepdims={keep}) * 0.5
nd.mean({x}, axis=None, keepdims={keep})
nd.max({x}, axis=None, keepdims={keep})
nd.min({x}, axis=None, keepdims={keep})
nd.nansum({x}, axis=None, keepdims={keep}) * 0.5
nd.norm({x} + 3, axis=None, keepdims={keep}) * 0.2
nd.prod(nd.tanh({x}) + 0.2, axis={axes}, keepdims={keep})
nd.nanprod(nd.tanh({x}) + 0.2, axis={axes}, keepdims={keep})
nd.nanprod(nd.tanh({x}) + 0.2, axis=None, keepdims={keep})
nd.moments({x}, axes={axes}) ?? x.dtype != "float16"
""",
    "softmax": """
nd.SoftmaxActivation({x}) ?? x.ndim > 1 and x.dtype == "float32"
nd.softmax({x}, axis={axis}, temperature=2.0)
""",
    "order": """
nd.sort({x}, axis={axis})
nd.sort({x}, axis={axis}, is_ascend=False)
nd.topk({x}, axis={axis}, k=1, ret_typ="value")
nd.topk({x}, axis={axis}, k=2, ret_typ="both")[0] ?? x.shape[axis] > 1
nd.L2Normalization({x} + 2) ?? x.ndim > 1
nd.argmax_channel({x}.detach()) * 0.1 ?? x.ndim == 2
nd.diag({x}) * 0.5 ?? x.ndim == 2
""",
    "weights": """
{x} * 0.5 + nd.broadcast_to(net.vector.data(), shape={x.shape}) ?? x.ndim == 2
nd.broadcast_mul({x}, net.vector.data()) ?? x.ndim == 2
net.vector.data() * 1.0 ?? x.ndim != 2
""",
    "linear": """
nd.tanh(nd.FullyConnected({x}, {w}, no_bias=True, num_hidden=4, flatten={x.ndim == 2 and bool(b % 2)})) ?? x.ndim > 1
nd.tanh(nd.dot({x}, {w}, transpose_b=True)) ?? x.ndim <= 2
""",
    "own_product": """
nd.tanh(nd.dot({x}, {y}, transpose_b={turned}))
nd.tanh(nd.linalg.gemm2({x}, {y}, transpose_b={turned}))
nd.linalg.syrk({x}, alpha=0.5)
nd.linalg.extractdiag(nd.dot({x}, {x}, transpose_b=True)) * 0.3
nd.linalg.sumlogdiag(nd.dot({x}, {x}, transpose_b=True) + 2) * 0.1
""",
    "attend": "nd.dot(nd.softmax(nd.dot({x}, {y}, transpose_b=True), axis=-1), {y})",
    "batch_product": """
nd.tanh(nd.batch_dot({x}, {y}, transpose_b=True))
nd.tanh(nd.linalg.gemm2({x}, {y}, transpose_b=True, alpha=0.7))
""",
    "norms": """
net.instance({x}.reshape((-1, {WIDTH}, 1)))
nd.GroupNorm({x}.reshape((-1, {WIDTH}, 1)), net.gamma.data(), net.beta.data(), num_groups=3)
""",
    "sequence": """
nd.SequenceMask({x}, sequence_length=nd.array({length}), use_sequence_length=True)
nd.SequenceLast({x}, sequence_length=nd.array({length}), use_sequence_length=True)
nd.SequenceReverse({x}, sequence_length=nd.array({length}), use_sequence_length=True)
""",
}

LAYERS = {
    "call_pairs": """
net.pairs([({x}, [{y}])], {scale})
net.pairs([({x}, [{y}, {z}]), ({z}, ({y},))], {scale})
net.pairs(([{x}, ({x},)], [{y}, [{z}, {x}]]), {scale})
""",
    "call_recurrent": """
net.lstm({x}, [{y}, {y}])
net.gru({x}, [{y}])
net.rnn({x}, [{y}])
net.lstm.unroll(2, [{x}, {y}], begin_state=[{y}, {y}], layout='NTC')
net.gru.unroll(2, [{x}, {y}], begin_state=[{y}], layout='NTC')
net.rnn.unroll(2, [{x}, {y}], begin_state=[{y}], layout='NTC')
""",
    "call_layer": r"""
net.convolution({x}.reshape((-1, {WIDTH}, 1)))
net.prelu({x})
net.swish({x})
net.keep({x})
with autograd.predict_mode():\n    p = net.drop({x})\np * 0.9
net.statistics({x}) * 0.5
net.layer({x}.expand_dims(1)) ?? run.dtype == "float32"
nd.concat(net.squash({x}), net.dense({x}), dim=1) ?? fits(n, 5)
""",
    "call_loss": """
net.l2({x}, {y} * 0.5)
net.l1({x}, {y} * 0.5 + 0.0321)
net.kl({x}, nd.softmax({y}))
nd.softmax_cross_entropy({x}, nd.array({classes})) * 0.2 ?? run.dtype == "float32"
""",
    "step_of_chain": "net.gru({x}, [{h}])[0]",
}

CONTROL = {
    "without_history": r"""
with autograd.pause(train_mode=False):\n    p = nd.sin({x}) + 0.5\np * 1.0
with autograd.pause(train_mode=True):\n    p = nd.sin({x}) + 0.5\np * 1.0
with autograd.pause(train_mode=False):\n    p = nd.sin({x}) + 0.5\np * {x}
with autograd.pause(train_mode=True):\n    p = nd.sin({x}) + 0.5\np * {x}
""",
    "read": r"""
{x}.asnumpy()\n
with autograd.pause():\n    chosen = {x}.mean().asscalar() > 0.0123\n{x} * 0.5 if chosen else nd.sin({x})
with autograd.pause():\n    chosen = bool({x}.sum() < 0.0321)\n{x} * 0.5 if chosen else nd.sin({x})
""",
    "copies": r"""
with autograd.pause():\n    p = {x}.copy()\n    p[:] = p * 0.5\n{x} + p
with autograd.pause():\n    p = nd.zeros({x.shape}, dtype='{x.dtype}')\n    p[0:1] = {x}[0:1]\n{x} * p
with autograd.pause():\n    p = nd.sin({x})\n    p += {x}\n{x} - p * 0.25
""",
    "misuse": """
{x} + nd.ones((9, 8, 7))
nd.dot({x}, nd.ones((11, 2)))
nd.concat({x}.reshape((1, -1)), nd.ones((3, 2, 2)), dim=1)
{x}.reshape((1, -1)).slice_axis(axis=5, begin=0, end=1)
""",
    "write": r"""
p /= 2
p[:] = 0.5
p[:] = {y}
p[0:1] = 0.25
p[0:1] += 1
nd.relu(p, out=p)
nd.tanh({y}, out=p)
nd.elemwise_add(p, {y}, out=p)
{y}.copyto(p)
q = p[0:1]\np[:] = 2\np = p + q
q = p[0:1]\nq[:] = 3
q = p.reshape((-1,))\np += 1\np = q * 1.0
q = p.reshape((-1,))\nq[0:1] = 3
q = nd.zeros(p.shape, dtype=p.dtype)\nq[:] = p\np = p + q
q = nd.zeros(p.shape, dtype=p.dtype)\nnd.sin(p, out=q)\np = p + q
q = nd.zeros(p.shape, dtype=p.dtype)\nq += p\np = p * q
q = nd.stack(p, {y})\nq[0:1] = 0.5\np = p + q.sum(axis=0)
p[:, 0] = 5 ?? x.ndim > 1
p[:, 0] += 1 ?? x.ndim > 1
p[:, 0:1] = {y}[:, 0:1] ?? x.ndim > 1
p[0, 0] = 7 ?? x.ndim > 1
q = p[:, 0:1]\np[:] = 2\np = p + q ?? x.ndim > 1
q = p.T\nq[0:1] = 2\np = p + q.T ?? x.ndim > 1
""",
}
