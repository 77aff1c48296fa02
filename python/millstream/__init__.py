"""Arrays that are computed on whatever processor there is, close to its limit.

The functions follow the Python Array API standard 2025.12; see ``help(millstream.Array)`` for the array. Operations are lazy underneath
and eager to the eye. The default float dtype is float32; arrays of NumPy keep theirs.
"""

import math as _math

from ._errors import AxisError, DeviceError
from ._millstream import *  # noqa: F403
from ._millstream import __version__

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi

__array_api_version__ = "2025.12"
