# cython: language_level=3, wraparound=False, initializedcheck=False
"""Paths through the nodes that run.

In Cython's pure-Python mode. The arrays are those of `reading` and `ordering`.
"""

from __future__ import annotations

from gluonjit.compiled import room

try:
    import cython
except ImportError:
    from gluonjit import standin as cython


def depths(
    widths: cython.longlong[::1],
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    keep: cython.longlong[::1],
    producer: cython.longlong[::1],
    found: cython.longlong[::1],
) -> None:
    """Finds for each node to `keep` the longest way to it, itself counted. It goes into `found`."""
    n: cython.Py_ssize_t
    i: cython.Py_ssize_t
    row: cython.Py_ssize_t
    made: cython.longlong
    depth: cython.longlong
    for row in range(len(producer)):
        made = producer[row]
        if not made or bases[made - 1] != row or not keep[made - 1]:
            continue
        n = made - 1
        depth = 0
        for i in range(firsts[n], firsts[n] + widths[kinds[n]]):
            made = producer[operands[i]]
            if made and found[made - 1] > depth:
                depth = found[made - 1]
        found[n] = depth + 1


def longest_chains(
    wanted: list,
    count: cython.Py_ssize_t,
    families: cython.longlong[::1],
    phase: cython.longlong[::1],
    recursive: cython.longlong[::1],
    widths: cython.longlong[::1],
    kinds: cython.longlong[::1],
    bases: cython.longlong[::1],
    firsts: cython.longlong[::1],
    operands: cython.longlong[::1],
    producer: cython.longlong[::1],
) -> cython.longlong:
    """Adds up, over the wanted families, the most nodes of each that lie on one path."""
    n: cython.Py_ssize_t
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    made: cython.longlong
    family: cython.longlong
    own: cython.longlong
    longest: cython.longlong
    most: cython.longlong
    ordered: cython.longlong[::1] = room(count)  # so that a node comes after those that it reads
    size: cython.Py_ssize_t = 0
    for i in range(len(producer)):
        made = producer[i]
        if made and bases[made - 1] == i:
            ordered[size] = made - 1
            size += 1
    length: cython.longlong[::1] = room(count)
    total: cython.longlong = 0
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
