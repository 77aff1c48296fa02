//! The functions of the expression language: every function of [`Tensor`] that computes a tensor, by its own name.

mod lookups;
mod neural;

use millstream::{DType, Scalar, Tensor, step};

use super::arguments::Arguments;
use super::elements;
use super::host;
use super::trouble::Trouble;
use super::value::Value;
use super::windows::WINDOWS;

/// A function that expressions can call.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its parameters with their defaults: `x, axes=all, keep=false`.
    pub(super) form: &'static str,
    /// What it gives.
    pub(super) about: &'static str,
    /// Computes it.
    pub call: fn(&mut Arguments<'_>) -> Result<Tensor, Trouble>,
}

impl Function {
    /// Names of the parameters and their defaults.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> + use<> {
        self.form.split(", ").filter(|p| !p.is_empty()).map(|p| match p.split_once('=') {
            Some((name, default)) => (name, Some(default)),
            None => (p, None),
        })
    }

    /// The function as one writes it.
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, self.form)
    }
}

/// The function of that name.
pub fn find(name: &str) -> Option<&'static Function> {
    GROUPS.iter().flat_map(|(_, functions)| functions.iter()).find(|f| f.name == name)
}

/// The names of all functions.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, functions)| functions.iter()).map(|f| f.name)
}

/// The name that was probably meant.
pub fn like(name: &str) -> Option<&'static str> {
    let all = GROUPS.iter().flat_map(|(_, functions)| functions.iter()).map(|f| f.name);
    let score = |other: &str| distance(&name.to_lowercase(), other);
    all.map(|n| (score(n), n)).min().filter(|(d, n)| *d <= n.len().max(2) / 2 && *d <= 3).map(|(_, n)| n)
}

/// How many letters must be changed, added or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // A name far longer than any of ours is like none of them.
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or_default();
            let next = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            if let Some(cell) = row.get_mut(j) {
                *cell = left;
            }
            diagonal = above;
            left = next;
        }
        if let Some(cell) = row.last_mut() {
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// All functions for people.
pub fn list() -> String {
    let mut out = String::from(
        "numbers   3  1_000  0xff  1.5  2e-3  true  false  pi  e  inf  nan\n\
         arrays    [[1, 2], [3, 4]]\n\
         operators **   + - ~ (signs)   * / // % @   + -   << >>   &   ^   |   == != < <= > >=\n\
         dtypes    ",
    );
    out += &DType::ALL.map(|d| d.name()).join(" ");
    for (title, functions) in GROUPS {
        out += &format!("\n\n{title}");
        let width = functions.iter().map(|f| f.signature().len()).max().unwrap_or_default();
        for f in *functions {
            out += &format!("\n  {:width$}  {}", f.signature(), f.about);
        }
    }
    out
}

/// Functions of one tensor.
macro_rules! unary {
    ($($name:ident $about:literal),* $(,)?) => {
        &[$(Function { name: stringify!($name), form: "x", about: $about, call: |a| Ok(a.tensor("x")?.$name()) }),*]
    };
}

/// Functions of two operands.
macro_rules! binary {
    ($($name:literal $method:ident $about:literal),* $(,)?) => {
        &[$(Function {
            name: $name,
            form: "x, y",
            about: $about,
            call: |a| a.pair("x", "y").map(|(x, y)| x.$method(&y)),
        }),*]
    };
}

/// Reductions.
macro_rules! reductions {
    ($($name:ident $keepdim:ident $about:literal),* $(,)?) => {
        &[$(Function {
            name: stringify!($name),
            form: "x, axes=all, keep=false",
            about: $about,
            call: |a| a.reduced(Tensor::$name, Tensor::$keepdim),
        }),*]
    };
}

use std::ops::{Add, Div, Mul, Sub};

const GROUPS: &[(&str, &[Function])] = &[
    ("functions of each element", UNARY),
    ("pairs of elements", BINARY),
    ("more of elements", ELEMENTS),
    ("of elements, by way of others", elements::UNARY),
    ("of pairs, by way of others", elements::BINARY),
    ("complex numbers", elements::PARTS),
    ("with numbers", elements::MORE),
    ("reductions", REDUCTIONS),
    ("rows and matrices", ROWS),
    ("convolutions, windows and sums of products", WINDOWS),
    ("networks", neural::NEURAL),
    ("losses", neural::LOSSES),
    ("running reductions", lookups::SCANS),
    ("views and copies", VIEWS),
    ("sorting, searching and sets", host::SORTING),
    ("made of others", lookups::JOINS),
    ("lookups", lookups::LOOKUPS),
    ("linear algebra", host::FACTORS),
    ("more of matrices", host::MATRICES),
    ("Fourier transforms", host::TRANSFORMS),
    ("frequencies", host::FREQUENCIES),
    ("new tensors", MAKERS),
    ("more new tensors", elements::MAKERS),
    ("random numbers", lookups::RANDOM),
];

const UNARY: &[Function] = unary! {
    neg "-x",
    abs "the magnitude",
    sign "-1, 0 or 1",
    not "logical not of bool, bitwise not of integers",
    sqrt "the square root",
    rsqrt "1 / sqrt(x)",
    recip "1 / x",
    exp "e to the power of x",
    expm1 "exp(x) - 1, exact near 0",
    log "the natural logarithm",
    log1p "log(1 + x), exact near 0",
    sin "the sine of radians",
    cos "the cosine of radians",
    tan "the tangent of radians",
    asin "the angle in radians whose sine it is",
    acos "the angle in radians whose cosine it is",
    atan "the angle in radians whose tangent it is",
    sinh "the hyperbolic sine",
    cosh "the hyperbolic cosine",
    asinh "the inverse hyperbolic sine",
    acosh "the inverse hyperbolic cosine",
    atanh "the inverse hyperbolic tangent",
    exp2 "2 to the power of x",
    log2 "the logarithm to the base 2",
    log10 "the logarithm to the base 10",
    tanh "the hyperbolic tangent",
    erf "the error function",
    sigmoid "1 / (1 + exp(-x))",
    floor "toward minus infinity",
    ceil "toward plus infinity",
    trunc "toward zero",
    round "to nearest, halves to even",
    relu "max(x, 0)",
    gelu "the Gaussian error linear unit",
    silu "x * sigmoid(x)",
    square "x * x",
    isnan "true where the element is not a number",
};

const BINARY: &[Function] = binary! {
    "add" add "x + y",
    "sub" sub "x - y",
    "mul" mul "x * y",
    "div" div "x / y",
    "floor_div" floor_div "x // y: rounded toward minus infinity",
    "rem" rem "x % y: with the divisor's sign",
    "pow" pow "x ** y",
    "minimum" minimum "the smaller of each pair",
    "maximum" maximum "the larger of each pair",
    "and" and "x & y",
    "or" or "x | y",
    "xor" xor "x ^ y",
    "shl" shl "x << y",
    "shr" shr "x >> y",
    "eq" eq "x == y",
    "ne" ne "x != y",
    "lt" lt "x < y",
    "le" le "x <= y",
    "gt" gt "x > y",
    "ge" ge "x >= y",
};

/// Elements of `a` where the condition holds, else of `b`.
fn choose(a: &mut Arguments<'_>) -> Result<Tensor, Trouble> {
    let condition = a.tensor("condition")?;
    let (x, y) = a.pair("a", "b")?;
    Ok(condition.where_(&x, &y))
}

const ELEMENTS: &[Function] = &[
    Function { name: "where", form: "condition, a, b", about: "a where the condition is true, else b", call: choose },
    Function { name: "choose", form: "condition, a, b", about: "the same", call: choose },
    Function {
        name: "clamp",
        form: "x, low, high",
        about: "raised to low and lowered to high",
        call: |a| {
            let x = a.tensor("x")?;
            let (low, high) = (a.beside("low", x.dtype())?, a.beside("high", x.dtype())?);
            Ok(x.clip(&low, &high))
        },
    },
    Function {
        name: "cast",
        form: "x, dtype",
        about: "the elements in another dtype",
        call: |a| {
            let ((x, at), dtype) = (a.value("x")?, a.dtype("dtype")?);
            x.cast(dtype).ok_or_else(|| Trouble::new(at, "cast takes a tensor, not a dtype"))
        },
    },
];

const REDUCTIONS: &[Function] = reductions! {
    sum sum_keepdim "the sum",
    prod prod_keepdim "the product",
    max max_keepdim "the largest element",
    min min_keepdim "the smallest element",
    argmax argmax_keepdim "where the largest element is",
    argmin argmin_keepdim "where the smallest element is",
    any any_keepdim "whether any element is true",
    all all_keepdim "whether all elements are true",
    mean mean_keepdim "the mean",
    median median_keepdim "the middle of the sorted elements",
};

const ROWS: &[Function] = &[
    Function {
        name: "quantile",
        form: "x, q, axes=all, keep=false",
        about: "the value below which the part q lies",
        call: |a| {
            let q = a.float_or("q", 0.5)?;
            a.reduced(|x, axes| x.quantile(q, axes), |x, axes| x.quantile_keepdim(q, axes))
        },
    },
    Function {
        name: "var",
        form: "x, axes=all, correction=0, keep=false",
        about: "the variance around the mean",
        call: |a| {
            let less = a.float_or("correction", 0.0)?;
            a.reduced(|x, axes| x.var_corrected(less, axes), |x, axes| x.var_corrected_keepdim(less, axes))
        },
    },
    Function {
        name: "std",
        form: "x, axes=all, correction=0, keep=false",
        about: "the standard deviation",
        call: |a| {
            let less = a.float_or("correction", 0.0)?;
            a.reduced(|x, axes| x.std_corrected(less, axes), |x, axes| x.std_corrected_keepdim(less, axes))
        },
    },
    Function {
        name: "softmax",
        form: "x, axis=-1",
        about: "exp(x) / sum(exp(x)) along an axis",
        call: |a| Ok(a.tensor("x")?.softmax(a.int_or("axis", -1)?)),
    },
    Function {
        name: "log_softmax",
        form: "x, axis=-1",
        about: "the logarithm of softmax",
        call: |a| Ok(a.tensor("x")?.log_softmax(a.int_or("axis", -1)?)),
    },
    Function {
        name: "layernorm",
        form: "x, axes=1, epsilon=1e-5",
        about: "the last so many axes brought to mean 0 and variance 1",
        call: |a| {
            let (x, axes) = (a.tensor("x")?, a.last_axes()?);
            Ok(x.layernorm(axes, a.float_or("epsilon", 1e-5)?))
        },
    },
    Function {
        name: "matmul",
        form: "x, y",
        about: "x @ y: matrix multiplication",
        call: |a| Ok(a.tensor("x")?.matmul(&a.tensor("y")?)),
    },
];

const VIEWS: &[Function] = &[
    Function {
        name: "reshape",
        form: "x, shape",
        about: "the elements in another shape, of which one size may be -1: what is left",
        call: |a| Ok(a.tensor("x")?.reshape(a.ints("shape")?)),
    },
    Function {
        name: "permute",
        form: "x, order",
        about: "the dimensions in another order",
        call: |a| Ok(a.tensor("x")?.permute(&a.sizes("order")?)),
    },
    Function {
        name: "transpose",
        form: "x",
        about: "the last two dimensions exchanged",
        call: |a| Ok(a.tensor("x")?.transpose()),
    },
    Function {
        name: "slice",
        form: "x, axis, start, stop, step=1",
        about: "every step-th element from start up to but without stop",
        call: |a| Ok(a.tensor("x")?.slice(a.int("axis")?, step(a.int("start")?..a.int("stop")?, a.int_or("step", 1)?))),
    },
    Function {
        name: "assign",
        form: "x, value",
        about: "value broadcast to the shape of x, in its dtype",
        call: |a| {
            let (mut x, at) = (a.tensor("x")?, a.at);
            let value = a.beside("value", x.dtype())?;
            x.assign(&value).map_err(|e| Trouble::from_error(at, &e))?;
            Ok(x)
        },
    },
    Function {
        name: "slice_assign",
        form: "x, axis, start, stop, value, step=1",
        about: "x with value in place of a slice",
        call: |a| {
            let (mut x, at) = (a.tensor("x")?, a.at);
            let (axis, range) = (a.int("axis")?, step(a.int("start")?..a.int("stop")?, a.int_or("step", 1)?));
            let value = a.beside("value", x.dtype())?;
            x.slice_assign(axis, range, &value).map_err(|e| Trouble::from_error(at, &e))?;
            Ok(x)
        },
    },
    Function {
        name: "select",
        form: "x, axis, index",
        about: "one index of a dimension, which goes",
        call: |a| Ok(a.tensor("x")?.select(a.int("axis")?, a.int("index")?)),
    },
    Function {
        name: "broadcast",
        form: "x, shape",
        about: "repeated to reach the shape",
        call: |a| Ok(a.tensor("x")?.broadcast(&a.sizes("shape")?)),
    },
    Function {
        name: "flip",
        form: "x, axis",
        about: "a dimension backwards",
        call: |a| Ok(a.tensor("x")?.flip(a.int("axis")?)),
    },
    Function {
        name: "unsqueeze",
        form: "x, axis",
        about: "a new dimension of size 1",
        call: |a| Ok(a.tensor("x")?.unsqueeze(a.int("axis")?)),
    },
    Function {
        name: "squeeze",
        form: "x, axis",
        about: "without this dimension of size 1",
        call: |a| Ok(a.tensor("x")?.squeeze(a.int("axis")?)),
    },
    Function { name: "copy", form: "x", about: "the same in memory of its own", call: |a| Ok(a.tensor("x")?.copy()) },
    Function {
        name: "contiguous",
        form: "x",
        about: "the same, row-major without gaps",
        call: |a| Ok(a.tensor("x")?.contiguous()),
    },
];

/// The argument `value` in a dtype, or in its own.
pub(super) fn number(a: &mut Arguments<'_>, dtype: Option<DType>) -> Result<Scalar, Trouble> {
    let (value, at) = a.value("value")?;
    let (number, text) = match value {
        Value::Int(v) => (Scalar::whole(v, dtype.unwrap_or(DType::I64)), v.to_string()),
        Value::Float(v) => (Scalar::within(v, dtype.unwrap_or(DType::F32)), v.to_string()),
        Value::Bool(v) => (Scalar::whole(i64::from(v), dtype.unwrap_or(DType::Bool)), v.to_string()),
        other => return Err(Trouble::new(at, format!("\"value\" must be a number, not {}", other.what()))),
    };
    let dtype = dtype.unwrap_or(DType::F32);
    number.ok_or_else(|| Trouble::new(at, format!("{text} does not fit in {dtype}")))
}

/// The same with the dtype that the call names.
fn typed(a: &mut Arguments<'_>) -> Result<Scalar, Trouble> {
    let dtype = a.dtype_if("dtype")?;
    number(a, dtype)
}

const MAKERS: &[Function] = &[
    Function {
        name: "full",
        form: "shape, value, dtype=its own",
        about: "one number everywhere",
        call: |a| Ok(Tensor::full(&a.sizes("shape")?, typed(a)?)),
    },
    Function {
        name: "zeros",
        form: "shape, dtype=f32",
        about: "zeros",
        call: |a| Ok(Tensor::zeros(&a.sizes("shape")?, a.dtype_if("dtype")?.unwrap_or(DType::F32))),
    },
    Function {
        name: "ones",
        form: "shape, dtype=f32",
        about: "ones",
        call: |a| Ok(Tensor::ones(&a.sizes("shape")?, a.dtype_if("dtype")?.unwrap_or(DType::F32))),
    },
    Function {
        name: "arange",
        form: "start, stop",
        about: "start, start + 1, ... up to but without stop",
        call: |a| Ok(Tensor::arange(a.int("start")? as i64, a.int("stop")? as i64)),
    },
    Function {
        name: "scalar",
        form: "value, dtype=its own",
        about: "a tensor of one number",
        call: |a| Ok(Tensor::scalar(typed(a)?)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of `Tensor` that compute no tensor from tensors and numbers: constructors from Rust data, questions, reads.
    const NOT_FOR_EXPRESSIONS: &[&str] = &[
        "ways",
        "assign_at",
        "set",
        "new",
        "from_vec",
        "from_slice",
        "from_shape",
        "from_bytes",
        "from_buffer",
        "from_npy_bytes",
        "meshgrid",
        "load_npy",
        "save_npy",
        "map_npy",
        "load_npz",
        "from_npz_bytes",
        "save_npz",
        "load_safetensors",
        "map_safetensors",
        "from_safetensors_bytes",
        "save_safetensors",
        "shape",
        "dims",
        "i",
        "rows",
        "rank",
        "len",
        "is_empty",
        "dtype",
        "layout",
        "device",
        "check",
        "to",
        "eval",
        "eval_all",
        "eval_async",
        "eval_on",
        "to_vec",
        "to_vec2",
        "to_vec3",
        "to_vec_async",
        "item",
        "to_bytes",
        "explain",
        "buffer",
        "export",
        "export_writable",
        "export_as_it_is",
        "is_volatile",
        "eig",
        "eigvals",
        "keep",
        "take_unchecked",
        "take_along_axis_unchecked",
        "index_unchecked",
        // Expressions say these by an argument, or by another name.
        "cholesky_upper",
        "qr_complete",
        "svd_full",
        "where_",
        "runtime",
    ];

    #[test]
    fn every_public_function_of_tensor_can_be_called() {
        let folders = ["", "/ops"].map(|f| format!("{}/../tensor/src{f}", env!("CARGO_MANIFEST_DIR")));
        let mut names = Vec::new();
        for entry in folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "rs") || path.file_stem().is_some_and(|s| s == "lib") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let (mut methods, mut list) = (false, false);
            for line in text.lines() {
                if !line.starts_with([' ', '}']) && !line.trim().is_empty() {
                    methods = line.starts_with("impl Tensor {");
                    list = line.starts_with("unary! {") || line.starts_with("binary! {");
                }
                let line = line.trim();
                let method = line.strip_prefix("pub fn ").or(line.strip_prefix("pub async fn ")).filter(|_| methods);
                let listed = line.split_once(" => ").map(|(name, _)| name).filter(|_| list);
                let name = method.or(listed).map(|t| t.split(['(', '<']).next().unwrap_or_default());
                names.extend(name.filter(|n| super::super::lexer::is_name(n)).map(String::from));
            }
        }
        assert!(names.len() > 60, "the sources of Tensor were not understood: {names:?}");
        let missing: Vec<_> =
            names.iter().filter(|n| find(n).is_none() && !NOT_FOR_EXPRESSIONS.contains(&n.as_str())).collect();
        assert!(missing.is_empty(), "expressions cannot call {missing:?}");
    }

    #[test]
    fn names_are_unique_and_listed() {
        let text = list();
        let mut seen = std::collections::BTreeSet::new();
        for f in GROUPS.iter().flat_map(|(_, functions)| functions.iter()) {
            assert!(seen.insert(f.name), "{} is there twice", f.name);
            assert!(text.contains(&f.signature()), "{}", f.name);
        }
    }

    #[test]
    fn a_name_that_is_almost_right_is_recognised() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(like("sofmax"), Some("softmax"));
        assert_eq!(like("Transpose"), Some("transpose"));
        assert_eq!(like("qqqqqqqqqqq"), None);
    }
}
