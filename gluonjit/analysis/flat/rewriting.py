# cython: language_level=3, wraparound=False, initializedcheck=False
"""From captured calls to the nodes that they run as: products of single arguments apart, chains of additions as sums.

In Cython's pure-Python mode. The arrays are those of `reading`.
"""

from __future__ import annotations

from gluonjit.compiled import room

try:
    import cython
except ImportError:
    from gluonjit import standin as cython


def cut(
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    kept: cython.longlong[::1],
    width: cython.Py_ssize_t,
    shift: cython.longlong,
    at: cython.Py_ssize_t,
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
) -> None:
    """Gives nodes `begin` to `end` operands of this width, from `at` on, beginning with the kept ones of theirs.

    Their results begin `shift` rows later than they did.
    """
    n: cython.Py_ssize_t
    c: cython.Py_ssize_t
    old: cython.longlong
    for n in range(begin, end):
        old = firsts[n]
        for c in range(len(kept)):
            operands[at + c] = operands[old + kept[c]]
        firsts[n] = at
        bases[n] += shift
        at += width


def products(
    calls: list,
    number: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    width: cython.Py_ssize_t,
    results: cython.longlong[::1],
    stamp: cython.longlong,
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    known: cython.longlong[::1],
    stamps: cython.longlong[::1],
    origins: list,
) -> cython.Py_ssize_t:
    """Makes the nodes of the products of one kind that calls have, from node n on; returns the new number of nodes.

    `calls` has for each record of calls (first and last node, where in `operands` the first of the arguments is and
    how far the next one is from it, how many rows before the call's result the product's is, where among its operands
    the call reads it, origins). An argument has `width` rows, and `results` are the rows of a product, counted from its
    first. Products of equal rows are one, that of the first call, unless the stamp is 0, which differs for each kind.
    `known` and `stamps` have room for a number a row.
    """
    best: cython.Py_ssize_t
    c: cython.Py_ssize_t
    lowest: cython.longlong
    row: cython.longlong
    made: cython.longlong
    call: cython.longlong
    table: cython.longlong[::1] = _numbers(calls)
    heads: cython.longlong[::1] = room(len(calls))
    while True:
        best = _earliest(table, heads, bases)
        if best < 0:
            return n
        call = table[6 * best] + heads[best]
        lowest = bases[call] - table[6 * best + 4]
        row = table[6 * best + 2] + heads[best] * table[6 * best + 3]
        if stamp and width == 1 and stamps[operands[row]] == stamp:
            made = known[operands[row]]
        else:
            made = lowest
            kinds[n], bases[n], firsts[n] = number, made, at
            for c in range(width):
                operands[at + c] = operands[row + c]
            if stamp and width == 1:
                known[operands[row]], stamps[operands[row]] = made, stamp
            at += width
            n += 1
            origins.append(calls[best][6][heads[best]])
        heads[best] += 1
        row = firsts[call] + table[6 * best + 5]
        for c in range(len(results)):
            operands[row + c] = made + results[c]


@cython.cfunc
def _numbers(calls: list) -> cython.longlong[::1]:
    """The six numbers of each record of calls, one after the other."""
    part: cython.Py_ssize_t
    c: cython.Py_ssize_t
    table: cython.longlong[::1] = room(6 * len(calls))
    for part in range(len(calls)):
        for c in range(6):
            table[6 * part + c] = calls[part][c]
    return table


@cython.cfunc
def _earliest(
    table: cython.longlong[::1], heads: cython.longlong[::1], bases: cython.longlong[::1]
) -> cython.Py_ssize_t:
    """Finds the record of the remaining call that was captured first, -1 if none remains."""
    part: cython.Py_ssize_t
    call: cython.longlong
    base: cython.longlong
    best: cython.Py_ssize_t = -1
    lowest: cython.longlong = 0
    for part in range(len(heads)):
        call = table[6 * part] + heads[part]
        if call < table[6 * part + 1]:
            base = bases[call] - table[6 * part + 4]
            if best < 0 or base < lowest:
                best, lowest = part, base
    return best


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
