# cython: language_level=3, wraparound=False, initializedcheck=False
"""The nodes that have to run, and in which order.

In Cython's pure-Python mode. The arrays are those of `reading`; per record there are the rows of a node's results
(`heights`) and of its operands (`widths`), and the number of its family. Rows are numbered in the order of capture, so
that a node reads rows below its own.
"""

from __future__ import annotations

from gluonjit.compiled import room

try:
    import cython
except ImportError:
    from gluonjit import standin as cython

if cython.compiled:
    from cython.cimports.gluonjit._arrays import Number, Numbers, Size
else:
    from gluonjit.standin import Number, Numbers, Size


def produced(
    count: Size,
    heights: Numbers,
    kinds: Numbers,
    bases: Numbers,
    keep: Numbers,
    producer: Numbers,
) -> None:
    """Notes for each row the number of the node to `keep` that yields it, plus one."""
    n: Size
    row: Size
    for n in range(count):
        if keep[n]:
            for row in range(bases[n], bases[n] + heights[kinds[n]]):
                producer[row] = n + 1


def needed(
    count: Size,
    heights: Numbers,
    widths: Numbers,
    pure: Numbers,
    kinds: Numbers,
    bases: Numbers,
    firsts: Numbers,
    operands: Numbers,
    alive: Numbers,
    keep: Numbers,
    producer: Numbers,
) -> Size:
    """Keeps, of the nodes to `keep`, those that are alive or impure and what they depend on; returns their number.

    `producer` has for each row of theirs one more than the number of the node, and 0 for others.
    """
    n: Size
    i: Size
    row: Size
    made: Number
    record: Number
    left: Size = 0
    wanted: Numbers = room(count)
    for row in range(len(producer) - 1, -1, -1):
        made = producer[row]
        if not made or bases[made - 1] != row:
            continue
        n = made - 1
        record = kinds[n]
        if wanted[n] or alive[n] or not pure[record]:
            left += 1
            for i in range(firsts[n], firsts[n] + widths[record]):
                made = producer[operands[i]]
                if made:
                    wanted[made - 1] = 1
        else:
            keep[n] = 0
            for i in range(row, row + heights[record]):
                producer[i] = 0
    return left


def uses(
    families: Numbers,
    family_count: Size,
    count: Size,
    widths: Numbers,
    kinds: Numbers,
    firsts: Numbers,
    operands: Numbers,
    keep: Numbers,
    producer: Numbers,
) -> list:
    """Finds the families whose results the nodes of each family read, in order; among nodes to `keep` only."""
    n: Size
    i: Size
    made: Number
    family: Number
    record: Number
    last: Number = -1
    noted: Numbers = room(family_count)
    found: list = [set() for _ in range(family_count)]
    for n in range(count):
        if not keep[n]:
            continue
        record = kinds[n]
        if record != last:
            last = record
            of: set = found[families[record]]
        for i in range(firsts[n], firsts[n] + widths[record]):
            made = producer[operands[i]]
            if made and keep[made - 1]:
                family = families[kinds[made - 1]]
                if noted[family] != last + 1:
                    noted[family] = last + 1
                    of.add(family)
    return [sorted(of) for of in found]


def components(uses: list, phase: Numbers, recursive: Numbers) -> Size:
    """Numbers strongly connected components so that each comes after those that it uses; returns their number.

    `phase` has then for each family the number of its component, and `recursive` whether its nodes depend on each
    other. Tarjan's algorithm without recursion.
    """
    root: Size
    family: Number
    other: Number
    size: Number
    count: Size = len(uses)
    order: Numbers = room(count)
    low: Numbers = room(count)
    looked: Numbers = room(count)
    work: Numbers = room(count)
    path: Numbers = room(count)
    met: Number = 0
    top: Number = 0
    length: Number = 0
    found: Number = 0
    for root in range(count):
        phase[root] = -1
    for root in range(count):
        family = root
        if order[root]:
            continue
        while True:
            if not order[family]:
                met += 1
                order[family] = low[family] = met
                path[length] = family
                length += 1
                work[top] = family
                top += 1
            of: list = uses[family]
            if looked[family] < len(of):
                other = of[looked[family]]
                looked[family] += 1
                if not order[other]:
                    family = other
                elif phase[other] < 0 and order[other] < low[family]:
                    low[family] = order[other]
                continue
            top -= 1
            if low[family] == order[family]:
                size = length
                while phase[family] < 0:
                    length -= 1
                    phase[path[length]] = found
                for other in range(length, size):
                    recursive[path[other]] = size - length > 1 or path[other] in uses[path[other]]
                found += 1
            if not top:
                break
            other = work[top - 1]
            if low[family] < low[other]:
                low[other] = low[family]
            family = other
    return found


def levels(
    families: Numbers,
    phase: Numbers,
    recursive: Numbers,
    widths: Numbers,
    kinds: Numbers,
    bases: Numbers,
    firsts: Numbers,
    operands: Numbers,
    keep: Numbers,
    producer: Numbers,
    found: Numbers,
) -> None:
    """Finds the longest way to each node, in nodes to `keep` of its own phase; 0 without recursion.

    It goes into `found`.
    """
    n: Size
    i: Size
    row: Size
    made: Number
    record: Number
    own: Number
    level: Number
    for row in range(len(producer)):
        made = producer[row]
        if not made or bases[made - 1] != row or not keep[made - 1]:
            continue
        n = made - 1
        record = kinds[n]
        own = phase[families[record]]
        if not recursive[families[record]]:
            continue
        level = 0
        for i in range(firsts[n], firsts[n] + widths[record]):
            made = producer[operands[i]]
            if made and found[made - 1] >= level and keep[made - 1] and phase[families[kinds[made - 1]]] == own:
                level = found[made - 1] + 1
        found[n] = level


def sort(
    ranked: list,
    begins: Numbers,
    families: Numbers,
    phase: Numbers,
    phases: Size,
    keep: Numbers,
    level: Numbers,
    order: Numbers,
) -> list:
    """Puts the nodes to `keep` in `order`: by phase, level and family, and those of one family record by record.

    `ranked` are the numbers of records, those of a family one after the other, in the order of families; the nodes of
    record k are those from `begins[k]` to `begins[k + 1]`. Nodes of one phase, level and family are a step: returns
    where in `order` each one begins, and after the last one where it ends.
    """
    n: Size
    record: Size
    slot: Number
    size: Number
    place: Number
    total: Number = 0
    offsets: Numbers = room(phases + 1)  # of a phase's first slot: one for each level
    for record in ranked:
        slot = phase[families[record]] + 1
        for n in range(begins[record], begins[record + 1]):
            if keep[n] and level[n] >= offsets[slot]:
                offsets[slot] = level[n] + 1
    for slot in range(phases):
        offsets[slot + 1] += offsets[slot]
    slots: Numbers = room(offsets[phases])
    for record in ranked:
        slot = offsets[phase[families[record]]]
        for n in range(begins[record], begins[record + 1]):
            if keep[n]:
                slots[slot + level[n]] += 1
    for slot in range(len(slots)):
        size = slots[slot]
        slots[slot] = total
        total += size
    last: Numbers = room(len(slots))  # the family that was put there last, and one more
    starts: list = [total]
    for record in ranked:
        size = families[record] + 1
        for n in range(begins[record], begins[record + 1]):
            if keep[n]:
                slot = offsets[phase[size - 1]] + level[n]
                place = slots[slot]
                slots[slot] = place + 1
                order[place] = n
                if last[slot] != size:
                    last[slot] = size
                    starts.append(place)
    return sorted(starts)
