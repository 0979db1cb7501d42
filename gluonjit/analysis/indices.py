"""Types of arrays: numbers of rows or nodes, and marks on them."""

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
