"""Lazy tensors: their values in the graph, and their numbers where these are known or have been computed."""
