"""From the first call of a signature to its kind: trace it, batch it, or say why it cannot be one node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

import torch

from gluonjit.engines.torch.framework.arrays import name_of_device
from gluonjit.engines.torch.framework.buffers import WeightView, passes_as_constant
from gluonjit.engines.torch.framework.originals import REQUIRES_GRAD
from gluonjit.engines.torch.framework.structure import RESULTS, Written
from gluonjit.engines.torch.operators.table import OPERATORS, UNWRITTEN, work_of
from gluonjit.engines.torch.run.program import Program, build, build_for_children
from gluonjit.engines.torch.tracing.cell import ALL_CONSTANT, LOOPS, MADE, RAISED, Call, Cell, TraceFindings
from gluonjit.engines.torch.tracing.effects import PARTS, PLAIN, Outside, attributes, constants_of, flags, training_of
from gluonjit.engines.torch.tracing.recorder import Tracer, recording
from gluonjit.engines.torch.tracing.recurrent import PACKED, WHOLE
from gluonjit.engines.torch.tracing.returned import ReturnedTensors, UnknownResult, gives_views
from gluonjit.engines.torch.tracing.traced_tensors import Positions, TraceTensor
from gluonjit.graph import Kind, Value, family_key, split_kind
from gluonjit.hybrid.capture.cell import product_kind
from gluonjit.hybrid.capture.children import Maker, TracedKind, join
from gluonjit.hybrid.capture.guards.facts import ABSENT, class_attribute, is_plain
from gluonjit.hybrid.capture.guards.follower import Follower, follow
from gluonjit.hybrid.capture.guards.objects import FrameworkObjects, Refused
from gluonjit.hybrid.capture.guards.variants import Noted, first_difference
from gluonjit.hybrid.capture.structure import Kwargs, items_of, map_structure
from gluonjit.hybrid.choose.pacing import captures_whole, note_loop
from gluonjit.hybrid.run.batch import Batch
from gluonjit.program.axes.values import NotBatchable
from gluonjit.program.hoist import cut, used_alone
from gluonjit.program.trace import Built, NeedsValue, Trace, TraceBuilder, join_family

_READS = (
    "it reads a tensor's numbers, writes to a tensor from outside, or uses one that is neither an argument nor a "
    "parameter"
)
_INSTEAD = {
    "ctc_loss": "it reads lengths, and runs for each sample: return scores from the model, and pass those of all "
    "samples to one ctc_loss, padded by pad_sequence",
    "_pack_padded_sequence": PACKED,
    "__getitem__": "it reads a computed index: x.index_select(0, number.reshape(1)).squeeze(0) takes the entry "
    "x[number] without, and torch.where those of a mask",
}
"""Operators that read numbers, and what to type instead."""
_ALIASES = "it returns a view of an argument: a write to the return value is a write to the argument"
_SHARED = "its results share memory: a write to one is a write to the other"
_OVERWRITES = "it writes over what its backward pass needs"
EMPTY = "it returns a tensor without elements: leave out empty parts by an if, as sizes are known"
_LONG, _COUNTS = 64, 3  # operators of a trace, and different numbers of them in traces that differ in sizes


class ResultWithoutTensors(Exception):
    """A call whose result holds no tensor of its own: it follows from shapes."""

    def __init__(self, structure: Any) -> None:
        super().__init__()
        self.structure = structure


def trace_call(call: Call) -> str:
    """Traces a call, which is noted. Says why it cannot be one node; "" if it may be.

    Raises ResultWithoutTensors.
    """
    if not call.values and not call.cell.operator:
        return ALL_CONSTANT
    devices = {value.spec.device for value in call.values}
    if len(devices) > 1:
        return f"its operands are on several devices: {', '.join(sorted(devices))}"
    found = "" if call.run in MADE else _traced(call)
    return found if isinstance(found, str) else ""


def unrolls(call: Call) -> bool:
    """True if a module that was traced repeats operators with a length: no two lengths could run together.

    Iterations of samples of any length do. If they are operators, not layers, to capture one takes as long as eager
    takes to run it. Where a minibatch has several calls of one shape, these run together as a whole, and nothing in
    them is captured. `analysis/pace.py` decides by what both take.
    """
    count = len(call.noted.traced.trace.ops)
    if call.owner is None or count < _LONG or captures_whole():
        return False
    counts = call.cell.counts.setdefault(call.noted.signature, set())
    counts.add(count)
    return len(counts) >= _COUNTS


def make_kind(call: Call) -> Kind | str:
    """Builds the batched program of a call that `trace_call` has traced. A string says why it cannot be one node."""
    cell, owner, _, args, kwargs, values, batch, noted = call
    if call.run in MADE:
        return MADE[call.run](call)
    trace, structure, draws, _ = noted.traced
    specs = list(trace.operands)
    pieces = None
    if not cell.operator and not draws and "hoisting" not in batch.options.without:
        leaves = [not value.depth and (value.base is None or isinstance(value.base, Value)) for value in values]
        pieces = cut(trace, leaves, OPERATORS.call_of)
    pieces = pieces or used_alone(trace)
    made = _kind_of(cell, pieces.rest, structure, draws)
    if isinstance(made, str):
        return made
    try:
        products = [(each.operand, product_kind(cell, each.trace, (), build, work_of)) for each in pieces.pieces]
    except NotBatchable:
        return _kind_of(cell, trace, structure, draws)
    joins = made.pure and made.lone is None and "arity" not in batch.options.without
    if joins and _operands(args, kwargs) == len(specs):
        new = TracedKind(made, pieces.rest, pieces.origins)
        if cell.operator:
            made = _of_any_rows(cell, (args, kwargs), specs, new, batch)
        else:
            key = (batch.options.without, torch.is_grad_enabled(), training_of(owner))
            made = join(_CHILDREN, cell, key, (*args, *kwargs.values()), specs, new, batch)
    return made if pieces.rest is trace else split_kind(trace.operands, made, pieces.kept, products)


def _traced(call: Call, known: Sequence[Any] = ()) -> TraceFindings | str:
    """Traces what a call does, or says why it cannot be one node. Raises ResultWithoutTensors.

    known: tensors that are constants, be they written to between calls.
    """
    recorders: list[Tracer] = []
    try:
        return _trace(call, recorders, {id(tensor) for tensor in known})
    finally:
        for recorder in recorders:
            recorder.close()


def _trace(call: Call, recorders: list[Tracer], known: set[int]) -> TraceFindings | str:
    cell, owner, run, args, kwargs, values, batch, noted = call
    builder = TraceBuilder(noted.specs or [value.spec for value in values])  # which may lie otherwise
    constants = known.union(constants_of(owner, args, kwargs, batch))
    before = attributes(owner), training_of(owner), flags(owner)
    outside = Outside(owner)
    try:
        taped = any(value.taped for value in values)
        follows = not cell.operator
        with outside, recording(builder, lambda tensor: id(tensor) in constants or not follows, taped) as recorder:
            recorders.append(recorder)
            recorder.taped = [value.taped for value in values]
            recorder.ends_in_loops = follows and not captures_whole()
            recorder.by_parts = any(isinstance(arg, (list, tuple, dict)) for arg in (*args, *kwargs.values()))
            placeholders = recorder.placeholders()
            stand_ins = iter(placeholders)
            given, named = map_structure((args, kwargs), lambda item: _stand_in(item, stand_ins, batch))
            if follows:
                result = followed(recorder, owner, run, given, named, noted)
            else:
                result = run(*given, **named)
    except Refused as refusal:
        return refusal.args[0]  # type: ignore[no-any-return]
    except NeedsValue:
        return _looping(cell, recorders) or _INSTEAD.get(cell.name if cell.operator else "", _READS)
    except RecursionError:  # the program's own depth: says nothing about the cell
        raise
    except Exception as error:  # the call itself, run next, raises what the user has to see
        return f"{RAISED} {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    if outside.drawn:
        return "it draws random numbers in Python"
    if outside.changed or (attributes(owner), training_of(owner), flags(owner)) != before:
        cell.never = "it changes its own attributes"
        return cell.never
    if any(tensor.__dict__ for tensor in placeholders):
        return "it sets an attribute of a tensor that it is given"
    if noted.set and not _may_set(cell, noted):
        return f"it sets {type(noted.set[0][0]).__name__}.{noted.set[0][1]}"
    result = (result, [value for _, _, value in noted.set])
    results = ReturnedTensors(recorder)
    try:
        structure, given = results.placed(result, not cell.viewing)
    except UnknownResult as unknown:
        return f"it returns {unknown}"
    except NeedsValue:
        return _READS
    if noted.set:
        structure = Written.of(structure, given, [(module, name) for module, name, _ in noted.set])
    if recorder.overwrites():
        return _OVERWRITES
    noted.facts += tuple(recorder.flags())
    if not cell.operator and gives_views(result, not cell.made):
        return _ALIASES
    if not cell.operator and results.share_memory(cell.made):
        return _SHARED
    places = results.places
    if not places:
        raise ResultWithoutTensors(structure)
    if any(0 in builder.shapes[place][0] for place in places):
        return EMPTY
    trace = builder.finish(places, noted.asked)
    others = sorted({name_of_device(tensor.device) for tensor in trace.consts if tensor.dim()} - {trace.device})
    if len(others) == 1 and [op.name for op in trace.ops] == ["embedding.default"]:
        trace = replace(trace, device=others[0])  # that of its table: indices are numbers of the host
    elif others:
        return f"its operands are on {trace.device}, and its weights on {', '.join(others)}"
    looping = _looping(cell, recorders)  # where the program has caught what ended the trace
    if looping:
        return looping
    learning = [tensor.requires_grad for tensor in trace.consts]
    found = noted.traced = TraceFindings(trace, structure, recorder.draws, learning)
    return found


def _may_set(cell: Cell, noted: Noted) -> bool:
    """True if all that a call sets is made of tensors and constants, for a module that is its cell's alone.

    A list or dictionary that is there twice is not: a write to one is a write to the other.
    """
    met: set[int] = set()

    def settable(value: Any) -> bool:
        if isinstance(value, (list, dict)):
            if id(value) in met or type(value) not in (list, dict):
                return False
            met.add(id(value))
        if isinstance(value, (list, tuple, dict)):
            return all(map(settable, value.values() if isinstance(value, dict) else value))
        return isinstance(value, (torch.Tensor, *PLAIN))

    return not cell.stateless and all(settable(value) for _, _, value in noted.set)


def _looping(cell: Cell, recorders: list[Tracer]) -> str:
    """Says that a call is a loop, and no call of the cell is one node, if the trace found that."""
    if cell.operator or not any(recorder.looped for recorder in recorders):
        return ""
    note_loop()
    if captures_whole():
        return ""
    cell.never = LOOPS
    return LOOPS


def difference(call: Call, before: TraceFindings) -> str:
    """Says what a call does otherwise than when it was traced; "" where that is the same."""
    try:
        found = _traced(call, before.trace.consts)
    except ResultWithoutTensors as plain:
        return f"it returns {plain.structure!r}"
    if isinstance(found, str):  # loops are no longer captured whole: that is decided, and no change of the call
        return "" if found == LOOPS else found
    consts = found.trace.consts, before.trace.consts
    if len(consts[0]) != len(consts[1]) or not all(
        own is other
        or (
            own.shape == other.shape
            and own.dtype == other.dtype
            and torch.allclose(own, other, rtol=0.0, atol=0.0, equal_nan=True)  # as `logdet` has NaN
        )
        for own, other in zip(*consts)
    ):
        return "it uses other weights, or constants with other numbers"
    text = first_difference(*[[*each.trace.listing(), each.structure] for each in (before, found)])
    # PyTorch takes some operators apart by what learns: into others, that do the same.
    return text if before.learning == found.learning else ""


def _of_any_rows(cell: Cell, given: Any, specs: Sequence[Any], new: TracedKind, batch: Batch) -> Kind:
    """The kind of an operator that sums over rows, a loss for one: that of any number of rows, if there is one."""
    if new.kind.poly or not any(spec.mode == "rows" for spec in specs):
        return new.kind
    key: list[Any] = [batch.options.without, torch.is_grad_enabled()]
    map_structure(given, lambda item: key.append(item if isinstance(item, PLAIN) else type(item)))
    found = join(_CHILDREN, cell, tuple(key), (), specs, new, batch)
    cell.by_number = ""  # it would be said of what is no part of the program's own
    return found


def _operands(args: Any, kwargs: Any) -> int:
    """Counts the tensors among arguments, but parameters; a buffer is among them, but may be a constant."""
    return sum(map(_is_operand, items_of((args, kwargs), torch.Tensor)))


def _is_operand(item: Any) -> bool:
    """True if an argument is an operand, and no parameter, which is a constant."""
    return isinstance(item, torch.Tensor) and not isinstance(item, torch.nn.Parameter)


_CHILDREN = Maker(OPERATORS, _is_operand, build_for_children)


def _stand_in(item: Any, stand_ins: Any, batch: Batch) -> Any:
    if item.__class__ is WeightView:
        return item.tensor()
    return next(stand_ins) if isinstance(item, torch.Tensor) and not passes_as_constant(batch, item) else item


_LOOKS = frozenset(
    """shape dtype device ndim layout T mT H mH real imag data requires_grad itemsize nbytes is_cpu is_cuda is_meta
    is_sparse is_sparse_csr is_quantized is_nested is_mkldnn is_mps is_mtia is_xpu is_xla grad grad_fn is_leaf
    retains_grad names""".split()
)
"""Attributes of tensors that follow from shape, dtype and device, or that stand-ins answer by themselves."""
_MEMORY = frozenset(
    """stride is_contiguous storage_offset data_ptr storage untyped_storage storage_type is_set_to is_shared is_pinned
    is_conj is_neg has_names dim_order __dir__ __sizeof__ __class__ __dict__ __hash__ __reduce_ex__""".split()
)
"""What is asked of a tensor's memory, or of what is kept beside its numbers."""


class _TorchObjects(FrameworkObjects):
    """PyTorch's objects, while a call of a module is traced."""

    arrays, traced, blocks = torch.Tensor, TraceTensor, torch.nn.Module
    constants = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo)
    framework, shape = "torch", torch.Size
    flags = {"requires_grad": REQUIRES_GRAD}
    modes = frozenset(
        (
            torch.is_grad_enabled,
            torch.is_inference_mode_enabled,
            torch.no_grad,
            torch.enable_grad,
            torch.set_grad_enabled,
            torch.inference_mode,
        )
    )
    instead = WHOLE

    def __init__(self, owner: Any) -> None:
        modules = owner.modules() if isinstance(owner, torch.nn.Module) else ()
        self._watched = {id(module) for module in modules}

    def writes(self, out: Any) -> list[int]:
        return [tensor.root.writes for tensor in items_of(out, TraceTensor)]

    def answers(self, item: Any, name: str) -> bool:
        if name in _LOOKS:
            return True
        found = class_attribute(torch.Tensor, name)
        return callable(found) and name not in _MEMORY and (not name.startswith("_") or name.endswith("__"))

    def watched(self, item: Any) -> bool:
        return id(item) in self._watched

    def settable(self, item: Any, name: str) -> bool:
        return (
            self.watched(item)
            and name != "training"
            and not name.startswith("__")
            and class_attribute(type(item), name) is ABSENT
            and type(item).__setattr__ is torch.nn.Module.__setattr__
            and not any(name in item.__dict__[space] for space in PARTS)
        )

    def is_result(self, item: Any, name: str) -> bool:
        return name in RESULTS.get(item, ())

    def spaces(self, item: Any) -> Sequence[dict[str, Any]]:
        return [item.__dict__[name] for name in PARTS] if isinstance(item, torch.nn.Module) else ()

    def state(self, item: Any) -> Iterator[tuple[dict[str, Any], str]]:
        for module in item.modules():
            for name in PARTS:
                yield from [(module.__dict__[name], key) for key in module.__dict__[name]]
            yield from [(module.__dict__, name) for name, value in module.__dict__.items() if is_plain(value)]


def followed(recorder: Positions, owner: Any, run: Callable[..., Any], args: Any, kwargs: Kwargs, noted: Noted) -> Any:
    """Records a call and returns its result and what it has read. Raises Refused if it is not a node."""
    follower = Follower(_TorchObjects(owner), (args, kwargs))
    if type(run) is MethodType and run.__self__ is owner:
        names = [name for name in (run.__name__, "forward") if getattr(owner, name, None) == run]
        run = follower.get(owner, names[0]) if names else run  # of other names, where it was assigned
    return follow(recorder, follower, run, args, kwargs, noted)


def structure_of(structure: Any, results: Sequence[int]) -> Any:
    """The structure of what a call returns as kinds have it: None for one tensor, and `tuple` for a tuple of them."""
    flat = type(structure) is tuple and list(structure) == list(range(len(results)))
    return None if structure == 0 else tuple if flat else structure


def _kind_of(cell: Cell, trace: Trace, structure: Any, draws: bool) -> Kind | str:
    shape = structure_of(structure, trace.results)
    if not trace.operands:
        return ALL_CONSTANT
    draws = draws or (cell.operator and not UNWRITTEN.isdisjoint([op.name for op in trace.ops]))  # what nobody compares
    try:
        built = build(trace, len(trace.ops) < _LONG or not captures_whole())
    except NotBatchable as refusal:
        if not cell.operator:
            return str(refusal)
        outputs, rows = trace.outputs()
        lone = Built(Program(trace, max(len(trace.ops), 1)), outputs, rows, False, not draws)
        return lone.kind(cell.name, trace, work_of, lone=str(refusal), operator=True, structure=shape)
    terms = _terms(trace) if cell.operator and built.outputs[0].spec is trace.operands[0] else 0
    kind = built.kind(cell.name, trace, work_of, pure=not draws, operator=cell.operator, sum_of=terms, structure=shape)
    program = built.program
    specs = [*kind.operands, *[output.spec for output in kind.outputs]]
    named = [family_key(spec) if kind.poly else spec for spec in specs]
    key = (kind.poly, kind.pure, *named, program.text, *map(id, program.consts))
    join_family(cell.families, key, kind)
    return kind


def _terms(trace: Trace) -> int:
    """Counts the arrays of equal spec that an operator adds up, if it does nothing else; 0 for others."""
    if len(trace.ops) != 1 or trace.ops[0].name != "add.Tensor" or len(trace.operands) != 2 or trace.consts:
        return 0
    (op,) = trace.ops
    first, second = trace.operands
    plain = dict(op.attrs).get("alpha", 1) == 1 and sorted(op.inputs) == [0, 1]
    return 2 if plain and first is second and first.dtype != "bool" and op.outputs == trace.results else 0
