//! Linear algebra: factorizations computed on the host, and what is composed of them and of other operations.

use std::panic::Location;

use millstream_core::what::{Dims, broadcast_shapes, count};
use millstream_core::{DType, Error, Kind as Family, Layout, Reduce, Result};
use millstream_host::{self as host, Factor};
use smallvec::SmallVec;

use crate::Tensor;
use crate::arguments::{Axes, Integer};
use crate::ops::creation::indices;
use crate::ops::join::many;
use crate::ops::reductions::{Keep, reductions};

/// How the size of a matrix is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MatrixNorm {
    /// The root of the sum of squares.
    #[default]
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    /// The largest sum of magnitudes of a column.
    One,
    /// The smallest sum of magnitudes of a column.
    MinusOne,
    /// The largest singular value.
    Two,
    /// The smallest singular value.
    MinusTwo,
    /// The largest sum of magnitudes of a row.
    Infinity,
    /// The smallest sum of magnitudes of a row.
    MinusInfinity,
}

/// The unit roundoff times two: the distance from 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::C64 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// # Linear algebra
///
/// Matrices are the last two dimensions; all before them are a batch. Factorizations are computed on the host, for f32, f64, c64 and
/// c128. They are computed in f64: the factors of an f64 matrix multiply to the matrix within `8 max(m, n) eps` of its norm, those of
/// an f32 matrix are rounded once.
impl Tensor {
    /// The sizes of the batch, and of one matrix.
    fn matrix_sizes(&self) -> Result<(Dims, usize, usize)> {
        self.check()?;
        match self.sizes() {
            [batch @ .., m, n] => Ok((batch.into(), *m, *n)),
            other => Err(Error::shape(format!("a matrix needs two dimensions, and the shape is {other:?}"))),
        }
    }

    /// The outputs of a factorization, with the batch's dimensions.
    fn factors<const N: usize>(
        &self,
        op: &'static str,
        location: &'static Location<'static>,
        what: impl FnOnce(usize, usize) -> Factor,
    ) -> [Tensor; N] {
        Tensor::build_many(op, location, || {
            let (batch, m, n) = self.matrix_sizes()?;
            let matrices = count(&batch)?;
            let function = host::factor(self.dtype(), matrices, m, n, what(m, n))?;
            let flat = self.reshape([matrices, m, n]);
            let outputs: [Tensor; N] = Tensor::host_outputs(function, &[&flat], location)?;
            Ok(outputs.map(|t| {
                let shape: Dims = batch.iter().chain(&t.sizes()[1..]).copied().collect();
                t.reshape(&shape)
            }))
        })
    }

    /// The lower triangle `L` with `L L^H = x`. Reads the lower triangle of a matrix that must be
    /// symmetric (Hermitian) and positive definite; one that is not gives an error of kind `Numeric` when it is read.
    ///
    /// ```
    /// use millstream::{ErrorKind, Tensor};
    /// let x = Tensor::from_shape(&[2, 2], &[4.0f32, 2.0, 2.0, 5.0]);
    /// assert_eq!(x.cholesky().to_vec::<f32>()?, [2.0, 0.0, 1.0, 2.0]);
    /// assert_eq!((-x).cholesky().eval().unwrap_err().kind(), ErrorKind::Numeric);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        let [l] = self.factors("cholesky", Location::caller(), |_, _| Factor::Cholesky { upper: false });
        l
    }

    /// The upper triangle `U` with `U^H U = x`: the adjoint of [`Tensor::cholesky`].
    #[track_caller]
    pub fn cholesky_upper(&self) -> Tensor {
        let [u] = self.factors("cholesky_upper", Location::caller(), |_, _| Factor::Cholesky { upper: true });
        u
    }

    /// `Q` with orthonormal columns and an upper triangle `R` with `Q R = x`: for an `[m, n]` matrix and `k = min(m, n)` of the
    /// shapes `[m, k]` and `[k, n]`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[3, 2], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// let (q, r) = x.qr();
    /// let error = (q.matmul(&r) - &x).abs().to_vec::<f64>()?;
    /// assert!(error.iter().all(|e| *e < 1e-14));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        let [q, r] = self.factors("qr", Location::caller(), |_, _| Factor::Qr { complete: false });
        (q, r)
    }

    /// Like [`Tensor::qr`] with a square `Q`: of the shapes `[m, m]` and `[m, n]`.
    #[track_caller]
    pub fn qr_complete(&self) -> (Tensor, Tensor) {
        let [q, r] = self.factors("qr_complete", Location::caller(), |_, _| Factor::Qr { complete: true });
        (q, r)
    }

    /// `U`, `S` and `V^H` with `U diag(S) V^H = x` and `S` descending: for an `[m, n]` matrix and `k = min(m, n)` of the shapes
    /// `[m, k]`, `[k]`, `[k, n]`. NaN and infinities give an error of kind `Numeric`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[3.0f32, 0.0, 0.0, -5.0]);
    /// let (_, s, _) = x.svd();
    /// assert_eq!(s.to_vec::<f32>()?, [5.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn svd(&self) -> (Tensor, Tensor, Tensor) {
        let [u, s, v] = self.factors("svd", Location::caller(), |_, _| Factor::Svd { full: false });
        (u, s, v)
    }

    /// Like [`Tensor::svd`] with square `U` and `V^H`: of the shapes `[m, m]`, `[k]`, `[n, n]`.
    #[track_caller]
    pub fn svd_full(&self) -> (Tensor, Tensor, Tensor) {
        let [u, s, v] = self.factors("svd_full", Location::caller(), |_, _| Factor::Svd { full: true });
        (u, s, v)
    }

    /// The singular values, descending; see [`Tensor::svd`].
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        let [_, s, _] = self.factors("svdvals", Location::caller(), |_, _| Factor::Svd { full: false });
        s
    }

    /// Eigenvalues (ascending) and eigenvectors (columns) of a symmetric (Hermitian) matrix, of which the lower triangle is
    /// read. NaN and infinities give an error of kind `Numeric`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[2.0f32, 1.0, 1.0, 2.0]);
    /// let (values, vectors) = x.eigh();
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 3.0]);
    /// assert_eq!(vectors.shape(), [2, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        let [values, vectors] = self.factors("eigh", Location::caller(), |_, _| Factor::Eigh);
        (values, vectors)
    }

    /// Eigenvalues, in no order, and eigenvectors (columns, of length 1) of any square matrix; complex numbers always.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let turn = Tensor::new([[0.0f64, -1.0], [1.0, 0.0]]);
    /// let (values, vectors) = turn.eig();
    /// let moved = turn.matmul(&vectors) - &vectors * values.unsqueeze(0);
    /// assert!(moved.abs().max(..).item::<f64>()? < 1e-15);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn eig(&self) -> (Tensor, Tensor) {
        let [values, vectors] = self.as_complex().factors("eig", Location::caller(), |_, _| Factor::Eig);
        (values.squeeze(-1), vectors)
    }

    /// The eigenvalues of any square matrix, in no order; complex numbers always. See [`Tensor::eig`].
    #[track_caller]
    pub fn eigvals(&self) -> Tensor {
        let [values, _] = self.as_complex().factors("eigvals", Location::caller(), |_, _| Factor::Eig);
        values.squeeze(-1)
    }

    /// f32 and f64 as complex numbers of such parts.
    #[track_caller]
    fn as_complex(&self) -> Tensor {
        match self.dtype() {
            DType::F32 => self.cast(DType::C64),
            DType::F64 => self.cast(DType::C128),
            _ => self.clone(),
        }
    }

    /// The eigenvalues of a symmetric (Hermitian) matrix, ascending; see [`Tensor::eigh`].
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        let [values, _] = self.factors("eigvalsh", Location::caller(), |_, _| Factor::Eigh);
        values
    }

    /// `X` with `x X = b`, where `b` is a vector `[n]` or matrices `[.., n, k]`; batches are broadcast. By elimination with row
    /// exchanges. A singular matrix gives an error of kind `Numeric` when the result is read.
    ///
    /// ```
    /// use millstream::{ErrorKind, Tensor};
    /// let x = Tensor::from_shape(&[2, 2], &[2.0f32, 0.0, 1.0, 4.0]);
    /// assert_eq!(x.solve(&Tensor::from_slice(&[2.0f32, 9.0])).to_vec::<f32>()?, [1.0, 2.0]);
    /// let zero = (&x * 0.0).solve(&x);
    /// assert_eq!(zero.eval().unwrap_err().kind(), ErrorKind::Numeric);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        let location = Location::caller();
        let [solved] = Tensor::build_many("solve", location, || {
            let (mine, m, n) = self.matrix_sizes()?;
            b.check()?;
            let vector = b.rank() == 1;
            let (theirs, rows, columns) = if vector { b.unsqueeze(1) } else { b.clone() }.matrix_sizes()?;
            if rows != n {
                return Err(Error::shape(format!("{m} x {n} matrices with right sides of {rows} rows")));
            }
            let dtype = self.dtype().promote(b.dtype())?;
            let batch = broadcast_shapes(&mine, &theirs)?;
            let matrices = count(&batch)?;
            let flat = |t: &Tensor, rows: usize, columns: usize| {
                let whole: Dims = batch.iter().copied().chain([rows, columns]).collect();
                let own: Dims = t.sizes()[..t.rank().saturating_sub(if vector && t.rank() == 1 { 1 } else { 2 })]
                    .iter()
                    .copied()
                    .chain([rows, columns])
                    .collect();
                t.cast(dtype).reshape(&own).broadcast(&whole).reshape([matrices, rows, columns])
            };
            let function = host::factor(dtype, matrices, m, n, Factor::Solve { columns })?;
            let (a, b) = (flat(self, m, n), flat(b, rows, columns));
            let [solved] = Tensor::host_outputs(function, &[&a, &b], location)?;
            let shape: Dims = batch.iter().copied().chain([n]).chain((!vector).then_some(columns)).collect();
            Ok([solved.reshape(&shape)])
        });
        solved
    }

    /// The inverse. A singular matrix gives an error of kind `Numeric` when the result is read.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[2.0f32, 0.0, 0.0, 4.0]);
    /// assert_eq!(x.inv().to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.25]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        let [inverse] = self.factors("inv", Location::caller(), |_, _| Factor::Inv);
        inverse
    }

    /// The determinant.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[2.0f32, 1.0, 1.0, 3.0]);
    /// assert_eq!(x.det().item::<f32>()?, 5.0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let [_, _, det] = self.factors("det", Location::caller(), |_, _| Factor::Det);
        det
    }

    /// The sign of the determinant (a number of magnitude 1, or 0) and the logarithm of its magnitude, for determinants that are
    /// too large or too small for a number.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (sign, log) = Tensor::from_shape(&[2, 2], &[0.0f32, 1.0, 1.0, 0.0]).slogdet();
    /// assert_eq!((sign.item::<f32>()?, log.item::<f32>()?), (-1.0, 0.0));
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let [sign, log, _] = self.factors("slogdet", Location::caller(), |_, _| Factor::Det);
        (sign, log)
    }

    /// The pseudoinverse. Singular values of at most `rtol` times the largest count as 0; without `rtol` it is
    /// `max(m, n)` times the dtype's epsilon.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[2.0f32, 0.0, 0.0, 0.0]);
    /// assert_eq!(x.pinv(None).to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn pinv(&self, rtol: Option<f64>) -> Tensor {
        let eps = epsilon(self.dtype());
        let bound = |m: usize, n: usize| rtol.unwrap_or(m.max(n) as f64 * eps);
        let [inverse] = self.factors("pinv", Location::caller(), |m, n| Factor::Pinv { rtol: bound(m, n) });
        inverse
    }

    /// How many singular values are greater than `rtol` times the largest (i64); without `rtol` it is `max(m, n)` times the
    /// dtype's epsilon.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[1.0f32, 2.0, 2.0, 4.0]);
    /// assert_eq!(x.matrix_rank(None).item::<i64>()?, 1);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_rank(&self, rtol: Option<f64>) -> Tensor {
        Tensor::build("matrix_rank", || {
            let (batch, m, n) = self.matrix_sizes()?;
            let s = self.svdvals();
            s.check()?;
            if m.min(n) == 0 {
                return Ok(Tensor::zeros(&batch, DType::I64));
            }
            let rtol = rtol.unwrap_or(m.max(n) as f64 * epsilon(self.dtype()));
            let bound = s.max_keepdim(-1) * rtol;
            Ok(s.gt(&bound).count_nonzero(-1))
        })
    }

    #[track_caller]
    fn norm_of_vectors(&self, ord: f64, axes: &Axes, keep: Keep) -> Tensor {
        Tensor::build("vector_norm", || {
            self.check()?;
            if !matches!(self.dtype().kind(), Family::Float | Family::Complex) {
                return Err(Error::dtype(format!("a norm takes floats and complex numbers, not {}", self.dtype())));
            }
            let size = self.abs();
            let norm = match ord {
                f64::INFINITY => size.reduce(Reduce::Max, axes, keep),
                f64::NEG_INFINITY => size.reduce(Reduce::Min, axes, keep),
                0.0 => size.ne(0).cast(size.dtype()).reduce(Reduce::Sum, axes, keep),
                1.0 => size.reduce(Reduce::Sum, axes, keep),
                2.0 => size.square().reduce(Reduce::Sum, axes, keep).sqrt(),
                p if p.is_nan() => return Err(Error::argument("the order of a norm is a number")),
                p => size.pow(p).reduce(Reduce::Sum, axes, keep).pow(1.0 / p),
            };
            norm.check()?;
            Ok(norm)
        })
    }

    /// The norm of matrices, the last two dimensions.
    ///
    /// ```
    /// use millstream::{MatrixNorm, Tensor};
    /// let x = Tensor::new([[1.0f32, -2.0], [3.0, 4.0]]);
    /// assert_eq!(x.matrix_norm(MatrixNorm::One).item::<f32>()?, 6.0);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Infinity).item::<f32>()?, 7.0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Tensor {
        Tensor::composed("matrix_norm", || {
            Tensor::build("matrix_norm", || {
                self.matrix_sizes()?;
                let totals = |axis: isize| self.abs().sum_keepdim(axis);
                let made = match norm {
                    MatrixNorm::Frobenius => self.vector_norm(2.0, [-2, -1]),
                    MatrixNorm::Nuclear => self.svdvals().sum(-1),
                    MatrixNorm::Two => self.svdvals().max(-1),
                    MatrixNorm::MinusTwo => self.svdvals().min(-1),
                    MatrixNorm::One => totals(-2).max([-2, -1]),
                    MatrixNorm::MinusOne => totals(-2).min([-2, -1]),
                    MatrixNorm::Infinity => totals(-1).max([-2, -1]),
                    MatrixNorm::MinusInfinity => totals(-1).min([-2, -1]),
                };
                made.check()?;
                Ok(made)
            })
        })
    }

    /// The last two dimensions exchanged; the same as [`Tensor::transpose`].
    #[track_caller]
    pub fn matrix_transpose(&self) -> Tensor {
        self.transpose()
    }

    /// A view of a diagonal of the last two dimensions: the main one for `offset` 0, above it for positive ones.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::arange(0, 6).reshape(&[2, 3]);
    /// assert_eq!(x.diagonal(0).to_vec::<i64>()?, [0, 4]);
    /// assert_eq!(x.diagonal(1).to_vec::<i64>()?, [1, 5]);
    /// assert_eq!(x.diagonal(-1).to_vec::<i64>()?, [3]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: isize) -> Tensor {
        Tensor::build("diagonal", || {
            let (batch, m, n) = self.matrix_sizes()?;
            let (down, right) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
            let len = m.saturating_sub(down).min(n.saturating_sub(right));
            let strides = self.layout().strides();
            let rank = self.rank();
            let (row, column) = (strides[rank - 2], strides[rank - 1]);
            let shape: Dims = batch.iter().copied().chain([len]).collect();
            let steps: SmallVec<[isize; 6]> = strides[..rank - 2].iter().copied().chain([row + column]).collect();
            let skip = if len == 0 { 0 } else { down as isize * row + right as isize * column };
            let start = self.layout().offset().checked_add_signed(skip);
            let start = start.ok_or_else(|| Error::internal("a diagonal begins before its tensor"))?;
            Ok(Tensor { layout: Layout::new(&shape, &steps, start)?, node: self.node.clone() })
        })
    }

    /// The sum of a diagonal; see [`Tensor::diagonal`].
    #[track_caller]
    pub fn trace(&self, offset: isize) -> Tensor {
        self.diagonal(offset).sum(-1)
    }

    /// The cross product of vectors of three elements along an axis.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (x, y) = (Tensor::from_slice(&[1.0f32, 0.0, 0.0]), Tensor::from_slice(&[0.0f32, 1.0, 0.0]));
    /// assert_eq!(x.cross(&y, -1).to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn cross(&self, other: &Tensor, axis: impl Integer) -> Tensor {
        let axis = axis.number();
        Tensor::build("cross", || {
            self.check()?;
            other.check()?;
            let shape = broadcast_shapes(self.sizes(), other.sizes())?;
            let (a, b) = (self.broadcast(&shape), other.broadcast(&shape));
            // Counted from the end, so that it names the same dimension in both.
            let from_end = a.axis(axis)? as isize - a.rank() as isize;
            let three = |t: &Tensor| t.axis(from_end).is_ok_and(|d| t.sizes()[d] == 3);
            if !three(self) || !three(other) {
                let (left, right) = (self.sizes(), other.sizes());
                return Err(Error::shape(format!(
                    "cross needs 3 elements along axis {axis} of {left:?} and {right:?}"
                )));
            }
            let part = |t: &Tensor, i: isize| t.slice(from_end, i..i + 1);
            let c = |i: isize, j: isize| part(&a, i) * part(&b, j) - part(&a, j) * part(&b, i);
            let mut sizes: Dims = Dims::from_elem(1, a.rank());
            let at = a.axis(axis)?;
            sizes[at] = 3;
            let index = Tensor::arange(0, 3).reshape(&sizes);
            let made = index.eq(0).where_(&c(1, 2), &index.eq(1).where_(&c(2, 0), &c(0, 1)));
            made.check()?;
            Ok(made)
        })
    }

    /// The Kronecker product: every element of this tensor times the whole other one, in blocks.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let (x, y) = (Tensor::from_slice(&[1, 10]), Tensor::from_slice(&[1, 2, 3]));
    /// assert_eq!(x.kron(&y).to_vec::<i32>()?, [1, 2, 3, 10, 20, 30]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        Tensor::build("kron", || {
            self.check()?;
            other.check()?;
            let rank = self.rank().max(other.rank());
            let padded = |t: &Tensor| -> Dims {
                std::iter::repeat_n(1, rank - t.rank()).chain(t.sizes().iter().copied()).collect()
            };
            let (a, b) = (padded(self), padded(other));
            let outer: Vec<usize> = a.iter().flat_map(|&n| [n, 1]).collect();
            let inner: Vec<usize> = b.iter().flat_map(|&n| [1, n]).collect();
            let shape: Dims = a.iter().zip(&b).map(|(&m, &n)| many(m, n)).collect::<Result<_>>()?;
            let made = (self.reshape(&outer) * other.reshape(&inner)).reshape(&shape);
            made.check()?;
            Ok(made)
        })
    }

    /// Square matrices multiplied with themselves: `n` factors; the inverse's power for negative `n`, ones on the diagonal for 0.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[1.0f32, 1.0, 0.0, 1.0]);
    /// assert_eq!(x.matrix_power(5).to_vec::<f32>()?, [1.0, 5.0, 0.0, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Tensor {
        Tensor::build("matrix_power", || {
            let (_, rows, columns) = self.matrix_sizes()?;
            if rows != columns {
                return Err(Error::shape(format!("a power of {rows} x {columns} matrices, which are not square")));
            }
            if n == 0 {
                let index = indices(rows);
                let ones = index.unsqueeze(1).eq(&index.unsqueeze(0)).cast(self.dtype());
                return Ok(ones.broadcast(self.sizes()).contiguous());
            }
            let mut square = if n < 0 { self.inv() } else { self.clone() };
            let mut left = n.unsigned_abs();
            let mut power: Option<Tensor> = None;
            loop {
                if left & 1 == 1 {
                    power = Some(power.map_or_else(|| square.clone(), |p| p.matmul(&square)));
                }
                left >>= 1;
                if left == 0 {
                    break;
                }
                square = square.matmul(&square);
            }
            let made = power.ok_or_else(|| Error::internal("a power without factors"))?;
            made.check()?;
            Ok(made)
        })
    }
}

reductions! {
    //! # Lengths of vectors

    /// The length of vectors along axes, the root of the sum of their squares: [`Tensor::vector_norm`] of order 2.
    norm, norm_keepdim: |x; axes, keep| x.norm_of_vectors(2.0, axes, keep);
    /// The norm of vectors along axes: for `ord` infinity the largest magnitude, for minus infinity the smallest, for 0 how many
    /// elements are not 0, else `(sum of |x|^ord)^(1/ord)`. Squares are not scaled: with magnitudes beyond the square root of
    /// the largest number, the 2-norm is infinite.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[3.0f32, -4.0]);
    /// assert_eq!(x.norm(..).item::<f32>()?, 5.0);
    /// assert_eq!(x.vector_norm(f64::INFINITY, ..).item::<f32>()?, 4.0);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    vector_norm, vector_norm_keepdim: |x, ord: f64; axes, keep| x.norm_of_vectors(ord, axes, keep);
}
