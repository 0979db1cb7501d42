"""The table of rules for people: each ATen operator, how it runs for many samples, and notes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from gluonjit.engines.torch.operators.binding import RANDOM, operator_named
from gluonjit.engines.torch.operators.recurrent import RECURRENT
from gluonjit.engines.torch.operators.table import ROWS_OF, row_of
from gluonjit.engines.torch.tracing.aten import without_rule
from gluonjit.hybrid.explain import listing
from gluonjit.hybrid.explain.listing import ListedRule, Page, of_kind, unknown

HOW = {**listing.HOW, "loss": "rewritten", "composed": "rewritten", "at once": "at once"}
"""Words for how the operators of each kind run."""

KINDS = {
    **listing.KINDS,
    "loss": "elementwise, then summed or averaged for each sample",
    "composed": "PyTorch decomposes it into several operators, each of which runs by its own rule",
    "at once": "runs when it is called, together with what it depends on",
    "alone": "as torch.func.vmap runs it, or for each sample by itself: it has no row",
}
"""Words for what all operators of a kind have in common."""
_BY_NUMBERS = {
    torch.Tag.dynamic_output_shape: "the shape of its result depends on values",
    torch.Tag.data_dependent_output: "it reads numbers",
}
_MEMORY = {"as_strided.default": "it reads memory, in which a batch has other samples next to it"}
_PREFIXES = ("torch.nn.functional.", "torch.ops.aten.", "torch.Tensor.", "torch.", "Tensor.", "F.", "aten::", "aten.")
_FAMILIES = ("linalg", "special", "fft")  # written with a dot by programs, with an underscore by ATen


def line_of(name: str) -> ListedRule:
    """The line of an operator by its full name: "add.Tensor"."""
    operator = operator_named(name)
    row = row_of(name)
    drawn = "; draws for each sample" if RANDOM in operator.tags and name not in RECURRENT else ""
    if row is not None:
        return ListedRule(name, row.kind, HOW[row.kind], row.said + drawn)
    why = _MEMORY.get(name) or next((said for tag, said in _BY_NUMBERS.items() if tag in operator.tags), None)
    kind = "at once" if why else "composed" if without_rule(operator) is not None else "alone"
    return ListedRule(name, kind, HOW[kind], (why or KINDS[kind]) + drawn)


def describe() -> list[ListedRule]:
    """Every rule, every other element-wise operator, and all others that programs call by name."""
    return [line_of(name) for name in sorted(_all()) if name in ROWS_OF or _public(name)]


@lru_cache(maxsize=1)
def _all() -> frozenset[str]:
    """All operators of ATen, of this build of PyTorch, that give new tensors or views of one they are given."""
    names = [name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    full = [name if "." in name else f"{name}.default" for name in names if "backward" not in name]
    return frozenset(name for name in full if not name.endswith("out") and _gives_tensors(name))


def _gives_tensors(name: str) -> bool:
    try:
        schema = operator_named(name)._schema
    except AttributeError:  # what TorchScript alone has
        return False
    returned = {str(result.type) for result in schema.returns}
    taken = {str(argument.type) for argument in schema.arguments}
    return not schema.is_mutable and bool(returned) and returned <= _TENSORS and not taken.isdisjoint(_TENSORS)


_TENSORS = {"Tensor", "List[Tensor]"}


def _public(name: str) -> bool:
    """True if programs call it, on dense tensors; what begins with an underscore PyTorch calls itself."""
    return not name.startswith("_") and not any(part in name for part in _NOT_CALLED)


_NOT_CALLED = ("sparse", "quantize", "indices", "_copy.", "cudnn", "mkldnn", "miopen", "mps", "fbgemm")


def select(kind: str | None, names: Sequence[str]) -> list[ListedRule]:
    """The lines of one kind, of some operators as programs write them, or all. LookupError names what is wrong."""
    if not names:
        return of_kind(describe(), kind, KINDS)
    found = sorted({full for name in names for full in _named(name)})
    return of_kind([line_of(full) for full in found], kind, KINDS)


def _named(name: str) -> list[str]:
    """The operators behind a name: `torch.softmax`, `F.relu`, `linalg.det`, `add_`, `sum.dim_IntList`."""
    plain = name
    for prefix in _PREFIXES:
        if plain.startswith(prefix):
            plain = plain[len(prefix) :]
            break
    base, _, overload = plain.partition(".")
    if base in _FAMILIES and overload:
        base, _, overload = f"{base}_{overload}".partition(".")
    if base.endswith("_") and not base.endswith("__"):  # in place: the operator that gives a new tensor
        base = base[:-1]
    wanted = {base, f"_{base}"}
    found = [full for full in _all() if full.partition(".")[0] in wanted and overload in ("", full.partition(".")[2])]
    if not found:
        raise unknown(name, "PyTorch", filter(_public, _all()))
    return found


_HEAD = """\
# Operators of PyTorch

How each operator of ATen, PyTorch's operator library, runs for many samples at once. Made with PyTorch {version} by

```bash
python -m gluonjit rules --engine torch --markdown
```

`python -m gluonjit rules NAME` looks one up by the name used in programs: `torch.softmax`, `F.relu`, `linalg.det`,
or by the name used in reports, `sum.dim_IntList`. The names here are ATen's, with the overload; an in-place operator,
such as `add_`, runs as the one that returns a new tensor.

* **unchanged**: the operator itself runs once, on the rows of all samples or on all samples stacked.
* **rewritten**: other operators or other arguments do the same for all samples.
* **at once**: the operator runs when it is called, after the calls that it depends on.
* **alone**: the operator runs for each sample by itself, with the same result as without batching.

A call that its rule cannot handle (a shape, an argument, rows of varying length) also runs alone, and the report of
the batch says why.
"""

PAGE = Page(_HEAD.format(version=str(torch.__version__).partition("+")[0]), HOW, KINDS)
