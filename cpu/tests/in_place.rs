//! Matmuls of which one operand is read in place against the reference, on one thread and on two: the right one a few columns at
//! a time, or the rows of the left one element by element; and windows whose pixels lie in lines of whole vectors.

mod common;

use common::{Random, backends, check, check_with, extent};
use millstream_core::backend::Backend;
use millstream_core::what::HostTensor;
use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar};
use millstream_cpu::{CpuBackend, Isa};

fn input(n: u16) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(n, DType::F32);
    b.finish(&[x])
}

/// Sums of products of the two inputs; dimensions: a batch | one | others before `k` | K.
fn contract(k: usize, epilogue: Expr) -> Contract {
    let (lhs, rhs) = (input(0), input(1));
    Contract { m: 1, n: 2, k, lhs, rhs, acc: DType::F32, epilogue, accuracy: Default::default() }
}

/// The epilogue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// They are the result.
    Nothing,
    /// A bias for each filter, a residual, the larger of that and zero.
    Residual,
    /// Every other plain step, with a number of the launch.
    Steps,
    /// A step that no chain has.
    Quotient,
}

/// Which operand is read in place; the other one are filters, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unpacked {
    Columns,
    Rows,
}

/// Some matmuls that share the filters.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: Unpacked,
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    /// Elements between rows of the operand that is read in place, of the residual and of the result beyond those of a row.
    more: usize,
    then: Then,
}

impl Case {
    fn epilogue(&self) -> Expr {
        let mut e = ExprBuilder::new();
        let acc = e.push(Node::Acc, DType::F32);
        if self.then == Then::Nothing {
            return e.finish(&[acc]);
        }
        let (bias, residual, scale) = (e.input(2, DType::F32), e.input(3, DType::F32), e.param(0, DType::F32));
        let zero = e.constant(Scalar::new(0f32));
        let mut binary = |op, a, b| e.binary(op, a, b).unwrap();
        let out = match self.then {
            Then::Steps => {
                let x = binary(Binary::Sub, acc, bias);
                let x = binary(Binary::Mul, x, scale);
                let x = binary(Binary::Min, residual, x);
                binary(Binary::Max, x, bias)
            }
            then => {
                let x = binary(Binary::Add, acc, bias);
                let x = binary(Binary::Add, residual, x);
                let x = if then == Then::Quotient { binary(Binary::Div, x, scale) } else { x };
                binary(Binary::Max, x, zero)
            }
        };
        e.finish(&[out])
    }

    fn op(&self) -> Op {
        let Case { batch, m, n, k, more, .. } = *self;
        let access = |strides: [usize; 4]| Access::new(DType::F32, &strides.map(|s| s as isize));
        let (wide, deep) = (n + more, k + more);
        let (mut inputs, bias) = match self.what {
            Unpacked::Columns => (vec![access([0, k, 0, 1]), access([k * wide, 0, 1, wide])], [0, 1, 0, 0]),
            Unpacked::Rows => (vec![access([m * deep, deep, 0, 1]), access([0, 0, k, 1])], [0, 0, 1, 0]),
        };
        if self.then != Then::Nothing {
            inputs.extend([access(bias), access([m * wide, wide, 1, 0])]);
        }
        let contract = contract(3, self.epilogue());
        Op::contract(&[batch, m, n, k], inputs, vec![access([m * wide, wide, 1, 0])], contract).unwrap()
    }

    fn check(&self, random: &mut Random) {
        println!("{self:?}");
        let op = self.op();
        match self.what {
            Unpacked::Columns => assert!(is_known(&op, "columns"), "{self:?}"),
            // Long rows are packed where panels are narrow.
            Unpacked::Rows => {
                let wide = |b: &CpuBackend| b.isa() == Isa::Avx512;
                let known = |b: &CpuBackend| b.variants(&op).iter().any(|v| v.variant.family.name() == "direct");
                assert!(backends().iter().all(|b| !wide(b) || known(b)), "{self:?}");
                assert!(self.k >= 256 || is_known(&op, "direct"), "{self:?}");
            }
        }
        check(&op, random, &[Scalar::new(0.75f32)]);
    }
}

/// Whether the kernels are among those that the cost model may choose, where the machine has them.
fn is_known(op: &Op, family: &str) -> bool {
    let narrow = |b: &CpuBackend| matches!(b.isa(), Isa::Avx2 | Isa::Neon);
    backends().iter().all(|b| !narrow(b) || b.variants(op).iter().any(|v| v.variant.family.name() == family))
}

#[test]
fn rows_columns_and_k_that_fill_no_panel_agree_with_any_epilogue() {
    let mut random = Random::new();
    for (what, then) in [Unpacked::Columns, Unpacked::Rows]
        .into_iter()
        .flat_map(|what| [Then::Nothing, Then::Residual, Then::Steps, Then::Quotient].map(|then| (what, then)))
    {
        for (m, n, k, more) in
            [(12, 16, 8, 0), (13, 17, 9, 3), (37, 31, 70, 0), (64, 49, 300, 1), (100, 130, 33, 2), (40, 80, 70, 0)]
        {
            Case { what, batch: 1, m, n, k, more, then }.check(&mut random);
        }
    }
}

#[test]
fn several_parts_of_rows_columns_and_k_agree() {
    let mut random = Random::new();
    for what in [Unpacked::Columns, Unpacked::Rows] {
        Case { what, batch: 1, m: 400, n: 196, k: 261, more: 0, then: Then::Residual }.check(&mut random);
        Case { what, batch: 3, m: 25, n: 300, k: 40, more: 5, then: Then::Residual }.check(&mut random);
        // Several tall tiles, and accumulators of an earlier pass.
        Case { what, batch: 1, m: 64, n: 24, k: 300, more: 0, then: Then::Residual }.check(&mut random);
        // Wide panels have longer passes.
        Case { what, batch: 1, m: 50, n: 144, k: 1100, more: 0, then: Then::Residual }.check(&mut random);
        // So many filters are packed in portions; there are other matmuls between them.
        let batch = if what == Unpacked::Rows { 2 } else { 1 };
        Case { what, batch, m: 13, n: 700, k: 1100, more: 0, then: Then::Residual }.check(&mut random);
    }
}

#[test]
fn random_matmuls_agree() {
    let mut random = Random::new();
    for _ in 0..24 {
        let mut from = |least: usize, more: usize| least + random.below(more);
        let then = [Then::Nothing, Then::Residual, Then::Steps][from(0, 3)];
        let what = [Unpacked::Columns, Unpacked::Rows][from(0, 2)];
        let case =
            Case { what, batch: from(1, 2), m: from(12, 80), n: from(16, 150), k: from(8, 90), more: from(0, 4), then };
        case.check(&mut random);
    }
}

#[test]
fn a_number_that_is_none_stays_so_through_every_step() {
    let mut random = Random::new();
    let case = Case { what: Unpacked::Columns, batch: 1, m: 20, n: 40, k: 12, more: 0, then: Then::Residual };
    let op = case.op();
    let tensor =
        |random: &mut Random, i: usize| -> HostTensor { random.tensor(DType::F32, extent(&op.inputs[i], &op.dims).0) };
    let mut inputs: Vec<HostTensor> = (0..4).map(|i| tensor(&mut random, i)).collect();
    let (row, column) = (random.below(20), random.below(40));
    inputs[0].set(row * 12 + random.below(12), Scalar::new(f32::NAN)).unwrap();
    inputs[3].set(random.below(20) * 40 + column, Scalar::new(f32::NAN)).unwrap();
    inputs[2].set(random.below(20), Scalar::new(f32::INFINITY)).unwrap();
    check_with(&op, &inputs, &[Scalar::new(1f32)]);
}

#[test]
fn images_of_which_pixels_are_left_out_are_copied_first() {
    let mut random = Random::new();
    // filter[f, c] * image[n, c, 2 * h, 3 * w]; dimensions: n | f | h, w | c
    let (batch, f, c, h, w) = (2, 14, 11, 5, 7);
    let (rows, columns) = (2 * h - 1, 3 * w);
    let access = |strides: [usize; 5]| Access::new(DType::F32, &strides.map(|s| s as isize));
    let image = access([c * rows * columns, 0, 2 * columns, 3, rows * columns]);
    let contract = contract(4, Expr::acc(DType::F32));
    let result = access([f * h * w, h * w, w, 1, 0]);
    let inputs = vec![access([0, c, 0, 0, 1]), image];
    let op = Op::contract(&[batch, f, h, w, c], inputs, vec![result], contract).unwrap();
    assert!(is_known(&op, "columns"));
    check(&op, &mut random, &[]);
}

/// A convolution: filter[f, c, r, s] by windows of image[n, c, stride * h + dilation * r - border, ...], of `h` lines of `w` pixels.
/// Dimensions: n | f | h, w | c, r, s.
#[derive(Clone, Copy, Debug)]
struct Windows {
    batch: usize,
    f: usize,
    c: usize,
    pixels: (usize, usize),
    window: (usize, usize),
    stride: (usize, usize),
    dilation: (usize, usize),
    /// Rows and columns before the image's first, of which elements count as `fill`; none for windows inside the image.
    border: Option<(usize, usize)>,
    fill: f32,
}

impl Windows {
    /// Rows and columns of the image: with a border it is that much smaller than what windows reach, but for one more row and column at its end.
    fn image(&self) -> (usize, usize) {
        let Windows { pixels: (h, w), window: (r, s), stride, dilation, border, .. } = *self;
        let reach = |pixels: usize, window: usize, stride: usize, dilation: usize| {
            (pixels - 1) * stride + (window - 1) * dilation + 1
        };
        let (high, wide) = (reach(h, r, stride.0, dilation.0), reach(w, s, stride.1, dilation.1));
        let inside = |size: usize, border: usize| (size + 1).saturating_sub(2 * border).max(1);
        border.map_or((high, wide), |(y, x)| (inside(high, y), inside(wide, x)))
    }

    /// Checks it with the whole image in memory, of which windows may leave out the end.
    fn check(&self, random: &mut Random) {
        println!("{self:?}");
        let (op, (rows, columns)) = (self.op(), self.image());
        let filter = random.tensor(DType::F32, extent(&op.inputs[0], &op.dims).0);
        let image = random.tensor(DType::F32, self.batch * self.c * rows * columns);
        check_with(&op, &[filter, image], &[]);
    }

    fn op(&self) -> Op {
        let Windows { batch, f, c, pixels: (h, w), window: (r, s), stride, dilation, border, fill } = *self;
        let access = |strides: [usize; 7]| Access::new(DType::F32, &strides.map(|s| s as isize));
        let (rows, columns) = self.image();
        let mut image = access([
            c * rows * columns,
            0,
            stride.0 * columns,
            stride.1,
            rows * columns,
            dilation.0 * columns,
            dilation.1,
        ]);
        if let Some((y, x)) = border {
            image.base = -((y * columns + x) as isize);
            image.fill = Scalar::new(fill);
            let guard = |coefficients: [usize; 7], before: usize, limit: usize| Guard {
                coefficients: coefficients.map(|c| c as isize).as_slice().into(),
                offset: -(before as isize),
                limit,
            };
            image.guards.push(guard([0, 0, stride.0, 0, 0, dilation.0, 0], y, rows));
            image.guards.push(guard([0, 0, 0, stride.1, 0, 0, dilation.1], x, columns));
        }
        let contract = contract(4, Expr::acc(DType::F32));
        let filter = access([0, c * r * s, 0, 0, r * s, s, 1]);
        let result = access([f * h * w, h * w, w, 1, 0, 0, 0]);
        Op::contract(&[batch, f, h, w, c, r, s], vec![filter, image], vec![result], contract).unwrap()
    }
}

#[test]
fn windows_in_lines_of_whole_vectors_agree_whatever_their_stride_and_border() {
    let mut random = Random::new();
    let stem = Windows {
        batch: 1,
        f: 14,
        c: 3,
        pixels: (9, 48),
        window: (7, 7),
        stride: (2, 2),
        dilation: (1, 1),
        border: Some((3, 3)),
        fill: 0.0,
    };
    for windows in [
        stem,
        // Two images, another fill, phases that are not pairs.
        Windows { batch: 2, stride: (1, 3), pixels: (5, 16), window: (2, 4), border: Some((1, 2)), fill: 7.5, ..stem },
        // K of several phases, with gaps; more lines than tasks.
        Windows { dilation: (2, 3), pixels: (37, 80), window: (3, 3), border: Some((2, 3)), ..stem },
        Windows { stride: (1, 1), pixels: (20, 64), window: (3, 3), border: Some((1, 1)), c: 11, ..stem },
        // So deep that accumulators wait between passes.
        Windows { stride: (1, 2), pixels: (4, 32), window: (3, 3), border: Some((1, 1)), c: 70, f: 13, ..stem },
        // One row of a window, and more border than image.
        Windows { stride: (1, 2), pixels: (5, 16), window: (1, 31), border: Some((0, 15)), ..stem },
        // Windows of one column, and of one element: lines of the copy touch each other.
        Windows { stride: (1, 1), pixels: (8, 32), window: (3, 1), border: Some((1, 1)), c: 6, ..stem },
        Windows { stride: (1, 1), pixels: (9, 32), window: (1, 1), border: Some((2, 1)), c: 17, ..stem },
        // Inside the image: in place.
        Windows { stride: (1, 1), pixels: (6, 32), window: (3, 5), border: None, c: 5, ..stem },
        Windows { stride: (2, 1), dilation: (1, 2), pixels: (4, 16), window: (3, 3), border: None, batch: 2, ..stem },
    ] {
        let op = windows.op();
        // Strips are wide enough with these vectors only.
        let wide = |b: &CpuBackend| b.isa() == Isa::Avx512;
        let known = |b: &CpuBackend| b.variants(&op).iter().any(|v| v.variant.family.name() == "columns");
        assert!(backends().iter().all(|b| !wide(b) || known(b)), "{windows:?}");
        windows.check(&mut random);
    }
}

#[test]
fn random_windows_agree() {
    let mut random = Random::new();
    for _ in 0..24 {
        let mut from = |least: usize, more: usize| least + random.below(more);
        let window = (from(1, 4), from(1, 5));
        let windows = Windows {
            batch: from(1, 2),
            f: from(12, 20),
            c: from(1, 6),
            pixels: (from(2, 12), 16 * from(1, 4)),
            window,
            stride: (from(1, 3), from(1, 4)),
            dilation: (from(1, 2), from(1, 2)),
            border: Some((from(0, window.0), from(0, window.1))).filter(|_| random.below(3) > 0),
            fill: [0.0, -1.25][random.below(2)],
        };
        windows.check(&mut random);
    }
}
