"""The frameworks' own operators and modules as programs for one sample, compared with eager execution."""
