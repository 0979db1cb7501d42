"""Cells made from source: straight-line tensor code of methods, found once and captured as one node."""
