"""Run a case eagerly and batched, and say whether they differ."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

import gluonjit
from experiments.fuzz.allowing import allowing
from experiments.fuzz.case import Case
from experiments.fuzz.comparing import difference
from experiments.fuzz.framework import Framework
from experiments.fuzz.net import compiled, make_net
from experiments.fuzz.plants import end_turns
from experiments.fuzz.render import Rendered, render

Found = dict[str, Any]
FINE, COARSE = 1e-6, 1e-3
"""By how much inputs move to see what rounding does: of float32, and where a tolerance is larger than that of it."""


class Verdict(NamedTuple):
    """kind: "equal", "discarded", or that of the first difference: values, gradients, errors or shapes."""

    kind: str
    message: str = ""

    @property
    def failed(self) -> bool:
        """True if the batched run differs."""
        return self.kind not in ("equal", "discarded")


class Judge:
    """Keeps the nets, so that caches of one case serve others."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework
        self._nets: dict[str, Any] = {}

    def net(self, dtype: str) -> Any:
        """The net whose weights have this dtype."""
        if dtype not in self._nets:
            self._nets[dtype] = make_net(self.framework, dtype)
        return self._nets[dtype]

    def render(self, case: Case) -> Rendered:
        """The text of a case."""
        return render(case, self.net(case.way.dtype), self.framework)

    def tolerance(self, rendered: Rendered) -> float:
        """The difference that rounding may make."""
        return self.framework.tolerance(rendered.text, rendered.dtypes)

    def verdict(self, case: Case, fresh: bool = False) -> Verdict:
        """Compare; `fresh` first clears what earlier cases have left in caches."""
        rendered = self.render(case)
        net = self.net(case.way.dtype)
        framework = self.framework
        wanted = self.play(rendered.text, net, False)
        if not all(_finite(value) for value in wanted.values()):
            return Verdict("discarded", "the eager program's results are not finite")
        refused = next((name for name, value in wanted.items() if framework.refused(value)), None)
        wanted = _until(wanted, refused)
        if any(framework.unusable(name, value) for name, value in wanted.items()):
            return Verdict("discarded", "the framework itself gives up where it need not")
        if fresh:
            gluonjit.clear_caches()
        found = _until(self.play(rendered.text, net, True), refused)
        if refused is not None and not isinstance(found.get(refused), Exception) and framework.copied(rendered.text):
            return Verdict("discarded", "what the eager program refuses is computed of copies")
        apart = [name for name in {**wanted, **found} if (name in wanted) != (name in found)]
        if any(framework.limit(wanted.get(name), found.get(name), rendered.text) for name in apart):
            return Verdict("discarded", "a documented limit of batches")
        tolerance = self.tolerance(rendered)
        wrong = sorted(self._wrong(wanted, found, tolerance), key=lambda pair: "raises" not in pair[0])
        if wrong and any(map(framework.recorded, wanted.values())):
            if self._equals_allowing(rendered, net, found, tolerance):
                return Verdict("discarded", "a write is refused for what has no part in a batch, or in its numbers")
        if wrong and self._shaky(rendered, net, wanted, found, [name for name, _ in wrong], tolerance):
            return Verdict("discarded", "rounding alone changes the eager program's results as much")
        if not wrong:
            return Verdict("equal")
        return Verdict(_kind(*wrong[0]), "; ".join(f"{name}: {how}" for name, how in wrong[:4]))

    def _equals_allowing(self, rendered: Rendered, net: Any, found: Found, tolerance: float) -> bool:
        """True if the eager program, allowed to write what a batch allows, gives all that the batch gives.

        What the batch refuses it may refuse too, or not.
        """
        refused = [name for name, value in found.items() if self.framework.recorded(value)]
        for names in ([], refused):
            text = allowing(rendered.text, [name.removesuffix(" raises") for name in names])
            wrong = self._wrong(self.play(text, net, False), found, tolerance)
            if all(name in names for name, _ in wrong):
                return True
        return False

    def _shaky(
        self, rendered: Rendered, net: Any, wanted: Found, found: Found, names: list[str], tolerance: float
    ) -> bool:
        """True if everything that differs moves about as far when the inputs change in their last digits."""
        by = COARSE if tolerance > self.framework.tolerance("", frozenset()) else FINE
        for sign in (1, -1):
            moved = self.play(self.framework.nudged(rendered.text, sign * by), net, False)
            names = [name for name in names if not _moves(wanted.get(name), found.get(name), moved.get(name))]
        return not names

    def play(self, text: str, net: Any, batched: bool) -> Found:
        """The results of one run, errors among them."""
        names = self.framework.names
        found: Found = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(compiled(text, "<case>"), names)
                found = names["run"](net, batched)
            except Exception as error:
                found["run raises"] = error.with_traceback(None)
            self.framework.end(net, found, batched)
        end_turns()
        return found

    def _wrong(self, wanted: Found, found: Found, tolerance: float) -> list[tuple[str, str]]:
        """Names the unintended differences."""
        pairs = difference(found, wanted, tolerance)
        return [pair for pair in pairs if not self._known(wanted, found, pair[0])]

    def _known(self, wanted: Found, found: Found, name: str) -> bool:
        """True if a difference is one that is meant."""
        cause = name if "raises" in name else name.split(", output")[0] + " raises"
        return self.framework.known(wanted.get(cause)) and cause not in found


def _until(found: Found, last: str | None) -> Found:
    """The results up to an error that leaves gradients half-way, with it."""
    names = list(found)
    return {name: found[name] for name in names[: names.index(last) + 1]} if last in found else found


def _finite(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())


def _moves(wanted: Any, found: Any, moved: Any) -> bool:
    arrays = isinstance(wanted, np.ndarray) and isinstance(found, np.ndarray) and isinstance(moved, np.ndarray)
    if not arrays or not wanted.shape == found.shape == moved.shape:
        return False
    off = float(np.abs(found.astype("float64") - wanted).max(initial=0.0))
    return float(np.abs(moved.astype("float64") - wanted).max(initial=0.0)) >= off / 10


def _kind(name: str, how: str) -> str:
    if "raises" in name or "Error" in how:
        return "errors"
    if "instead of" in how or "only in" in how:
        return "shapes"
    return "gradients" if "grad" in name else "values"
