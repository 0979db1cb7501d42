"""`gluonjit.map`: a function of one sample, called for each, of which those that read values go on side by side."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from gluonjit.errors import GluonJITWarning, OptionError
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
    options: those of `batching`, in a region of which all of it runs.

    It needs greenlet (`pip install gluonjit[fibers]`): without it samples run one after the other, and a warning says
    so. If samples fail, no others begin, and the error of the first of them is raised when the rest has ended. Raises
    OptionError for unusable options, and TypeError for what is no function, or no iterable.
    """
    if in_flight is not None and (not isinstance(in_flight, int) or isinstance(in_flight, bool) or in_flight < 1):
        raise OptionError(f"gluonjit.map(): in_flight={in_flight!r}, but it must be a number of samples, or None (all)")
    if not callable(function):
        raise TypeError(f"gluonjit.map(): {function!r} is no function of a sample: type gluonjit.map(net, samples)")
    if not isinstance(samples, Iterable):
        raise TypeError(f"gluonjit.map(): samples must be an iterable of them, not {type(samples).__name__}")
    state = LOCAL.state
    state.options.updated("gluonjit.map()", options)
    if (state.inside or state.paused) and state.hub is None:  # a sample that is no sample of `map`, or runs eagerly
        return [function(sample) for sample in samples]
    there = not options and (state.hub is not None or (state.explicit and state.batch is state.explicit[-1]))
    with nullcontext() if there else batching(**options):
        try:
            from gluonjit.hybrid.mapping import fibers  # greenlet is optional
        except ImportError:
            warnings.warn(_IN_TURN, GluonJITWarning, stacklevel=2)
            return [function(sample) for sample in samples]
        return fibers.run(function, samples, in_flight)


_IN_TURN = (
    "gluonjit.map(): greenlet is not installed, so samples that read values run one after the other. Type "
    "`pip install gluonjit[fibers]`"
)
