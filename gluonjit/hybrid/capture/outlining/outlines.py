"""Methods whose code contains cells: swapped in while a sample is captured, and swapped out again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import RLock
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary, ref

from gluonjit.compiled import FAST
from gluonjit.graph import Spec
from gluonjit.hybrid.capture.guards.owners import is_user_function
from gluonjit.hybrid.capture.guards.rewriting import Unfollowable
from gluonjit.hybrid.capture.outlining.entering import AsWritten, Entry, MadeCall
from gluonjit.hybrid.capture.outlining.known import FrameworkFunctions
from gluonjit.hybrid.capture.outlining.placing import Outlined, Site, outlined
from gluonjit.hybrid.capture.structure import Args
from gluonjit.hybrid.choose.pacing import TRACE
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL
from gluonjit.replaced import code_of

_NUMBERS = frozenset({int, float, bool, type(None)})
_MOST_NUMBERS = 4, 32  # of which each is a kind, and of which kinds run together, as those of lengths do

_VARIED = 4  # samples, each of which has brought another kind
_FEW = 1.5  # calls a kind
_MOST_LOOKS = 4096
_APART = 2  # numbers of rows that are traced at once
VARIED = "its arguments have other shapes in each sample, so that few of its calls run together"
"""The reason for leaving code as it was written whose operators are more alike than the cell they make."""

OUTLINES: WeakKeyDictionary[FunctionType, OutlinedFunction] = WeakKeyDictionary()


class Made:
    """A cell of one model: `run` captures a call of it. After a refused call, no others are made."""

    run: Any = None
    refused = ""
    at = 0
    _kinds = 0

    def __init__(self, outline: str, site: Site, holder: Any) -> None:
        self.name, self.holder = f"{outline}, {site.lines}", holder
        self.cells: list[Any] = []
        self._seen: set[Any] = set()
        self._looks: set[Any] = set()  # of arguments, by which kinds are told apart
        self._samples: list[int] = []  # that brought something new, by their numbers, each unlike the last one

    def capturing(self, known: FrameworkFunctions, site: Site, options: Any) -> Any:
        """Makes what captures calls of a new cell."""
        cell = known.cells(site.name, options)
        cell.made = True

        def otherwise(args: Args) -> Any:
            state = LOCAL.state
            if state.paused or state.trace is not None:
                return None
            return known.node(cell, self.holder, site.function, args, self.refuse)

        run: Any = MadeCall(cell, self.holder, None if FAST is None else FAST.capture, otherwise)
        run.grown, run.is_first = self.grown, self.is_first
        return run

    def is_first(self, args: Args) -> bool:
        """True if a call runs as it was written because no earlier call had its numbers of rows.

        A trace pays only for calls that come again, if calls with other numbers of rows run apart: those that take rows
        of several numbers do, and others if two numbers have led to kinds that do.
        """
        look = tuple(arg._v.spec for arg in args if getattr(arg, "_v", None) is not None)
        if look in self._looks:
            return False
        if len(self._looks) >= _MOST_LOOKS:
            self._looks.clear()
        self._looks.add(look)
        # A program of operands with different numbers of rows is for these numbers only.
        if len({spec.rows for spec in look if spec.mode == "rows" and spec.rows > 1}) < 2:
            blind = _but_for_rows(look)
            kinds = [kind for kind in self.run.cell.kinds.values() if blind and _but_for_rows(kind.operands) == blind]
            if len({id(kind.family) for kind in kinds}) < _APART:
                return False
        self._varied(len(self._looks))
        return True

    def grown(self) -> None:
        """Counts the kinds that there are."""
        self._varied(self._families())

    def _families(self) -> int:
        return len({id(kind.family) for kind in self.run.cell.kinds.values()})

    def _varied(self, kinds: int) -> None:
        """Gives a cell up if nearly every call is a new kind, sample after sample."""
        batch = LOCAL.state.batch
        if kinds > self._kinds and batch is not None and self._samples[-1:] != [batch.sample]:
            self._samples.append(batch.sample)
        self._kinds = max(kinds, self._kinds)
        if len(self._samples) >= _VARIED and self.run.calls < _FEW * self._kinds and not self.refused:
            self.refuse(VARIED)

    def few(self, item: Any) -> bool:
        """True if an argument is one of a few numbers: each of them is traced."""
        if item.__class__ not in _NUMBERS:
            return False
        seen = self._seen
        if item in seen:
            return True
        if len(seen) >= _MOST_NUMBERS[self._families() < len(seen)]:
            return False
        seen.add(item)
        return True

    def refuse(self, reason: str) -> None:
        """Runs the original code instead of the cell from now on."""
        self.refused = reason
        self.cells[self.at] = None
        report = LOCAL.state.batch.report if LOCAL.state.batch is not None else None
        if report is not None:
            report.outlined[self.name] = reason


def _but_for_rows(specs: Iterable[Spec]) -> tuple[Any, ...]:
    """Returns what operands have in common that differ in lengths along axis 0; () if one has a single row."""
    if any(spec.mode == "rows" and spec.rows < 2 for spec in specs):
        return ()
    return tuple((len(spec.shape), spec.shape[1:], spec.dtype, spec.device) for spec in specs)


class OutlinedFunction(Entry):
    """A function, and its code with cells: `made`, None if it is left alone. depth: how many samples use it now.

    owner: the model if it is a method of one, else None.
    """

    def __init__(self, function: FunctionType, owner: Any, known: FrameworkFunctions) -> None:
        super().__init__(LOCAL, AS_WRITTEN)
        self.name = function.__qualname__
        self.depth, self.free = 0, owner is None
        self._known = known
        self._function = ref(function)
        self._original = self._idle = code_of(function)
        self.made: Outlined | None = None
        with TRACE:
            try:
                self.made = outlined(function, owner, known, self)
            except Unfollowable:
                return
        self.methods = [(name, ref(item)) for name, item in self.made.methods.items()]
        self.helpers = self.made.helpers
        self._store: dict[Any, Any] = {}

    def __reduce__(self) -> Any:
        return _as_it_was, ()

    def cells_of(self, batch: Any, owner: Any) -> list[Any] | None:
        """Returns the cells of a model, made on first request, if its parts are those that the code relies on."""
        known, made = self._known, self.made
        options = batch.options if owner is None else known.options(owner)
        if made is None or options is None or not outlines_in(batch, options):
            return None
        if any(known.part(owner, name) != sort for name, sort in made.parts.items()):
            batch.report.outlined[self.name] = (
                "the parts of this model have other classes than when its source was read"
            )
            return None
        if any(space.get(name) is not helper for space, name, helper in made.helpers):
            batch.report.outlined[self.name] = "functions that it calls are others than when its source was read"
            return None
        store = self._store if owner is None else known.store(owner)
        store = store.setdefault(self, [None] * len(made.sites))
        cells: list[Any] = [known.arrays]
        for k, site in enumerate(made.sites):
            names = list(site.parts)
            held = store[k]
            if held is None or not known.same(held.holder, owner, names):
                held = store[k] = Made(self.name, site, known.holder(owner, names))
                held.run = held.capturing(known, site, options)
                if owner is None:
                    held.run.may = self._may
                elif not names and known.lazy is not None:
                    held.run.may, held.run.lazy = known.captured, known.lazy
            batch.report.outlined[held.name] = held.refused or f"{site.weight} operators in one cell"
            held.cells, held.at = cells, len(cells)
            cells += (None if held.refused else held.run, held.few)
        return cells

    def _may(self, args: Args) -> bool:
        """True if operators on these arguments would be captured where the function is now."""
        state = LOCAL.state
        batch = state.batch
        if batch is None or state.paused or state.trace is not None or not outlines_in(batch, batch.options):
            return False
        return self._known.captured(args) if state.inside > 0 else self._known.waits(args)

    def swap_in(self) -> None:
        """Swaps the code in, unless another sample or other code has replaced it."""
        function = self._function()
        if function is not None and self.made is not None:
            self.depth += 1
            if self.depth == 1 and code_of(function) is self._original:
                self._idle, function.__code__ = function.__code__, self.made.code

    def swap_out(self) -> None:
        """Swaps the code out again; the last user does."""
        function = self._function()
        if function is not None and self.made is not None:
            self.depth -= 1
            if self.depth == 0 and function.__code__ is self.made.code:
                function.__code__ = self._idle


def outlines_in(batch: Any, options: Any) -> bool:
    """True if a batch captures cells that are made from source, of a model with these options.

    A number that is not finite is to be told of the operator that gave it, not of a cell.
    """
    asked = options.outline and not options.check_finite and not AS_WRITTEN.depth
    return asked and not batch.options.expand and not batch.fine


class Placed:
    """The methods of a model that have the code with cells while samples of it are captured."""

    __slots__ = ("outlines",)

    def __init__(self, outlines: Iterable[OutlinedFunction]) -> None:
        self.outlines = [outline for outline in outlines if outline.made is not None]

    def swap_in(self) -> None:
        """Puts the code in its place."""
        with _LOCK:
            for outline in self.outlines:
                outline.swap_in()

    def swap_out(self) -> None:
        """Takes it out again."""
        with _LOCK:
            for outline in self.outlines:
                outline.swap_out()


AS_WRITTEN = AsWritten()
"""For `with`: no cells are made from source."""
_LOCK = RLock()
_NOTHING = Placed(())


def place(batch: Batch, owner: Any, known: FrameworkFunctions) -> None:
    """Gives the methods of a model and its parts the code with cells until the batch runs.

    Replacing the code takes Python longer than a short sample, because it discards its specialization of a function.
    """
    if not (batch.fine or id(owner) in batch.placed):
        found = batch.placed[id(owner)] = _placed(owner, known)
        found.swap_in()


def _placed(owner: Any, known: FrameworkFunctions) -> Placed:
    """The code with cells of the methods of a model and its parts, made when the first sample of it is captured."""
    options = known.options(owner)
    if options is None or not options.outline or options.check_finite or AS_WRITTEN.depth:
        return _NOTHING
    store = known.store(owner)
    found: Placed | None = store.get(Placed)
    if found is None:
        outlines: dict[int, OutlinedFunction] = {}
        for part in known.parts(owner):
            for function in _methods(type(part)):
                outline = OUTLINES.get(function)
                if outline is None:
                    outline = OUTLINES[function] = OutlinedFunction(function, part, known)
                outlines[id(outline)] = outline
        found = store[Placed] = Placed(outlines.values())
    return found


def _methods(kind: type) -> list[FunctionType]:
    """Returns the user's own methods of a class and its bases."""
    return [
        item
        for base in kind.__mro__
        for name, item in vars(base).items()
        if type(item) is FunctionType and not name.startswith("__") and is_user_function(item)
    ]


def _as_it_was() -> Callable[..., None]:
    """Returns a replacement for an OutlinedFunction in unpickled code: its function behaves as before."""
    return _nothing


def _nothing(*owner: Any) -> None:
    """No cells."""
