# cython: language_level=3, wraparound=False, initializedcheck=False
"""Chains of additions in captured calls, which run as sums.

In Cython's pure-Python mode. The arrays are those of `reading`.
"""

from __future__ import annotations

from gluonjit.compiled import room

try:
    import cython
except ImportError:
    from gluonjit import standin as cython


def chains(
    count: cython.Py_ssize_t,
    rows: cython.Py_ssize_t,
    shortest: cython.longlong,
    like: cython.longlong[::1],
    heights: cython.longlong[::1],
    widths: cython.longlong[::1],
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    alive: cython.longlong[::1],
    keep: cython.longlong[::1],
) -> list:
    """Finds the sums in chains of additions: of each the node of its last addition, and the rows of all its terms.

    Additions of records that are alike have the same number in `like`, others 0. Their nodes are no longer to `keep`.
    A chain goes on through additions that nobody can read and that one other addition of their like uses, once.
    """
    n: cython.Py_ssize_t
    i: cython.Py_ssize_t
    end: cython.Py_ssize_t
    height: cython.Py_ssize_t
    record: cython.longlong
    row: cython.longlong
    made: cython.longlong
    terms: cython.longlong
    longer: cython.bint
    uses: cython.longlong[::1] = room(rows)
    added: cython.longlong[::1] = room(rows)
    adders: cython.longlong[::1] = room(rows)  # by their first row, and one more than their number
    _count_uses(count, like, heights, widths, kinds, bases, firsts, operands, uses, added, adders)
    length: cython.longlong[::1] = room(count)
    inner: cython.longlong[::1] = room(count)
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
def _read_once(row: cython.Py_ssize_t, height: cython.Py_ssize_t, uses: cython.longlong[::1]) -> cython.bint:
    """Tells whether each of so many rows is read once."""
    k: cython.Py_ssize_t
    for k in range(row, row + height):
        if uses[k] != 1:
            return False
    return True


@cython.cfunc
def _count_uses(
    count: cython.Py_ssize_t,
    like: cython.longlong[::1],
    heights: cython.longlong[::1],
    widths: cython.longlong[::1],
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    uses: cython.longlong[::1],
    added: cython.longlong[::1],
    adders: cython.longlong[::1],
) -> None:
    """Counts how often each row is read, and notes by first row the additions that read it, and which nodes add."""
    n: cython.Py_ssize_t
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    end: cython.Py_ssize_t
    height: cython.Py_ssize_t
    record: cython.longlong
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
    n: cython.longlong,
    height: cython.longlong,
    widths: cython.longlong[::1],
    kinds: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    adders: cython.longlong[::1],
    inner: cython.longlong[::1],
    keep: cython.longlong[::1],
) -> tuple:
    """Returns the rows of the terms of a chain, from left to right; its nodes are no longer kept."""
    i: cython.longlong
    k: cython.longlong
    begin: cython.longlong
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
