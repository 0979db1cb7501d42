"""Captures of calls on lazy tensors: cells, operators, indexing, writes."""
