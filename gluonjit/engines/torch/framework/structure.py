"""Arguments and results: tensors in nested lists, tuples and dictionaries, with plain constants between them."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from gluonjit.engines.torch.framework import originals
from gluonjit.hybrid.capture.structure import Constant


class Written(NamedTuple):
    """The result of a call, and what it sets as attributes of modules: `values` at `targets`, of (module, name)."""

    result: Any
    values: list[Any]
    targets: Constant

    @classmethod
    def of(cls, result: Any, values: list[Any], modules: list[tuple[Any, str]]) -> Written:
        """Makes one, whose targets keep no module alive; from now on these attributes are results."""
        for module, name in modules:
            RESULTS.setdefault(module, set()).add(name)
        return cls(result, values, Constant(tuple([(ref(module), name) for module, name in modules])))

    def set(self) -> Any:
        """Sets the attributes to what they are after this call. Returns the result."""
        targets: Any = self.targets
        for (module, name), value in zip(targets, self.values):
            originals.original_setattr(module(), name, value)
        return self.result


RESULTS: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Attributes of modules that calls set before any reads them: what a module computes does not depend on them."""
