"""From what one call does to programs for many: traces, which belong to no framework."""
