"""Experiments that measure dynamic batching; not part of the wheel."""
