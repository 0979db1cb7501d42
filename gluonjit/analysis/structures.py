"""Graph granularity: samples of one structure run as one.

Two samples have one structure if they make calls of the same signatures in the same order and use each other's results
alike. They then run together, call by call, and the results of one call lie as the next one needs them: only whole
samples are compared, and little is gathered. Common parts of samples with different structures are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gluonjit.analysis.indices import Index
from gluonjit.analysis.nodes import Nodes, Schedule
from gluonjit.analysis.schedulers import Scheduler
from gluonjit.compiled import filled
from gluonjit.graph.origins import Mark

_MIX = 0x9E3779B97F4A7C15  # 2^64 by the golden ratio: neighbouring numbers end up far apart


def by_structure(nodes: Nodes, marks: Sequence[Mark], rest: Scheduler) -> Schedule | None:
    """Schedules samples by structure, and captures outside of samples by `rest`.

    None if samples depend on each other, or on what was captured between them: then they do not run as one.
    """
    order = _Capture(nodes, marks)
    inside = order.sample >= 0
    if not inside.any() or not order.independent(inside):
        return None
    structures = order.structures(inside)
    found = nodes.in_order([calls for samples in structures for calls in samples.T])
    units, groups = sum(map(len, structures)), len(structures)
    if not inside.all():
        keep = np.zeros(nodes.captured.count, dtype=np.int64)
        keep[nodes.captured_numbers[~inside]] = 1
        later = rest(Nodes(nodes.captured, filled(keep.tolist())))
        first = found.starts.pop()
        joined = filled([*found.order, *later.order[: later.starts[-1]]])
        found = Schedule(joined, [*found.starts, *[first + start for start in later.starts]], 0, 0)
        units, groups = units + int((~inside).sum()), groups + len(later.starts) - 1
    return found._replace(units=units, groups=groups)


class _Capture:
    """The nodes in the order of capture, and the sample of each: -1 outside of samples."""

    def __init__(self, nodes: Nodes, marks: Sequence[Mark]) -> None:
        self.nodes = nodes
        starts = np.array([row for row, _ in marks], dtype=np.int64)
        of_mark = np.array([-1 if sample is None else k for k, (_, sample) in enumerate(marks)], dtype=np.int64)
        at = np.searchsorted(starts, nodes.bases, side="right") - 1
        self.sample: Index = np.where(at >= 0, of_mark[at], -1) if len(marks) else np.full(nodes.count, -1)

    def independent(self, inside: npt.NDArray[np.bool_]) -> bool:
        """Tells whether no sample uses a result of another one, or of the program between them."""
        sources, targets = self.nodes.edges
        used = inside[targets]
        return bool((self.sample[sources[used]] == self.sample[targets[used]]).all())

    def structures(self, inside: npt.NDArray[np.bool_]) -> list[Index]:
        """Returns for each structure a matrix (samples, calls) of node numbers, in order of capture."""
        numbers = np.flatnonzero(inside)
        numbers = numbers[np.argsort(self.nodes.bases[numbers], kind="stable")]
        sample = self.sample[numbers]
        starts = np.flatnonzero(np.diff(sample, prepend=-1))
        lengths = np.diff(starts, append=len(numbers))
        place = np.zeros(self.nodes.count, dtype=np.int64)  # of a node in its sample
        place[numbers] = np.arange(len(numbers)) - np.repeat(starts, lengths)
        looks = self._looks(place)[numbers]
        sums = np.add.reduceat(_mixed(looks + place[numbers].astype(np.uint64) * np.uint64(_MIX)), starts)
        kinds = self.nodes.records
        together: dict[tuple[int, int], list[int]] = {}
        for position, key in enumerate(zip(sums.tolist(), lengths.tolist())):
            together.setdefault(key, []).append(position)
        found = []
        for (_, length), positions in together.items():
            matrix = numbers[starts[positions][:, None] + np.arange(length)]
            alike = (kinds[matrix] == kinds[matrix[0]]).all()
            found += [matrix] if alike else [row[None] for row in matrix]
        return found

    def _looks(self, place: Index) -> npt.NDArray[np.uint64]:
        """A number for each node that encodes its record and the results of its sample that it uses."""
        nodes = self.nodes
        looks = _mixed(nodes.records.astype(np.uint64) + np.uint64(1))
        readers, rows = nodes.reads
        if len(readers):
            starts = np.flatnonzero(np.diff(readers, prepend=-1))
            columns = np.arange(1, len(readers) + 1) - np.repeat(starts, np.diff(starts, append=len(readers)))
            made_by = nodes.producer[rows]
            used = np.where(made_by >= 0, place[made_by] * 64 + (rows - nodes.bases[made_by]) + 1, 0)
            with np.errstate(over="ignore"):
                where = columns.astype(np.uint64) * np.uint64(_MIX)
                looks[readers[starts]] += np.add.reduceat(_mixed(used.astype(np.uint64) + where), starts)
        return looks


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatters numbers over 64 bits (the finisher of splitmix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return numbers ^ (numbers >> np.uint64(31))
