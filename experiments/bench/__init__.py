"""Parts that experiments share: engines by name, timing, agreement, files, tables, arguments of commands."""
