"""Runs the stages of a length for all nodes of a step: nodes of like lengths together, padded to the longest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch

from gluonjit.engines.torch.arrays import device_named, dtype_named, sent
from gluonjit.engines.torch.ragged.choosing import begins_of, within
from gluonjit.engines.torch.ragged.padded import BAR, COUNT, HOLE, NUMBER, Need
from gluonjit.engines.torch.ragged.stages import LengthStage, Source

_SAVED = 8000
"""The elements that one operator may work on in vain, for what another launch of it costs."""


class _Group(NamedTuple):
    """Members that run alike, by their numbers, and their lengths."""

    lengths: tuple[int, ...]
    numbers: list[int]


class Bucket(NamedTuple):
    """Nodes that run together: of one length, or of lengths up to `sizes`, by a padded program."""

    nodes: Any
    program: Any
    sizes: tuple[int, ...] | None


class StageRun:
    """The nodes of a step, their sizes, and the values that stages give and take.

    members: programs, each with how many nodes follow one another that it is for; found: values by slot; lists: those
    of several sizes, a tensor for each node, by position.
    """

    def __init__(self, stages: Any, members: Sequence[tuple[Any, int]], found: dict[int, Any], device: str) -> None:
        self._stages = stages
        self.members = members
        self.found = found
        self.lists: dict[int, Any] = {}
        self.member = np.repeat(np.arange(len(members)), [count for _, count in members])
        self.count = len(self.member)
        self.device = device_named(device)
        self._cache: dict[Any, Any] = {}

    def sizes(self, length: int) -> Any:
        """The size of each node."""
        return self._once(length, lambda: np.array([each.lengths[length] for each, _ in self.members])[self.member])

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def run(self, stage: LengthStage, weights: Sequence[Any]) -> None:
        """Runs a stage for all nodes."""
        made: list[list[Any]] = [[] for _ in stage.results]
        buckets = self._buckets(stage)
        for nodes, program, sizes in buckets:
            given = [self._given(source, nodes, sizes) for source in stage.sources]
            if sizes is not None:
                given += [self._given(source, nodes, sizes) for source in self._stages.own_of(stage)]
                given += [self._needed(need, nodes, sizes) for need in program.needed]
            for listed, result in zip(made, program.run(len(nodes), given, weights)):
                listed.append(result)
        for source, parts in zip(stage.results, made):
            if source.packed is None:
                self._list(source, buckets, parts)
            else:
                self.found[source.packed.val.slot] = self._together(source, buckets, parts)

    def _buckets(self, stage: LengthStage) -> list[Bucket]:
        alike: dict[Any, list[int]] = {}
        for number, (member, _) in enumerate(self.members):
            alike.setdefault(member.key(stage), []).append(number)
        groups = [_Group(self.members[numbers[0]][0].lengths, numbers) for numbers in alike.values()]
        if len(groups) == 1 or stage.number not in self._stages.pads:
            return [self._of_one_length(stage, group) for group in groups]
        found = []
        for together in _gathered(stage, groups, self.members):
            padded = self._of_many_lengths(stage, together) if len(together) > 1 else None
            found += [self._of_one_length(stage, group) for group in together] if padded is None else [padded]
        return found

    def _of_many_lengths(self, stage: LengthStage, groups: Sequence[_Group]) -> Bucket | None:
        """Groups that run together; None if there is no program for their sizes."""
        used = {length for _, lengths in stage.elements for length in lengths}.union(stage.lengths)
        used -= self._stages.form.products.keys()
        most = map(max, *[group.lengths for group in groups])
        kept = tuple([size if length in used else 0 for length, size in enumerate(most)])
        for sizes in (tuple(map(_rounded, kept)), kept):
            program = self._stages.padded(stage, sizes)
            if program is not None:
                return Bucket(
                    self._nodes_of(sorted(number for group in groups for number in group.numbers)), program, sizes
                )
        return None

    def _of_one_length(self, stage: LengthStage, group: _Group) -> Bucket:
        return Bucket(self._nodes_of(group.numbers), self.members[group.numbers[0]][0].part(stage), None)

    def _nodes_of(self, numbers: Sequence[int]) -> Any:
        if len(numbers) == len(self.members):
            return np.arange(self.count)
        return np.flatnonzero(np.isin(self.member, numbers))

    def _rows(self, nodes: Any, length: int) -> Any:
        """The packed rows of nodes, and which of them each row is of and where in it, as one number per size."""

        def make() -> Any:
            whole = self.sizes(length)
            sizes = whole[nodes]
            numbers = within(sizes)
            return np.repeat(begins_of(whole)[nodes], sizes) + numbers, numbers

        return self._once((nodes.tobytes(), length), make)

    def _padded_to(self, length: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """The axes of padded rows: two of a product of lengths."""
        return tuple([sizes[each] for each in self._stages.form.products.get(length, (length,))])

    def _places(self, nodes: Any, length: int, sizes: Sequence[int]) -> Any:
        """Returns the places of the rows of nodes among padded ones."""
        whole = self._padded_to(length, sizes)

        def make() -> Any:
            _, numbers = self._rows(nodes, length)
            rows = self.sizes(length)[nodes]
            if len(whole) == 2:
                columns = np.repeat(self.sizes(self._stages.form.products[length][1])[nodes], rows)
                numbers = numbers // columns * whole[1] + numbers % columns
            return self._sent(np.repeat(np.arange(len(nodes)) * prod(whole), rows) + numbers)

        return self._once((nodes.tobytes(), length, whole), make)

    def _sent(self, array: Any) -> Any:
        return sent(array, self.device)

    def _given(self, source: Source, nodes: Any, sizes: tuple[int, ...] | None) -> Any:
        """A value, (nodes, *shape), padded to sizes if there are some."""
        packed = source.packed
        if packed is None:
            pieces = [self.lists[source.position][node] for node in nodes]
            return torch.stack(pieces if sizes is None else self._all_padded(source, pieces, sizes))
        whole, rest = self.found[packed.val.slot], packed.val.shape[1:]
        if packed.axis is None:
            shaped = whole.reshape(self.count, *packed.val.shape)
            return shaped if len(nodes) == self.count else shaped.index_select(0, self._sent(nodes))
        assert packed.length is not None
        if len(nodes) < self.count:
            whole = whole.index_select(0, self._sent(self._rows(nodes, packed.length)[0]))
        if sizes is None:
            size = int(self.sizes(packed.length)[nodes[0]])
            shaped = whole.reshape(len(nodes), size, *rest)
        else:
            axes = self._padded_to(packed.length, sizes)
            room = whole.new_zeros((len(nodes) * prod(axes), *rest))
            places = self._places(nodes, packed.length, sizes)
            shaped = room.index_copy(0, places, whole.reshape(-1, *rest)).view(len(nodes), *axes, *rest)
        return shaped.movedim(1, packed.axis + 1) if packed.axis else shaped

    def _all_padded(self, source: Source, pieces: Sequence[Any], sizes: tuple[int, ...]) -> list[Any]:
        wanted = self._stages.form.shape(source.position, sizes)
        found = []
        for piece in pieces:
            sized = zip(reversed(piece.shape), reversed(wanted))
            pads = [amount for have, want in sized for amount in (0, want - have)]
            found.append(torch.nn.functional.pad(piece, pads))
        return found

    def _needed(self, need: Need, nodes: Any, sizes: tuple[int, ...]) -> Any:
        what, length, name = need
        size = 0 if what == NUMBER else sizes[length]

        def make() -> Any:
            if what == NUMBER:
                given = [dict(each.trace.ops[length].attrs)["other"] for each, _ in self.members]
                return self._sent(np.array(given, dtype=np.float64)[self.member[nodes]]).to(dtype_named(name))
            counts = self.sizes(length)[nodes]
            dtype = dtype_named(name)
            if what == COUNT:
                return self._sent(counts).to(dtype)
            hole = self._sent(np.arange(size) >= counts[:, None])
            if what == HOLE:
                return hole
            assert what == BAR
            return torch.zeros(hole.shape, dtype=dtype, device=hole.device).masked_fill_(hole, -torch.inf)

        return self._once((need, nodes.tobytes(), size), make)

    def take(self, source: Source, rows: Any) -> None:
        """Lets an operand lie as the stages take it."""
        specs = [each.trace.operands[source.position] for each, _ in self.members]
        shapes = [spec.shape for spec, (_, count) in zip(specs, self.members) for _ in range(count)]
        parts = rows.split([spec.rows for spec, (_, count) in zip(specs, self.members) for _ in range(count)])
        pieces = [part.reshape(shape) for part, shape in zip(parts, shapes)]
        packed = source.packed
        if packed is None:
            self.lists[source.position] = pieces
        else:
            assert packed.axis is not None
            self.found[packed.val.slot] = torch.cat([piece.movedim(packed.axis, 0) for piece in pieces])

    def whole(self, source: Source, axes: int) -> Any:
        """The rows of a result, node by node, where this many axes are counted as rows."""
        packed = source.packed
        if packed is None:
            pieces = self.lists[source.position]
        else:
            assert packed.axis is not None and packed.length is not None
            parts = self.found[packed.val.slot].split(self.sizes(packed.length).tolist())
            pieces = [part.reshape(-1, *packed.val.shape[1:]).movedim(0, packed.axis) for part in parts]
        return torch.cat([piece.reshape(-1, *piece.shape[axes:]) for piece in pieces])

    def _list(self, source: Source, buckets: Sequence[Bucket], parts: Sequence[Any]) -> None:
        """Keeps a value of several sizes, node by node."""
        listed = self.lists[source.position] = [None] * self.count
        form = self._stages.form
        axes = form.axes(source.position)
        for (nodes, _, sizes), part in zip(buckets, parts):
            for place, node in enumerate(nodes):
                piece = part[place]
                if sizes is not None:
                    for axis in axes:
                        length = form.sizes[source.position, axis]
                        piece = piece.narrow(axis, 0, int(self.sizes(length)[node]))
                listed[node] = piece

    def _together(self, source: Source, buckets: Sequence[Bucket], parts: Sequence[Any]) -> Any:
        """A value of all nodes as it lies."""
        packed = source.packed
        assert packed is not None
        found, rows = [], []
        for (nodes, _, sizes), part in zip(buckets, parts):
            if packed.axis is None:
                found.append(part)
                rows.append(nodes)
                continue
            assert packed.length is not None
            moved = (part.movedim(packed.axis + 1, 1) if packed.axis else part).reshape(-1, *packed.val.shape[1:])
            if sizes is not None:
                moved = moved.index_select(0, self._places(nodes, packed.length, sizes))
            found.append(moved)
            rows.append(self._rows(nodes, packed.length)[0])
        if len(found) == 1:
            return found[0]
        return torch.cat(found).index_select(0, self._sent(np.argsort(np.concatenate(rows))))


def _rounded(size: int) -> int:
    """A size that few programs are made for: at most an eighth more."""
    step = 1 << max(size.bit_length() - 4, 0)
    return -(-size // step) * step


def _gathered(stage: LengthStage, groups: Sequence[_Group], members: Sequence[tuple[Any, int]]) -> list[list[_Group]]:
    """The groups that run together: where padding costs less than a launch."""
    sized = sorted([(stage.size(group.lengths), group) for group in groups], key=lambda each: -each[0])
    found: list[list[_Group]] = []
    most: Sequence[int] = ()
    size = nodes = 0
    for own, group in sized:
        count = sum([members[number][1] for number in group.numbers])
        if found:
            both = tuple(map(max, most, group.lengths))
            whole = stage.size(both)
            if (whole - size) * nodes + (whole - own) * count <= _SAVED * len(stage.places):
                found[-1].append(group)
                most, size, nodes = both, whole, nodes + count
                continue
        found.append([group])
        most, size, nodes = group.lengths, own, count
    return found
