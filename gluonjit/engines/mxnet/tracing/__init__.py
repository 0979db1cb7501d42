"""From a call to its trace, and to its kind."""
