"""Arrays that are computed on whatever processor there is, close to its limit.

The functions follow the Python Array API standard 2025.12; ``help(millstream.Array)`` tells of the array. Operations are lazy
underneath and eager to the eye. The default float dtype is float32; arrays of NumPy keep theirs.
"""

import math as _math
import os as _os
from collections import namedtuple as _namedtuple

from . import _millstream
from ._errors import AxisError, DeviceError
from ._info import __array_namespace_info__, finfo, iinfo, isdtype
from ._millstream import *  # noqa: F403
from ._millstream import __version__, _unique

from . import fft, linalg, nn, random

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi

__array_api_version__ = "2025.12"

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_millstream._forked)

UniqueAllResult = _namedtuple("UniqueAllResult", ["values", "indices", "inverse_indices", "counts"])
UniqueCountsResult = _namedtuple("UniqueCountsResult", ["values", "counts"])
UniqueInverseResult = _namedtuple("UniqueInverseResult", ["values", "inverse_indices"])


def unique_all(x, /):
    """Distinct values, where each stands first, which of them each element is, and how often each is there."""
    return UniqueAllResult(*_unique(x))


def unique_counts(x, /):
    """Distinct values and how often each is there."""
    values, _, _, counts = _unique(x)
    return UniqueCountsResult(values, counts)


def unique_inverse(x, /):
    """Distinct values and which of them each element is."""
    values, _, inverse, _ = _unique(x)
    return UniqueInverseResult(values, inverse)


def unique_values(x, /):
    """Distinct values."""
    return _unique(x)[0]


def compile(function):
    """A function of arrays whose graph is built once for each kind of arguments: shapes, strides, dtypes, devices.

    The function is called with stand-ins that have no values. What else it does happens only then, and numbers that it holds are
    those of that time. Arguments that are no arrays are constants: each combination of them has a function of its own.
    """
    others = {}

    def otherwise(args, kwargs):
        kwargs = kwargs or {}
        places, arrays, key = [], [], []
        for place, value in [*enumerate(args), *sorted(kwargs.items())]:
            if isinstance(value, Array) or hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
                places.append(place)
                arrays.append(asarray(value))
                key.append((place, Array))
            else:
                key.append((place, type(value), value))
        key = tuple(key)
        if key not in others:
            fixed, named = list(args), dict(kwargs)
            for place in places:
                (fixed if isinstance(place, int) else named)[place] = None

            def inner(*arrays):
                all_args, all_named = list(fixed), dict(named)
                for place, array in zip(places, arrays):
                    (all_args if isinstance(place, int) else all_named)[place] = array
                return function(*all_args, **all_named)

            others[key] = _millstream._Compiled(inner, None)
        return others[key](*arrays)

    return _millstream._Compiled(function, otherwise)
