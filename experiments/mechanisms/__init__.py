"""Measures the library without each of its mechanisms, on the programs of the collection."""
