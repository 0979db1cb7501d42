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
