"""The expected results of operations: plain numpy in float64, without code shared with the NPU's programs.

Every function takes arrays of any float dtype and returns float64. Infinities and NaN follow from the
formulas.
"""

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
