"""Per-sample models as users write them, each compared with itself run sample by sample."""
