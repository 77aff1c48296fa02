"""Random numbers: the same on every device."""

import os as _os

from . import _millstream

Generator = _millstream._random.Generator


def default_rng(seed=None):
    """A generator with this seed, or with one from the system."""
    return Generator(int.from_bytes(_os.urandom(8), "little") if seed is None else seed)


_shared = default_rng()


def seed(value, /):
    """Has the functions of this module begin anew with this seed."""
    global _shared
    _shared = Generator(value)


def random(size=None, dtype=None):
    """Numbers from 0 up to but without 1."""
    return _shared.random(size, dtype)


def uniform(low=0.0, high=1.0, size=None, dtype=None):
    """Numbers from ``low`` up to but without ``high``."""
    return _shared.uniform(low, high, size, dtype)


def normal(loc=0.0, scale=1.0, size=None, dtype=None):
    """Numbers of the normal distribution."""
    return _shared.normal(loc, scale, size, dtype)


def standard_normal(size=None, dtype=None):
    """Numbers of the normal distribution around 0 with the standard deviation 1."""
    return _shared.standard_normal(size, dtype)


def integers(low, high=None, size=None, dtype=None):
    """Integers from ``low`` up to but without ``high``."""
    return _shared.integers(low, high, size, dtype)


def permutation(x, /, axis=0):
    """The numbers up to ``x`` in random order, or the slices of an array."""
    return _shared.permutation(x, axis)


def bernoulli(p, size=None):
    """True with this probability."""
    return _shared.bernoulli(p, size)


def dropout(x, /, p=0.5):
    """Elements set to 0 with this probability."""
    return _shared.dropout(x, p)


__all__ = [
    "Generator",
    "bernoulli",
    "default_rng",
    "dropout",
    "integers",
    "normal",
    "permutation",
    "random",
    "seed",
    "standard_normal",
    "uniform",
]
