"""Stages of a length, with nodes of many lengths at once: values are padded to the longest, and padding is kept out.

An operator that could make padding infinite gets ones there; `along` has what works along a length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from typing import Any

from gluonjit.engines.torch.hooked import plain
from gluonjit.engines.torch.operators.binding import RANDOM, operator_named
from gluonjit.engines.torch.program import build
from gluonjit.engines.torch.ragged.along import convolved, extended, kept, lost, pooled, reduced
from gluonjit.engines.torch.ragged.classes import class_of, order_of
from gluonjit.engines.torch.ragged.form import Form
from gluonjit.engines.torch.ragged.padded import BAR, NUMBER, PaddedTrace, takes_number
from gluonjit.engines.torch.ragged.windows import LARGEST, MEANS
from gluonjit.graph import operand_groups
from gluonjit.program.arguments import counted
from gluonjit.program.trace import NotBatchable, Operand, TraceOp

_SMOOTH = set(
    "add sub rsub mul neg relu tanh sigmoid exp gelu silu leaky_relu elu hardtanh clamp clamp_min clamp_max abs "
    "maximum minimum eq ne lt le gt ge logical_not logical_and logical_or bitwise_not bitwise_and bitwise_or where "
    "masked_fill sin cos erf softplus log_sigmoid_forward sign round floor ceil square isnan isinf zeros_like "
    "ones_like full_like".split()
)
"""Elementwise operators that are finite wherever operands are, and so are their derivatives."""
_SUMS = ("add.Tensor", "sub.Tensor", "add.Scalar", "sub.Scalar", "neg.default")
"""Those whose derivatives are finite of infinite operands, too."""
_ONES = {"div": "other", **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "pow"), "self")}
"""Those that are finite where one argument is 1."""
_PRODUCTS = {
    "mm.default": ("self", "mat2"),
    "bmm.default": ("self", "mat2"),
    "mv.default": ("self", "vec"),
    "dot.default": ("self", "tensor"),
    "addmm.default": ("mat1", "mat2"),
}
_AS_THEY_ARE = ("keep", "permute", "triangle", "diagonal")


def _argument(op: TraceOp, name: str) -> int:
    """The number of the input that an argument is."""
    return int(dict(op.attrs)[name])


def _moved(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    made = padded.again(op, given)
    held = padded.held.get(given[0], frozenset())
    rank = len(padded.trace.shapes[given[0]][0])
    if class_of(op.name) == "permute":
        order = order_of(op.name, dict(op.attrs), rank)
        held = frozenset([place for place, axis in enumerate(order) if axis in held])
    elif class_of(op.name) != "keep":
        held = frozenset()
    padded.held[made[0]] = held
    return made


def _viewed(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Views and expansions: as they follow from the shapes."""
    (given_at,), (made_at,) = op.inputs, op.outputs
    before, after = padded.ragged(given_at), padded.ragged(made_at)
    source, result = padded.shape(given_at), padded.shape(made_at)
    if class_of(op.name) == "expand":
        attrs = (("self", Operand(0)), ("size", result))
        made = padded.emit("expand.default", given, attrs, padded.outputs(op))
        more = len(result) - len(source)
        held = padded.held.get(given[0], frozenset())
        padded.held[made[0]] = frozenset([axis + more for axis in held if source[axis] == result[axis + more]])
        return made
    if list(before.values()) != list(after.values()) or any(
        prod(source[:one]) != prod(result[:two]) for one, two in zip(before, after)
    ):
        raise NotBatchable(f"{op.name}: it mixes lengths")
    made = (padded.view(given[0], result),)
    held = padded.held.get(given[0], frozenset())
    padded.held[made[0]] = frozenset([two for one, two in zip(before, after) if one in held])
    return made


def _is_beginning(padded: PaddedTrace, op: TraceOp) -> bool:
    """Tells whether an operator cuts as many entries as a length from what all samples have."""
    if op.name != "slice.Tensor":
        return False
    dim = counted(len(padded.shape(op.inputs[0])), dict(op.attrs).get("dim", 0))
    return dim in padded.ragged(op.outputs[0]) and dim not in padded.ragged(op.inputs[0])


def _sliced(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Pieces along axes of one size, and beginnings of what all samples have."""
    args = dict(op.attrs)
    rank = len(padded.shape(op.inputs[0]))
    dim = counted(rank, args.get("dim", 0))
    ragged = padded.ragged(op.inputs[0])
    if _is_beginning(padded, op):
        size = padded.shape(op.outputs[0])[dim]
        if args.get("start") not in (None, 0) or args.get("step", 1) != 1 or padded.shape(op.inputs[0])[dim] < size:
            raise NotBatchable(f"{op.name}: of no beginning")
        attrs = (("self", Operand(0)), ("dim", dim), ("start", 0), ("end", size))
        return padded.emit(op.name, given, attrs, padded.outputs(op))
    if padded.form.differing(op):
        raise NotBatchable(f"{op.name}: of numbers that differ")
    if dim in ragged and not (op.name == "select.int" and args["index"] >= 0):
        raise NotBatchable(f"{op.name}: along a length")
    return padded.again(op, given)


def _joined(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    rank = len(padded.shape(op.outputs[0]))
    dim = counted(rank, dict(op.attrs).get("dim", 0))
    if dim in padded.ragged(op.outputs[0]) or (
        class_of(op.name) == "join" and any(dim in padded.ragged(position) for position in op.inputs)
    ):
        raise NotBatchable(f"{op.name}: along a length")
    return padded.again(op, given)


def _elementwise(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    base = op.name.split(".")[0]
    args = dict(op.attrs)
    if base in _ONES:
        place = args.get(_ONES[base])
        if place.__class__ is Operand:
            given = [*given]
            given[place] = padded.filled(given[place], padded.ragged(op.inputs[place]), 1.0)
    elif base not in _SMOOTH:
        raise NotBatchable(f"{op.name}: not beside padding")
    made = padded.again(op, given)
    if any(value in (inf, -inf) for value in args.values() if isinstance(value, float)):
        padded.wild.update(made)
    return made


def _product(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    one, two = [_argument(op, name) for name in _PRODUCTS[op.name]]
    ranks = [len(padded.trace.shapes[given[place]][0]) for place in (one, two)]
    axes = [ranks[0] - 1, max(ranks[1] - 2, 0)]
    held = [axis in padded.held.get(given[place], frozenset()) for place, axis in zip((one, two), axes)]
    ragged = padded.ragged(op.inputs[one])
    if axes[0] in ragged and not any(held):
        given = [*given]
        given[one] = padded.filled(given[one], {axes[0]: ragged[axes[0]]}, 0.0)
    return padded.again(op, given)


def _attention(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    args = dict(op.attrs)
    query, key = [padded.ragged(op.inputs[_argument(op, name)]) for name in ("query", "key")]
    if args.get("dropout_p", 0.0) or any(set(axes) - {2} for axes in (query, key)):
        raise NotBatchable(f"{op.name}: not beside padding")
    if 2 not in key:
        return padded.again(op, given)
    if args.get("is_causal"):
        if key[2] != query.get(2) or args.get("attn_mask") is not None:
            raise NotBatchable(f"{op.name}: of several lengths")
        return padded.again(op, given)
    dtype = padded.trace.shapes[given[0]][1]
    if args.get("attn_mask") is None:
        size = padded.sizes[key[2]]
        rows = padded.shape(op.outputs[0])[2]
        bar = padded.view(padded.need(BAR, key[2], dtype), (1, 1, 1, size))
        shape = (1, 1, rows, size)
        (bar,) = padded.emit("expand.default", [bar], (("self", Operand(0)), ("size", shape)), [(shape, dtype)])
        attrs = [(name, value) for name, value in op.attrs if name != "attn_mask"]
        attrs.append(("attn_mask", Operand(len(given))))
        return padded.emit(op.name, [*given, bar], tuple(attrs), padded.outputs(op))
    place = _argument(op, "attn_mask")
    ragged = padded.ragged(op.inputs[place])
    rank = len(padded.trace.shapes[given[place]][0])
    given = [*given]
    given[place] = padded.filled(given[place], {a: k for a, k in ragged.items() if a != rank - 1}, 0.0)
    given[place] = padded.filled(given[place], {a: k for a, k in ragged.items() if a == rank - 1}, -inf)
    if rank - 1 not in ragged:
        raise NotBatchable(f"{op.name}: a mask that is broadcast")
    return padded.again(op, given)


def _picked(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    """Entries along an axis of one size: along a length, one that is not there would be padding."""
    ragged = padded.ragged(op.inputs[_argument(op, "self")])
    if ragged and counted(len(padded.shape(op.inputs[_argument(op, "self")])), dict(op.attrs)["dim"]) in ragged:
        raise NotBatchable(f"{op.name}: along a length")
    return padded.again(op, given)


def _normalized(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    args = dict(op.attrs)
    place = _argument(op, "input")
    rank = len(padded.shape(op.inputs[place]))
    if any(axis >= rank - len(args["normalized_shape"]) for axis in padded.ragged(op.inputs[place])):
        raise NotBatchable(f"{op.name}: over the rows of a sample")
    return padded.again(op, given)


def _made(padded: PaddedTrace, op: TraceOp, given: list[int]) -> tuple[int, ...]:
    return padded.again(op, given, size=padded.shape(op.outputs[0]))


Write = Callable[[PaddedTrace, TraceOp, list[int]], tuple[int, ...]]
_WRITERS: list[tuple[tuple[Any, ...], Write]] = [
    (_AS_THEY_ARE, _moved),
    (("view", "expand"), _viewed),
    (("cut",), _sliced),
    (("join", "stack"), _joined),
    (("map", "masked", "make"), _elementwise),
    (("reduce",), reduced),
    (("along",), kept),
    (("attention",), _attention),
    (("pick", "gather"), _picked),
    (("embedding", "one_hot"), lambda padded, op, given: padded.again(op, given)),
    (("layer_norm",), _normalized),
    (("loss",), lost),
]
"""How operators are written, by their rules."""
_OF_LENGTHS: dict[Write, set[str]] = {
    _viewed: {"size", "repeats"},
    _made: {"size"},
    pooled: {"kernel_size", "stride"},
    extended: {"pad"},
    _sliced: {"end"},
}
"""The arguments that follow from lengths where operators are written so: they may differ, others may not."""
_BY_NAME: dict[str, Write] = {
    **dict.fromkeys(_PRODUCTS, _product),
    **dict.fromkeys(("new_zeros.default", "new_ones.default", "new_full.default"), _made),
    **dict.fromkeys((*LARGEST, *MEANS), pooled),
    "convolution.default": convolved,
    "constant_pad_nd.default": extended,
}


def write(padded: PaddedTrace, number: int) -> None:
    """Writes an operator of the form. Raises NotBatchable where it cannot be kept from padding."""
    form, op = padded.form, padded.form.ops[number]
    rule = class_of(op.name)
    given = [padded.known[position] for position in op.inputs]
    random = RANDOM in operator_named(op.name).tags and rule != "attention"  # which has no dropout
    if (
        not random
        and number not in form.numbered
        and not any(form.axes(position) for position in (*op.inputs, *op.outputs))
    ):
        made = padded.again(op, given)
        if padded.wild.intersection(given):
            padded.wild.update(made)
        padded.known.update(zip(op.outputs, made))
        return
    wild = padded.wild.intersection(given)
    passing = (_viewed, _sliced, _moved, *((_elementwise,) if op.name in _SUMS else ()))
    how = _BY_NAME.get(op.name) or next((how for rules, how in _WRITERS if rule in rules), None)
    if how is None or random:
        raise NotBatchable(f"{op.name}: not beside padding")
    if how is not _viewed and any(map(padded.folded, (*op.inputs, *op.outputs))):
        raise NotBatchable(f"{op.name}: of a product of lengths")
    if number in form.numbered and how is _elementwise:
        made = _with_numbers(padded, number, op, given)
    elif not form.differing(op) <= _OF_LENGTHS.get(how, set()):
        raise NotBatchable(f"{op.name}: of numbers that differ")
    elif wild and how not in (reduced, kept, *passing) and not (how is _attention and wild == {given[-1]}):
        raise NotBatchable(f"{op.name}: of what may be infinite")
    else:
        made = how(padded, op, given)
    if wild and how in passing:
        padded.wild.update(made)
    padded.known.update(zip(op.outputs, made))


def _with_numbers(padded: PaddedTrace, number: int, op: TraceOp, given: Sequence[int]) -> tuple[int, ...]:
    """Writes an elementwise operator with a number that differs, which each node has for itpadded."""
    base, dtype = op.name.split(".")[0], padded.trace.shapes[given[0]][1]
    if not takes_number(op) or not dtype.startswith(("float", "bfloat")) or padded.wild.intersection(given):
        raise NotBatchable(f"{op.name}: of numbers that differ")
    attrs = (("self", Operand(0)), ("other", Operand(1)))
    return padded.emit(f"{base}.Tensor", [given[0], padded.need(NUMBER, number, dtype)], attrs, padded.outputs(op))


class PaddedProgram:
    """The program of a stage for nodes of any sizes up to given ones: `run` takes (nodes, *shape), and gives such."""

    def __init__(
        self,
        form: Form,
        places: Sequence[int],
        sources: Sequence[int],
        results: Sequence[int],
        sizes: Sequence[int],
        weights: Mapping[int, int],
    ) -> None:
        """Writes operators of a form at these places. Raises NotBatchable.

        weights: the number of each constant that all members share, by its identity.
        """
        padded = PaddedTrace(form, places, sources, sizes)
        for needed in (None, padded.taken):  # what is needed is known when all is written
            padded = padded if needed is None else PaddedTrace(form, places, sources, sizes, list(needed))
            for number in places:
                write(padded, number)
        trace, self.needed = padded.trace.finish([padded.known[position] for position in results]), list(padded.taken)
        self._shapes = [shape for shape, _ in trace.shaped_results()]
        with plain():
            self._function = build(trace).program.function
        self._order = [place for group in operand_groups(trace.operands, False) for (place,) in group]
        self._consts = [weights[id(tensor)] for tensor in trace.consts]

    def run(self, count: int, given: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """The results of `count` nodes: of padded values, and of what is needed of lengths."""
        found = self._function(count, *[given[place] for place in self._order], *[weights[k] for k in self._consts])
        return [result.reshape(count, *shape) for result, shape in zip(found, self._shapes)]
