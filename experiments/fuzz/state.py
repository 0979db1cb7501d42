"""Python state that cells read, and notes that they take: no framework is known here.

The text from the line of dashes on is pasted into the printed programs that use it.
"""

from __future__ import annotations

from typing import Any

# ---------------------------------------------------------------------------------------------------------------------
RATE = 1.0
CALLS = 0


class Plain:
    """An object with attributes."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


def set_rate(value: float) -> None:
    """Change the global."""
    global RATE
    RATE = value


def with_cell() -> Any:
    """A function that reads a variable of the function around it, and one that writes it."""
    rate = 1.0

    def read() -> float:
        return rate

    def write(value: float) -> None:
        nonlocal rate
        rate = value

    return read, write


read_closure, write_closure = with_cell()


def by_default(given: Any = {"rate": 1.0}) -> Any:  # noqa: B006  it is meant to be changed
    """A default that lives as long as the function."""
    return given["rate"]


class Reads:
    """State of many kinds, of which a cell reads one."""

    share = 1.0

    def begin(self) -> None:
        """Let everything be as it was at first."""
        self.cfg: Any = Plain(rate=1.0, gain=1.0, inner={"rates": [1.0, 2.0]}, flip=False, turns=1, chosen=half)
        self.opt = {"rate": 1.0, "other": 0.5}
        self.scales = [0.5, 1.0]
        Reads.share = 1.0
        defaults: Any = by_default.__defaults__
        defaults[0]["rate"] = 1.0
        write_closure(1.0)
        set_rate(1.0)

    @property
    def gain(self) -> Any:
        """An expression of an attribute's attribute."""
        return self.cfg.gain * 0.5 + 0.25

    def factor(self, where: str) -> Any:
        """The number that is in this place."""
        if where == "object":
            return self.cfg.rate
        if where == "dict":
            return self.opt["rate"]
        if where == "list":
            return self.scales[1]
        if where == "nested":
            return self.cfg.inner["rates"][0]
        if where == "global":
            return RATE
        if where == "class":
            return self.share
        if where == "closure":
            return read_closure()
        if where == "default":
            return by_default()
        if where == "property":
            return self.gain
        if where == "flag":
            return 1.0 if self.cfg.flip else -0.5
        if where == "turns":
            return sum(0.5 for _ in range(self.cfg.turns))
        if where == "sum":
            return sum(self.scales)
        if where == "values":
            return sum(self.opt.values())
        if where == "function":
            return self.cfg.chosen(0.8)
        return getattr(self.cfg, "ra" + "te")


def half(number: float) -> float:
    """One of two functions that may be chosen."""
    return number * 0.5


def double(number: float) -> float:
    """The other one."""
    return number * 2


def count_call() -> None:
    """Count in a global."""
    global CALLS
    CALLS += 1


class Notes:
    """Effects of a cell besides its result: counts, lists, a cache, a mean."""

    def begin(self) -> None:
        """Forget everything."""
        global CALLS
        CALLS = 0
        self.calls = 0
        self.log: Any = Plain(calls=0, warned=False)
        self.seen: list[Any] = []
        self.kept: list[Any] = []
        self.cache: dict[Any, Any] = {}
        self.counts: dict[Any, int] = {}
        self.mean: Any = 0.0
        self.stream = iter(range(10**9))

    def note(self, where: str, y: Any) -> Any:
        """Take a note of a result; the result, or what a note makes of it."""
        if where == "count":
            self.calls += 1
        elif where == "step":
            self.calls += 1
            return y * (1 + 0.01 * self.calls)
        elif where == "object":
            self.log.calls += 1
        elif where == "once":
            if not self.log.warned:
                self.log.warned = True
                self.seen.append("warned")
        elif where == "seen":
            self.seen.append((len(self.seen), y.shape[-1]))
        elif where == "kept":
            self.kept.append(y)
        elif where == "detached":
            self.kept.append(y.detach())
        elif where == "cache":
            key = tuple(y.shape)
            if key not in self.cache:
                self.cache[key] = y.detach() * 0 + 0.5
            return y * self.cache[key]
        elif where == "counts":
            self.counts[y.shape[0]] = self.counts.get(y.shape[0], 0) + 1
        elif where == "mean":
            self.mean = self.mean * 0.9 + y.detach().mean() * 0.1
            return y + self.mean
        elif where == "global":
            count_call()
        else:
            return y * (1 + 0.01 * next(self.stream))
        return y


def keep_notes(found: dict[str, Any], cell: Any, keep: Any) -> None:
    """Read all notes: plain ones as text, arrays as results."""
    plain = (CALLS, cell.calls, cell.log.__dict__, cell.seen, sorted(cell.counts.items()), next(cell.stream))
    found["notes"] = repr(plain)
    found["caches"] = repr(sorted(cell.cache))
    keep(found, "kept", cell.kept)
    keep(found, "cached", [cell.cache[key] for key in sorted(cell.cache)])
    keep(found, "mean", [cell.mean] if hasattr(cell.mean, "shape") else [])
