"""The open batch of a thread and its flush, through the protocol of an engine."""
