"""The common part of engines' capture: cells, guards, reuse, programs for any number of children."""
