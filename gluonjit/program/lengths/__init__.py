"""Cells on operands of any length as one kind: calls that differ in sizes alone share a launch.

A call on a sentence of n words has a trace for each n. If two traces differ in sizes alone, operators that leave the
rows of all samples as they are run once for the rows of all nodes, one node after the other. Those that mix rows
(attention, a maximum over words, a convolution along them) run once for nodes of like lengths, padded to the longest.
`form` finds the sizes that differ, `stages` writes the program, `running` runs it.
"""
