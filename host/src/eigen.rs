//! Eigenvalues and eigenvectors of complex matrices that have no symmetry.

use millstream_core::{Error, Result};
use nalgebra::linalg::Schur;
use nalgebra::{ComplexField, DMatrix};

/// The eigenvalues, as a column, and eigenvectors of length 1, as columns, of a finite complex matrix.
///
/// The matrix is `Q T Q^H` with an upper triangle T, whose diagonal holds the eigenvalues. The eigenvectors of T come by substitution
/// from below, those of the matrix by Q.
pub fn eig<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>, vectors: bool) -> Result<(DMatrix<F>, DMatrix<F>)> {
    let n = a.nrows();
    if n == 0 {
        return Ok((DMatrix::zeros(0, 1), a));
    }
    let none = || Error::numeric("eig did not converge");
    let (q, t) = Schur::try_new(a, f64::EPSILON, 1000 * n.max(30)).ok_or_else(none)?.unpack();
    let values = DMatrix::from_iterator(n, 1, t.diagonal().iter().copied());
    if !vectors {
        return Ok((values, DMatrix::zeros(0, 0)));
    }
    // Equal eigenvalues have no difference to divide by: what rounding would leave of it stands for it.
    let least = (f64::EPSILON * t.norm()).max(f64::MIN_POSITIVE);
    let mut y = DMatrix::<F>::zeros(n, n);
    for k in 0..n {
        y[(k, k)] = F::one();
        for i in (0..k).rev() {
            let sum = (i + 1..=k).fold(F::zero(), |sum, j| sum + t[(i, j)] * y[(j, k)]);
            let gap = t[(i, i)] - t[(k, k)];
            let gap = if gap.modulus() < least { F::from_real(least) } else { gap };
            y[(i, k)] = -sum / gap;
            let size = y[(i, k)].modulus();
            if size > 1e100 {
                y.column_mut(k).iter_mut().for_each(|v| *v = v.unscale(size));
            }
        }
    }
    let mut made = q * y;
    for mut column in made.column_iter_mut() {
        let length = column.norm();
        column.unscale_mut(length);
    }
    Ok((values, made))
}
