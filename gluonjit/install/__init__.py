"""Hooks on the import of a framework, and preparations that it needs to work here."""
