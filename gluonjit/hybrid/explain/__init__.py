"""Reports of what ran, advice, and the way from a node back to the user's line."""
