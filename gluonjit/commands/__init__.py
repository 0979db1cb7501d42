"""Commands of ``python -m gluonjit``; that of the doctor is in `install`."""
