"""Captured calls in a file, read back as a graph, and planned with every scheduler."""
