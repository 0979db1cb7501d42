"""The collection: programs whose calls, nodes and launches are committed, as `table.json`, and held by a test."""

FORCED = {"granularity": "cell", "scheduler": "depth"}
"""Options by which a program is batched, whatever is faster."""

BATCH_SIZE = 8
"""Samples of a minibatch."""
