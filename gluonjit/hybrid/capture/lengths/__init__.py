"""Calls of a cell that differ in sizes alone: kinds that run together, and traces for lengths that were not met."""
