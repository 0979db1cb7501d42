"""Programs that decide: models that read values in the middle of a sample, and go on by them."""
