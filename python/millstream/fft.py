"""Fourier transforms: the extension of the Python Array API standard."""

from . import _millstream

_f = _millstream._fft

fft = _f.fft
fftfreq = _f.fftfreq
fftn = _f.fftn
fftshift = _f.fftshift
hfft = _f.hfft
ifft = _f.ifft
ifftn = _f.ifftn
ifftshift = _f.ifftshift
ihfft = _f.ihfft
irfft = _f.irfft
irfftn = _f.irfftn
rfft = _f.rfft
rfftfreq = _f.rfftfreq
rfftn = _f.rfftn

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
