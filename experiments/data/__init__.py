"""Sentence pairs with dependency trees: read from the parsed SICK files, or generated."""
