//! Linear algebra of batches of small and middling matrices, through `nalgebra`.
//!
//! Everything is computed in f64 or complex f64; f32 and c64 are converted, and their results rounded once. Of two crates
//! weighed, this one is built in a tenth of the time of the other.

use millstream_core::what::Fork;
use millstream_core::{DType, Element, Error, HostFunction, HostOperand, HostRun, Result};
use nalgebra::linalg::{Cholesky, LU, QR, SVD, SymmetricEigen};
use nalgebra::{ComplexField, DMatrix, DVector};
use num_complex::Complex;
use smallvec::{SmallVec, smallvec};

use crate::eigen::eig;
use crate::slices::{Rows, for_rows, read, write_if};

/// What is computed of each matrix of a batch. Shapes are those of one matrix `[m, n]`; `k` is the smaller of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// The lower triangle L with `L L^H = A`, `[n, n]`, or its adjoint. Reads the lower triangle of A.
    Cholesky {
        /// The adjoint of L.
        upper: bool,
    },
    /// Q with orthonormal columns and the upper triangle R with `Q R = A`: `[m, k]` and `[k, n]`.
    Qr {
        /// `[m, m]` and `[m, n]` instead.
        complete: bool,
    },
    /// U, S, V^H with `U diag(S) V^H = A`, S descending: `[m, k]`, `[k]`, `[k, n]`.
    Svd {
        /// `[m, m]` and `[n, n]` instead.
        full: bool,
    },
    /// Eigenvalues (ascending, `[n]`) and eigenvectors (columns of `[n, n]`) of a Hermitian matrix. Reads the lower triangle.
    Eigh,
    /// Eigenvalues (`[n, 1]`) and eigenvectors (columns of `[n, n]`) of a complex matrix.
    Eig,
    /// X with `A X = B`, for B `[n, columns]`.
    Solve {
        /// The number of columns of B.
        columns: usize,
    },
    /// The inverse.
    Inv,
    /// The determinant: its sign (a number of magnitude 1, or 0) and the logarithm of its magnitude; and the number itself.
    Det,
    /// The pseudoinverse `[n, m]`: singular values up to `rtol` times the largest count as 0.
    Pinv {
        /// The bound for singular values.
        rtol: f64,
    },
}

impl Factor {
    fn name(self) -> &'static str {
        match self {
            Factor::Cholesky { .. } => "cholesky",
            Factor::Qr { .. } => "qr",
            Factor::Svd { .. } => "svd",
            Factor::Eigh => "eigh",
            Factor::Eig => "eig",
            Factor::Solve { .. } => "solve",
            Factor::Inv => "inv",
            Factor::Det => "det",
            Factor::Pinv { .. } => "pinv",
        }
    }

    fn is_square(self) -> bool {
        !matches!(self, Factor::Qr { .. } | Factor::Svd { .. } | Factor::Pinv { .. })
    }
}

/// The function that computes a factor of `batch` matrices `[m, n]` of f32, f64, c64 or c128.
pub fn factor(dtype: DType, batch: usize, m: usize, n: usize, what: Factor) -> Result<HostFunction> {
    let real = match dtype {
        DType::F32 | DType::C64 => DType::F32,
        DType::F64 | DType::C128 => DType::F64,
        other => {
            return Err(Error::dtype(format!("{} takes f32, f64, c64 and c128, not {other}", what.name()))
                .suggest("convert it first, for example with cast(DType::F64)"));
        }
    };
    if what.is_square() && m != n {
        return Err(Error::shape(format!("{} needs square matrices, not {m} x {n}", what.name())));
    }
    if what == Factor::Eig && !dtype.is_complex() {
        return Err(Error::dtype(format!("eig takes c64 and c128, not {dtype}")));
    }
    let k = m.min(n);
    let matrix = |rows: usize, columns: usize| HostOperand::new(dtype, &[batch, rows, columns]);
    let list = |dtype: DType, n: usize| HostOperand::new(dtype, &[batch, n]);
    let one = |dtype: DType| HostOperand::new(dtype, &[batch]);
    let mut inputs = vec![matrix(m, n)];
    let outputs = match what {
        Factor::Cholesky { .. } | Factor::Inv => vec![matrix(n, n)],
        Factor::Qr { complete: false } => vec![matrix(m, k), matrix(k, n)],
        Factor::Qr { complete: true } => vec![matrix(m, m), matrix(m, n)],
        Factor::Svd { full: false } => vec![matrix(m, k), list(real, k), matrix(k, n)],
        Factor::Svd { full: true } => vec![matrix(m, m), list(real, k), matrix(n, n)],
        Factor::Eigh => vec![list(real, n), matrix(n, n)],
        Factor::Eig => vec![matrix(n, 1), matrix(n, n)],
        Factor::Solve { columns } => {
            inputs.push(matrix(n, columns));
            vec![matrix(n, columns)]
        }
        Factor::Det => vec![one(dtype), one(real), one(dtype)],
        Factor::Pinv { .. } => vec![matrix(n, m)],
    };
    // In floats, which do not overflow; casts to integers saturate.
    let (large, small) = (m.max(n) as f64, k as f64);
    let cube = small * small * small;
    let each = match what {
        Factor::Cholesky { .. } => cube / 3.0,
        Factor::Qr { .. } => 4.0 * large * small * small,
        Factor::Svd { .. } | Factor::Pinv { .. } => 20.0 * large * small * small,
        Factor::Eigh => 9.0 * cube,
        Factor::Eig => 25.0 * cube,
        Factor::Solve { columns } => 2.0 * cube / 3.0 + 2.0 * small * small * columns as f64,
        Factor::Inv => 2.0 * cube,
        Factor::Det => 2.0 * cube / 3.0,
    };
    let code = Code { dtype, batch, m, n, what };
    Ok(HostFunction::new(code, inputs, outputs, (each * batch as f64) as u64))
}

struct Code {
    dtype: DType,
    batch: usize,
    m: usize,
    n: usize,
    what: Factor,
}

impl HostRun for Code {
    fn name(&self) -> &'static str {
        self.what.name()
    }

    fn words(&self) -> SmallVec<[u64; 4]> {
        match self.what {
            Factor::Cholesky { upper: flag } | Factor::Qr { complete: flag } | Factor::Svd { full: flag } => {
                smallvec![u64::from(flag)]
            }
            Factor::Pinv { rtol } => smallvec![rtol.to_bits()],
            _ => SmallVec::new(),
        }
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        match self.dtype {
            DType::F32 => self.typed::<f32>(inputs, outputs, fork),
            DType::F64 => self.typed::<f64>(inputs, outputs, fork),
            DType::C64 => self.typed::<Complex<f32>>(inputs, outputs, fork),
            _ => self.typed::<Complex<f64>>(inputs, outputs, fork),
        }
    }
}

/// An element of a matrix and what it is computed in.
trait Entry: Element {
    type Field: ComplexField<RealField = f64> + Copy;
    type Real: Element;
    fn widen(self) -> Self::Field;
    fn narrow(value: Self::Field) -> Self;
    fn real(value: f64) -> Self::Real;
}

macro_rules! entries {
    ($($type:ty, $field:ty, $real:ty, $widen:expr, $narrow:expr);* $(;)?) => {
        $(impl Entry for $type {
            type Field = $field;
            type Real = $real;
            fn widen(self) -> $field {
                $widen(self)
            }
            fn narrow(value: $field) -> $type {
                $narrow(value)
            }
            fn real(value: f64) -> $real {
                value as $real
            }
        })*
    };
}
entries! {
    f32, f64, f32, f64::from, |v| v as f32;
    f64, f64, f64, |v| v, |v| v;
    Complex<f32>, Complex<f64>, f32, |v: Complex<f32>| Complex::new(v.re.into(), v.im.into()),
        |v: Complex<f64>| Complex::new(v.re as f32, v.im as f32);
    Complex<f64>, Complex<f64>, f64, |v| v, |v| v;
}

/// Stores a matrix row by row.
fn store<T: Entry>(to: Option<&mut [T]>, matrix: &DMatrix<T::Field>) {
    let Some(to) = to else { return };
    for (row, line) in to.chunks_exact_mut(matrix.ncols().max(1)).enumerate() {
        for (column, cell) in line.iter_mut().enumerate() {
            *cell = T::narrow(matrix[(row, column)]);
        }
    }
}

fn store_reals<T: Entry>(to: Option<&mut [T::Real]>, list: impl IntoIterator<Item = f64>) {
    for (to, value) in to.into_iter().flatten().zip(list) {
        *to = T::real(value);
    }
}

impl Code {
    fn typed<T: Entry>(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        let (batch, m, n) = (self.batch, self.m, self.n);
        let x = read::<T>(inputs[0])?;
        let b = inputs.get(1).map(|bytes| read::<T>(bytes)).transpose()?;
        let columns = if let Factor::Solve { columns } = self.what { columns } else { 0 };
        // One output of each kind may be there: entries, reals, entries.
        let mut slots = [None, None, None];
        let mut reals = None;
        for (i, output) in outputs.iter_mut().enumerate() {
            if self.is_real(i) {
                reals = write_if::<T::Real>(output)?;
            } else {
                slots[i] = write_if::<T>(output)?;
            }
        }
        let wanted: [bool; 3] = std::array::from_fn(|i| slots[i].is_some());
        let slots = slots.map(|slot| Rows::new(slot, batch));
        let reals = Rows::new(reals, batch);
        let work = (m * n).saturating_mul(m.min(n)).max(1);
        for_rows(fork, batch, work, &|i| {
            let a = DMatrix::from_row_iterator(m, n, x[i * m * n..(i + 1) * m * n].iter().map(|v| v.widen()));
            // SAFETY: each matrix is visited once.
            let ([first, second, third], list) =
                unsafe { ([slots[0].at(i), slots[1].at(i), slots[2].at(i)], reals.at(i)) };
            let which = |e: Error| if batch > 1 { e.through(format!("matrix {i} of the batch")) } else { e };
            match self.what {
                Factor::Cholesky { upper } => {
                    let l = cholesky(a).map_err(which)?;
                    store(first, &if upper { l.adjoint() } else { l });
                }
                Factor::Qr { complete } => {
                    let (q, r) = qr(a, complete);
                    store(first, &q);
                    store(second, &r);
                }
                Factor::Svd { full } => {
                    let (u, s, v) = svd(a, wanted[0] || wanted[2], full).map_err(which)?;
                    store(first, &u);
                    store_reals::<T>(list, s);
                    store(third, &v);
                }
                Factor::Eigh => {
                    let (values, vectors) = eigh(a, wanted[1]).map_err(which)?;
                    store_reals::<T>(list, values);
                    store(second, &vectors);
                }
                Factor::Eig => {
                    finite(&a, "eig").map_err(which)?;
                    let (a, scale) = scaled(a);
                    let (values, vectors) = eig(a, wanted[1]).map_err(which)?;
                    store(first, &values.scale(scale));
                    store(second, &vectors);
                }
                Factor::Solve { .. } => {
                    let b = b.map_or(&[][..], |b| &b[i * n * columns..(i + 1) * n * columns]);
                    let b = DMatrix::from_row_iterator(n, columns, b.iter().map(|v| v.widen()));
                    store(first, &solve(a, b).ok_or_else(|| which(singular("solve")))?);
                }
                Factor::Inv => {
                    let (a, scale) = scaled(a);
                    let inverse = LU::new(a).try_inverse().ok_or_else(|| which(singular("inv")))?;
                    store(first, &inverse.unscale(scale));
                }
                Factor::Det => {
                    let (sign, log, det) = determinant(a);
                    let one = |v| DMatrix::from_element(1, 1, v);
                    store(first, &one(sign));
                    store_reals::<T>(list, [log]);
                    store(third, &one(det));
                }
                Factor::Pinv { rtol } => store(first, &pinv(a, rtol).map_err(which)?),
            }
            Ok(())
        })
    }

    /// Whether an output has real elements whatever the matrix has.
    fn is_real(&self, output: usize) -> bool {
        match self.what {
            Factor::Svd { .. } | Factor::Det => output == 1,
            Factor::Eigh => output == 0,
            _ => false,
        }
    }
}

fn singular(name: &str) -> Error {
    Error::numeric(format!("{name} of a singular matrix"))
        .suggest("pinv and svd take singular matrices; matrix_rank tells them")
}

fn finite<F: ComplexField<RealField = f64> + Copy>(a: &DMatrix<F>, name: &str) -> Result<()> {
    if a.iter().all(|v| v.is_finite()) {
        Ok(())
    } else {
        Err(Error::numeric(format!("{name} of a matrix with NaN or infinite elements")))
    }
}

fn cholesky<F: ComplexField<RealField = f64> + Copy>(mut a: DMatrix<F>) -> Result<DMatrix<F>> {
    let not = || {
        Error::numeric("cholesky of a matrix that is not positive definite")
            .suggest("the matrix has to be symmetric (Hermitian) with positive eigenvalues; eigvalsh shows them")
    };
    // As LAPACK does: what rounding left of imaginary parts on the diagonal is nothing.
    for i in 0..a.nrows() {
        a[(i, i)] = F::from_real(a[(i, i)].real());
    }
    let l = Cholesky::new(a).ok_or_else(not)?.unpack();
    // Square roots of negative complex numbers exist: the diagonal tells.
    let positive = l.diagonal().iter().all(|d| d.real() > 0.0 && d.imaginary() == 0.0 && d.is_finite());
    if positive { Ok(l) } else { Err(not()) }
}

fn qr<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>, complete: bool) -> (DMatrix<F>, DMatrix<F>) {
    let (m, n) = a.shape();
    if m == 0 || n == 0 {
        let rows = if complete { m } else { m.min(n) };
        return (DMatrix::identity(m, rows), DMatrix::zeros(rows, n));
    }
    // The algorithm squares: keep it from overflowing.
    let (a, scale) = scaled(a);
    let qr = QR::new(a);
    if !complete {
        return (qr.q(), qr.r().scale(scale));
    }
    let mut adjoint = DMatrix::identity(m, m);
    qr.q_tr_mul(&mut adjoint);
    let mut r = DMatrix::zeros(m, n);
    r.rows_mut(0, m.min(n)).copy_from(&qr.r().scale(scale));
    (adjoint.adjoint(), r)
}

/// The columns and further ones, so that they are an orthonormal basis.
fn completed<F: ComplexField<RealField = f64> + Copy>(columns: DMatrix<F>) -> DMatrix<F> {
    let (m, k) = columns.shape();
    if k == m {
        return columns;
    }
    let (mut basis, _) = qr(columns.clone(), true);
    basis.columns_mut(0, k).copy_from(&columns);
    basis
}

type Singular<F> = (DMatrix<F>, Vec<f64>, DMatrix<F>);

fn svd<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>, vectors: bool, full: bool) -> Result<Singular<F>> {
    finite(&a, "svd")?;
    let (m, n) = a.shape();
    let k = m.min(n);
    if k == 0 {
        let side = |n: usize| if full { n } else { 0 };
        return Ok((DMatrix::identity(m, side(m)), Vec::new(), DMatrix::identity(side(n), n)));
    }
    // The algorithm squares: keep it from overflowing.
    let (a, scale) = scaled(a);
    let wide = m < n;
    let (left, values, right) = tall_svd(if wide { a.adjoint() } else { a })?;
    let values = values.into_iter().map(|v| v * scale).collect();
    if !vectors {
        return Ok((DMatrix::zeros(0, 0), values, DMatrix::zeros(0, 0)));
    }
    let (u, v) = if wide { (right, left) } else { (left, right) };
    if full { Ok((completed(u), values, completed(v).adjoint())) } else { Ok((u, values, v.adjoint())) }
}

/// Of a matrix with no fewer rows than columns: left vectors, values from the largest down, right vectors, in columns.
///
/// The bidiagonal algorithm loses what is small beside the largest value, so it gives only the start: rotations of two columns
/// at a time (one-sided Jacobi) make all columns of `a v` orthogonal to full precision. They need few sweeps from there.
fn tall_svd<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>) -> Result<Singular<F>> {
    let (m, n) = a.shape();
    let start = SVD::try_new_unordered(a.clone(), false, true, f64::EPSILON, 100 * n.max(30));
    let start = start.and_then(|found| found.v_t).map(|v| v.adjoint());
    let mut v = start.filter(|v| v.iter().all(|x| x.is_finite())).unwrap_or_else(|| DMatrix::identity(n, n));
    // What the start lacks of being unitary would stay in the result.
    v = qr(v, false).0;
    let mut w = a * &v;
    // Of a matrix of lower rank, columns shrink with each sweep and never come to rest: what is left of them is nothing.
    let nothing = (f64::EPSILON * f64::EPSILON * w.norm()).powi(2);
    let mut rotated = true;
    for _ in 0..60 {
        rotated = false;
        for (i, j) in (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
            let (p, q) = (w.column(i), w.column(j));
            let (alpha, beta, gamma) = (p.norm_squared(), q.norm_squared(), p.dotc(&q));
            let size = gamma.modulus();
            if alpha.min(beta) > nothing && size > f64::EPSILON * (m as f64).sqrt() * alpha.sqrt() * beta.sqrt() {
                rotated = true;
                let zeta = (beta - alpha) / (2.0 * size);
                let t = 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                turn(&mut w, i, j, gamma.unscale(size).conjugate(), c, c * t);
                turn(&mut v, i, j, gamma.unscale(size).conjugate(), c, c * t);
            }
        }
        if !rotated {
            break;
        }
    }
    if rotated {
        return Err(Error::numeric("svd did not converge"));
    }
    let sizes: Vec<f64> = w.column_iter().map(|c| c.norm()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| sizes[j].total_cmp(&sizes[i]));
    let values: Vec<f64> = order.iter().map(|&i| sizes[i]).collect();
    let rank = values.iter().take_while(|v| **v * **v > nothing).count();
    let mut u = w.select_columns(&order[..rank]);
    u.column_iter_mut().zip(&values).for_each(|(mut c, v)| c.unscale_mut(*v));
    let u = completed(u).columns(0, n).into_owned();
    Ok((u, values, v.select_columns(&order)))
}

/// Columns i and j rotated in their plane, after the second was multiplied with a phase.
fn turn<F: ComplexField<RealField = f64> + Copy>(a: &mut DMatrix<F>, i: usize, j: usize, phase: F, c: f64, s: f64) {
    for row in 0..a.nrows() {
        let (p, q) = (a[(row, i)], a[(row, j)] * phase);
        a[(row, i)] = p.scale(c) - q.scale(s);
        a[(row, j)] = p.scale(s) + q.scale(c);
    }
}

/// The matrix divided by its largest magnitude, to a power of two, and that power.
fn scaled<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>) -> (DMatrix<F>, f64) {
    let largest = a.iter().map(|v| v.real().abs().max(v.imaginary().abs())).fold(0.0, f64::max);
    if largest == 0.0 || (1e-60..1e60).contains(&largest) {
        return (a, 1.0);
    }
    // Two steps, because the reciprocal of a subnormal power is not finite.
    let exponent = largest.log2().floor().clamp(-1021.0, 1021.0);
    let scale = exponent.exp2();
    (a.map(|v| v.unscale(scale)), scale)
}

fn eigh<F: ComplexField<RealField = f64> + Copy>(mut a: DMatrix<F>, vectors: bool) -> Result<(Vec<f64>, DMatrix<F>)> {
    finite(&a, "eigh")?;
    let n = a.nrows();
    if n == 0 {
        return Ok((Vec::new(), a));
    }
    for row in 0..n {
        a[(row, row)] = F::from_real(a[(row, row)].real());
        for column in row + 1..n {
            a[(row, column)] = a[(column, row)].conjugate();
        }
    }
    let (a, scale) = scaled(a);
    let none = || Error::numeric("eigh did not converge");
    let found = SymmetricEigen::try_new(a, f64::EPSILON, 1000 * n.max(30)).ok_or_else(none)?;
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| found.eigenvalues[i].total_cmp(&found.eigenvalues[j]));
    let values = order.iter().map(|&i| found.eigenvalues[i] * scale).collect();
    let sorted = if vectors { found.eigenvectors.select_columns(&order) } else { DMatrix::zeros(0, 0) };
    Ok((values, sorted))
}

/// x of `a x = b`; `None` where the matrix is singular. Both sides are brought to where reciprocals of pivots exist.
fn solve<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>, b: DMatrix<F>) -> Option<DMatrix<F>> {
    let ((a, scale), (b, right)) = (scaled(a), scaled(b));
    Some(LU::new(a).solve(&b)?.scale(right / scale))
}

/// The sign, the logarithm of the magnitude, and the number.
fn determinant<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>) -> (F, f64, F) {
    let n = a.nrows();
    if n == 0 {
        return (F::one(), 0.0, F::one());
    }
    let (a, scale) = scaled(a);
    let lu = LU::new(a);
    let mut sign: F = lu.p().determinant();
    let mut det = sign;
    let mut log = 0.0;
    let diagonal: DVector<F> = lu.lu_internal().diagonal();
    for &d in diagonal.iter() {
        let magnitude = d.modulus();
        sign = if magnitude == 0.0 { F::zero() } else { sign * d.unscale(magnitude) };
        log += magnitude.ln() + scale.ln();
        det *= d.scale(scale);
    }
    (sign, log, det)
}

fn pinv<F: ComplexField<RealField = f64> + Copy>(a: DMatrix<F>, rtol: f64) -> Result<DMatrix<F>> {
    let (m, n) = a.shape();
    if m == 0 || n == 0 {
        return Ok(DMatrix::zeros(n, m));
    }
    let (u, s, v) = svd(a, true, false)?;
    let cut = rtol * s.first().copied().unwrap_or(0.0);
    let mut right = v.adjoint();
    for (i, &value) in s.iter().enumerate() {
        let factor = if value > cut { 1.0 / value } else { 0.0 };
        right.column_mut(i).iter_mut().for_each(|cell| *cell = cell.scale(factor));
    }
    Ok(right * u.adjoint())
}
