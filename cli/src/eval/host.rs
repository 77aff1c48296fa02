//! Functions of the expression language that the host computes. Where a function of [`Tensor`] has several
//! results, `part` says which is meant.

use millstream::{FftNorm, MatrixNorm, Side, Tensor};

use super::arguments::Arguments;
use super::functions::Function;
use super::trouble::Trouble;

/// Sorting, searching and sets.
pub const SORTING: &[Function] = &[
    Function {
        name: "sort",
        form: "x, axis=-1, descending=false",
        about: "sorted along an axis, NaN as the largest",
        call: |a| Ok(a.tensor("x")?.sort(a.int_or("axis", -1)?, a.order("descending", false)?)),
    },
    Function {
        name: "argsort",
        form: "x, axis=-1, descending=false",
        about: "where the sorted elements are",
        call: |a| Ok(a.tensor("x")?.argsort(a.int_or("axis", -1)?, a.order("descending", false)?)),
    },
    Function {
        name: "topk",
        form: "x, k, axis=-1, largest=true, part=0",
        about: "the k largest along an axis; part 1: where they are",
        call: |a| {
            let (x, k) = (a.tensor("x")?, a.count("k")?);
            let (values, indices) = x.topk(k, a.int_or("axis", -1)?, a.order("largest", true)?);
            a.part([values, indices])
        },
    },
    Function {
        name: "searchsorted",
        form: "sorted, x, right=false",
        about: "where each element would have to be inserted",
        call: |a| {
            let (sorted, x) = (a.tensor("sorted")?, a.tensor("x")?);
            let side = if a.flag_or("right", false)? { Side::Right } else { Side::Left };
            Ok(sorted.searchsorted(&x, side))
        },
    },
    Function {
        name: "isin",
        form: "x, test, invert=false",
        about: "true where the element is among those of test",
        call: |a| {
            let found = a.tensor("x")?.isin(&a.tensor("test")?);
            Ok(if a.flag("invert")? { !found } else { found })
        },
    },
    Function {
        name: "count_nonzero",
        form: "x, axes=all, keep=false",
        about: "how many elements are not zero",
        call: |a| a.reduced(Tensor::count_nonzero, Tensor::count_nonzero_keepdim),
    },
    Function {
        name: "nonzero",
        form: "x, axis=0",
        about: "the indices of elements that are not zero, along one axis",
        call: |a| {
            let (x, at) = (a.tensor("x")?, a.at);
            let axis = a.count_or("axis", 0)?;
            let indices = x.nonzero().map_err(|e| Trouble::from_error(at, &e))?;
            let rank = indices.len();
            indices.into_iter().nth(axis).ok_or_else(|| Trouble::new(at, format!("there are {rank} axes, from 0 on")))
        },
    },
    Function {
        name: "mask",
        form: "x, mask",
        about: "the elements where the mask is true",
        call: |a| Ok(a.tensor("x")?.mask(&a.tensor("mask")?)),
    },
    Function {
        name: "unique_all",
        form: "x, part=0",
        about: "distinct elements; parts 1 to 3: first indices, inverse, counts",
        call: |a| {
            let (values, first, inverse, counts) = a.tensor("x")?.unique_all();
            a.part([values, first, inverse, counts])
        },
    },
    Function {
        name: "unique_counts",
        form: "x, part=0",
        about: "distinct elements; part 1: how often each occurs",
        call: |a| {
            let (values, counts) = a.tensor("x")?.unique_counts();
            a.part([values, counts])
        },
    },
    Function {
        name: "unique_inverse",
        form: "x, part=0",
        about: "distinct elements; part 1: which of them each element is",
        call: |a| {
            let (values, inverse) = a.tensor("x")?.unique_inverse();
            a.part([values, inverse])
        },
    },
    Function {
        name: "unique_values",
        form: "x",
        about: "distinct elements",
        call: |a| Ok(a.tensor("x")?.unique_values()),
    },
];

/// Functions of matrices that have one result.
macro_rules! matrices {
    ($($name:ident $about:literal),* $(,)?) => {
        [$(Function { name: stringify!($name), form: "x", about: $about, call: |a| Ok(a.tensor("x")?.$name()) }),*]
    };
}

/// A bound for singular values, if it is given.
fn rtol(a: &mut Arguments<'_>) -> Result<Option<f64>, Trouble> {
    let value = a.float_or("rtol", -1.0)?;
    Ok((value >= 0.0).then_some(value))
}

/// Which norm of a matrix the numbers mean.
fn matrix_norm(a: &mut Arguments<'_>) -> Result<Tensor, Trouble> {
    let x = a.tensor("x")?;
    let at = a.at;
    let (nuclear, ord) = (a.flag_or("nuclear", false)?, a.float_or("ord", f64::NAN)?);
    let norm = match ord {
        _ if nuclear => MatrixNorm::Nuclear,
        1.0 => MatrixNorm::One,
        -1.0 => MatrixNorm::MinusOne,
        2.0 => MatrixNorm::Two,
        -2.0 => MatrixNorm::MinusTwo,
        f64::INFINITY => MatrixNorm::Infinity,
        f64::NEG_INFINITY => MatrixNorm::MinusInfinity,
        o if o.is_nan() => MatrixNorm::Frobenius,
        o => {
            return Err(
                Trouble::new(at, format!("the norm {o} of a matrix")).suggest("ord is 1, -1, 2, -2, inf or -inf")
            );
        }
    };
    let found = x.matrix_norm(norm);
    Ok(if a.flag("keep")? { found.unsqueeze(-1).unsqueeze(-1) } else { found })
}

/// Linear algebra.
pub const FACTORS: &[Function] = &[
    Function {
        name: "cholesky",
        form: "x, upper=false",
        about: "the triangle L with L L^H = x",
        call: |a| {
            let x = a.tensor("x")?;
            Ok(if a.flag("upper")? { x.cholesky_upper() } else { x.cholesky() })
        },
    },
    Function {
        name: "qr",
        form: "x, complete=false, part=0",
        about: "Q with Q R = x; part 1: R",
        call: |a| {
            let x = a.tensor("x")?;
            let (q, r) = if a.flag("complete")? { x.qr_complete() } else { x.qr() };
            a.part([q, r])
        },
    },
    Function {
        name: "svd",
        form: "x, full=false, part=0",
        about: "U with U diag(S) V^H = x; part 1: S, 2: V^H",
        call: |a| {
            let x = a.tensor("x")?;
            let (u, s, v) = if a.flag("full")? { x.svd_full() } else { x.svd() };
            a.part([u, s, v])
        },
    },
    Function {
        name: "eigh",
        form: "x, part=0",
        about: "eigenvalues of a symmetric matrix; part 1: eigenvectors",
        call: |a| {
            let (values, vectors) = a.tensor("x")?.eigh();
            a.part([values, vectors])
        },
    },
    Function {
        name: "slogdet",
        form: "x, part=0",
        about: "the sign of the determinant; part 1: the logarithm of its magnitude",
        call: |a| {
            let (sign, log) = a.tensor("x")?.slogdet();
            a.part([sign, log])
        },
    },
    Function {
        name: "solve",
        form: "x, b",
        about: "X with x @ X = b",
        call: |a| Ok(a.tensor("x")?.solve(&a.tensor("b")?)),
    },
    Function {
        name: "pinv",
        form: "x, rtol=by size",
        about: "the pseudoinverse",
        call: |a| Ok(a.tensor("x")?.pinv(rtol(a)?)),
    },
    Function {
        name: "matrix_rank",
        form: "x, rtol=by size",
        about: "how many singular values are not 0",
        call: |a| Ok(a.tensor("x")?.matrix_rank(rtol(a)?)),
    },
    Function {
        name: "matrix_norm",
        form: "x, ord=frobenius, nuclear=false, keep=false",
        about: "the norm of a matrix: ord 1, -1, 2, -2, inf, -inf",
        call: matrix_norm,
    },
    Function {
        name: "vector_norm",
        form: "x, ord=2, axes=all, keep=false",
        about: "the norm of vectors along axes",
        call: |a| {
            let ord = a.float_or("ord", 2.0)?;
            a.reduced(|x, axes| x.vector_norm(ord, axes), |x, axes| x.vector_norm_keepdim(ord, axes))
        },
    },
    Function {
        name: "diagonal",
        form: "x, offset=0",
        about: "a diagonal of a matrix",
        call: |a| Ok(a.tensor("x")?.diagonal(a.int_or("offset", 0)?)),
    },
    Function {
        name: "trace",
        form: "x, offset=0",
        about: "the sum of a diagonal",
        call: |a| Ok(a.tensor("x")?.trace(a.int_or("offset", 0)?)),
    },
    Function {
        name: "cross",
        form: "x, y, axis=-1",
        about: "the cross product of vectors of three elements",
        call: |a| Ok(a.tensor("x")?.cross(&a.tensor("y")?, a.int_or("axis", -1)?)),
    },
    Function {
        name: "kron",
        form: "x, y",
        about: "every element of x times the whole of y",
        call: |a| Ok(a.tensor("x")?.kron(&a.tensor("y")?)),
    },
    Function {
        name: "matrix_power",
        form: "x, n",
        about: "n matrices multiplied; of the inverse for negative n",
        call: |a| Ok(a.tensor("x")?.matrix_power(a.int("n")? as i64)),
    },
];

/// Linear algebra without options.
pub const MATRICES: &[Function] = &matrices! {
    svdvals "singular values",
    eigvalsh "eigenvalues of a symmetric matrix",
    inv "the inverse",
    det "the determinant",
    matrix_transpose "the last two dimensions exchanged",
};

/// How a transform is scaled: 0 the inverse by 1/n, 1 both by 1/sqrt(n), 2 the transform by 1/n.
fn norm(a: &mut Arguments<'_>) -> Result<FftNorm, Trouble> {
    let at = a.at;
    match a.int_or("norm", 0)? {
        0 => Ok(FftNorm::Backward),
        1 => Ok(FftNorm::Ortho),
        2 => Ok(FftNorm::Forward),
        other => Err(Trouble::new(at, format!("norm {other}")).suggest("0: backward, 1: ortho, 2: forward")),
    }
}

/// Transforms along one axis, and along several.
macro_rules! transforms {
    ([$($one:ident $about:literal),*], [$($many:ident $more:literal),*]) => {
        [
            $(Function {
                name: stringify!($one),
                form: "x, n=as it is, axis=-1, norm=0",
                about: $about,
                call: |a| {
                    let x = a.tensor("x")?;
                    let n = a.count_if("n")?;
                    Ok(x.$one(n, a.int_or("axis", -1)?, norm(a)?))
                },
            },)*
            $(Function {
                name: stringify!($many),
                form: "x, sizes=as they are, axes=all, norm=0",
                about: $more,
                call: |a| {
                    let x = a.tensor("x")?;
                    let sizes = a.sizes_or_none("sizes")?;
                    Ok(x.$many(&sizes, a.axes()?, norm(a)?))
                },
            },)*
        ]
    };
}

/// Fourier transforms.
pub const TRANSFORMS: &[Function] = &transforms!(
    [
        fft "the Fourier transform; norm 0: backward, 1: ortho, 2: forward",
        ifft "its inverse",
        rfft "the first half of the transform of real numbers",
        irfft "its inverse",
        hfft "the transform of a signal of which the first half is given",
        ihfft "its inverse"
    ],
    [fftn "fft along axes", ifftn "ifft along axes", rfftn "rfft along axes", irfftn "irfft along axes"]
);

/// The frequencies of Fourier transforms.
pub const FREQUENCIES: &[Function] = &[
    Function {
        name: "fftshift",
        form: "x, axes=all",
        about: "the frequency 0 moved to the middle",
        call: |a| Ok(a.tensor("x")?.fftshift(a.axes()?)),
    },
    Function {
        name: "ifftshift",
        form: "x, axes=all",
        about: "its inverse",
        call: |a| Ok(a.tensor("x")?.ifftshift(a.axes()?)),
    },
    Function {
        name: "fftfreq",
        form: "n, d=1",
        about: "the frequencies of fft for elements d apart",
        call: |a| Ok(Tensor::fftfreq(a.count("n")?, a.float_or("d", 1.0)?)),
    },
    Function {
        name: "rfftfreq",
        form: "n, d=1",
        about: "the frequencies of rfft",
        call: |a| Ok(Tensor::rfftfreq(a.count("n")?, a.float_or("d", 1.0)?)),
    },
];
