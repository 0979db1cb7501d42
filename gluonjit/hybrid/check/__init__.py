"""Comparisons of what batched programs give with what their operators give for one sample."""
