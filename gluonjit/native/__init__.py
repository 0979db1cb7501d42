"""The usual case of a capture, compiled: see docs/layout.md. Without a compiler nothing imports these files."""
