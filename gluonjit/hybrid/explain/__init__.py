"""Reports, advice, and the path from a node back to the user's line."""
