"""Passes over all nodes of a graph, as flat arrays of whole numbers.

What is done for each node is in these files, which are in Cython's pure-Python mode (see `gluonjit.compiled`). The
rest of the analysis goes through records, families and steps.
"""

from typing import TYPE_CHECKING

from gluonjit.compiled import hot

if TYPE_CHECKING:
    from gluonjit.analysis.flat.ordering import components, levels, needed, produced, sort, uses
    from gluonjit.analysis.flat.paths import chains, longest_chains
    from gluonjit.analysis.flat.placing import (
        Gather,
        Laid,
        Part,
        Place,
        Step,
        again,
        first_records,
        lay_out,
        living,
        place_inputs,
    )
    from gluonjit.analysis.flat.searching import shortened

__all__ = [
    "Gather",
    "Laid",
    "Part",
    "Place",
    "Step",
    "again",
    "chains",
    "components",
    "first_records",
    "lay_out",
    "levels",
    "living",
    "longest_chains",
    "needed",
    "place_inputs",
    "produced",
    "shortened",
    "sort",
    "uses",
]

if not TYPE_CHECKING:
    for _name in ("ordering", "paths", "placing", "searching"):
        _module = hot(f"gluonjit.analysis.flat.{_name}")
        globals().update({name: getattr(_module, name) for name in __all__ if hasattr(_module, name)})
