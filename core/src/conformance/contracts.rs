//! Contractions: matmuls in every dtype and layout, einsums, convolutions, expressions before and behind.

use super::case::{Case, Operand};
use super::random::{Domain, Random};
use crate::error::Result;
use crate::what::{Accuracy, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar, Unary};

/// The dtype in which matmuls of this dtype are summed.
fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::I8 | DType::U8 => DType::I32,
        other => other,
    }
}

fn operand(input: u16, dtype: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(input, dtype);
    b.finish(&[x])
}

/// The sum in this dtype.
fn result(acc: DType, dtype: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let a = b.push(Node::Acc, acc);
    let y = b.cast(a, dtype);
    b.finish(&[y])
}

/// A matmul of two matrices, each with strides of its own: `c[m, n] = sum over k of a[m, k] * b[k, n]`.
struct Matmul {
    layout: &'static str,
    sizes: [usize; 3],
    /// Along m and k, along k and n, along m and n.
    a: [isize; 2],
    b: [isize; 2],
    c: [isize; 2],
    shift: usize,
}

impl Matmul {
    fn new(layout: &'static str, m: usize, n: usize, k: usize) -> Matmul {
        let (ni, ki) = (n as isize, k as isize);
        Matmul { layout, sizes: [m, n, k], a: [ki, 1], b: [ni, 1], c: [ni, 1], shift: 0 }
    }

    fn case(&self, name: &str, dtype: DType, output: DType, random: &mut Random) -> Result<Case> {
        let acc = accumulator(dtype);
        let parts = (operand(0, dtype), operand(1, dtype), result(acc, output));
        self.with(name, dtype, acc, parts, &[], &[output], random)
    }

    /// With expressions for the operands and the result, and further inputs that the latter reads.
    #[allow(clippy::too_many_arguments)]
    fn with(
        &self,
        name: &str,
        dtype: DType,
        acc: DType,
        (lhs, rhs, epilogue): (Expr, Expr, Expr),
        further: &[(DType, [isize; 2])],
        outputs: &[DType],
        random: &mut Random,
    ) -> Result<Case> {
        let dims = self.sizes;
        let mut inputs = vec![
            Operand::new(dtype, &dims, &[self.a[0], 0, self.a[1]], self.shift).random(random, Domain::Small)?,
            Operand::new(dtype, &dims, &[0, self.b[1], self.b[0]], self.shift * 2).random(random, Domain::Small)?,
        ];
        for &(d, [m, n]) in further {
            inputs.push(Operand::new(d, &dims, &[m, n, 0], 0).random(random, Domain::Small)?);
        }
        let outputs = outputs.iter().map(|&d| Operand::new(d, &dims, &[self.c[0], self.c[1], 0], self.shift)).collect();
        let contract = Contract { m: 0, n: 1, k: 2, lhs, rhs, acc, epilogue, accuracy: Default::default() };
        Case::new(name, dtype, self.layout, inputs, outputs, |i, o| Op::contract(&dims, i, o, contract))
    }
}

/// Matmuls: every dtype, sizes around tiles, every layout.
pub(super) fn matmuls(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    for dtype in DType::ALL {
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (17, 33, 19), (40, 24, 64)] {
            out.push(Matmul::new("rows", m, n, k).case("matmul", dtype, accumulator(dtype), random)?);
        }
        for (layout, a, b) in
            [("transposed", [1, 9], [11, 1]), ("transposed", [13, 1], [1, 13]), ("transposed", [1, 9], [1, 13])]
        {
            out.push(Matmul { a, b, ..Matmul::new(layout, 9, 11, 13) }.case(
                "matmul",
                dtype,
                accumulator(dtype),
                random,
            )?);
        }
    }
    for dtype in [DType::F32, DType::F16, DType::F64, DType::I32] {
        let done = accumulator(dtype);
        for (layout, m, n, k) in [
            ("vector", 1, 70, 45),
            ("vector", 70, 1, 45),
            ("vector", 1, 1, 300),
            ("outer", 20, 30, 1),
            ("nothing to sum", 5, 6, 0),
            ("empty", 0, 6, 4),
            ("empty", 5, 0, 4),
            ("tile edges", 65, 31, 33),
            ("tile edges", 16, 16, 16),
            ("deep", 7, 9, 700),
        ] {
            out.push(Matmul::new(layout, m, n, k).case("matmul", dtype, done, random)?);
        }
        let base = || Matmul::new("strided", 12, 10, 14);
        out.push(Matmul { a: [30, 2], b: [25, 2], c: [40, 3], ..base() }.case("matmul", dtype, done, random)?);
        let flipped = Matmul { layout: "flipped", a: [-14, 1], b: [10, -1], c: [-10, 1], ..base() };
        out.push(flipped.case("matmul", dtype, done, random)?);
        let back = Matmul { layout: "flipped", a: [14, -1], b: [-10, 1], c: [10, -1], ..base() };
        out.push(back.case("matmul", dtype, done, random)?);
        let broadcast = Matmul { layout: "broadcast", a: [0, 1], b: [1, 0], ..base() };
        out.push(broadcast.case("matmul", dtype, done, random)?);
        out.push(Matmul { layout: "misaligned", shift: 1, ..base() }.case("matmul", dtype, done, random)?);
        out.push(Matmul { layout: "transposed result", c: [1, 12], ..base() }.case("matmul", dtype, done, random)?);
    }
    out.push(Matmul::new("large", 130, 70, 260).case("matmul", DType::F32, DType::F32, random)?);
    out.push(Matmul::new("large", 70, 130, 130).case("matmul", DType::BF16, DType::BF16, random)?);
    // Several blocks of matrix units, read four at a time and one at a time, in both directions.
    out.push(Matmul::new("large", 132, 136, 76).case("matmul", DType::F16, DType::F16, random)?);
    let transposed = Matmul { a: [1, 132], b: [1, 76], ..Matmul::new("transposed", 132, 136, 76) };
    out.push(transposed.case("matmul", DType::F16, DType::F32, random)?);
    out.push(Matmul { shift: 1, ..Matmul::new("misaligned", 70, 68, 36) }.case(
        "matmul",
        DType::F16,
        DType::F16,
        random,
    )?);
    for dtype in [DType::F16, DType::BF16] {
        out.push(Matmul::new("half result", 20, 18, 30).case("matmul", dtype, dtype, random)?);
        // Chunks of eight, along either dimension of either operand; parts of K.
        for (a, b) in [([200, 1], [136, 1]), ([1, 72], [136, 1]), ([200, 1], [1, 200]), ([1, 72], [1, 200])] {
            let chunks = Matmul { a, b, ..Matmul::new("chunks of eight", 72, 136, 200) };
            out.push(chunks.case("matmul", dtype, dtype, random)?);
        }
        out.push(Matmul::new("deep", 24, 40, 1000).case("matmul", dtype, DType::F32, random)?);
        out.push(Matmul::new("tile edges", 65, 31, 33).case("matmul", dtype, DType::F32, random)?);
    }
    Ok(out)
}

/// Batches, einsums, convolutions, and expressions on all sides.
pub(super) fn forms(random: &mut Random) -> Result<Vec<Case>> {
    let mut out = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::C64] {
        out.push(batched(dtype, false, random)?);
        out.push(batched(dtype, true, random)?);
        out.push(einsum(dtype, random)?);
        out.push(biased(dtype, random)?);
        for stride in [1, 2] {
            out.push(convolution(dtype, 4, stride, 1, 1, random)?);
        }
    }
    // Few filters, and so many that vectors of them are worth while.
    for filters in [4, 8, 37] {
        out.push(convolution(DType::F32, filters, 1, 0, 1, random)?);
        out.push(convolution(DType::F32, filters, 1, 1, 1, random)?);
        out.push(convolution(DType::F32, filters, 2, 2, 2, random)?);
    }
    for (filters, padding) in [(1, 1), (8, 0), (37, 1)] {
        out.push(convolution_within(Accuracy::Winograd, DType::F32, filters, [1, padding, 1], random)?);
    }
    out.push(grouped_convolution(random)?);
    // A first layer, windows of one column, and of one element of many channels.
    for (window, stride, channels) in [([7, 7], 2, 3), ([3, 1], 1, 6), ([1, 1], 1, 17)] {
        out.push(convolution_in_lines(window, stride, channels, random)?);
    }
    for dtype in [DType::F32, DType::F16] {
        out.push(prologue(dtype, random)?);
        out.push(several_outputs(dtype, random)?);
    }
    Ok(out)
}

/// Two batch dimensions; the second matrix is shared along one of them if asked for.
fn batched(dtype: DType, shared: bool, random: &mut Random) -> Result<Case> {
    let acc = accumulator(dtype);
    let dims = [2usize, 3, 5, 6, 7];
    let b_strides: [isize; 5] = if shared { [42, 0, 0, 1, 6] } else { [126, 42, 0, 1, 6] };
    let inputs = vec![
        Operand::new(dtype, &dims, &[105, 35, 7, 0, 1], 0).random(random, Domain::Small)?,
        Operand::new(dtype, &dims, &b_strides, 0).random(random, Domain::Small)?,
    ];
    let outputs = vec![Operand::new(acc, &dims, &[30, 60, 6, 1, 0], 0)];
    let contract = Contract {
        m: 2,
        n: 3,
        k: 4,
        lhs: operand(0, dtype),
        rhs: operand(1, dtype),
        acc,
        epilogue: Expr::acc(acc),
        accuracy: Default::default(),
    };
    let layout = if shared { "broadcast" } else { "rows" };
    Case::new("batched matmul", dtype, layout, inputs, outputs, |i, o| Op::contract(&dims, i, o, contract))
}

/// `c[a, d, b, e] = sum over x, y of p[x, a, y, b] * q[y, d, e, x]`: groups of several dimensions that do not join.
fn einsum(dtype: DType, random: &mut Random) -> Result<Case> {
    let acc = accumulator(dtype);
    // a, b are the m dimensions, d, e the n dimensions, x, y the k dimensions.
    let dims = [2usize, 3, 4, 2, 3, 5];
    let inputs = vec![
        Operand::new(dtype, &dims, &[15, 1, 0, 0, 30, 3], 0).random(random, Domain::Small)?,
        Operand::new(dtype, &dims, &[0, 0, 6, 3, 1, 24], 0).random(random, Domain::Small)?,
    ];
    let outputs = vec![Operand::new(acc, &dims, &[24, 2, 6, 1, 0, 0], 0)];
    let contract = Contract {
        m: 0,
        n: 2,
        k: 4,
        lhs: operand(0, dtype),
        rhs: operand(1, dtype),
        acc,
        epilogue: Expr::acc(acc),
        accuracy: Default::default(),
    };
    Case::new("einsum", dtype, "permuted", inputs, outputs, |i, o| Op::contract(&dims, i, o, contract))
}

/// A bias for each column and a factor, then the larger of the result and zero where there is an order.
fn biased(dtype: DType, random: &mut Random) -> Result<Case> {
    let acc = accumulator(dtype);
    let mut b = ExprBuilder::new();
    let (sum, bias, factor) = (b.push(Node::Acc, acc), b.input(2, dtype), b.param(0, acc));
    let bias = b.cast(bias, acc);
    let y = b.binary(Binary::Mul, sum, factor)?;
    let y = b.binary(Binary::Add, y, bias)?;
    let y = if dtype.is_complex() {
        y
    } else {
        let zero = b.constant(Scalar::zero(acc));
        b.binary(Binary::Max, y, zero)?
    };
    let y = b.cast(y, dtype);
    let parts = (operand(0, dtype), operand(1, dtype), b.finish(&[y]));
    let case =
        Matmul::new("rows", 19, 21, 18).with("linear", dtype, acc, parts, &[(dtype, [0, 1])], &[dtype], random)?;
    Ok(case.with_params(vec![Scalar::from_f64(2.0, acc)]))
}

/// Operands that are computed where they are read: `relu(a) * s` and `-b`.
fn prologue(dtype: DType, random: &mut Random) -> Result<Case> {
    let acc = accumulator(dtype);
    let mut b = ExprBuilder::new();
    let (x, s, zero) = (b.input(0, dtype), b.param(0, dtype), b.constant(Scalar::zero(dtype)));
    let positive = b.binary(Binary::Max, x, zero)?;
    let scaled = b.binary(Binary::Mul, positive, s)?;
    let lhs = b.finish(&[scaled]);
    let mut b = ExprBuilder::new();
    let x = b.input(1, dtype);
    let x = b.unary(Unary::Tanh, x)?;
    let rhs = b.finish(&[x]);
    let matmul = Matmul::new("rows", 14, 17, 22);
    let case = matmul.with("computed operands", dtype, acc, (lhs, rhs, result(acc, dtype)), &[], &[dtype], random)?;
    Ok(case.with_params(vec![Scalar::from_f64(0.75, dtype)]))
}

/// The sum, its sigmoid plus another matrix, and a comparison, each to an output of its own.
fn several_outputs(dtype: DType, random: &mut Random) -> Result<Case> {
    let acc = accumulator(dtype);
    let mut b = ExprBuilder::new();
    let (sum, other) = (b.push(Node::Acc, acc), b.input(2, dtype));
    let other = b.cast(other, acc);
    let gate = b.unary(Unary::Sigmoid, sum)?;
    let y = b.binary(Binary::Add, gate, other)?;
    let above = b.binary(Binary::Gt, sum, other)?;
    let y = b.cast(y, dtype);
    let parts = (operand(0, dtype), operand(1, dtype), b.finish(&[sum, y, above]));
    let outputs = [acc, dtype, DType::Bool];
    Matmul::new("rows", 13, 15, 12).with("several outputs", dtype, acc, parts, &[(dtype, [15, 1])], &outputs, random)
}

/// A convolution of images (channels first) with padding, read through guards.
fn convolution(
    dtype: DType,
    filters: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    random: &mut Random,
) -> Result<Case> {
    convolution_within(Accuracy::Full, dtype, filters, [stride, padding, dilation], random)
}

/// The same, with this accuracy.
fn convolution_within(
    accuracy: Accuracy,
    dtype: DType,
    filters: usize,
    [stride, padding, dilation]: [usize; 3],
    random: &mut Random,
) -> Result<Case> {
    let acc = accumulator(dtype);
    let (images, channels, height, width, size) = (2usize, 3usize, 7usize, 8usize, 3usize);
    let outer = |n: usize| (n + 2 * padding - dilation * (size - 1) - 1) / stride + 1;
    let (rows, columns) = (outer(height), outer(width));
    // m: image, row, column; n: filter; k: channel, row and column of the filter.
    let dims = [images, rows, columns, filters, channels, size, size];
    let (s, p, d) = (stride as isize, padding as isize, dilation as isize);
    let (w, plane) = (width as isize, (height * width) as isize);
    let strides = [channels as isize * plane, s * w, s, 0, plane, d * w, d];
    let mut image = Operand::sized(dtype, &strides, images * channels * height * width, 0);
    if padding > 0 {
        let guards = vec![
            Guard { coefficients: [0, s, 0, 0, 0, d, 0].as_slice().into(), offset: -p, limit: height },
            Guard { coefficients: [0, 0, s, 0, 0, 0, d].as_slice().into(), offset: -p, limit: width },
        ];
        image = image.guarded(-p * w - p, guards, Scalar::zero(dtype));
    }
    let taps = (size * size) as isize;
    let filter_strides = [0, 0, 0, channels as isize * taps, taps, size as isize, 1];
    let inputs = vec![
        image.random(random, Domain::Small)?,
        Operand::new(dtype, &dims, &filter_strides, 0).random(random, Domain::Small)?,
    ];
    let (r, c) = (rows as isize, columns as isize);
    let outputs = vec![Operand::new(acc, &dims, &[filters as isize * r * c, c, 1, r * c, 0, 0, 0], 0)];
    let contract = Contract {
        m: 0,
        n: 3,
        k: 4,
        lhs: operand(0, dtype),
        rhs: operand(1, dtype),
        acc,
        epilogue: Expr::acc(acc),
        accuracy,
    };
    let layout = if padding > 0 { "padded" } else { "windows" };
    let name = match accuracy {
        Accuracy::Full => "convolution",
        Accuracy::Winograd => "convolution, Winograd allowed",
    };
    Case::new(name, dtype, layout, inputs, outputs, |i, o| Op::contract(&dims, i, o, contract))
}

/// A padded convolution of one image with channels first whose pixels, lines of whole vectors, are columns of the result.
fn convolution_in_lines(window: [usize; 2], stride: usize, channels: usize, random: &mut Random) -> Result<Case> {
    let dtype = DType::F32;
    let (filters, rows, columns, [height, width]) = (17usize, 9usize, 32usize, window);
    // As much before the first row and column as behind the last, and at least one.
    let padding = [height, width].map(|size| size / 2 + usize::from(size == 1));
    let size = |pixels: usize, window: usize, padding: usize| (pixels - 1) * stride + window - 2 * padding;
    let (h, w) = (size(rows, height, padding[0]), size(columns, width, padding[1]));
    let dims = [filters, rows, columns, channels, height, width];
    let (s, [y, x]) = (stride as isize, padding.map(|p| p as isize));
    let guards = vec![
        Guard { coefficients: [0, s, 0, 0, 1, 0].as_slice().into(), offset: -y, limit: h },
        Guard { coefficients: [0, 0, s, 0, 0, 1].as_slice().into(), offset: -x, limit: w },
    ];
    let strides = [0, s * w as isize, s, (h * w) as isize, w as isize, 1];
    let image = Operand::sized(dtype, &strides, channels * h * w, 0);
    let image = image.guarded(-y * w as isize - x, guards, Scalar::zero(dtype));
    let taps = (height * width) as isize;
    let inputs = vec![
        Operand::new(dtype, &dims, &[channels as isize * taps, 0, 0, taps, width as isize, 1], 0)
            .random(random, Domain::Small)?,
        image.random(random, Domain::Small)?,
    ];
    let outputs = vec![Operand::new(dtype, &dims, &[(rows * columns) as isize, columns as isize, 1, 0, 0, 0], 0)];
    let contract = Contract {
        m: 0,
        n: 1,
        k: 3,
        lhs: operand(0, dtype),
        rhs: operand(1, dtype),
        acc: dtype,
        epilogue: Expr::acc(dtype),
        accuracy: Default::default(),
    };
    Case::new("convolution in lines", dtype, "padded", inputs, outputs, |i, o| Op::contract(&dims, i, o, contract))
}

/// One filter for each channel: the channel is a batch dimension, and there is nothing in n.
fn grouped_convolution(random: &mut Random) -> Result<Case> {
    let dtype = DType::F32;
    let dims = [3usize, 6, 7, 3, 3];
    let guards = vec![
        Guard { coefficients: [0, 1, 0, 1, 0].as_slice().into(), offset: -1, limit: 6 },
        Guard { coefficients: [0, 0, 1, 0, 1].as_slice().into(), offset: -1, limit: 7 },
    ];
    let image = Operand::sized(dtype, &[42, 7, 1, 7, 1], 126, 0).guarded(-8, guards, Scalar::zero(dtype));
    let inputs = vec![
        image.random(random, Domain::Small)?,
        Operand::new(dtype, &dims, &[9, 0, 0, 3, 1], 0).random(random, Domain::Small)?,
    ];
    let outputs = vec![Operand::new(dtype, &dims, &[42, 7, 1, 0, 0], 0)];
    let contract = Contract {
        m: 1,
        n: 3,
        k: 3,
        lhs: operand(0, dtype),
        rhs: operand(1, dtype),
        acc: dtype,
        epilogue: Expr::acc(dtype),
        accuracy: Default::default(),
    };
    Case::new("grouped convolution", dtype, "padded", inputs, outputs, |i, o| Op::contract(&dims, i, o, contract))
}
