"""The captured graph: specs, values, nodes as flat arrays, and the sharing of equal nodes. No tensors.

The unit of addressing is the *row*: every value is one or more rows, every row has a number that is unique
in its graph, and an operand is a list of row numbers. Slicing, stacking and look-ups are therefore lists of
numbers, not nodes.
"""

from gluonjit.graph.frames import LIBRARIES, user_line
from gluonjit.graph.graph import Graph
from gluonjit.graph.kinds import (
    Arrays,
    BatchedProgram,
    Checks,
    Group,
    Kind,
    Output,
    Work,
    family_key,
    operand_groups,
    outputs_of,
    split_kind,
)
from gluonjit.graph.origins import Line, Mark, clear_lines, is_own, line_of, raised_at, sample_at, warn_at
from gluonjit.graph.recorder import Leaf, Record, Value
from gluonjit.graph.values import Rows, Spec, clear_specs, intern_spec, mode_of, natural_mode

__all__ = [
    "Arrays",
    "BatchedProgram",
    "Checks",
    "Graph",
    "LIBRARIES",
    "Group",
    "Kind",
    "Leaf",
    "Line",
    "Mark",
    "Output",
    "Record",
    "Rows",
    "Spec",
    "Value",
    "Work",
    "clear_specs",
    "family_key",
    "intern_spec",
    "is_own",
    "clear_lines",
    "line_of",
    "warn_at",
    "mode_of",
    "natural_mode",
    "operand_groups",
    "outputs_of",
    "raised_at",
    "sample_at",
    "split_kind",
    "user_line",
]
