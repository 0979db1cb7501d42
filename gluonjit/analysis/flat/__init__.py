"""Passes over all nodes of a graph, as flat arrays of whole numbers.

What is done for each node is in these files, which are in Cython's pure-Python mode (see `gluonjit.compiled`). The
rest of the analysis goes through records, families and steps.
"""

from typing import TYPE_CHECKING

from gluonjit.compiled import hot

if TYPE_CHECKING:
    from gluonjit.analysis.flat.ordering import by_depth, components, needed, produced, uses
    from gluonjit.analysis.flat.paths import depths, longest_chains
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
    from gluonjit.analysis.flat.rewriting import chains
else:
    _rewriting = hot("gluonjit.analysis.flat.rewriting")
    _ordering = hot("gluonjit.analysis.flat.ordering")
    _paths = hot("gluonjit.analysis.flat.paths")
    _placing = hot("gluonjit.analysis.flat.placing")
    chains = _rewriting.chains
    by_depth, components, needed = _ordering.by_depth, _ordering.components, _ordering.needed
    produced, uses = _ordering.produced, _ordering.uses
    depths, longest_chains = _paths.depths, _paths.longest_chains
    again = _placing.again
    first_records, lay_out, living = _placing.first_records, _placing.lay_out, _placing.living
    place_inputs = _placing.place_inputs
    Gather, Laid, Part, Place, Step = _placing.Gather, _placing.Laid, _placing.Part, _placing.Place, _placing.Step

__all__ = [
    "Gather",
    "Laid",
    "Part",
    "Place",
    "Step",
    "again",
    "by_depth",
    "chains",
    "components",
    "depths",
    "first_records",
    "lay_out",
    "living",
    "longest_chains",
    "needed",
    "place_inputs",
    "produced",
    "uses",
]
