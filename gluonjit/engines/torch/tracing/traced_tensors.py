"""Placeholders of a traced call, each for a position of its trace, and what is known of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gluonjit.engines.torch.framework.arrays import LEARNABLE, device_named, name_of_dtype, on_host, spec_of, zeros_of
from gluonjit.engines.torch.framework.originals import REQUIRES_GRAD, make_wrapper
from gluonjit.engines.torch.operators.recurrent import RECURRENT
from gluonjit.engines.torch.operators.table import DETACH, WITHOUT_HISTORY
from gluonjit.engines.torch.tracing.view_steps import show
from gluonjit.hybrid.capture.guards.facts import SLOT, Fact
from gluonjit.program.axes.values import Operand
from gluonjit.program.trace import NeedsValue, TraceBuilder, TraceOp

_PRODUCTS = {f"{name}.default" for name in "mm addmm mv addmv bmm baddbmm addbmm convolution _trilinear".split()}.union(
    RECURRENT
)


class Loops:
    """Finds a weight that is used on what depends on an earlier use of it, as one of a loop over a sequence is.

    Of what is constant only parameters are weights: zeros that a cell begins with may be used twice.
    """

    __slots__ = ("_passed", "_weights", "found")

    def __init__(self) -> None:
        self.found = False
        self._weights: dict[int, int] = {}  # a bit each, by the positions of weights and of what is made of one alone
        self._passed: dict[int, int] = {}  # the bits of weights that a result depends on, where there are some

    def add_constant(self, position: int, tensor: Any) -> None:
        """Notes a constant."""
        if isinstance(tensor, torch.nn.Parameter) and tensor.dim() >= 2:
            self._weights[position] = 1 << position

    def add(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Notes an operator. A weight is used in products alone: to add one, as a learned query, makes no loop."""
        used = through = weights = 0
        for position in inputs:
            weight = self._weights.get(position, 0)
            weights += weight > 0
            used |= weight
            through |= self._passed.get(position, 0)
        self.found = self.found or (name in _PRODUCTS and used & through != 0)
        found = self._weights if inputs and weights == len(inputs) else self._passed
        if used | through:
            for position in outputs:
                found[position] = used | through


_NONE: frozenset[int] = frozenset()
_PLAIN = (torch.Tensor, torch.nn.Parameter)


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
    def root(self) -> TraceTensor:
        """The tensor that it is a view of, or itself."""
        return self if self.base is None else self.base

    @property
    def requires_grad(self) -> bool:
        """True if gradients go through it, where that holds for all calls of this signature."""
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

    def contiguous(self, **named: Any) -> Any:
        """Gives a view of memory from outside: an argument that lies otherwise gives a copy here."""
        found = torch.Tensor.contiguous(self, **named)
        return self.recorder.lying(self) if found is self and self.outside else found

    detach_ = set_ = _attached
    register_hook = register_post_accumulate_grad_hook = retain_grad = backward = _attached
    numpy = __array__ = __reduce_ex__ = _attached
    __repr__ = _attached  # PyTorch's own keeps a guard of its dispatcher in a frame, which a traceback keeps alive
    is_inference = _attached
    is_leaf = retains_grad = property(_attached)
    grad_fn = grad = property(_attached, _attached)


class Positions(TorchDispatchMode):  # type: ignore[misc]
    """The positions of a trace: their shapes, the constants among them, and which learn.

    `constant(tensor)` says whether a tensor from outside is the same in every call, as a parameter is.

    * `dispatched(func, args, kwargs)`: records a call of an operator, or reads what it needs; returns placeholders
      of its results.
    * `lying(tensor)`: a view of a tensor, by the step that gives what lies row by row.
    * `record(func, named)`: records an operator that computes something, on arguments by name; returns placeholders
      of its results.
    """

    dispatched: Callable[..., Any]
    record: Callable[..., Any]
    lying: Callable[..., Any]
    draws = False
    ends_in_loops = False
    looped = False
    by_parts = False  # whether it was given lists, or has taken a tensor apart into its rows
    follower: Any = None  # what sees to Python's state, where the user's code is recorded
    _plain = True  # whether no constant is of a class with methods of its own
    taped: Sequence[bool] = ()  # of operands, whether gradients go through them in this call

    def __init__(self, trace: TraceBuilder, constant: Callable[[Any], bool], taped: bool) -> None:
        super().__init__()
        self.trace = trace
        self.loops = Loops()
        self._constant = constant
        self._known: dict[int, int] = {}
        # What operators run on to tell the shapes of their results. Not of device "meta": in Python, PyTorch's kernels
        # for that one import its compiler, which takes seconds.
        self._shapes: list[Any] = [zeros_of(spec) for spec in trace.operands]
        self._made_of_nothing: set[int] = set()  # positions of which `_shapes` has the numbers, in this call and others
        self._views: list[TraceTensor] = []
        self.learns = torch.is_grad_enabled()
        # Of one operand the signature says whether gradients go through it, of several whether through any.
        self.operands_learn = taped and self.learns
        status = (len(trace.operands) == 1 or None) if self.operands_learn else False
        self._learned: dict[int, bool | None] = dict.fromkeys(range(len(trace.operands)), status)
        self._through: dict[int, frozenset[int]] = {}  # of positions, the constants whose flags that follows from
        self._asked: set[int] = set()  # constants on whose flags the trace depends

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
        """True if a tensor was computed in this trace, or is an operand of it."""
        return tensor.__class__ is TraceTensor and tensor.recorder is self

    def place_of(self, tensor: TraceTensor) -> int:
        """Returns the position of a tensor; a view of what has been written to since is taken anew."""
        base = tensor.base
        if base is not None and base.writes != tensor.writes:
            with torch.set_grad_enabled(tensor.learning), self:
                found = show(base, tensor.path)
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

    def learns_at(self, position: int) -> bool | None:
        """True if gradients go through a position, for a decision: the trace holds while that is so.

        None if it is not the same in all calls.
        """
        if self._may_learn(position):
            self._asked |= self._through.get(position, _NONE)
        return self._status(position)

    def _learns_now(self, position: int) -> bool:
        """True if gradients go through a position in the call that is traced, be it not the same in all."""
        found = self.learns_at(position)
        return any(self.taped[origin] for origin in self.origins(position) if origin < len(self.taped)) or bool(found)

    def origins(self, position: int, begin: int = 0) -> set[int]:
        """The positions from which gradients go to one through operators, from number `begin` on."""
        found = {position}
        for op in reversed(self.trace.ops[begin:]):
            if op.name not in WITHOUT_HISTORY and not found.isdisjoint(op.outputs):
                found.update(filter(self._may_learn, op.inputs))
        return found

    def gives_history(self, position: int) -> bool:
        """False if no gradients go through a position, where they go through others."""
        quiet = self._may_learn(position) and self._status(position) is False
        return not quiet or not any(status is not False for status in self._learned.values())

    def flags(self) -> Iterator[Fact]:
        """The weights by which decisions went, and whether each learns."""
        for position, tensor in self.trace.consts.items():
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
        self.trace.consts[position] = tensor
        self.loops.add_constant(position, tensor)
        return position

    def _new(self, like: Any) -> int:
        self._shapes.append(like)
        return self.trace.value((tuple(like.shape), name_of_dtype(like.dtype)))

    def _detached(self, position: int) -> int:
        return self._added(DETACH, position)

    def _added(self, name: str, *inputs: int) -> int:
        result = self._new(self._shapes[inputs[-1]])
        with torch.set_grad_enabled(name != DETACH):
            self._pass_on(inputs, [result])
        attrs = tuple((argument, Operand(k)) for k, argument in enumerate(("self", "other")[: len(inputs)]))
        self.trace.ops.append(TraceOp(name, attrs, inputs, (result,)))
        self.loops.add(name, inputs, (result,))
        return result
