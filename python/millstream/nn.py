"""What networks are made of: activations, normalizations, convolutions, attention, losses."""

from . import _millstream

__all__ = sorted(_millstream._nn.__all__)

globals().update({_name: getattr(_millstream._nn, _name) for _name in __all__})
