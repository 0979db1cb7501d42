"""A program run eagerly and batched from one state, and where the two differ."""
