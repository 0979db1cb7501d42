"""Cells on operands of any length as one kind: calls that differ in sizes alone share a launch.

A call on a sentence of n words has a trace for each n. If two traces differ in sizes alone, the operators that treat
the rows of all samples alike (layers, norms, elementwise ones, views) run once for the rows of all nodes, one node
after the other. The others (attention, a sum over the words, a convolution along them) run once for the nodes of each
length. `form` finds the sizes that differ, `packing` and `building` make the program, `program` runs it, and `joining`
gives it to the kinds of a cell.
"""
