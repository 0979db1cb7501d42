"""Commands of ``python -m gluonjit``; the doctor is in `install`."""
