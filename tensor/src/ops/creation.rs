//! Making tensors from numbers.

use millstream_core::{DType, Error, Scalar};

use crate::arguments::{Integer, NewShape};
use crate::graph::{Fill, Inputs, Iota};
use crate::{Operand, Tensor};

/// Which way the first two tensors of a grid run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Indexing {
    /// The first varies along columns, the second along rows, as x and y do on paper.
    #[default]
    Xy,
    /// Tensor number i varies along dimension number i.
    Ij,
}

/// The dtype in which numbers of this one are computed. Integers are in f64, which holds them or what was given of them.
fn computed(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 | DType::C64 => DType::F32,
        _ => DType::F64,
    }
}

/// An error where the dtype is one of integers and does not hold one of these numbers.
#[track_caller]
fn unfit(op: &'static str, numbers: &[f64], dtype: DType) -> Option<Tensor> {
    let number = numbers.iter().find(|n| Scalar::within(**n, dtype).is_none())?;
    Some(Tensor::build(op, || Err(Error::argument(format!("{number} does not fit in {dtype}")))))
}

/// Computed numbers in their dtype. As integers they lose their fractions; what is less than `slack` from a whole number, by
/// rounding, is that number.
#[track_caller]
fn settled(numbers: &Tensor, slack: Operand<'_>, dtype: DType) -> Tensor {
    if !dtype.is_integer() {
        return numbers.cast(dtype);
    }
    let whole = numbers.round();
    (numbers - &whole).abs().le(slack).where_(&whole, numbers).cast(dtype)
}

/// Numbers whose first and last one are these.
#[track_caller]
fn between(numbers: &Tensor, first: f64, last: f64) -> Tensor {
    let index = indices(numbers.len());
    let inner = index.eq(numbers.len() as i64 - 1).where_(last, numbers);
    index.eq(0).where_(first, &inner)
}

/// # Numbers, ranges, grids, triangles
///
/// Constants take no memory until somebody needs it there. Random numbers are made by a [`Generator`](crate::Generator).
impl Tensor {
    /// A tensor of one number.
    #[track_caller]
    pub fn scalar(value: impl Into<Scalar>) -> Tensor {
        Tensor::full((), value)
    }

    /// A tensor of this shape with one number everywhere. It takes no memory until somebody needs it there.
    #[track_caller]
    pub fn full(shape: impl Into<NewShape>, value: impl Into<Scalar>) -> Tensor {
        let (shape, value) = (shape.into(), value.into());
        Tensor::build("full", || {
            let base = Tensor::new_node(Fill { value }, Inputs::new())?;
            Ok(Tensor { layout: base.layout.broadcast(&shape.sizes()?)?, node: base.node })
        })
    }

    /// Zeros.
    #[track_caller]
    pub fn zeros(shape: impl Into<NewShape>, dtype: DType) -> Tensor {
        Tensor::full(shape, Scalar::zero(dtype))
    }

    /// Ones.
    #[track_caller]
    pub fn ones(shape: impl Into<NewShape>, dtype: DType) -> Tensor {
        Tensor::full(shape, Scalar::one(dtype))
    }

    /// `start`, `start + 1`, ... up to but without `stop`, in i64.
    ///
    /// ```
    /// use millstream::Tensor;
    /// assert_eq!(Tensor::arange(2, 5).to_vec::<i64>()?, [2, 3, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn arange(start: impl Integer, stop: impl Integer) -> Tensor {
        let (start, stop) = (start.number() as i64, stop.number() as i64);
        Tensor::build("arange", || {
            let len = if stop > start { stop.abs_diff(start) as usize } else { 0 };
            Tensor::new_node(Iota { start: Scalar::new(start), step: Scalar::new(1i64), len }, Inputs::new())
        })
    }

    /// `start`, `start + step`, ... up to but without `stop`, each computed by itself, so that errors do not add up.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// assert_eq!(Tensor::arange_by(0.0, 1.0, 0.25, DType::F32).to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75]);
    /// assert_eq!(Tensor::arange_by(5.0, 0.0, -2.0, DType::I32).to_vec::<i32>()?, [5, 3, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn arange_by(start: f64, stop: f64, step: f64, dtype: DType) -> Tensor {
        Tensor::composed("arange_by", || {
            let count = ((stop - start) / step).ceil();
            if step == 0.0 || !count.is_finite() || count > i64::MAX as f64 / 2.0 {
                return Tensor::build("arange_by", || {
                    Err(Error::argument(format!("from {start} to {stop} by {step} there is no end")))
                });
            }
            let last = start + (count - 1.0) * step;
            if count >= 1.0
                && let Some(error) = unfit("arange_by", &[start, last], dtype)
            {
                return error;
            }
            let index = Tensor::arange(0, count.max(0.0) as i64);
            let whole = |x: f64| x.fract() == 0.0 && x.abs() < 9e15;
            if whole(start) && whole(step) && !dtype.is_float() && !dtype.is_complex() {
                return (index * step as i64 + start as i64).cast(dtype);
            }
            let numbers = index.cast(computed(dtype)) * step + start;
            settled(&numbers, Operand::Float(slack(start, last)), dtype)
        })
    }

    /// `count` numbers from `start` to `stop`, both included, evenly apart; the ends are exact.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// assert_eq!(Tensor::linspace(0.0, 1.0, 5, DType::F32).to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, count: usize, dtype: DType) -> Tensor {
        Tensor::composed("linspace", || {
            if let Some(error) = unfit("linspace", &[start, stop][..count.min(2)], dtype) {
                return error;
            }
            let index = indices(count);
            let last = count.saturating_sub(1);
            let step = if last == 0 { 0.0 } else { (stop - start) / last as f64 };
            // Each half from its own end.
            let forth = index.cast(computed(dtype)) * step + start;
            let back = stop - (last as i64 - &index).cast(computed(dtype)) * step;
            let numbers = (index * 2).le(last as i64).where_(&forth, &back);
            settled(&numbers, Operand::Float(slack(start, stop)), dtype)
        })
    }

    /// `count` powers of `base`, with exponents evenly from `start` to `stop`; the first and the last are rounded once.
    #[track_caller]
    pub fn logspace(start: f64, stop: f64, count: usize, base: f64, dtype: DType) -> Tensor {
        Tensor::composed("logspace", || {
            let (first, last) = (base.powf(start), base.powf(stop));
            if let Some(error) = unfit("logspace", &[first, last][..count.min(2)], dtype) {
                return error;
            }
            let exponents = Tensor::linspace(start, stop, count, computed(dtype));
            let powers = match base {
                2.0 => exponents.exp2(),
                _ => exponents.full_like(millstream_core::Scalar::from_f64(base, computed(dtype))).pow(&exponents),
            };
            let powers = between(&powers, first, last);
            settled(&powers, (&(powers.abs() * STEEP)).into(), dtype)
        })
    }

    /// `count` numbers from `start` to `stop`, each the same multiple of the one before; both have the same sign, and are exact.
    #[track_caller]
    pub fn geomspace(start: f64, stop: f64, count: usize, dtype: DType) -> Tensor {
        Tensor::composed("geomspace", || {
            let ratio = stop / start;
            if ratio.is_nan() || ratio <= 0.0 || ratio.is_infinite() {
                return Tensor::build("geomspace", || {
                    Err(Error::argument(format!("no multiple leads from {start} to {stop}")))
                });
            }
            if let Some(error) = unfit("geomspace", &[start, stop][..count.min(2)], dtype) {
                return error;
            }
            let exponents = Tensor::linspace(0.0, ratio.log2(), count, computed(dtype));
            let numbers = between(&(exponents.exp2() * start), start, stop);
            settled(&numbers, (&(numbers.abs() * STEEP)).into(), dtype)
        })
    }

    /// A matrix with ones on diagonal number `diagonal` (0 the main one, above it positive), zeros elsewhere.
    ///
    /// ```
    /// use millstream::{DType, Tensor};
    /// assert_eq!(Tensor::eye(2, 3, 1, DType::I32).to_vec::<i32>()?, [0, 1, 0, 0, 0, 1]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn eye(rows: usize, columns: usize, diagonal: i64, dtype: DType) -> Tensor {
        Tensor::composed("eye", || diagonal_of(rows, columns).eq(diagonal).cast(dtype))
    }

    /// The lower triangles of matrices: zeros above diagonal number `diagonal`.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_shape(&[2, 2], &[1, 2, 3, 4]);
    /// assert_eq!(x.tril(0).to_vec::<i32>()?, [1, 0, 3, 4]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn tril(&self, diagonal: i64) -> Tensor {
        self.triangle("tril", |diagonals| diagonals.le(diagonal))
    }

    /// The upper triangles of matrices: zeros below diagonal number `diagonal`.
    #[track_caller]
    pub fn triu(&self, diagonal: i64) -> Tensor {
        self.triangle("triu", |diagonals| diagonals.ge(diagonal))
    }

    #[track_caller]
    fn triangle(&self, op: &'static str, keep: impl FnOnce(Tensor) -> Tensor) -> Tensor {
        Tensor::build(op, || {
            self.check()?;
            let [.., rows, columns] = *self.sizes() else {
                return Err(Error::shape(format!("a tensor of shape {:?} is no matrix", self.sizes())));
            };
            Ok(keep(diagonal_of(rows, columns)).where_(self, &self.zeros_like()))
        })
    }

    /// A tensor of the same shape and dtype whose elements nobody should rely on; they are zeros.
    #[track_caller]
    pub fn empty_like(&self) -> Tensor {
        self.zeros_like()
    }

    /// Each of these vectors spread over the grid of all of them, as views.
    ///
    /// ```
    /// use millstream::{Indexing, Tensor};
    /// let grid = Tensor::meshgrid([Tensor::arange(0, 2), Tensor::arange(0, 3)], Indexing::Ij);
    /// assert_eq!(grid[1].to_vec::<i64>()?, [0, 1, 2, 0, 1, 2]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid<T: AsRef<Tensor>>(vectors: impl IntoIterator<Item = T>, indexing: Indexing) -> Vec<Tensor> {
        let vectors: Vec<T> = vectors.into_iter().collect();
        let vectors: Vec<&Tensor> = vectors.iter().map(T::as_ref).collect();
        let mut order: Vec<usize> = (0..vectors.len()).collect();
        if indexing == Indexing::Xy && order.len() >= 2 {
            order.swap(0, 1);
        }
        let mut shape = vec![1; vectors.len()];
        for (i, vector) in vectors.iter().enumerate() {
            shape[order[i]] = vector.len();
        }
        let spread = |(i, vector): (usize, &&Tensor)| {
            Tensor::build("meshgrid", || {
                vector.check()?;
                if vector.rank() > 1 {
                    return Err(Error::shape(format!("a grid is made of vectors, not of shape {:?}", vector.sizes())));
                }
                let mut own = vec![1; vectors.len()];
                own[order[i]] = vector.len();
                Ok(vector.reshape(&own).broadcast(&shape))
            })
        };
        vectors.iter().enumerate().map(spread).collect()
    }
}

/// How far rounding takes numbers between these from whole ones.
fn slack(start: f64, stop: f64) -> f64 {
    (8.0 * f64::EPSILON * start.abs().max(stop.abs())).min(1e-6)
}

/// How far rounding takes powers of 2 to up to 64 from whole numbers, as a share of them.
const STEEP: f64 = 64.0 * f64::EPSILON;

/// The number of the diagonal of each element.
#[track_caller]
fn diagonal_of(rows: usize, columns: usize) -> Tensor {
    indices(columns) - indices(rows).unsqueeze(1)
}

/// `0`, `1`, ... up to but without a size; an error for one that no tensor can have.
#[track_caller]
pub(crate) fn indices(size: usize) -> Tensor {
    Tensor::arange(0, i64::try_from(size).unwrap_or(i64::MAX))
}
