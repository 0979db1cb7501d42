"""`gluonjit.map` and `imap`: a function of a sample, called for each; those that read values go on side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from types import CellType
from typing import Any
from weakref import WeakKeyDictionary

from gluonjit.errors import GluonJITWarning, OptionError
from gluonjit.graph.modes import is_recorded
from gluonjit.hybrid.choose.pacing import NO_CHOICE, PINNED, Paces, begin
from gluonjit.hybrid.options import Options
from gluonjit.hybrid.run.engine import ENGINES, engine_of
from gluonjit.hybrid.run.failures import note_sample
from gluonjit.hybrid.run.scope import batching
from gluonjit.hybrid.run.state import LOCAL


def map(
    function: Callable[[Any], Any], samples: Iterable[Any], in_flight: int | None = None, **options: Any
) -> list[Any]:
    """Calls `function` for each sample, and returns what it gave, in order: `gluonjit.map`.

    Values may be read in the middle. A sample that reads one waits until all others do, too; then the batch runs once,
    and all go on. A call inside of `function` runs its samples as branches of that sample.

    in_flight: how many samples are under way at most, of any iterable; a new one begins when one has ended. All, if
        None.
    options: those of `batching`, in a region of which all of it runs. Where none names a way, and no region is open,
        it is timed against samples one after the other, and the faster way is kept, as for models.

    It needs greenlet (`pip install gluonjit[fibers]`): without it samples run one after the other, and a warning says
    so. If samples fail, no others begin, and the error of the first of them is raised when the rest has ended. Raises
    OptionError for unusable options, and TypeError for what is no function, or no iterable.
    """
    state = LOCAL.state
    chosen = _checked("map", function, samples, in_flight, options)
    if (state.inside or state.paused) and state.hub is None:  # a sample that is no sample of `map`, or runs eagerly
        return [*_in_turn(function, samples)]
    if _region_is_open(state) and not options:
        return _beside(function, samples, in_flight)
    paces = _paces_of(function, chosen)
    if not paces.open:
        with batching(**options):
            return _beside(function, samples, in_flight)
    engine = engine_of()
    training = is_recorded(engine.current_mode())
    stretch = begin(state, paces, training, engine)
    eager = stretch.eager
    state.paused += eager
    state.eagerly += eager
    try:
        with nullcontext() if eager else batching(**options):
            found = [*_in_turn(function, samples)] if eager else _beside(function, samples, in_flight)
        stretch.calls += max(len(found) - 1, 0)
        return found
    finally:
        pauses = eager + stretch.pauses  # here, as a signal comes where functions begin
        state.paused -= pauses
        state.eagerly -= pauses
        stretch.pauses = False
        if stretch.timed:
            stretch.leave()
        if not training:
            stretch.end()


def imap(
    function: Callable[[Any], Any], samples: Iterable[Any], in_flight: int | None = None, **options: Any
) -> Iterator[tuple[int, Any]]:
    """Calls `function` for each sample, and yields its number and what it gave as soon as it has: `gluonjit.imap`.

    Results come as they end, and their values have run. Samples go on while results are asked for; what the caller does
    in between is no part of their batch, and if it stops early, those under way end where they are. No more results
    wait than may be under way, so that `samples` may have no end.

    in_flight, options, errors: those of `map`. Nothing is timed: samples run one after the other where `map` has found
    that faster for the function.
    """
    return _ended(function, samples, in_flight, options, _checked("imap", function, samples, in_flight, options))


def _ended(
    function: Callable[[Any], Any], samples: Iterable[Any], in_flight: int | None, options: Any, chosen: Options
) -> Iterator[tuple[int, Any]]:
    """Yields results as they end."""
    state = LOCAL.state
    fibers = None
    if state.hub is not None or not (state.inside or state.paused):
        paces, training = _paces_of(function, chosen), is_recorded(engine_of().current_mode())
        if _region_is_open(state) or not (paces.open and paces.phases[training].settled):
            fibers = _fibers()
    if fibers is None:
        yield from enumerate(_in_turn(function, samples))
    elif _region_is_open(state) and not options:
        yield from fibers.run(function, samples, in_flight, state.batch, True)
    else:
        with batching(**options) as batch:
            state.explicit.remove(batch)  # it is open only while samples go on
            state.batch = state.explicit[-1] if state.explicit else None
            yield from fibers.run(function, samples, in_flight, batch, True)


def _checked(name: str, function: Any, samples: Any, in_flight: Any, options: Any) -> Options:
    """Returns the options of a call, whose arguments are what they should be."""
    name = f"gluonjit.{name}()"
    if in_flight is not None and (not isinstance(in_flight, int) or isinstance(in_flight, bool) or in_flight < 1):
        raise OptionError(f"{name}: in_flight={in_flight!r}, but it must be a number of samples, or None (all)")
    if not callable(function):
        raise TypeError(f"{name}: {function!r} is no function of a sample: type {name[:-2]}(net, samples)")
    if not isinstance(samples, Iterable):
        raise TypeError(f"{name}: samples must be an iterable of them, not {type(samples).__name__}")
    chosen = LOCAL.state.options
    return chosen.updated(name, options) if options else chosen


def _region_is_open(state: Any) -> bool:
    return state.hub is not None or (state.explicit and state.batch is state.explicit[-1])


def _in_turn(function: Callable[[Any], Any], samples: Iterable[Any]) -> Iterator[Any]:
    """Runs samples one after the other; an error says in which."""
    for number, sample in enumerate(samples):
        try:
            found = function(sample)
        except Exception as error:
            note_sample(error, number)
            raise
        yield found


def _beside(function: Callable[[Any], Any], samples: Iterable[Any], in_flight: int | None) -> list[Any]:
    """Runs samples side by side, in the open batch."""
    fibers = _fibers()
    if fibers is None:
        return [*_in_turn(function, samples)]
    found = dict(fibers.run(function, samples, in_flight, LOCAL.state.batch))
    return [found[number] for number in range(len(found))]


def _fibers() -> Any:
    """Returns what runs samples side by side; None where greenlet is not installed."""
    try:
        from gluonjit.hybrid.mapping import fibers  # greenlet is optional
    except ImportError:
        warnings.warn(_NO_FIBERS, GluonJITWarning, stacklevel=4)
        return None
    return fibers


_MOST = 64  # functions of a model, or of none, whose times are kept

_known: WeakKeyDictionary[Any, dict[Any, Paces]] = WeakKeyDictionary()


def _paces_of(function: Any, options: Options) -> Paces:
    """Returns the times of a function by its code, as a lambda is made anew for each minibatch, and by its model.

    Where a way to run is named, those of what always runs batched.
    """
    if not options.leave_the_way_open or PINNED:
        return NO_CHOICE
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    parts = [function, getattr(function, "__self__", None)]
    if code is not None:
        parts += [cell.cell_contents for cell in function.__closure__ or () if cell != _EMPTY]
        parts += [function.__globals__.get(name) for name in code.co_names]
    models = (part for part in parts if any([engine.owns_block(part) for engine in ENGINES]))
    found = _known.setdefault(next(models, type(function)), {})
    if code not in found and len(found) >= _MOST:
        del found[next(iter(found))]
    return found.setdefault(code, Paces(True))


_EMPTY = CellType()


_NO_FIBERS = (
    "gluonjit.map(): greenlet is not installed, so samples that read values run one after the other. Type "
    "`pip install gluonjit[fibers]`"
)
