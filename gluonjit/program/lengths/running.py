"""Runs the stages of a form for all nodes of a step: nodes of like lengths together, padded to the longest."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gluonjit.program.axes.row import rows_before
from gluonjit.program.axes.values import Values, at_sizes
from gluonjit.program.lengths.form import number_of
from gluonjit.program.lengths.nodes import SizedNodes, begins_of, within
from gluonjit.program.lengths.stages import ALONE, ROWS, Source, Stage, Stages

_SAVED = 8000
"""The elements that one operator may work on in vain, for what another launch of it costs."""


class StageRun:
    """The nodes of a step, and the values that stages give and take.

    members: what nodes of one length have (`lengths`, `trace`, `own`), each with how many nodes follow one another that
    it is for; found: arrays by slot.
    """

    def __init__(self, stages: Stages, members: Sequence[tuple[Any, int]], found: dict[int, Any], device: str) -> None:
        self._stages, self._framework = stages, stages.framework
        self.members, self.found = members, found
        self._send = stages.framework.send(device)
        self._member = np.repeat(np.arange(len(members)), [count for _, count in members])
        self._lengths = np.array([each.lengths for each, _ in members])
        self._all = self._nodes(np.arange(len(self._member)))
        self._buckets: dict[Any, list[tuple[Any, SizedNodes]]] = {}
        for number, (_, val) in enumerate(stages.own):
            self.found[val.slot] = self._framework.joined([each.own[number] for each, n in members for _ in range(n)])

    def _nodes(self, chosen: Any) -> SizedNodes:
        each = self._member[chosen]
        lengths = dict(enumerate(self._lengths[each].T))
        return SizedNodes(
            len(chosen), lengths, self._send, lambda leaf: [self._number(number, leaf) for number in each]
        )

    def _number(self, member: int, leaf: Any) -> Any:
        return number_of(self.members[member][0].trace, leaf)

    def run(self, stage: Stage) -> None:
        """Runs a stage for all nodes."""
        found = self.found
        if stage.way == ROWS:
            given = [*[found[slot] for slot in stage.inputs], *map(self._all.need, stage.needs)]
            found.update(zip(stage.outputs, stage.run(self._all.most, *given)))
            return
        made: list[list[Any]] = [[] for _ in stage.results]
        buckets = self._bucketed(stage)
        for chosen, nodes in buckets:
            given = [self._given(source, chosen, nodes) for source in stage.sources]
            if stage.way == ALONE:
                results = self._alone(stage, chosen, given)
            else:
                given += [*[found[slot] for slot in stage.inputs], *map(nodes.need, stage.needs)]
                results = self.together(stage, nodes, given)
            for listed, result in zip(made, results):
                listed.append(result)
        for (_, val), parts in zip(stage.results, made):
            found[val.slot] = self._packed(val, buckets, parts)

    def together(self, stage: Stage, nodes: SizedNodes, given: Sequence[Any]) -> Sequence[Any]:
        """The results of a padded stage for some nodes."""
        found: Sequence[Any] = stage.run(nodes.most, *given)
        return found

    def _alone(self, stage: Stage, chosen: Any, given: Sequence[Any]) -> Sequence[Any]:
        member = self.members[self._member[chosen[0]]][0]
        weights = [self.found[self._stages.slot_of(position)] for position in self._stages.weights]
        found: Sequence[Any] = member.part(stage).run(len(chosen), given, weights)
        return found

    def _bucketed(self, stage: Stage) -> list[tuple[Any, SizedNodes]]:
        """The nodes that run together, for a padded stage those for which padding costs less than a launch."""
        groups: dict[Any, list[int]] = {}
        for number, (member, _) in enumerate(self.members):
            key = member.key(stage) if stage.way == ALONE else self._key(stage, member.lengths)
            groups.setdefault(key, []).append(number)
        gathered = [[numbers] for numbers in groups.values()]
        if stage.way != ALONE and len(groups) > 1:
            gathered = self._gathered(stage, list(groups.values()))
        kept = tuple([tuple([number for numbers in listed for number in numbers]) for listed in gathered])
        if kept not in self._buckets:
            self._buckets[kept] = [self._bucket(numbers) for numbers in kept]
        return self._buckets[kept]

    def _key(self, stage: Stage, lengths: Sequence[int]) -> Any:
        return tuple([lengths[length] for length in stage.lengths])

    def _bucket(self, numbers: Sequence[int]) -> tuple[Any, SizedNodes]:
        if len(numbers) == len(self.members):
            return np.arange(self._all.count), self._all
        chosen = np.flatnonzero(np.isin(self._member, numbers))
        return chosen, self._nodes(chosen)

    def _gathered(self, stage: Stage, groups: Sequence[list[int]]) -> list[list[list[int]]]:
        """Groups of nodes of equal lengths that run together; those that have nothing by themselves."""
        sized = []
        for numbers in groups:
            lengths = dict(enumerate(self.members[numbers[0]][0].lengths))
            empty = tuple([not lengths[length] for length in stage.lengths])
            sized.append((empty, -stage.size(lengths), lengths, numbers))
        found: list[list[list[int]]] = []
        most: dict[int, int] = {}
        before, size, nodes = None, 0, 0
        for empty, own, lengths, numbers in sorted(sized, key=lambda each: each[:2]):
            count = sum([self.members[number][1] for number in numbers])
            if found and empty == before:
                both = {length: max(each, most[length]) for length, each in lengths.items()}
                whole = stage.size(both)
                if (whole - size) * nodes + (whole + own) * count <= _SAVED * len(stage.places):
                    found[-1].append(numbers)
                    most, size, nodes = both, whole, nodes + count
                    continue
            found.append([numbers])
            most, before, size, nodes = lengths, empty, -own, count
        return found

    def _rows(self, lead: Any, chosen: Any) -> Any:
        """The rows of some nodes among those of all."""
        sizes = self._all.of(lead)
        return np.repeat(begins_of(sizes)[chosen], sizes[chosen]) + within(sizes[chosen])

    def _given(self, source: Source, chosen: Any, nodes: SizedNodes) -> Any:
        """A value of some nodes, (nodes, *shape), padded to the longest."""
        val, framework = source.val, self._framework
        rows, shape = self.found[val.slot], val.shape
        lead = prod(shape[: rows_before(shape)]) if val.packed else 1
        rest = shape[rows_before(shape) :] if val.packed else shape
        if (val.lead, val.rest) != (lead, rest):
            rows = framework.reshape(rows, (int(self._all.of(lead).sum()), *rest))
        if nodes is not self._all:
            rows = framework.take(rows, nodes.index(self._rows(lead, chosen)))
        if not val.packed:
            return rows
        front = shape[: rows_before(shape)]
        count = nodes.count * prod(at_sizes(front, nodes.most))
        if count != len(rows):
            clipped = nodes.need(("clipped", front)) if source.fill is None and len(rows) else None
            rows = framework.put(rows, nodes.need(("places", front)), clipped, count, source.fill or 0)
        return framework.reshape(rows, (nodes.count, *at_sizes(shape, nodes.most)))

    def _packed(self, val: Values, buckets: Sequence[tuple[Any, SizedNodes]], parts: Sequence[Any]) -> Any:
        """A value of all nodes, node by node."""
        framework, front = self._framework, val.shape[: rows_before(val.shape)]
        found = []
        for (_, nodes), part in zip(buckets, parts):
            count = nodes.count * (prod(at_sizes(front, nodes.most)) if val.packed else 1)
            rows = framework.reshape(part, (count, *val.rest))
            if val.packed and count != nodes.of(val.lead).sum():
                rows = framework.take(rows, nodes.need(("places", front)))
            found.append(rows)
        if len(found) == 1:
            return found[0]
        order = np.concatenate([self._rows(val.lead, chosen) for chosen, _ in buckets])
        return framework.take(framework.joined(found), self._all.index(np.argsort(order)))
