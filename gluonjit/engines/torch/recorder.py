"""Records a call: its operators are noted in a trace, on placeholders, and none runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gluonjit.engines.torch.arrays import INDICES, LEARNABLE, device_named, dtype_named, name_of_dtype, on_host, spec_of
from gluonjit.engines.torch.aten import (
    ASSIGNING,
    COPIED,
    WITHOUT_DERIVATIVE,
    functional,
    keeps_statistics,
    operator_of,
    split_arguments,
    without_rule,
)
from gluonjit.engines.torch.buffers import note_written
from gluonjit.engines.torch.caught import caught
from gluonjit.engines.torch.hooked import REQUIRES_GRAD, make_wrapper, without_autocast
from gluonjit.engines.torch.recurrent import kept_whole
from gluonjit.engines.torch.rules.linear import CHECKING, MATRICES
from gluonjit.engines.torch.rules.table import draws
from gluonjit.engines.torch.rules.values import regular
from gluonjit.engines.torch.saved import Write, overwritten
from gluonjit.engines.torch.trace import DETACH, FILLED, WITHOUT_HISTORY, Loops, NeedsValue, Operand, Trace, TraceOp
from gluonjit.engines.torch.views import ViewStep, detaches, through
from gluonjit.hybrid.capture.guards.facts import SLOT, Fact
from gluonjit.hybrid.capture.guards.interrupts import watch
from gluonjit.hybrid.capture.structure import map_structure
from gluonjit.hybrid.run.state import LOCAL

_UNFILLED = {torch.ops.aten.empty, torch.ops.aten.empty_strided}
_NONE: frozenset[int] = frozenset()
_MANY = 2  # times as many rows as there are indices
_FEW = 8  # writes to a tensor that are recorded, though all that it holds is known
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_MASKS = (torch.bool, torch.uint8)

_WITHOUT_GRADIENT = {torch.ops.aten.randint_like, torch.ops.aten.linspace, torch.ops.aten.logspace}
"""Operators that torch's functions of their names call without autograd, which has no derivative of them."""
_WITH_GRADIENT = {torch.ops.aten._embedding_bag_forward_only.default: torch.ops.aten._embedding_bag.default}
"""Operators that PyTorch takes where a placeholder, which never learns, stands for what may."""


class TraceTensor(torch.Tensor):  # type: ignore[misc]
    """A stand-in for a tensor in a traced function: it stands for a position of a trace.

    base: what it is a view of, or None; path: how it comes from there; learning: whether gradients were recorded then;
    outside: whether its memory was there before the call; writes: how often its memory has been written to, as far as
    this position shows; places: the positions that its memory has had, of a view those of its base.
    """

    __slots__ = ("base", "learning", "outside", "path", "places", "position", "recorder", "writes")
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Reached where the recorder does not stand before it: the tensor has left its trace."""
        raise NeedsValue

    @property
    def requires_grad(self) -> bool:
        """Tells whether gradients go through it, where that holds for all calls of this signature."""
        self.recorder.asks_mode = True
        found = self.recorder.learns_at(self.position)
        if found is None:
            raise NeedsValue
        return bool(found)

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        raise NeedsValue

    def _attached(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what is attached to one call's tensor, shares its memory, or is asked of its history."""
        raise NeedsValue

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Changes nothing where that holds for all calls of this signature; others run by themselves."""
        if self.requires_grad is not requires_grad:
            raise NeedsValue
        return self

    def tolist(self) -> Any:
        """Returns the numbers, where they are made of nothing."""
        return self.recorder.known_numbers(self).tolist()

    register_hook = register_post_accumulate_grad_hook = retain_grad = backward = _attached
    numpy = __array__ = _attached
    is_inference = _attached
    is_leaf = retains_grad = property(_attached)
    grad_fn = grad = property(_attached, _attached)


class Tracer(TorchDispatchMode):  # type: ignore[misc]
    """Records every operator called while it is active.

    `constant(tensor)` says whether a tensor from outside is the same in every call, as a parameter is.
    """

    def __init__(self, trace: Trace, constant: Callable[[Any], bool], taped: bool) -> None:
        super().__init__()
        self.trace = trace
        self.draws = False
        self.asks_mode = False  # whether the program asks whether gradients are recorded
        self.loops = Loops()
        self.ends_in_loops = False
        self.looped = False
        self.by_parts = False  # whether it was given lists, or has taken a tensor apart into its rows
        self.follower: Any = None  # what sees to Python's state, where the user's code is recorded
        self._constant = constant
        self._known: dict[int, int] = {}
        self._plain = True  # whether no constant is of a class with methods of its own
        # What operators run on to tell the shapes of their results. Not of device "meta": in Python, PyTorch's kernels
        # for that one import its compiler, which takes seconds.
        self._shapes: list[Any] = [torch.zeros(spec.shape, dtype=dtype_named(spec.dtype)) for spec in trace.operands]
        self._made_of_nothing: set[int] = set()  # positions of which `_shapes` has the numbers, in this call and others
        self._views: list[TraceTensor] = []
        self.writes: list[Write] = []  # see `saved.overwritten`
        self.learns = torch.is_grad_enabled()
        # Of one operand the signature says whether gradients go through it, of several whether through any.
        self.operands_learn = taped and self.learns
        status = (len(trace.operands) == 1 or None) if self.operands_learn else False
        self._learned: dict[int, bool | None] = dict.fromkeys(range(len(trace.operands)), status)
        self._through: dict[int, frozenset[int]] = {}  # of positions, the constants whose flags that follows from
        self._asked: set[int] = set()  # constants on whose flags the trace depends

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leaves torch.compile alone; returning True would import all of it, which takes seconds."""
        return False

    def placeholders(self) -> list[TraceTensor]:
        """The operands."""
        return [self._tensor(position, True) for position in range(len(self.trace.operands))]

    def _tensor(self, position: int, outside: bool = False) -> TraceTensor:
        like = self._shapes[position]
        found: TraceTensor = make_wrapper(
            TraceTensor,
            like.shape,
            strides=like.stride(),
            storage_offset=like.storage_offset(),
            dtype=like.dtype,
            device=device_named(self.trace.device),
        )
        found.position, found.recorder, found.outside = position, self, outside
        found.base, found.path, found.writes, found.places = None, (), 0, {position}
        found.learning = torch.is_grad_enabled()
        return found

    def owns(self, tensor: Any) -> bool:
        """Tells whether a tensor was computed in this trace, or is an operand of it."""
        return tensor.__class__ is TraceTensor and tensor.recorder is self

    def place_of(self, tensor: TraceTensor) -> int:
        """Returns the position of a tensor; a view of what has been written to since is taken anew."""
        base = tensor.base
        if base is not None and base.writes != tensor.writes:
            with torch.set_grad_enabled(tensor.learning), self:
                found = base
                for step in tensor.path:
                    found = step.of(found)
            tensor.position, tensor.writes = found.position, base.writes
            tensor.places.add(tensor.position)
        return int(tensor.position)

    def close(self) -> None:
        """Lets go of what views refer to: PyTorch's own references between them are not seen by the collector."""
        for view in self._views:
            view.base, view.path = None, ()
        self._views.clear()

    def spec_at(self, position: int) -> Any:
        """The spec of the tensor at a position."""
        return spec_of(self._shapes[position])

    def overwrites(self) -> bool:
        """Tells whether it writes over what is saved for a backward pass, as far as that can be told."""
        return overwritten(self.trace, self._shapes, self.learns_at, self.writes)

    def learns_at(self, position: int) -> bool | None:
        """Tells whether gradients go through a position, for a decision: the trace holds while that is so.

        None if it is not the same in all calls.
        """
        if self._may_learn(position):
            self._asked |= self._through.get(position, _NONE)
        return self._status(position)

    def flags(self) -> Iterator[Fact]:
        """The weights by which decisions went, and whether each learns."""
        for position, tensor in self.trace.consts:
            if position in self._asked:
                yield Fact(SLOT, tensor, REQUIRES_GRAD, tensor.requires_grad, "which of its weights require gradients")

    def _may_learn(self, position: int) -> bool:
        return self.trace.shapes[position][1] in LEARNABLE

    def _status(self, position: int) -> bool | None:
        return self._learned.get(position, False) if self._may_learn(position) else False

    def _pass_on(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        through = [position for position in inputs if self._may_learn(position)] if torch.is_grad_enabled() else []
        found = {self._status(position) for position in through}
        flags = [self._through.get(position, _NONE) for position in through if self._status(position)]
        if flags:  # one of them is enough
            shared = min(flags, key=len)
        else:
            shared = _NONE.union(*[self._through.get(position, _NONE) for position in through])
        self._learned.update(dict.fromkeys(outputs, True if True in found else None if None in found else False))
        self._through.update(dict.fromkeys(outputs, shared))

    def _position(self, tensor: Any) -> int:
        if tensor.__class__ is TraceTensor:
            if tensor.recorder is not self:
                raise NeedsValue
            return int(self.place_of(tensor))
        found: int | None = self._known.get(id(tensor))
        if found is None:
            if not self._constant(tensor):
                raise NeedsValue
            found = self._new_constant(tensor)
        return found

    def _new_constant(self, tensor: Any) -> int:
        if type(tensor) not in _PLAIN:
            self._plain = False
            if self.follower is not None:
                self.follower.watch()
        position = self._new(on_host(tensor))
        self._known[id(tensor)] = position
        self._learned[position] = self.learns and tensor.requires_grad
        if self.learns:
            self._through[position] = frozenset((position,))
        self.trace.consts.append((position, tensor))
        self.loops.add_constant(position, tensor)
        return position

    def _new(self, like: Any) -> int:
        self._shapes.append(like)
        self.trace.shapes.append((tuple(like.shape), name_of_dtype(like.dtype)))
        return len(self._shapes) - 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Records an operator and returns placeholders of its results."""
        notice = sys.getprofile() if self.follower is not None and self._plain else None
        if notice is None:
            return self._dispatched(func, args, kwargs)
        sys.setprofile(None)  # nothing of the user's runs, and Python runs twice as fast
        try:
            return self._dispatched(func, args, kwargs)
        finally:
            watch(notice)

    def _dispatched(self, func: Any, args: Any, kwargs: Any) -> Any:
        known = operator_of(func)
        if not known.known or keeps_statistics(func, args):
            raise NeedsValue
        named = dict(zip(known.arguments, args), **(kwargs or {}))
        if known.by_numbers and not self._by_whole_numbers(func, args):
            return self._by_known_numbers(func, named)
        if func is torch.ops.aten._linalg_check_errors.default:
            return self._check(self._position(named["info"]))
        written = None
        if known.mutable:
            written = self._written(func, named)
            if torch.Tag.inplace_view in func.tags:
                return self._reshape(func, functional(func), named, written, args, kwargs)
            if written.writes >= _FEW and self._write_known(func, named, written):
                return written
            begin, position = len(self.trace.ops), written.position
            found = self._write(written, self._new_numbers(func, named, written))
            if self.learns:
                self.writes.append((begin, len(self.trace.ops), position, written.places, torch.is_grad_enabled()))
            return found
        if not known.random and not _tensors(named.values()):
            return self._made(func, named)
        if known.name == "lift_fresh.default":
            tensor = named["self"]
            return self._known_constant(tensor) if tensor.__class__ is not TraceTensor else tensor
        return self._record(func, named)

    def _by_whole_numbers(self, func: Any, args: Any) -> bool:
        """Tells whether the shape of a call's result depends on no value: it indexes by integers, for one.

        Not where a module's call takes few rows of many by an argument: outside of one node these are references, and
        a node would have all rows as an operand.
        """
        if func is torch.ops.aten.one_hot.default:
            return bool(args[1] >= 0)
        if func is torch.ops.aten._ctc_loss.default:  # its lengths are numbers of Python
            return True
        if func is not torch.ops.aten.index.Tensor:
            return False
        if any(item is not None and item.dtype in _MASKS for item in args[1]):
            return False
        rows = args[1][0]
        few = rows is not None and _MANY * rows.numel() < args[0].shape[0]
        return not (few and rows.__class__ is TraceTensor and rows.outside and self.follower is not None)

    def _by_known_numbers(self, func: Any, named: dict[str, Any]) -> Any:
        """Computes what follows from numbers made of nothing, which are the same in each call of these sizes.

        In calls of other sizes they are others, so these are not derived from this one. Raises NeedsValue.
        """
        if func is torch.ops.aten.index.Tensor:
            return self._dispatched(func, (named["self"], self._without_masks(named["self"], named["indices"])), None)
        if func is torch.ops.aten.masked_select.default and named["mask"].shape == named["self"].shape:
            return self._by_known_numbers(
                torch.ops.aten.index.Tensor, {"self": named["self"], "indices": [named["mask"]]}
            )
        found = func(**{name: self.numbers(value) for name, value in named.items()})
        self._ask()
        if isinstance(found, (list, tuple)):
            return type(found)(map(self._known_constant, found))
        return self._known_constant(found) if isinstance(found, torch.Tensor) else found

    def _without_masks(self, tensor: Any, indices: Sequence[Any]) -> list[Any]:
        """Indices with the numbers of what masks choose in place of these. Raises NeedsValue, without masks too."""
        if not any(item is not None and item.dtype in _MASKS for item in indices):
            raise NeedsValue
        found: list[Any] = []
        for item in indices:
            if item is None or item.dtype not in _MASKS:
                found.append(item)
                continue
            if item.shape != tensor.shape[len(found) : len(found) + item.dim()]:
                raise NeedsValue  # PyTorch refuses it
            found += map(self._known_constant, self.numbers(item).nonzero().unbind(1))
        self._ask()
        return found

    def known_numbers(self, tensor: TraceTensor) -> Any:
        """The numbers of a tensor, which the program reads. Raises NeedsValue where they are not made of nothing."""
        found = self.numbers(tensor)
        self._ask()
        return found

    def numbers(self, value: Any) -> Any:
        """The numbers of what was made of nothing; other arguments as they are. Raises NeedsValue."""
        if not isinstance(value, torch.Tensor):
            return value
        position = self._position(value)
        if position not in self._made_of_nothing:
            raise NeedsValue
        return self._shapes[position]

    def _ask(self) -> None:
        if self.follower is not None:
            self.follower.asked.append(object())  # which is like that of no other call

    def _check(self, info: int) -> None:
        """Lets the operator that says whether it has failed raise an error where it runs."""
        if caught():
            raise NeedsValue
        for number, op in enumerate(self.trace.ops):
            if info in op.outputs and op.name in CHECKING:
                attrs = tuple([(name, value) for name, value in op.attrs if name != "check_errors"])
                self.trace.ops[number] = op._replace(attrs=(*attrs, ("check_errors", True)))
                return
        raise NeedsValue

    def _new_numbers(self, func: Any, named: dict[str, Any], written: TraceTensor) -> int:
        """Returns the position of what an operator writes, as a separate tensor."""
        assign = ASSIGNING.get(func)
        if assign is not None:
            with self:
                return self._position(assign(written, *[value for name, value in named.items() if name != "self"][:1]))
        defaults = {argument.name: argument.default_value for argument in func._schema.arguments}
        func = functional(func)
        wanted = {argument.name for argument in func._schema.arguments}
        for argument in func._schema.arguments:
            if argument.name not in named and not argument.has_default_value():
                named[argument.name] = defaults[argument.name]
        found = self._record(func, {name: value for name, value in named.items() if name in wanted})
        if not isinstance(found, torch.Tensor):
            raise NeedsValue
        return self._position(found)

    def _reshape(self, func: Any, other: Any, named: dict[str, Any], written: Any, args: Any, kwargs: Any) -> Any:
        """`squeeze_` for one: the placeholder itself has another shape from now on, and is a view of what it was."""
        if any(view.base is written for view in self._views):
            raise NeedsValue
        found = self._record(other, named)
        if written.base is not None:
            written.path = found.path
        self._views = [view for view in self._views if view is not found]
        written.position = found.position
        written.places.add(found.position)
        with torch._C._DisableTorchDispatch():
            func(*args, **(kwargs or {}))
        return written

    def _write_known(self, func: Any, named: dict[str, Any], written: TraceTensor) -> bool:
        """Writes known numbers to known ones, as a loop that fills a mask does; returns False where some are not known.

        The result is a constant: a program does not run hundreds of writes each time.
        """
        base = written if written.base is None else written.base
        others = _tensors(value for value in named.values() if value is not written)
        known = {base.position, *map(self._position, others)} <= self._made_of_nothing
        if not known or operator_of(func).random or detaches(written.path):
            return False
        whole = self._shapes[base.position].clone()
        part = whole
        for step in written.path:
            part = step.of(part)

        func(**map_structure(named, lambda value: part if value is written else self.numbers(value)))
        base.position = self._known_constant(whole).position
        base.writes += 1
        base.places.add(base.position)
        return True

    def _made(self, func: Any, named: dict[str, Any]) -> Any:
        """A tensor made from nothing is the same in each call: of one that is not filled nobody may read a number."""
        made = func(**named)
        if func.overloadpacket in _UNFILLED:
            made.zero_()
        return self._known_constant(made) if isinstance(made, torch.Tensor) else made

    def _known_constant(self, tensor: Any) -> TraceTensor:
        position = self._new_constant(tensor)
        self._made_of_nothing.add(position)
        return self._tensor(position)

    def _record(self, func: Any, named: dict[str, Any]) -> Any:
        if func is torch.ops.aten.as_strided.default:
            raise NeedsValue  # it looks at memory, in which a batch has others beside it
        if not self._stays(named.get("device")):
            raise NeedsValue
        if self.learns and func.overloadpacket in _WITHOUT_GRADIENT:
            named = {key: self._apart(value) for key, value in named.items()}
        func = _WITH_GRADIENT.get(func, func) if self.learns else func
        known = operator_of(func)
        inputs: list[int] = []

        def placed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                inputs.append(self._position(value))
                return Operand(len(inputs) - 1)
            if isinstance(value, (list, tuple)):
                return tuple([placed(item) for item in value])
            return value

        def stand_in(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                like = self._shapes[self._position(value)]
                if known.name in MATRICES:
                    return regular(like)
                return torch.ones_like(like) if known.random else like  # which are probabilities, and deviations
            if isinstance(value, (list, tuple)):
                return [stand_in(item) for item in value]
            return torch.device("cpu") if isinstance(value, torch.device) else value

        bare = named.get(WITHOUT_DERIVATIVE.get(func, ""))
        other = without_rule(func, bare is not None and self.learns_at(self._position(bare)) is not False)
        if other is not None:
            by_position, by_name = split_arguments(func, named)
            with without_autocast(), self:
                apart = other(*by_position, **by_name)
            if apart is not NotImplemented:  # as PyTorch's say for sizes that they are not for
                if func in COPIED:
                    self._note_views(func, named, [apart], False)
                return apart
        attrs = tuple([(key, placed(value)) for key, value in named.items()])
        found = func(**{key: stand_in(value) for key, value in named.items()})
        if known.random and draws(func, named):
            self.draws = True
        listed = list(found) if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(item, torch.Tensor) and item.layout is torch.strided for item in listed):
            raise NeedsValue
        made = not known.random and (self._made_of_nothing.issuperset(inputs) or known.name in FILLED)
        outputs = [self._new(item if made or item.dtype not in INDICES else torch.zeros_like(item)) for item in listed]
        name = known.name
        self._pass_on(inputs, [] if name in WITHOUT_HISTORY else outputs)
        self.trace.ops.append(TraceOp(name, attrs, tuple(inputs), tuple(outputs)))
        self.loops.add(name, inputs, outputs)
        self.by_parts = self.by_parts or name == "unbind.int"
        if made:
            self._made_of_nothing.update(outputs)
        if self.loops.found and self._goes_by_sizes():
            self.looped = True
            if self.ends_in_loops:
                raise NeedsValue  # the rest of a sequence or a tree need not be traced
        if torch.is_grad_enabled() and not self.learns:
            raise NeedsValue
        if not torch.is_grad_enabled() and self.learns:
            outputs = [self._detached(position) for position in outputs]
        results = [self._tensor(position) for position in outputs]
        if known.views:
            self._note_views(func, named, results, isinstance(found, (list, tuple)))
        return type(found)(results) if isinstance(found, (list, tuple)) else results[0]

    def _goes_by_sizes(self) -> bool:
        """Tells whether the program may go by sizes, or by the lengths of lists: others then repeat more or less."""
        return self.by_parts or self.follower is None or bool(self.follower.asked)

    def _stays(self, device: Any) -> bool:
        """Tells whether a result on this device is where the operands are; else it is no node's."""
        here = device_named(self.trace.device)
        return device is None or (device.type == here.type and device.index in (None, here.index))

    def _note_views(self, func: Any, named: dict[str, Any], results: list[TraceTensor], several: bool) -> None:
        """Remembers what these are views of."""
        first = operator_of(func).arguments[0]
        parent = named[first]
        rest = {name: value for name, value in named.items() if name != first}
        for number, result in enumerate(results):
            if parent.__class__ is not TraceTensor:  # a parameter, or another constant
                result.outside = True
                continue
            self._views.append(result)
            result.base = parent if parent.base is None else parent.base
            result.path = (*parent.path, ViewStep(func, rest, number if several else None))
            result.outside, result.writes = parent.outside, result.base.writes
            result.places = parent.places
            result.places.add(result.position)

    def _write(self, target: TraceTensor, position: int) -> TraceTensor:
        """A tensor of this trace has the numbers of this position from now on, and so has what shares its memory."""
        if self.trace.shapes[position] != self.trace.shapes[target.position]:
            position = self._as_before(target, position)
        base = target if target.base is None else target.base
        detached = detaches(target.path)
        if detached and torch.is_grad_enabled() and self.learns_at(position) is not False:
            raise NeedsValue  # it has a history of its own from now on, beside that of its base
        quiet = self.learns and (detached or not torch.is_grad_enabled())
        if target.base is None:
            found = position
        else:
            with self:
                found = through(target.path, base, self._tensor(position)).position
        base.position = self._replaced(base.position, found) if quiet else self._after(base.position, found)
        base.writes += 1
        target.places.update((position, base.position))
        if target.base is not None and base.position == found:
            target.position, target.writes = position, base.writes
        return target

    def _after(self, before: int, found: int) -> int:
        """Ties what is written over all of a tensor to its history: its gradients are zeros then, and not none."""
        if self._status(before) is False and not self._through.get(before):
            return found  # it was made from nothing
        wanted = {found}
        for op in reversed(self.trace.ops):
            if not wanted.isdisjoint(op.outputs):
                wanted.update(op.inputs)
        if before in wanted or self.learns_at(before) is False:
            return found
        with self:
            new = self._tensor(found)
            return int(torch.where(torch.ones_like(new, dtype=torch.bool), new, self._tensor(before)).position)

    def _as_before(self, target: TraceTensor, position: int) -> int:
        """Casts what is written to the dtype of its target. Raises NeedsValue if PyTorch refuses."""
        (shape, _), (before, dtype) = self.trace.shapes[position], self.trace.shapes[target.position]
        wanted = dtype_named(dtype)
        if shape != before or not torch.can_cast(self._shapes[position].dtype, wanted):
            raise NeedsValue
        with self:
            return int(self._tensor(position).to(wanted).position)

    def _apart(self, value: Any) -> Any:
        return self._tensor(self._detached(self._position(value))) if isinstance(value, torch.Tensor) else value

    def _detached(self, position: int) -> int:
        return self._added(DETACH, position)

    def _replaced(self, before: int, after: int) -> int:
        """Replaces what was written to without gradients: it has the new numbers, and the gradient that it had."""
        if self.learns_at(before) is False:
            return self._detached(after)
        nothing = self._added("sub.Tensor", before, self._detached(before))
        return self._added("add.Tensor", nothing, self._detached(after))

    def _added(self, name: str, *inputs: int) -> int:
        result = self._new(self._shapes[inputs[-1]])
        with torch.set_grad_enabled(name != DETACH):
            self._pass_on(inputs, [result])
        attrs = tuple([(argument, Operand(k)) for k, argument in enumerate(("self", "other")[: len(inputs)])])
        self.trace.ops.append(TraceOp(name, attrs, inputs, (result,)))
        self.loops.add(name, inputs, (result,))
        return result

    def _written(self, func: Any, named: dict[str, Any]) -> TraceTensor:
        """The tensor that an operator writes to, which this call has made. Raises NeedsValue if it is another."""
        arguments = func._schema.arguments
        writes = [argument.name for argument in arguments if argument.alias_info and argument.alias_info.is_write]
        target = named.get(writes[0])
        if target is not None and target.__class__ is not TraceTensor:
            note_written(target)
        if len(writes) != 1 or target.__class__ is not TraceTensor or target.recorder is not self or target.outside:
            raise NeedsValue
        if writes[0] != arguments[0].name and (
            torch.is_grad_enabled() and any(self.learns_at(self._position(item)) for item in _tensors(named.values()))
        ):
            raise NeedsValue  # PyTorch refuses out= where something learns
        if target.learning != torch.is_grad_enabled() and torch.is_grad_enabled() and target.base is not None:
            raise NeedsValue  # a view that was made without gradients
        self.place_of(target)
        return target


def _tensors(values: Any) -> list[Any]:
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


@contextmanager
def recording(trace: Trace, constant: Callable[[Any], bool], taped: bool = False) -> Iterator[Tracer]:
    """Operators called in this region are recorded in `trace`, and none runs.

    taped: whether gradients go through any operand.
    """
    state = LOCAL.state
    recorder = Tracer(trace, constant, taped)
    outer = state.trace
    cached = torch.is_autocast_cache_enabled()
    whole = torch.backends.mha.get_fastpath_enabled()  # one operator for a layer, which cannot be taken apart
    try:
        state.trace = recorder
        torch.backends.mha.set_fastpath_enabled(False)
        torch.set_autocast_cache_enabled(False)  # of weights that are cast here, other calls would take placeholders
        # Leaving inference mode lets gradients be recorded, whatever held before.
        with torch.inference_mode(False), torch.set_grad_enabled(recorder.learns), kept_whole(), recorder:
            yield recorder
    finally:
        state.trace = outer
        torch.set_autocast_cache_enabled(cached)
        torch.backends.mha.set_fastpath_enabled(whole)
