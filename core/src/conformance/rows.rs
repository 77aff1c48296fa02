//! Row programs: each reduction in each dtype, and the programs that networks are made of.

use super::case::{Case, Operand};
use super::random::{Domain, Random};
use crate::error::Result;
use crate::what::{Binary, DType, Expr, ExprBuilder, Guard, Id, Op, Reduce, Scalar, Unary};

/// An index space of rows and how the input lies in it.
struct Space {
    layout: &'static str,
    dims: Vec<usize>,
    inner: usize,
    strides: Vec<isize>,
    shift: usize,
}

fn space(layout: &'static str, dims: &[usize], inner: usize, strides: &[isize]) -> Space {
    Space { layout, dims: dims.into(), inner, strides: strides.into(), shift: usize::from(layout == "misaligned") }
}

fn spaces() -> Vec<Space> {
    vec![
        space("rows", &[5, 37], 1, &[37, 1]),
        space("columns", &[37, 5], 1, &[1, 37]),
        space("misaligned", &[3, 65], 1, &[65, 1]),
        space("flipped", &[4, 19], 1, &[19, -1]),
        space("strided", &[4, 33], 1, &[80, 2]),
        space("several inner", &[3, 4, 5], 1, &[40, 5, 1]),
        space("outer and inner", &[2, 3, 2, 5], 2, &[5, 20, 10, 1]),
        space("all", &[1000], 0, &[1]),
        space("long", &[2, 4099], 1, &[4099, 1]),
        space("long columns", &[9, 700], 1, &[1, 9]),
        space("size 1", &[6, 1], 1, &[1, 1]),
        space("broadcast", &[4, 7], 1, &[1, 0]),
        space("empty row", &[3, 0], 1, &[0, 1]),
        space("no rows", &[0, 8], 1, &[8, 1]),
        space("windows", &[9, 4], 1, &[2, 1]),
    ]
}

impl Space {
    fn input(&self, dtype: DType) -> Operand {
        Operand::new(dtype, &self.dims, &self.strides, self.shift)
    }

    /// One value a row, contiguous.
    fn per_row(&self, dtype: DType) -> Operand {
        let mut strides = vec![0; self.dims.len()];
        let mut step = 1;
        for d in (0..self.inner).rev() {
            strides[d] = step;
            step *= self.dims[d] as isize;
        }
        Operand::new(dtype, &self.dims, &strides, self.shift)
    }

    /// One value an element, contiguous.
    fn per_element(&self, dtype: DType) -> Operand {
        Operand::new(dtype, &self.dims, &crate::what::row_major(&self.dims), self.shift)
    }

    fn case(&self, name: &str, dtype: DType, inputs: Vec<Operand>, expr: Expr, outputs: Vec<Operand>) -> Result<Case> {
        Case::new(name, dtype, self.layout, inputs, outputs, |i, o| Op::rows(&self.dims, self.inner, i, o, expr))
    }
}

/// Each reduction in each dtype; for a few dtypes over every layout.
pub(super) fn reductions(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    let spaces = spaces();
    for &r in Reduce::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| r.result(d).is_some()) {
            let all = matches!(dtype, DType::F32 | DType::I32 | DType::F16 | DType::U8);
            let turn = random.below(spaces.len());
            for (i, space) in spaces.iter().enumerate() {
                if !(all || i < 2 || i == turn) {
                    continue;
                }
                // Products of many ordinary numbers overflow: most stay near one.
                let domain = if r == Reduce::Prod { Domain::Small } else { Domain::Ordinary };
                out.push(reduction(r, dtype, space, domain, random)?);
            }
            if !dtype.is_complex() {
                // With NaN, infinities and the extremes of integers.
                out.push(reduction(r, dtype, &spaces[0], Domain::Any, random)?);
                // All equal: the first index wins.
                let mut case = reduction(r, dtype, &spaces[1], Domain::Small, random)?;
                for i in case.inputs_owned[0].clone() {
                    case.inputs[0].set(i, Scalar::one(dtype))?;
                }
                out.push(case);
            }
        }
    }
    Ok(out)
}

fn reduction(r: Reduce, dtype: DType, space: &Space, domain: Domain, random: &mut Random) -> Result<Case> {
    let mut b = ExprBuilder::new();
    let x = b.input(0, dtype);
    let y = b.reduce(r, x)?;
    let result = b.dtype(y);
    let input = space.input(dtype).random(random, domain)?;
    space.case(r.name(), dtype, vec![input], b.finish(&[y]), vec![space.per_row(result)])
}

/// The mean of a value over the row.
fn mean(b: &mut ExprBuilder, x: Id, length: usize) -> Result<Id> {
    let dtype = b.dtype(x);
    let sum = b.reduce(Reduce::Sum, x)?;
    let scale = b.constant(Scalar::from_f64(1.0 / length.max(1) as f64, dtype));
    b.binary(Binary::Mul, sum, scale)
}

/// Softmax, layer normalisation, variance, pooling and the like.
pub(super) fn programs(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for space in spaces() {
            if dtype != DType::F32 && random.below(3) > 0 {
                continue;
            }
            out.push(softmax(dtype, &space, random)?);
            out.push(layer_norm(dtype, &space, random)?);
            out.push(variance(dtype, &space, random)?);
        }
    }
    for dtype in [DType::F32, DType::I32, DType::F16] {
        out.push(pooling(dtype, random)?);
        out.push(accuracy(dtype, random)?);
        out.push(wide(dtype, random)?);
    }
    Ok(out)
}

fn softmax(dtype: DType, space: &Space, random: &mut Random) -> Result<Case> {
    let mut b = ExprBuilder::new();
    let x = b.input(0, dtype);
    let m = b.reduce(Reduce::Max, x)?;
    let d = b.binary(Binary::Sub, x, m)?;
    let e = b.unary(Unary::Exp, d)?;
    let s = b.reduce(Reduce::Sum, e)?;
    let y = b.binary(Binary::Div, e, s)?;
    let input = space.input(dtype).random(random, Domain::Ordinary)?;
    space.case("softmax", dtype, vec![input], b.finish(&[y]), vec![space.per_element(dtype)])
}

/// Normalised in f32, with a scale and a shift for each element, and the mean as a second output.
fn layer_norm(dtype: DType, space: &Space, random: &mut Random) -> Result<Case> {
    let length: usize = space.dims[space.inner..].iter().product();
    let mut b = ExprBuilder::new();
    let (x, scale, shift) = (b.input(0, dtype), b.input(1, dtype), b.input(2, dtype));
    let m = mean(&mut b, x, length)?;
    let d = b.binary(Binary::Sub, x, m)?;
    let square = b.binary(Binary::Mul, d, d)?;
    let v = mean(&mut b, square, length)?;
    let epsilon = b.param(0, dtype);
    let v = b.binary(Binary::Add, v, epsilon)?;
    let r = b.unary(Unary::Rsqrt, v)?;
    let y = b.binary(Binary::Mul, d, r)?;
    let y = b.binary(Binary::Mul, y, scale)?;
    let y = b.binary(Binary::Add, y, shift)?;
    // The same scale and shift for every row.
    let mut strides: Vec<isize> = crate::what::row_major(&space.dims).to_vec();
    strides[..space.inner].fill(0);
    let mut inputs = vec![space.input(dtype).random(random, Domain::Ordinary)?];
    for _ in 0..2 {
        inputs.push(Operand::new(dtype, &space.dims, &strides, 0).random(random, Domain::Small)?);
    }
    let outputs = vec![space.per_element(dtype), space.per_row(dtype)];
    let case = space.case("layer norm", dtype, inputs, b.finish(&[y, m]), outputs)?;
    Ok(case.with_params(vec![Scalar::from_f64(0.01, dtype)]))
}

/// Mean and variance, both for each row.
fn variance(dtype: DType, space: &Space, random: &mut Random) -> Result<Case> {
    let length: usize = space.dims[space.inner..].iter().product();
    let mut b = ExprBuilder::new();
    let x = b.input(0, dtype);
    let m = mean(&mut b, x, length)?;
    let d = b.binary(Binary::Sub, x, m)?;
    let square = b.binary(Binary::Mul, d, d)?;
    let v = mean(&mut b, square, length)?;
    let input = space.input(dtype).random(random, Domain::Ordinary)?;
    let outputs = vec![space.per_row(dtype), space.per_row(dtype)];
    space.case("variance", dtype, vec![input], b.finish(&[m, v]), outputs)
}

/// The maximum and its index over windows of 3 x 3, two apart, over images with a border of lowest values.
fn pooling(dtype: DType, random: &mut Random) -> Result<Case> {
    let (images, height, width) = (2usize, 8usize, 10usize);
    let dims = [images, 4, 5, 3, 3];
    let (h, w) = (height as isize, width as isize);
    let guards = vec![
        Guard { coefficients: [0, 2, 0, 1, 0].as_slice().into(), offset: -1, limit: height },
        Guard { coefficients: [0, 0, 2, 0, 1].as_slice().into(), offset: -1, limit: width },
    ];
    let input = Operand::sized(dtype, &[h * w, 2 * w, 2, w, 1], images * height * width, 0)
        .guarded(-w - 1, guards, Scalar::lowest(dtype))
        .random(random, Domain::Ordinary)?;
    let mut b = ExprBuilder::new();
    let x = b.input(0, dtype);
    let m = b.reduce(Reduce::Max, x)?;
    let at = b.reduce(Reduce::ArgMax, x)?;
    let outputs = [dtype, DType::I64].map(|d| Operand::new(d, &dims, &[20, 5, 1, 0, 0], 0)).to_vec();
    let expr = b.finish(&[m, at]);
    Case::new("pooling", dtype, "padded", vec![input], outputs, |i, o| Op::rows(&dims, 3, i, o, expr))
}

/// How often the index of the largest is the label: a comparison for each row of a reduction with another input.
fn accuracy(dtype: DType, random: &mut Random) -> Result<Case> {
    let dims = [11, 10];
    let mut b = ExprBuilder::new();
    let (x, label) = (b.input(0, dtype), b.input(1, DType::I64));
    let at = b.reduce(Reduce::ArgMax, x)?;
    let right = b.binary(Binary::Eq, at, label)?;
    let input = Operand::new(dtype, &dims, &[10, 1], 0).random(random, Domain::Ordinary)?;
    let labels = Operand::new(DType::I64, &dims, &[1, 0], 0).random(random, Domain::Small)?;
    let output = Operand::new(DType::Bool, &dims, &[1, 0], 0);
    let expr = b.finish(&[right]);
    Case::new("accuracy", dtype, "rows", vec![input, labels], vec![output], |i, o| Op::rows(&dims, 1, i, o, expr))
}

/// Several reductions of several expressions at once, and elements of another dtype beside them.
fn wide(dtype: DType, random: &mut Random) -> Result<Case> {
    let dims = [7, 45];
    let mut b = ExprBuilder::new();
    let (x, y) = (b.input(0, dtype), b.input(1, dtype));
    let p = b.binary(Binary::Mul, x, y)?;
    let dot = b.reduce(Reduce::Sum, p)?;
    let (low, high) = (b.reduce(Reduce::Min, x)?, b.reduce(Reduce::Max, y)?);
    let span = b.binary(Binary::Sub, high, low)?;
    let above = b.binary(Binary::Gt, x, dot)?;
    let last = b.reduce(Reduce::ArgMin, p)?;
    let mut inputs = Vec::new();
    for strides in [[45, 1], [0, 1]] {
        inputs.push(Operand::new(dtype, &dims, &strides, 0).random(random, Domain::Small)?);
    }
    let outputs = vec![
        Operand::new(dtype, &dims, &[1, 0], 0),
        Operand::new(dtype, &dims, &[2, 0], 0),
        Operand::new(DType::Bool, &dims, &[1, 7], 0),
        Operand::new(DType::I64, &dims, &[-1, 0], 0),
    ];
    let expr = b.finish(&[dot, span, above, last]);
    Case::new("several reductions", dtype, "rows", inputs, outputs, |i, o| Op::rows(&dims, 1, i, o, expr))
}
