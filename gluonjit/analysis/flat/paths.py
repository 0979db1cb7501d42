# cython: language_level=3, wraparound=False, initializedcheck=False
"""Paths through nodes: chains of additions, which run as sums, and the longest chains of those that run.

In Cython's pure-Python mode. The arrays are those of `reading` and `ordering`.
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


def longest_chains(
    wanted: list,
    count: Size,
    families: Numbers,
    phase: Numbers,
    recursive: Numbers,
    widths: Numbers,
    kinds: Numbers,
    bases: Numbers,
    firsts: Numbers,
    operands: Numbers,
    producer: Numbers,
) -> Number:
    """Adds up, over the wanted families, the most nodes of each that lie on one path."""
    n: Size
    i: Size
    k: Size
    made: Number
    family: Number
    own: Number
    longest: Number
    most: Number
    ordered: Numbers = room(count)  # so that a node comes after those that it reads
    size: Size = 0
    for i in range(len(producer)):
        made = producer[i]
        if made and bases[made - 1] == i:
            ordered[size] = made - 1
            size += 1
    length: Numbers = room(count)
    total: Number = 0
    for family in wanted:
        most = 1  # no path leads out of a phase and into it again
        if recursive[family]:
            for k in range(size):
                n = ordered[k]
                own = families[kinds[n]]
                if phase[own] != phase[family]:
                    continue
                longest = 0
                for i in range(firsts[n], firsts[n] + widths[kinds[n]]):
                    made = producer[operands[i]]
                    if made and phase[families[kinds[made - 1]]] == phase[family] and length[made - 1] > longest:
                        longest = length[made - 1]
                length[n] = longest + (own == family)
                if length[n] > most:
                    most = length[n]
        total += most
    return total


def chains(
    count: Size,
    rows: Size,
    shortest: Number,
    like: Numbers,
    heights: Numbers,
    widths: Numbers,
    kinds: Numbers,
    bases: Numbers,
    firsts: Numbers,
    operands: Numbers,
    alive: Numbers,
    keep: Numbers,
) -> list:
    """Finds the sums in chains of additions: of each the node of its last addition, and the rows of all its terms.

    Additions of records that are alike have the same number in `like`, others 0. Their nodes are no longer to `keep`.
    A chain goes on through additions that nobody can read and that one other addition of their like uses, once.
    """
    n: Size
    i: Size
    end: Size
    height: Size
    record: Number
    row: Number
    made: Number
    terms: Number
    longer: cython.bint
    uses: Numbers = room(rows)
    added: Numbers = room(rows)
    adders: Numbers = room(rows)  # by their first row, and one more than their number
    _count_uses(count, like, heights, widths, kinds, bases, firsts, operands, uses, added, adders)
    length: Numbers = room(count)
    inner: Numbers = room(count)
    found: list = []
    for row in range(rows):
        if not adders[row]:
            continue
        n = adders[row] - 1
        record = kinds[n]
        height = heights[record]
        terms, longer = 0, False
        i = firsts[n]
        end = i + widths[record]
        while i < end:
            made = adders[operands[i]] - 1
            if made >= 0 and inner[made]:
                terms += length[made]
                longer = True
            else:
                terms += 1
            i += height
        length[n] = terms
        if added[row] == like[record] and not alive[n] and _read_once(row, height, uses):
            inner[n] = 1
        elif longer and terms >= shortest:
            found.append((n, _terms(n, height, widths, kinds, firsts, operands, adders, inner, keep)))
    return found


@cython.cfunc
def _read_once(row: Size, height: Size, uses: Numbers) -> cython.bint:
    """True if each of so many rows is read once."""
    k: Size
    for k in range(row, row + height):
        if uses[k] != 1:
            return False
    return True


@cython.cfunc
def _count_uses(
    count: Size,
    like: Numbers,
    heights: Numbers,
    widths: Numbers,
    kinds: Numbers,
    bases: Numbers,
    firsts: Numbers,
    operands: Numbers,
    uses: Numbers,
    added: Numbers,
    adders: Numbers,
) -> None:
    """Counts how often each row is read, and notes by first row the additions that read it, and which nodes add."""
    n: Size
    i: Size
    k: Size
    end: Size
    height: Size
    record: Number
    whole: cython.bint
    for n in range(count):
        record = kinds[n]
        i = firsts[n]
        end = i + widths[record]
        for k in range(i, end):
            uses[operands[k]] += 1
        if like[record]:
            adders[bases[n]] = n + 1
            height = heights[record]
            while i < end:  # a step that is no constant would be slow in `range`
                whole = True  # not rows of several values put together
                for k in range(height):
                    whole = whole and operands[i + k] == operands[i] + k
                if whole:
                    added[operands[i]] = like[record]
                i += height


@cython.cfunc
def _terms(
    n: Number,
    height: Number,
    widths: Numbers,
    kinds: Numbers,
    firsts: Numbers,
    operands: Numbers,
    adders: Numbers,
    inner: Numbers,
    keep: Numbers,
) -> tuple:
    """Returns the rows of the terms of a chain, from left to right; its nodes are no longer kept."""
    i: Number
    k: Number
    begin: Number
    pending: list = []
    found: list = []
    while True:
        keep[n] = 0
        begin = firsts[n]
        i = begin + widths[kinds[n]] - height
        while i >= begin:
            pending.append(i)
            i -= height
        while pending:
            i = pending.pop()
            n = adders[operands[i]] - 1
            if n >= 0 and inner[n]:
                break
            for k in range(height):
                found.append(operands[i + k])
        else:
            return tuple(found)
