"""An engine on numpy: the one to read before writing another, and that of `python -m gluonjit demo`. No public API."""
