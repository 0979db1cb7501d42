"""What engines have in common when calls are captured: cells, guards, reuse, programs for any number of children."""
