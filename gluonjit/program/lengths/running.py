"""Runs the stages of a form for all nodes of a step: nodes of like lengths together, padded to the longest."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gluonjit.graph import Arrays
from gluonjit.program.axes.values import Number, Size, at_sizes
from gluonjit.program.lengths.form import number_of
from gluonjit.program.lengths.nodes import SizedNodes, begins_of, nodes_of, within
from gluonjit.program.lengths.stages import ALONE, ROWS, Result, Source, Stage, Stages

SAVED = 8000
"""The elements that may be worked on in vain, for what another call of the framework costs."""


def buckets(stage: Stage, nodes: SizedNodes) -> list[Any]:
    """The numbers of the nodes of each bucket; None for all of them."""
    if not stage.lengths or _fits(stage, nodes):
        return [None]
    listed = np.stack([nodes.lengths[length] for length in stage.lengths], 1)
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, lengths in enumerate(map(tuple, listed.tolist())):
        groups.setdefault(lengths, []).append(number)
    found = _gathered(stage, groups)
    return [None] if len(found) == 1 else [np.sort(np.array(numbers)) for numbers in found]


def _fits(stage: Stage, nodes: SizedNodes) -> bool:
    """True if padding of all nodes costs less than a launch, and all have something."""
    own = np.broadcast_to(stage.size(nodes.lengths), nodes.count).sum()
    wasted = nodes.count * stage.size(nodes.most) - own
    return bool(wasted <= SAVED * stage.calls) and all([nodes.lengths[k].all() for k in stage.lengths])


def _gathered(stage: Stage, groups: dict[tuple[int, ...], list[int]]) -> list[list[int]]:
    """Groups of nodes of equal lengths that run together; those without any rows by themselves."""
    terms = [
        (size.times, [stage.lengths.index(length) for length in size.lengths]) if size.__class__ is Size else (size, [])
        for size in stage.elements
    ]

    def elements(lengths: tuple[int, ...]) -> int:
        return sum([times * prod([lengths[place] for place in places]) for times, places in terms])

    sized = [(tuple([not size for size in lengths]), -elements(lengths), lengths) for lengths in groups]
    found: list[list[int]] = []
    most: tuple[int, ...] = ()
    before: tuple[bool, ...] = ()
    size = count = 0
    for empty, own, lengths in sorted(sized):
        more = groups[lengths]
        if found and empty == before:
            both = tuple(map(max, most, lengths))
            whole = elements(both)
            if (whole - size) * count + (whole + own) * len(more) <= SAVED * stage.calls:
                found[-1] += more
                most, size, count = both, whole, count + len(more)
                continue
        found.append([*more])
        most, before, size, count = lengths, empty, -own, len(more)
    return found


_ALL = slice(None)


class StageRun:
    """The nodes of a step, and the values that stages give and take.

    members: what nodes of one length have (`lengths`, `trace`, `own`), each with how many nodes follow one another that
    it is for; found: arrays by slot.
    """

    def __init__(self, stages: Stages, members: Sequence[tuple[Any, int]], found: dict[int, Any], device: str) -> None:
        self._stages, self._framework, self._prims = stages, stages.framework, stages.prims
        self.members, self.found = members, found
        self._send = stages.framework.send(device)
        self._member = np.repeat(np.arange(len(members)), [count for _, count in members])
        self._lengths = np.array([each.lengths for each, _ in members], dtype=np.int64)[self._member]
        self._all = self._nodes(_ALL)
        for number, (_, val) in enumerate(stages.own):
            own = [self._framework.anew(each.own[number]) for each, n in members for _ in range(n)]
            self.found[val.slot] = self._prims["rows"](*own)

    def _nodes(self, chosen: Any) -> SizedNodes:
        each = self._lengths[chosen]
        return nodes_of(each.tobytes(), len(each), self._send)

    def _need(self, key: tuple[Any, ...], nodes: SizedNodes, chosen: Any) -> Any:
        """An array that follows from the lengths of some nodes, or from numbers that they have for themselves."""

        def numbers(number: Number) -> Any:
            return np.array([number_of(each.trace, number.leaf) for each, _ in self.members])[self._member[chosen]]

        return self._framework.anew(nodes.need(key, numbers))

    def results(self) -> list[Any]:
        """The results of all nodes: runs all stages."""
        for stage in self._stages.stages:
            self.run(stage)
        return [self.found[val.slot] for val in self._stages.finals]

    def run(self, stage: Stage) -> None:
        """Runs a stage for all nodes."""
        found = self.found
        if stage.way == ROWS:
            given = [found[slot] for slot in stage.inputs]
            given += [self._need(key, self._all, _ALL) for key in stage.needs]
            found.update(zip(stage.outputs, stage.run(self._all.most, *given)))
            return
        made: list[list[Any]] = [[] for _ in stage.results]
        together = self._bucketed(stage)
        for chosen, nodes in together:
            given = [self._given(source, chosen, nodes) for source in stage.sources]
            if stage.way == ALONE:
                results = self._alone(stage, self._member[chosen], given)
            else:
                given += [found[slot] for slot in stage.inputs]
                given += [self._need(key, nodes, chosen) for key in stage.needs]
                results = self.together(stage, nodes, given)
            for listed, result in zip(made, results):
                listed.append(result)
        for result, parts in zip(stage.results, made):
            found[result.val.slot] = self._packed(result, together, parts)

    def together(self, stage: Stage, nodes: SizedNodes, given: Sequence[Any]) -> Sequence[Any]:
        """The results of a padded stage for some nodes."""
        return stage.run(nodes.most, *given)  # type: ignore[no-any-return]

    def _alone(self, stage: Stage, of: Any, given: Sequence[Any]) -> Sequence[Any]:
        member = self.members[of[0]][0]
        weights = [self.found[self._stages.slot_of(position)] for position in self._stages.weights]
        return member.part(stage).run(len(of), given, weights)  # type: ignore[no-any-return]

    def _bucketed(self, stage: Stage) -> list[tuple[Any, SizedNodes]]:
        """The nodes that run together: those of like lengths, or where that has to be of one length."""
        if stage.way == ALONE:
            groups: dict[Any, list[int]] = {}
            for number, (member, _) in enumerate(self.members):
                groups.setdefault(member.key(stage), []).append(number)
            found = [np.flatnonzero(np.isin(self._member, numbers)) for numbers in groups.values()]
        else:
            found = self._all.once((stage.elements, stage.calls), lambda: buckets(stage, self._all))
        if len(found) == 1:
            return [(_ALL, self._all)]
        return [(chosen, self._nodes(chosen)) for chosen in found]

    def _rows(self, lead: Any, chosen: Any) -> Any:
        """The rows of some nodes among those of all."""
        sizes = self._all.of(lead)
        return np.repeat(begins_of(sizes)[chosen], sizes[chosen]) + within(sizes[chosen])

    def _given(self, source: Source, chosen: Any, nodes: SizedNodes) -> Any:
        """A value of some nodes, (nodes, *shape), padded to the longest."""
        val, front, prims = source.val, source.front, self._prims
        rows, lead, rest = self.found[val.slot], prod(front), val.shape[len(front) :]
        if val.shared:
            return prims["expand"](rows, nodes.count, tuple(rows.shape))
        if (val.lead, val.rest) != (lead, rest):
            rows = prims["shape"](rows, (int(self._all.of(lead).sum()), *rest))
        if nodes is not self._all:
            key = ("chosen", lead, chosen.tobytes())
            rows = prims["take"](rows, self._all.once(key, lambda: nodes.index(self._rows(lead, chosen))))
        if not front:
            return rows
        shape = (nodes.count, *at_sizes(val.shape, nodes.most))
        count = prod(shape[: len(front) + 1])
        if count != len(rows):
            clipped = nodes.need(("clipped", front)) if source.fill is None and len(rows) else None
            rows = prims["put"](rows, nodes.need(("places", front)), clipped, count, source.fill or 0)
        return prims["shape"](rows, shape)

    def _packed(self, result: Result, together: Sequence[tuple[Any, SizedNodes]], parts: Sequence[Any]) -> Any:
        """A value of all nodes, node by node."""
        prims, val, front = self._prims, result.val, result.front
        found = []
        for (_, nodes), part in zip(together, parts):
            count = nodes.count * prod(at_sizes(front, nodes.most))
            rows = prims["shape"](part, (count, *val.rest))
            if front and count != nodes.of(val.lead).sum():
                rows = prims["take"](rows, nodes.need(("places", front)))
            found.append(rows)
        if len(found) == 1:
            return found[0]

        def order() -> Any:
            return self._all.index(np.argsort(np.concatenate([self._rows(val.lead, chosen) for chosen, _ in together])))

        key = ("order", val.lead, *[chosen.tobytes() for chosen, _ in together])
        return prims["take"](prims["rows"](*found), self._all.once(key, order))


def run_members(member: Any, operands: Arrays, consts: Arrays, count: int, besides: Arrays) -> list[Any]:
    """The results of the nodes of a step: so many of a member, or of the members that `besides` says."""
    found: dict[int, Any] = dict(enumerate([*operands, *consts]))
    return StageRun(member.stages, besides[0] if besides else [(member, count)], found, member.trace.device).results()
