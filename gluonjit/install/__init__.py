"""The way in: hooks on the import of a framework, and what it needs to work here."""
