"""How many samples a region waits for with `flush_at="auto"`: a hybridized block, or a line with `batching()`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

from gluonjit.analysis.costs.model import CostModel
from gluonjit.analysis.plan import Plan
from gluonjit.hybrid.options import AUTO, Options

_MOST_REGIONS = 256
_learned: OrderedDict[Hashable, tuple[Options, int]] = OrderedDict()  # the options stay, with their address
_lock = Lock()


def waits_for(options: Options, region: Hashable) -> int | None:
    """Returns the number of samples; None where there is no limit, or nothing is known yet."""
    if options.flush_at != AUTO:
        return options.flush_at  # type: ignore[return-value]
    known = _learned.get(_key(options, region))
    return None if known is None else known[1]


def learn(
    options: Options, region: Hashable, plan: Plan, calls: int, samples: int, training: bool, model: CostModel
) -> None:
    """Finds the number for the next flush, given the plan of one with so many calls and samples."""
    setting = options.setting
    total = model.predict(plan, calls, setting.scheduler, setting.granularity, training).total
    fixed = min(model.fixed(plan, setting.scheduler), total)
    count = samples_that_pay(fixed, (total - fixed) / samples, latency=options.max_latency)
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
    if marginal <= 0:
        most = 1 << 20
    else:
        most = int(fixed / (loss * marginal)) + 1
    if latency is not None and fixed >= latency:
        most = 1
    elif latency is not None and marginal > 0:
        most = min(most, int((latency - fixed) / marginal))
    return max(1, min(most, 1 << 20))
