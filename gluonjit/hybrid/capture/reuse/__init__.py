"""Structures that come again: captured once, and replayed."""
