//! Functions of single elements that are made of others, and tensors made of numbers.

use millstream::{DType, Operand, Tensor, Tolerance};

use super::arguments::Arguments;
use super::functions::{Function, number};
use super::trouble::Trouble;
use super::value::{Beside, Value};

/// Functions of one tensor.
macro_rules! unary {
    ($($name:ident $about:literal),* $(,)?) => {
        &[$(Function { name: stringify!($name), form: "x", about: $about, call: |a| Ok(a.tensor("x")?.$name()) }),*]
    };
}

/// Functions of two operands.
macro_rules! binary {
    ($($name:ident $about:literal),* $(,)?) => {
        &[$(Function {
            name: stringify!($name),
            form: "x, y",
            about: $about,
            call: |a| a.pair("x", "y").map(|(x, y)| x.$name(&y)),
        }),*]
    };
}

/// Functions of two tensors.
macro_rules! tensors {
    ($($name:ident $form:literal $x:literal $y:literal $about:literal),* $(,)?) => {
        &[$(Function {
            name: stringify!($name),
            form: $form,
            about: $about,
            call: |a| Ok(Tensor::$name(&a.tensor($x)?, &a.tensor($y)?)),
        }),*]
    };
}

/// Functions of one tensor, made of others.
pub const UNARY: &[Function] = unary! {
    isfinite "true where neither infinite nor NaN",
    isinf "true where infinite",
    signbit "true where the sign is negative",
    real "the real part",
    imag "the imaginary part",
    conj "the complex conjugate",
    angle "the angle of a complex number in radians",
    positive "the same",
    cbrt "the cube root",
    logical_not "true where 0",
    softplus "log(1 + exp(x))",
    log_sigmoid "log(sigmoid(x))",
    selu "the scaled exponential linear unit",
    relu6 "min(max(x, 0), 6)",
    hard_sigmoid "min(max(x + 3, 0), 6) / 6",
    hard_swish "x * hard_sigmoid(x)",
    mish "x * tanh(softplus(x))",
    softsign "x / (1 + abs(x))",
    gelu_tanh "the Gaussian error linear unit by tanh",
    logit "log(x / (1 - x))",
    deg2rad "degrees as radians",
    rad2deg "radians as degrees",
    reciprocal "1 / x",
    bitwise_invert "logical not of bool, bitwise not of integers",
    zeros_like "zeros of the same shape and dtype",
    ones_like "ones of the same shape and dtype",
    empty_like "a tensor of the same shape and dtype",
};

/// Functions of pairs.
pub const BINARY: &[Function] = binary! {
    atan2 "the angle of the point (y, x) in radians",
    hypot "sqrt(x^2 + y^2)",
    copysign "the magnitude of x with the sign of y",
    nextafter "the number next to x in the direction of y",
    fmod "the remainder with the dividend's sign",
    logaddexp "log(exp(x) + exp(y))",
    logical_and "true where both are not 0",
    logical_or "true where one is not 0",
    logical_xor "true where exactly one is not 0",
    floor_divide "x // y",
    remainder "x % y",
    bitwise_and "x & y",
    bitwise_or "x | y",
    bitwise_xor "x ^ y",
    bitwise_left_shift "x << y",
    bitwise_right_shift "x >> y",
};

/// Complex numbers of two parts.
pub const PARTS: &[Function] = tensors! {
    complex "real, imaginary" "real" "imaginary" "the complex number of two parts",
    polar "modulus, angle" "modulus" "angle" "the complex number of modulus and angle",
};

fn operand(beside: &Beside) -> Operand<'_> {
    beside.into()
}

fn clip(a: &mut Arguments<'_>) -> Result<Tensor, Trouble> {
    let x = a.tensor("x")?;
    let low = if a.has("low") { Some(a.beside("low", x.dtype())?) } else { None };
    let high = if a.has("high") { Some(a.beside("high", x.dtype())?) } else { None };
    let raised = low.as_ref().map_or_else(|| x.clone(), |low| x.maximum(operand(low)));
    Ok(high.as_ref().map_or_else(|| raised.clone(), |high| raised.minimum(operand(high))))
}

fn flag(a: &mut Arguments<'_>, name: &str) -> Result<bool, Trouble> {
    if !a.has(name) {
        return Ok(false);
    }
    match a.value(name)? {
        (Value::Bool(v), _) => Ok(v),
        (other, at) => Err(Trouble::new(at, format!("{name:?} must be true or false, not {}", other.what()))),
    }
}

fn close(a: &mut Arguments<'_>) -> Result<(Tensor, Beside, Tolerance), Trouble> {
    let (x, y) = a.pair("x", "y")?;
    let tolerance = Tolerance::new(a.float_or("relative", 1e-5)?, a.float_or("absolute", 1e-8)?);
    Ok((x, y, if flag(a, "nan_equal")? { tolerance.equal_nan() } else { tolerance }))
}

fn optional(a: &mut Arguments<'_>, name: &str) -> Result<Option<f64>, Trouble> {
    if a.has(name) { a.float_or(name, 0.0).map(Some) } else { Ok(None) }
}

/// Functions with numbers beside their tensors.
pub const MORE: &[Function] = &[
    Function { name: "clip", form: "x, low=none, high=none", about: "raised to low and lowered to high", call: clip },
    Function {
        name: "lerp",
        form: "x, end, weight",
        about: "x + weight * (end - x)",
        call: |a| {
            let x = a.tensor("x")?;
            let (end, weight) = (a.beside("end", x.dtype())?, a.beside("weight", x.dtype())?);
            Ok(x.lerp(&end, &weight))
        },
    },
    Function {
        name: "nan_to_num",
        form: "x, nan=0, posinf=largest, neginf=lowest",
        about: "NaN and infinities replaced by numbers",
        call: |a| {
            let x = a.tensor("x")?;
            Ok(x.nan_to_num(a.float_or("nan", 0.0)?, optional(a, "posinf")?, optional(a, "neginf")?))
        },
    },
    Function {
        name: "isclose",
        form: "x, y, relative=1e-5, absolute=1e-8, nan_equal=false",
        about: "true where abs(x - y) <= absolute + relative * abs(y)",
        call: |a| close(a).map(|(x, y, near)| x.isclose(operand(&y), near)),
    },
    Function {
        name: "allclose",
        form: "x, y, relative=1e-5, absolute=1e-8, nan_equal=false",
        about: "whether all elements are close",
        call: |a| close(a).map(|(x, y, near)| x.allclose(operand(&y), near)),
    },
    Function {
        name: "elu",
        form: "x, alpha=1",
        about: "x, or alpha * (exp(x) - 1) where negative",
        call: |a| Ok(a.tensor("x")?.elu(a.float_or("alpha", 1.0)?)),
    },
    Function {
        name: "leaky_relu",
        form: "x, slope=0.01",
        about: "x, or slope * x where negative",
        call: |a| Ok(a.tensor("x")?.leaky_relu(a.float_or("slope", 0.01)?)),
    },
    Function {
        name: "tril",
        form: "x, diagonal=0",
        about: "the lower triangles of matrices",
        call: |a| Ok(a.tensor("x")?.tril(a.int_or("diagonal", 0)? as i64)),
    },
    Function {
        name: "triu",
        form: "x, diagonal=0",
        about: "the upper triangles of matrices",
        call: |a| Ok(a.tensor("x")?.triu(a.int_or("diagonal", 0)? as i64)),
    },
    Function {
        name: "full_like",
        form: "x, value",
        about: "one number everywhere, in the same shape and dtype",
        call: |a| {
            let x = a.tensor("x")?;
            Ok(x.full_like(number(a, Some(x.dtype()))?))
        },
    },
];

fn dtype(a: &mut Arguments<'_>) -> Result<DType, Trouble> {
    Ok(a.dtype_if("dtype")?.unwrap_or(DType::F32))
}

/// Tensors made of numbers.
pub const MAKERS: &[Function] = &[
    Function {
        name: "arange_by",
        form: "start, stop, step, dtype=f32",
        about: "start, start + step, ... up to but without stop",
        call: |a| Ok(Tensor::arange_by(a.float("start")?, a.float("stop")?, a.float("step")?, dtype(a)?)),
    },
    Function {
        name: "linspace",
        form: "start, stop, count, dtype=f32",
        about: "count numbers from start to stop, evenly apart",
        call: |a| Ok(Tensor::linspace(a.float("start")?, a.float("stop")?, a.count_or("count", 50)?, dtype(a)?)),
    },
    Function {
        name: "logspace",
        form: "start, stop, count, base=10, dtype=f32",
        about: "count powers of base",
        call: |a| {
            let (start, stop, count) = (a.float("start")?, a.float("stop")?, a.count_or("count", 50)?);
            Ok(Tensor::logspace(start, stop, count, a.float_or("base", 10.0)?, dtype(a)?))
        },
    },
    Function {
        name: "geomspace",
        form: "start, stop, count, dtype=f32",
        about: "count numbers, each the same multiple of the one before",
        call: |a| Ok(Tensor::geomspace(a.float("start")?, a.float("stop")?, a.count_or("count", 50)?, dtype(a)?)),
    },
    Function {
        name: "eye",
        form: "rows, columns, diagonal=0, dtype=f32",
        about: "ones on a diagonal",
        call: |a| {
            let (rows, columns) = (a.count("rows")?, a.count("columns")?);
            Ok(Tensor::eye(rows, columns, a.int_or("diagonal", 0)? as i64, dtype(a)?))
        },
    },
];
