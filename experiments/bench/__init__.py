"""Parts shared by experiments: engines by name, timing, agreement, files, tables, arguments of commands."""
