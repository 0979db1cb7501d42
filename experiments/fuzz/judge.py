"""Run a case eagerly and batched, and say whether they differ."""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple

import mxnet as mx
import numpy as np

import gluonjit
from experiments.fuzz import blocks, prelude
from experiments.fuzz.case import Case
from experiments.fuzz.net import make_net
from experiments.fuzz.render import Rendered, render

NAMES = {**vars(prelude), **{name: item for name, item in vars(blocks).items() if not name.startswith("_")}}
TOLERANCE = 1e-5
# The eager program itself is no nearer to the truth: see "Logarithms of a softmax" in docs/decisions.md.
TOLERANCE_OF_LOGARITHM = 1e-4
_LOGARITHMS = ("log_softmax", "net.entropy", "net.kl")
TOLERANCE_OF_HALF = 2e-2
Found = dict[str, Any]

# Differences that are known and meant: MXNet raises with this text, and a batch does not.
KNOWN = {
    "it is not in a computational graph": "backward of what depends on nothing learned does nothing in a batch",
    "no inputs in computation graph that require gradients": "the same",
}

# The eager program cannot say what is right where MXNet frees a constant array's entry with the first history that
# goes through it, and then fails in the second; and where it gives up half-way because of a head or a variable that
# has no part in the history.
FREED = "any container is empty"
HALF_WAY = ("autograd.backward(losses", ", grad raises")


class Verdict(NamedTuple):
    """kind: "equal", "discarded", or that of the first difference: values, gradients, errors or shapes."""

    kind: str
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether the batched run differs."""
        return self.kind not in ("equal", "discarded")


class Judge:
    """Keeps the nets, so that what is cached for one case serves others."""

    def __init__(self) -> None:
        self._nets: dict[str, Any] = {}

    def net(self, dtype: str) -> Any:
        """The net whose weights have this dtype."""
        if dtype not in self._nets:
            made = make_net(NAMES)
            made.initialize()
            if dtype != "float32":
                made.cast(dtype)
            self._nets[dtype] = made
        return self._nets[dtype]

    def render(self, case: Case) -> Rendered:
        """The text of a case."""
        return render(case, self.net(case.way.dtype), NAMES)

    def verdict(self, case: Case, fresh: bool = False) -> Verdict:
        """Compare; `fresh` forgets before what earlier cases have left in caches."""
        rendered = self.render(case)
        net = self.net(case.way.dtype)
        wanted = play(rendered.text, net, False)
        if not all(_finite(value) for value in wanted.values()):
            return Verdict("discarded", "the eager program's results are not finite")
        if any(_unusable(name, value) for name, value in wanted.items()):
            return Verdict("discarded", "MXNet's own backward gives up where it need not")
        if fresh:
            gluonjit.clear_caches()
        found = play(rendered.text, net, True)
        tolerance = tolerance_of(rendered)
        wrong = prelude.difference(found, wanted, tolerance)
        wrong = sorted(
            (pair for pair in wrong if not _known(wanted, found, pair[0])), key=lambda pair: "raises" not in pair[0]
        )
        if wrong and self._shaky(rendered, net, wanted, found, [name for name, _ in wrong], tolerance):
            return Verdict("discarded", "rounding alone changes the eager program's results as much")
        if not wrong:
            return Verdict("equal")
        return Verdict(_kind(*wrong[0]), "; ".join(f"{name}: {how}" for name, how in wrong[:4]))

    def _shaky(
        self, rendered: Rendered, net: Any, wanted: Found, found: Found, names: list[str], tolerance: float
    ) -> bool:
        """Whether everything that differs moves about as far when the inputs change in their last digits."""
        for sign in (1, -1):
            moved = play(nudged(rendered.text, sign * (1e-3 if tolerance > TOLERANCE else 1e-6)), net, False)
            names = [name for name in names if not _moves(wanted.get(name), found.get(name), moved.get(name))]
        return not names


def play(text: str, net: Any, batched: bool) -> Found:
    """The results of one run, errors among them."""
    names = dict(NAMES)
    found: Found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(text, "<case>", "exec"), names)
            found = names["run"](net, batched)
        except Exception as error:
            found["run raises"] = error.with_traceback(None)
        if batched:
            prelude.attempt(found, "the end", lambda: net.hybridize(dynamic_batch=False))
        prelude.attempt(found, "waiting", mx.nd.waitall)  # errors of operators that nobody waited for
    return found


def nudged(text: str, by: float) -> str:
    """The text with given arrays and weights changed a little."""
    text = text.replace("fill(net, names, ", f"fill(net, names, nudge={by}, dtype=")
    return re.sub(r'( x\d+ = nd\.array\(.*, dtype="float\d+"\))', rf"\1 * {1 + by}", text)


def tolerance_of(rendered: Rendered) -> float:
    """What rounding may change."""
    if "float16" in rendered.dtypes:
        return TOLERANCE_OF_HALF
    return TOLERANCE_OF_LOGARITHM if any(name in rendered.text for name in _LOGARITHMS) else TOLERANCE


def _known(wanted: Found, found: Found, name: str) -> bool:
    """Whether a difference is one that is meant."""
    cause = name if "raises" in name else name.split(", output")[0] + " raises"
    return _refused(wanted.get(cause)) and cause not in found


def _unusable(name: str, value: Any) -> bool:
    if not isinstance(value, mx.base.MXNetError):
        return False
    return FREED in str(value) or any(part in name for part in HALF_WAY)


def _refused(value: Any) -> bool:
    return isinstance(value, mx.base.MXNetError) and any(text in str(value) for text in KNOWN)


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
