"""Named tolerances with their reasons, keyed by dtype where rounding decides."""

import numpy as np

# Relative KKT residual that `project` promises in float64; float32 stores 7 digits of each entry.
KKT = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 2e-6}

# Relative accuracy of sums over up to 200 tasks of rounded entries.
SUM = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}

# Clarabel stops at a duality gap of 1e-8, which bounds distances by its square root only.
ORACLE_VALUE = 1e-7
ORACLE_POINT = 2e-4
