"""Costs and gains of finer and coarser nodes: `python -m experiments.tradeoff --help`."""

WITHOUT = {"mxnet": (), "torch": ("lattice",)}
"""Workloads that there are on the other engine alone."""
ZOO = ("lattice-lstm", "shift-reduce")
"""Models of the zoo that are workloads, too."""
