"""Cells that take any number of children as one kind: what is done for a child runs for all children of all nodes.

A cell called with a list of states, with any number of arguments, or with tensors of a row for each child, has a
program for each number of them. Where those programs are one, child by child, with sums over the children, that one is
made: in it a value belongs to a node or to a child, and a sum over the children is a sum over segments.

The engine says by a `Dialect` what its operators do, and builds and checks the program.
"""
