"""Experiments that show what dynamic batching brings; not part of the wheel."""
