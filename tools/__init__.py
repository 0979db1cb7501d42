"""Commands for whoever works on the library: each is run as `python -m tools.NAME` from the root."""
