"""One layer of LSTM, GRU or RNN in one direction over packed rows on the host, with a backward pass of its own.

PyTorch's own for packed rows records each step. Here a step is a few operators on memory that is there before, forward
and backward, and what needs no state runs for all steps at once: weights get their gradients from one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import Function, Variable

from gluonjit.engines.torch.framework.applying import applied

Tensors = tuple[Any, ...]
"""Tensors, in an order of their own."""


class PackedSteps(NamedTuple):
    """The steps of packed rows: how many rows each has, on the host as a tensor too, and places of states.

    before: the place of the state before each row, among those that the sequences begin with and then those of all
    rows; last: the place of each sequence's last row.
    """

    counts: list[int]
    sizes: Any
    before: Any
    last: Any


class _Mode(NamedTuple):
    """The functions of a kind of layer. Biases of the state are added to those of the input, if that is the same.

    forward: of (what is computed of the inputs, counts, states, weight and bias of the state), the states after each
    row, and what else is kept; backward: see `_Pass.backward`.
    """

    forward: Callable[..., Tensors]
    backward: Callable[..., Tensors]
    adds_biases: bool


def run_pass(name: str, packed: Callable[..., Any], steps: PackedSteps, data: Any, begin: Any, weights: Any) -> Any:
    """The outputs of all rows, and the states after the last ones, (sequences, h).

    packed: PyTorch's own way, of (data, begin, weights), for gradients of gradients.
    """
    biases = weights[2:] if len(weights) == 4 else (None, None)
    memory = begin[1] if len(begin) > 1 else None
    outputs, *memories = applied(_Pass, _MODES[name], packed, steps, data, begin[0], memory, *weights[:2], *biases)
    return outputs, [outputs.index_select(0, steps.last), *memories]


class _Pass(Function):  # type: ignore[misc]
    """The pass as one function for autograd."""

    @staticmethod
    def forward(
        ctx: Any, mode: _Mode, packed: Any, steps: PackedSteps, data: Any, state: Any, memory: Any, *weights: Any
    ) -> Any:
        of_input, of_state, bias, own = weights
        if bias is not None and mode.adds_biases:
            bias = bias + own
        given = torch.mm(data, of_input.t()) if bias is None else torch.addmm(bias, data, of_input.t())
        begin = (state,) if memory is None else (state, memory)
        outputs, *kept = mode.forward(given, steps.counts, begin, of_state, own)
        ctx.mode, ctx.packed, ctx.steps = mode, packed, steps
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(data, state, memory, *weights, given, outputs, *kept)
        return (outputs,) if memory is None else (outputs, kept[0].index_select(0, steps.last))

    @staticmethod
    def backward(ctx: Any, found: Any, of_memory: Any = None) -> Any:
        """Gradients by what is computed of inputs and of states, row by row, and by what the sequences begin with."""
        data, state, memory, *weights = ctx.saved_tensors[:7]
        if torch.is_grad_enabled():
            return None, None, None, *_again(ctx, found, of_memory)
        given, outputs, *kept = ctx.saved_tensors[7:]
        found = torch.zeros_like(outputs) if found is None else found
        before = torch.cat([state, outputs]).index_select(0, ctx.steps.before)
        back = ctx.mode.backward
        of_given, of_states, *begun = back(found, of_memory, ctx.steps, given, before, outputs, kept, memory, weights)
        wanted = ctx.needs_input_grad[3:]
        return (
            None,
            None,
            None,
            torch.mm(of_given, weights[0]) if wanted[0] else None,
            *(*begun, None)[:2],
            torch.mm(of_given.t(), data) if wanted[3] else None,
            torch.mm(of_states.t(), before) if wanted[4] else None,
            of_given.sum(0) if wanted[5] else None,
            of_states.sum(0) if wanted[6] else None,
        )


def _again(ctx: Any, *found: Any) -> list[Any]:
    """The gradients by PyTorch's own way, which can be differentiated."""
    given = [None if tensor is None else tensor.view_as(tensor) for tensor in ctx.saved_tensors[:7]]
    data, state, memory, *weights = given
    begin = [each.unsqueeze(0) for each in (state, memory) if each is not None]
    outputs, _, *memories = ctx.packed(data, begin, [weight for weight in weights if weight is not None])
    results = [outputs, *[each[0] for each in memories]]
    heads = [(result, head) for result, head in zip(results, found) if head is not None]
    wanted = [number for number, need in enumerate(ctx.needs_input_grad[3:]) if need]
    sources = tuple(given[number] for number in wanted)
    made = Variable._execution_engine.run_backward(*zip(*heads), True, True, sources, True, False)
    each = dict(zip(wanted, made))
    return [each.get(number) for number in range(len(given))]


def _lstm(given: Any, counts: list[int], begin: Any, weight: Any, bias: Any) -> Tensors:
    """The gates lie in `given` afterwards."""
    (h, c), width, turned = begin, begin[1].shape[1], weight.t()
    outputs, memories, bent = [torch.empty_like(given[:, :width]) for _ in range(3)]
    gates = [given, given[:, : 2 * width], *given.chunk(4, 1)]
    for all_, two, i, f, g, o, output, memory, tanh in _split(counts, *gates, outputs, memories, bent):
        count = len(i)
        all_.addmm_(h[:count], turned)
        two.sigmoid_()
        g.tanh_()
        o.sigmoid_()
        c = torch.mul(f, c[:count], out=memory).addcmul_(i, g)
        h = torch.mul(o, torch.tanh(c, out=tanh), out=output)
    return outputs, memories, bent


def _lstm_back(
    found: Any,
    of_memory: Any,
    steps: PackedSteps,
    gates: Any,
    _: Any,
    outputs: Any,
    kept: Any,
    memory: Any,
    weights: Any,
) -> Tensors:
    memories, bent = kept
    (i, f, g, o), width = gates.chunk(4, 1), outputs.shape[1]
    before = torch.cat([memory, memories]).index_select(0, steps.before)
    slopes = torch.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g)], 1)
    by_o, by_c = bent * o * (1 - o), o * (1 - bent * bent)
    result = torch.empty_like(gates)
    first, last = result[:, : 3 * width].unflatten(1, (3, width)), result[:, 3 * width :]
    h = torch.zeros_like(memory)
    c = torch.zeros_like(memory) if of_memory is None else of_memory.clone()
    for head, slope, to_o, to_c, forget, all_, three, one in reversed(
        _split(steps.counts, found, slopes, by_o, by_c, f, result, first, last)
    ):
        count = len(head)
        here, there = h[:count], c[:count]
        here += head
        torch.mul(here, to_o, out=one)
        there.addcmul_(here, to_c)
        torch.mul(there.unsqueeze(1), slope, out=three)
        there *= forget
        torch.mm(all_, weights[1], out=here)
    return result, result, h, c


def _gru(given: Any, counts: list[int], begin: Any, weight: Any, bias: Any) -> Tensors:
    """The gates lie in `given` afterwards."""
    (h,), width, turned = begin, begin[0].shape[1], weight.t()
    outputs, of_states = torch.empty_like(given[:, :width]), torch.empty_like(given)
    nothing = given.new_zeros(3 * width) if bias is None else bias
    parts = [given[:, : 2 * width], *given.chunk(3, 1), of_states[:, : 2 * width], of_states[:, 2 * width :]]
    for two, r, z, n, all_, of_two, of_n, output in _split(counts, *parts[:4], of_states, *parts[4:], outputs):
        before = h[: len(r)]
        torch.addmm(nothing, before, turned, out=all_)
        two.add_(of_two).sigmoid_()
        n.addcmul_(r, of_n).tanh_()
        h = torch.lerp(n, before, z, out=output)
    return outputs, of_states[:, 2 * width :]


def _gru_back(
    found: Any, _: Any, steps: PackedSteps, gates: Any, before: Any, outputs: Any, kept: Any, memory: Any, weights: Any
) -> Tensors:
    (r, z, n), (of_n,) = gates.chunk(3, 1), kept
    by_n = (1 - z) * (1 - n * n)
    by_r, by_z = by_n * of_n * r * (1 - r), (before - n) * z * (1 - z)
    slopes = torch.stack([by_r, by_z, by_n * r], 1)
    of_states, all_heads = torch.empty_like(slopes), torch.empty_like(outputs)
    h = outputs.new_zeros((steps.counts[0], outputs.shape[1]))
    rows = of_states.flatten(1)
    for head, slope, keep, all_, three, noted in reversed(
        _split(steps.counts, found, slopes, z, rows, of_states, all_heads)
    ):
        here = h[: len(head)]
        torch.add(here, head, out=noted)
        torch.mul(noted.unsqueeze(1), slope, out=three)
        torch.addmm(noted * keep, all_, weights[1], out=here)
    of_given = torch.cat([rows[:, : 2 * outputs.shape[1]], all_heads * by_n], 1)
    return of_given, rows, h


def _rnn(bend: Callable[..., Any]) -> Callable[..., Tensors]:
    def forward(given: Any, counts: list[int], begin: Any, weight: Any, bias: Any) -> Tensors:
        (h,), turned, outputs = begin, weight.t(), torch.empty_like(given)
        for own, output in _split(counts, given, outputs):
            h = bend(torch.addmm(own, h[: len(own)], turned, out=output))
        return (outputs,)

    return forward


def _rnn_back(slope_of: Callable[..., Any]) -> Callable[..., Tensors]:
    def backward(
        found: Any,
        _: Any,
        steps: PackedSteps,
        given: Any,
        before: Any,
        outputs: Any,
        kept: Any,
        memory: Any,
        weights: Any,
    ) -> Tensors:
        slopes, result = slope_of(outputs), torch.empty_like(outputs)
        h = outputs.new_zeros((steps.counts[0], outputs.shape[1]))
        for head, slope, own in reversed(_split(steps.counts, found, slopes, result)):
            here = h[: len(head)]
            here += head
            torch.mul(here, slope, out=own)
            torch.mm(own, weights[1], out=here)
        return result, result, h

    return backward


def _split(counts: list[int], *tensors: Any) -> Sequence[Tensors]:
    """The rows of each step, of each tensor."""
    return list(zip(*[tensor.split(counts) for tensor in tensors]))


_MODES = {
    "lstm.input": _Mode(_lstm, _lstm_back, True),
    "gru.input": _Mode(_gru, _gru_back, False),
    "rnn_tanh.input": _Mode(_rnn(torch.tanh_), _rnn_back(lambda outputs: 1 - outputs * outputs), True),
    "rnn_relu.input": _Mode(_rnn(torch.relu_), _rnn_back(lambda outputs: (outputs > 0).to(outputs.dtype)), True),
}
