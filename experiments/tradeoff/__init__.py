"""What finer and coarser nodes cost and gain: `python -m experiments.tradeoff --help`."""

WITHOUT = {"mxnet": (), "torch": ("lattice",)}
"""Workloads that there are on the other engine alone."""
