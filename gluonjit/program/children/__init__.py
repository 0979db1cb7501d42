"""Calls with any number of children as one program: the work for a child runs for all children of all nodes.

A cell called with a list of states, with any number of arguments, or with tensors of one row per child has a trace for
each number of children. `reading` reads a trace by the rows of its operators into a `table`, in which a value belongs
to the node or to a child, and equal ones are one; traces that are read as the same values are one program, which
`writing` writes down for all nodes.
"""
