"""Linear algebra: the extension of the Python Array API standard.

Matrices are the last two axes; all before them are a batch.
"""

from collections import namedtuple as _namedtuple

from . import _millstream
from ._millstream import matmul, matrix_transpose, tensordot, vecdot

_l = _millstream._linalg

cholesky = _l.cholesky
cross = _l.cross
det = _l.det
diagonal = _l.diagonal
eigvals = _l.eigvals
eigvalsh = _l.eigvalsh
inv = _l.inv
kron = _l.kron
matrix_norm = _l.matrix_norm
matrix_power = _l.matrix_power
outer = _l.outer
solve = _l.solve
svdvals = _l.svdvals
trace = _l.trace
vector_norm = _l.vector_norm

EigResult = _namedtuple("EigResult", ["eigenvalues", "eigenvectors"])
EighResult = _namedtuple("EighResult", ["eigenvalues", "eigenvectors"])
QRResult = _namedtuple("QRResult", ["Q", "R"])
SlogdetResult = _namedtuple("SlogdetResult", ["sign", "logabsdet"])
SVDResult = _namedtuple("SVDResult", ["U", "S", "Vh"])


def eig(x, /):
    """The eigenvalues and eigenvectors of any square matrix; complex numbers always."""
    return EigResult(*_l.eig(x))


def eigh(x, /):
    """The eigenvalues, ascending, and eigenvectors of a symmetric or Hermitian matrix."""
    return EighResult(*_l.eigh(x))


def qr(x, /, *, mode="reduced"):
    """An orthogonal or unitary matrix and an upper triangular one whose product is the matrix."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode={mode!r}\n  try: 'reduced' or 'complete'")
    return QRResult(*_l.qr(x, mode == "complete"))


def slogdet(x, /):
    """The sign of the determinant and the logarithm of its magnitude."""
    return SlogdetResult(*_l.slogdet(x))


def svd(x, /, *, full_matrices=True):
    """The singular value decomposition."""
    return SVDResult(*_l.svd(x, full_matrices))


def _alone(rtol):
    """A tolerance that is one number, as a float; ``None`` for one per matrix."""
    if rtol is None or isinstance(rtol, (int, float)):
        return True
    return getattr(rtol, "ndim", 0) == 0


def matrix_rank(x, /, *, rtol=None):
    """The number of singular values above ``rtol`` times the largest one."""
    if _alone(rtol):
        return _l.matrix_rank(x, None if rtol is None else float(rtol))
    s = svdvals(x)
    bound = _millstream.max(s, axis=-1, keepdims=True) * _millstream.expand_dims(rtol, axis=-1)
    return _millstream.count_nonzero(s > bound, axis=-1)


def pinv(x, /, *, rtol=None):
    """The pseudo-inverse, without singular values up to ``rtol`` times the largest one."""
    if _alone(rtol):
        return _l.pinv(x, None if rtol is None else float(rtol))
    u, s, vh = svd(x, full_matrices=False)
    bound = _millstream.max(s, axis=-1, keepdims=True) * _millstream.expand_dims(rtol, axis=-1)
    kept = _millstream.where(s > bound, 1 / s, 0)
    return matmul(matrix_transpose(_millstream.conj(vh)) * _millstream.expand_dims(kept, axis=-2), matrix_transpose(_millstream.conj(u)))


def norm(x, /, ord=None, axis=None, keepdims=False):
    """The norm of vectors or, over two axes, of matrices, as ``numpy.linalg.norm``."""
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    if axis is None:
        axis = tuple(range(x.ndim))
    if isinstance(axis, int) or len(axis) == 1:
        return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)
    made = matrix_norm(_millstream.moveaxis(x, axis, (-2, -1)), ord="fro" if ord is None else ord)
    if keepdims:
        for at in sorted(a % x.ndim for a in axis):
            made = _millstream.expand_dims(made, axis=at)
    return made


__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "kron",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
