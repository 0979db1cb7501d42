"""MXNet's part in programs for nodes of any length; what is common to all engines is in `program.lengths`."""
