"""Calls of a cell that differ in sizes or numbers: kinds that run together, and traces for lengths not met before."""
