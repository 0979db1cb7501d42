"""Operators by what they do with their axes, and what follows from that: programs for many nodes at once.

A row of an engine's table describes an operator by a class and a few options. A class labels the axes of operands and
results and says which of them are free, that is, treated alike by the operator; from this it derives how the operator
runs for all nodes, with as few changes of layout as possible.
"""
