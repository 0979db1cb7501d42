"""Cells that take any number of children as one kind: what is done for a child runs for all children of all nodes.

A cell called with a list of states, or with any number of arguments, has a program for each number of them. Where those
programs are one, child by child, with sums over the children, that one is made: in it a value belongs to a node or to
a child, and a sum over the children is a sum over segments.
"""

from __future__ import annotations

from .joining import Traced, join

__all__ = ["Traced", "join"]
