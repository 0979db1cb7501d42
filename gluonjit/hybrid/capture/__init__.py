"""The part of capture common to all engines: cells, guards, reuse, programs for any number of children."""
