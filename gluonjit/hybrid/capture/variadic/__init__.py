"""Cells that take any number of children as one kind: the work for a child runs for all children of all nodes.

A cell called with a list of states, with any number of arguments, or with tensors of one row per child, has a program
for each number of children. If those programs are equal, child by child, with sums over the children, one program
replaces them: in it a value belongs to a node or to a child, and a sum over the children is a segment sum.

The engine describes its operators by a `Dialect`, and builds and checks the program.
"""
