"""Records: the common part of calls of one signature, found or made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, ref

import torch

from gluonjit.engines.torch.capture.patterns import note_record, note_refusal, refused_before
from gluonjit.engines.torch.framework.arrays import LEARNABLE
from gluonjit.engines.torch.framework.buffers import note_versions
from gluonjit.engines.torch.framework.layers import WHOLE
from gluonjit.engines.torch.lengths.program import JOINER
from gluonjit.engines.torch.run.program import program_of
from gluonjit.engines.torch.tracing.cell import LOOPS, RAISED, UNROLLED, Call, Cell, never
from gluonjit.engines.torch.tracing.effects import attributes, parts_of, training_of, undrawn
from gluonjit.engines.torch.tracing.kinds import ResultWithoutTensors, make_kind, structure_of, trace_call, unrolls
from gluonjit.engines.torch.values.pending_statistics import WAITING
from gluonjit.graph import Kind, Record, Spec
from gluonjit.hybrid.capture.capturing import room_of
from gluonjit.hybrid.capture.guards.facts import Fingerprint
from gluonjit.hybrid.capture.guards.variants import Variant, holding, put_record, too_many, variant_key
from gluonjit.hybrid.capture.lengths.joining import without_sizes
from gluonjit.hybrid.capture.outlining.free_functions import note_operator
from gluonjit.hybrid.choose.pacing import SPENT, TRACE
from gluonjit.hybrid.run.batch import RUNNING, Batch
from gluonjit.hybrid.run.state import abandoned_trial

Key = tuple[Any, ...]
"""What must be equal for calls to be of one record."""
_MOST_KINDS = 4096

WATCHED: WeakKeyDictionary[Any, WeakSet[Cell]] = WeakKeyDictionary()
"""The cells of which a module is a part: a change of its attributes may change what they do."""


def is_watched(module: Any) -> bool:
    """True if attributes of a module count: for a cell of which not every call runs as it is in any case."""
    cells = WATCHED.get(module)
    return cells is not None and any([not never(cell) for cell in cells])


class NotOneNode(Exception):
    """A call that is not one node; the text says why."""


@contextmanager
def noting(batch: Batch, name: str, why: NotOneNode) -> Iterator[None]:
    """Runs an operator that is no node, and lets the report say why it is none.

    Where tracing it has raised an error it says so when the operator has run: what PyTorch refuses says why by itself.
    """
    late = str(why).startswith(RAISED)
    if not late:
        batch.report.unbatched[name] = str(why)
    yield
    if late:
        batch.report.unbatched[name] = str(why)


def weights_of(kind: Kind) -> Sequence[Any]:
    """The weights that calls of a kind use."""
    consts = program_of(kind).consts
    if kind.split is None:
        return consts
    return [*consts, *[tensor for _, product in kind.split.products for tensor in program_of(product).consts]]


ASKED = ("granularity='op'", "expand", SPENT)


def _asked_for(cell: Cell, owner: Any, batch: Batch) -> str:
    """Names what has it that calls of this cell are not one node, if something has."""
    if cell.whole:
        return ""
    if batch.setting.granularity == "op" and not isinstance(owner, WHOLE):
        return ASKED[0]
    names = batch.options.expand
    return ASKED[1] if names and (type(owner).__name__ in names or cell.name in names) else ""


def record_of(call: Call, key: Key) -> Record | Any:
    """The record of a signature in the open batch; for a call without tensors what it gives. Raises NotOneNode."""
    cell, owner, batch = call.cell, call.owner, call.batch
    asked = _asked_for(cell, owner, batch)
    if asked:
        raise NotOneNode(asked)
    looks = () if cell.stateless else looks_of(cell, owner, batch)
    if cell.seen is not None and cell.seen != looks:
        batch.own.changed[cell] = batch.own.changed.get(cell, 0) + 1
        cell.change(batch.own.changed[cell])
    if never(cell):
        raise NotOneNode(cell.never)
    wanted = wanted_by(call, key)
    reason = cell.expanded.get(wanted)
    if reason is None and not cell.operator:
        reason = refused_before(call, wanted)
    if reason:
        raise NotOneNode(reason)
    variant, kind = _held(cell, wanted)
    if variant is not None and variant.key in cell.plain:
        return cell.plain[variant.key]
    cache, new = batch.report.cache, kind is None
    if kind is not None:
        cache["hits"] += 1
    elif abandoned_trial():
        raise NotOneNode(ASKED[2])
    else:
        cache["misses"] += 1
        batch.report.miss(cell, owner)
        if len(cell.kinds) + len(cell.expanded) + len(cell.plain) >= _MOST_KINDS:
            cell.clear()
        cell.seen = looks
        variant, made = _made(call, wanted)
        if not isinstance(made, Kind):
            return made
        kind = cell.kinds[variant.key] = made
    assert variant is not None
    if _waits(batch, kind):
        raise NotOneNode(WAITING)
    record = _put(batch, key, kind, variant, None if cell.operator else (wanted, owner))
    if not cell.operator:
        note_record(call, record, new)
    return record


def _held(cell: Cell, wanted: Key) -> tuple[Any, Kind | None]:
    """The variant of a signature that holds now, and its kind."""
    variant = holding(cell.variants.get(wanted, ()))
    return variant, None if variant is None else cell.kinds.get(variant.key)


_UNKNOWN = (None, True, False)


def record_again(batch: Batch, cell: Cell, owner: Any, key: Key) -> tuple[Record, Key] | None:
    """The record of a signature that another batch has had, and its key in this one; None where that is not known."""
    if cell.operator:
        variant, kind = _held(cell, (batch.options.without, None, *key))
        if kind is None or _waits(batch, kind):
            return None
        batch.report.cache["hits"] += 1
        return _put(batch, key, kind, variant, None), key
    unseen = owner is not None and not cell.made  # what a made cell holds has no hooks
    if _asked_for(cell, owner, batch) or (unseen and batch.noted.get(id(owner), _UNKNOWN)[1]):
        return None  # it has hooks in it, or may have
    known = key if owner is None else (*key[:3], *key[4:])
    record = found_again(batch, (batch.options.without, _training(cell, owner, batch), *known), owner)
    return None if record is None else (record, key if owner is None else (*key[:3], batch.changes, *key[4:]))


def _put(batch: Batch, key: Key, kind: Kind, variant: Variant, found_by: tuple[Any, Any] | None) -> Record:
    """Lets calls of a signature find this kind in the open batch.

    `found_by` is what finds it in another; None where `signature_of` makes that of the key.
    """
    cell: Cell = key[0]
    if cell.by_number:
        batch.report.by_number[cell.name] = cell.by_number
    weights = weights_of(kind)
    given = key[-1] and any([spec.dtype in LEARNABLE for spec in kind.operands])
    taped = given or (key[1] and any([tensor.requires_grad for tensor in weights]))
    taped = taped and program_of(kind).learns and any([output.spec.dtype in LEARNABLE for output in kind.outputs])
    note_versions(batch, weights)
    record = put_record(batch.records, key, kind, variant, 2 if taped else 0, room_of(kind, batch.options))
    batch.reused[record] = found_by or key
    if cell.operator:
        note_operator(batch)
    return record


def _waits(batch: Batch, kind: Kind) -> bool:
    """True if calls of a kind read running statistics that calls update which wait."""
    buffers = batch.own.statistics.buffers
    return bool(buffers) and any([id(tensor) in buffers for tensor in weights_of(kind)])


def signature_of(batch: Batch, record: Record) -> tuple[Any, Any]:
    """Returns what finds a record's kind in another batch: the signature as its cell has it, and whose call it is."""
    found = batch.reused[record]
    return found if found[0].__class__ is tuple else ((batch.options.without, None, *found), None)


def found_again(batch: Batch, wanted: Key, owner: Any) -> Record | None:
    """The record of a signature that was met in another batch; None where it is stale."""
    _, training, cell, learning, cast, *rest = wanted
    key = (cell, learning, cast, *rest) if owner is None else (cell, learning, cast, batch.changes, *rest)
    record = batch.records.get(key)
    if record is not None and (record.guards is None or record.guards.hold()):
        return record
    looks = () if cell.stateless else looks_of(cell, owner, batch)
    if (cell.seen is not None and cell.seen != looks) or _training(cell, owner, batch) != training or never(cell):
        return None
    variant, kind = _held(cell, wanted)
    if kind is None or _waits(batch, kind):
        return None
    batch.report.cache["hits"] += 1
    for pattern in cell.patterns.values():
        if pattern.fresh and any([record.kind is kind for record in pattern.fresh]):
            pattern.fresh.clear()
    return _put(batch, key, kind, variant, (wanted, owner))


def refused_at_once(cell: Cell, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], batch: Batch) -> str:
    """Says why a call is no node, where that can be told without a look into its arguments; "" where it cannot."""
    if never(cell):
        return _asked_for(cell, owner, batch) or cell.never
    if not cell.patterns:
        return ""
    found = cell.patterns.get((torch.is_grad_enabled(), getattr(owner, "training", None), *map(type, args), *kwargs))
    if found is None or not found.never:
        return ""
    batch.report.fine.add(cell.name)
    return found.never


def looks_of(cell: Cell, owner: Any, batch: Batch) -> Any:
    """Looks at what a module's program may depend on; a change of that is noticed from now on, and counts."""
    return _looked(cell, owner, batch)[0]


def _training(cell: Cell, owner: Any, batch: Batch) -> Any:
    """Tells which parts of a module train."""
    return training_of(owner) if cell.stateless else _looked(cell, owner, batch)[1]


def _looked(cell: Cell, owner: Any, batch: Batch) -> tuple[Any, Any]:
    key = (id(owner), batch.changes)
    found = batch.looks.get(key)
    if found is None:
        if owner is None or cell.looked is None or not cell.looked[0].holds(owner):
            if owner is not None:
                for part in parts_of(owner):
                    WATCHED.setdefault(part, WeakSet()).add(cell)
            cell.looked = None if owner is None else (Fingerprint(owner), (attributes(owner), training_of(owner)))
        found = batch.looks[key] = ((), None) if cell.looked is None else cell.looked[1]
    return found


def _made(call: Call, wanted: Key) -> tuple[Variant, Any]:
    """A new variant of a signature, and its kind, or what a call without tensors gives. Raises NotOneNode."""
    cell = call.cell
    known = cell.variants.get(wanted, [])
    made: Any = too_many(known) or None
    call.noted.specs = [item for item in wanted if item.__class__ is Spec]
    call.noted.signature = without_sizes(wanted)
    try:
        if made is None:
            with RUNNING, TRACE, undrawn():
                made = (JOINER.derived(call) if cell.joints else None) or trace_call(call) or _kind(call)
    except ResultWithoutTensors as plain:
        made = plain
    if isinstance(made, str):
        if made not in (LOOPS, UNROLLED):
            cell.expanded[wanted] = made
            note_refusal(call, made)
        raise NotOneNode(made)
    variant = call.noted.variant(variant_key(wanted, len(known)))
    cell.variants.setdefault(wanted, known).append(variant)
    if isinstance(made, ResultWithoutTensors):
        cell.plain[variant.key] = made.structure
        return variant, made.structure
    if call.noted.steady():
        _note_lookup(cell, made, call.owner)
    return variant, made


def _kind(call: Call) -> Kind | str:
    """The kind of a traced call, which may be that of calls with other sizes."""
    traced = call.noted.traced
    if traced is None:
        return make_kind(call)
    structure = structure_of(traced.structure, traced.trace.results)
    made: Kind | str | None = JOINER.of_other_lengths(call, traced, structure)
    if made is None and unrolls(call):
        made = call.cell.never = UNROLLED
    made = made or make_kind(call)
    return made if isinstance(made, str) else JOINER.join(call, made, traced)


def wanted_by(call: Call, key: Key) -> Key:
    """A signature as the cell has it, for all batches."""
    training = _training(call.cell, call.owner, call.batch)
    return (call.batch.options.without, training, *(key if call.owner is None else (*key[:3], *key[4:])))


def _note_lookup(cell: Cell, kind: Kind, owner: Any) -> None:
    """Remembers a cell that is nothing but a look-up in one of its parameters."""
    trace = program_of(kind).trace
    if cell.operator or kind.split is not None:
        return
    if len(trace.ops) != 1 or trace.ops[0].name != "embedding.default" or len(trace.consts) != 1:
        return
    (op,) = trace.ops
    if op.inputs == (1, 0) and len(trace.operands) == 1 and kind.structure is None:
        attrs = tuple([(name, value) for name, value in op.attrs if name not in ("weight", "indices")])
        cell.lookup = (trace.consts[0], attrs, _nothing if owner is None else ref(owner))


def _nothing() -> None:
    """Does nothing, where no module has the table."""
