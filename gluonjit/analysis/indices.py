"""The type of arrays of numbers of rows or nodes."""

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int64]
