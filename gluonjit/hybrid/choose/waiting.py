"""How many samples a region waits for with `flush_at="auto"`: a hybridized block, or a line with `batching()`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from gluonjit.hybrid.options import AUTO, Options

_FLUSH, _LAUNCH = 400e-6, 30e-6  # seconds of a flush, and of each launch, that any number of rows takes
_MOST_REGIONS = 256
_learned: OrderedDict[Hashable, tuple[Options, int]] = OrderedDict()  # the options stay, with their address
_lock = Lock()


def waits_for(options: Options, region: Hashable) -> int | None:
    """Returns the number of samples; None where there is no limit, or nothing is known yet."""
    if options.flush_at != AUTO:
        return options.flush_at  # type: ignore[return-value]
    known = _learned.get(_key(options, region))
    return None if known is None else known[1]


def learn(options: Options, region: Hashable, launches: int, samples: int, seconds: float) -> None:
    """Finds the number for the next flush: the last one took so many seconds, capture included."""
    fixed = min(_FLUSH + _LAUNCH * launches, seconds / 2)
    count = samples_that_pay(fixed, (seconds - fixed) / samples, latency=options.max_latency)
    with _lock:
        _learned[_key(options, region)] = options, count
        while len(_learned) > _MOST_REGIONS:
            _learned.popitem(last=False)


def forget() -> None:
    """Drops all numbers."""
    with _lock:
        _learned.clear()


def _key(options: Options, region: Hashable) -> Hashable:
    """A region, or without one these very options, which belong to a block."""
    return id(options) if region is None else (region, options)


def samples_that_pay(fixed: float, marginal: float, loss: float = 0.05, latency: float | None = None) -> int:
    """Returns the number of samples to wait for if a flush of n takes `fixed + marginal * n` seconds.

    From the n on at which a sample costs no more than `loss` above what it costs in an endless batch, waiting for more
    no longer pays: fixed / n <= loss * marginal. Fewer where the flush would take longer than `latency` seconds.
    """
    most = int(fixed / (loss * marginal)) + 1
    if latency is not None:
        most = min(most, int((latency - fixed) / marginal))
    return max(1, most)
