"""Cells made from source: straight-line tensor code of methods, found once and captured as one node."""

from gluonjit.hybrid.capture.outlining.known import LAYER, LOOKUP, WEIGHT, Known
from gluonjit.hybrid.capture.outlining.outlines import AS_WRITTEN, place

__all__ = ["AS_WRITTEN", "LAYER", "LOOKUP", "WEIGHT", "Known", "place"]
