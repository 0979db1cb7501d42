"""The table of operators for people: each operator, how it runs for many samples, and notes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import mxnet as mx
from mxnet.base import _LIB, check_call, mx_uint, py_str

from gluonjit.engines.mxnet.framework.symbols import ALONE, MAY_FAIL, NO_RULE, RANDOM, canonical
from gluonjit.engines.mxnet.operators.table import CONSTANT, KNOWN, ROWS_OF
from gluonjit.hybrid.explain import listing
from gluonjit.hybrid.explain.listing import ListedRule, Page, of_kind, unknown

HOW = {**listing.HOW, CONSTANT: "once", "no rule": "alone"}
"""Words for how the operators of each kind run."""

KINDS = {
    **listing.KINDS,
    CONSTANT: "the same for every sample, so computed once",
    "alone": "runs for each sample by itself",
    "no rule": "not an operator of user programs; if called, it runs for each sample by itself",
}
"""Words for what all operators of a kind have in common."""


def describe() -> list[ListedRule]:
    """Every row, and every operator without one."""
    rows = [ListedRule(name, row.kind, HOW[row.kind], _said(name)) for name, row in ROWS_OF.items()]
    rows += [ListedRule(name, "alone", HOW["alone"], why) for name, why in ALONE.items()]
    rows += [ListedRule(name, "no rule", HOW["no rule"], NO_RULE.get(name, KINDS["no rule"])) for name in unruled()]
    return sorted(rows)


def _said(name: str) -> str:
    drawn = "; draws for each sample" if name in RANDOM else ""
    return ROWS_OF[name].said + drawn + ("; may fail, depending on values" if name in MAY_FAIL else "")


def unruled() -> list[str]:
    """Registered operators without a row; for a backward operator there need be none."""
    return sorted({name for name in map(canonical, registered()) if name not in KNOWN})


def registered() -> list[str]:
    """Names and other names of all forward operators of this build of MXNet."""
    count, names = mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    listed = [str(py_str(names[k])) for k in range(count.value)]
    return [name for name in listed if "backward" not in name]


def select(kind: str | None, names: Sequence[str]) -> list[ListedRule]:
    """The lines of one kind, of some operators by any of their names, or all. LookupError names what is wrong."""
    rows = describe()
    if names:
        wanted = {_registered_name(name) for name in names}
        rows = [row for row in rows if row.operator in wanted]
    return of_kind(rows, kind, KINDS)


def _registered_name(name: str) -> str:
    """The operator behind a name that a program may write: `mx.nd.softmax`, `elemwise_add`, `contrib.box_nms`."""
    plain = name.replace("mx.", "").replace("nd.", "").replace("sym.", "")
    for prefix, short in (("_contrib_", "contrib."), ("_linalg_", "linalg."), ("_npi_", "np."), ("_npx_", "npx.")):
        if plain.startswith(short):
            plain = prefix + plain[len(short) :]
    try:
        return canonical(plain)
    except ValueError:
        raise unknown(name, "MXNet", registered()) from None


_HEAD = """\
# Operators

How each operator of MXNet {version} runs for many samples at once. Made by

```bash
python -m gluonjit rules --engine mxnet --markdown
```

`python -m gluonjit rules NAME` looks one up by any of its names. The names here are those under which MXNet
registers an operator; `mx.nd.elemwise_add`, `x + y` and `_Plus` are one operator.

* **unchanged**: the operator itself runs once, on the rows of all samples or on all samples stacked.
* **rewritten**: other operators or other attributes do the same for all samples.
* **once**: the result is the same for all samples.
* **alone**: the operator runs for each sample by itself, with the same result as without batching.

A call that its rule cannot handle (a shape, an attribute, rows of varying length) also runs alone, and the report of
the batch says why.
"""

PAGE = Page(_HEAD.format(version=mx.__version__), HOW, KINDS)
