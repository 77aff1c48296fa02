//! Products of which one operand is read where it lies against the reference, on one thread and on two: the right one a few columns at
//! a time, or the rows of the left one element by element.

mod common;

use common::{Random, backends, check, check_with, extent};
use millstream_core::backend::Backend;
use millstream_core::what::HostTensor;
use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Node, Op, Scalar};
use millstream_cpu::{CpuBackend, Isa};

fn input(n: u16) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(n, DType::F32);
    b.finish(&[x])
}

/// What becomes of sums.
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

/// Which operand is read where it lies; the other one are filters, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InPlace {
    Columns,
    Rows,
}

/// Some products of matrices that share the filters.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: InPlace,
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
            InPlace::Columns => (vec![access([0, k, 0, 1]), access([k * wide, 0, 1, wide])], [0, 1, 0, 0]),
            InPlace::Rows => (vec![access([m * deep, deep, 0, 1]), access([0, 0, k, 1])], [0, 0, 1, 0]),
        };
        if self.then != Then::Nothing {
            inputs.extend([access(bias), access([m * wide, wide, 1, 0])]);
        }
        let contract = Contract {
            m: 1,
            n: 2,
            k: 3,
            lhs: input(0),
            rhs: input(1),
            acc: DType::F32,
            epilogue: self.epilogue(),
            accuracy: Default::default(),
        };
        Op::contract(&[batch, m, n, k], inputs, vec![access([m * wide, wide, 1, 0])], contract).unwrap()
    }

    fn check(&self, random: &mut Random) {
        println!("{self:?}");
        let op = self.op();
        match self.what {
            InPlace::Columns => assert!(is_known(&op, "columns"), "{self:?}"),
            // Long rows are packed where panels are narrow.
            InPlace::Rows => {
                let wide = |b: &CpuBackend| b.isa() == Isa::Avx512;
                let known = |b: &CpuBackend| b.variants(&op).iter().any(|v| v.family == "direct");
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
    backends().iter().all(|b| !narrow(b) || b.variants(op).iter().any(|v| v.family == family))
}

#[test]
fn rows_columns_and_depths_that_fill_no_panel_agree_whatever_becomes_of_sums() {
    let mut random = Random::new();
    for (what, then) in [InPlace::Columns, InPlace::Rows]
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
fn several_parts_of_rows_chunks_of_columns_and_pieces_of_depth_agree() {
    let mut random = Random::new();
    for what in [InPlace::Columns, InPlace::Rows] {
        Case { what, batch: 1, m: 400, n: 196, k: 261, more: 0, then: Then::Residual }.check(&mut random);
        Case { what, batch: 3, m: 25, n: 300, k: 40, more: 5, then: Then::Residual }.check(&mut random);
        // Several tall tiles, and sums of an earlier pass.
        Case { what, batch: 1, m: 64, n: 24, k: 300, more: 0, then: Then::Residual }.check(&mut random);
        // Wide panels have longer passes.
        Case { what, batch: 1, m: 50, n: 144, k: 1100, more: 0, then: Then::Residual }.check(&mut random);
        // So many filters are packed in portions; there are other products between them.
        let batch = if what == InPlace::Rows { 2 } else { 1 };
        Case { what, batch, m: 13, n: 700, k: 1100, more: 0, then: Then::Residual }.check(&mut random);
    }
}

#[test]
fn random_products_agree() {
    let mut random = Random::new();
    for _ in 0..24 {
        let mut from = |least: usize, more: usize| least + random.below(more);
        let then = [Then::Nothing, Then::Residual, Then::Steps][from(0, 3)];
        let what = [InPlace::Columns, InPlace::Rows][from(0, 2)];
        let case =
            Case { what, batch: from(1, 2), m: from(12, 80), n: from(16, 150), k: from(8, 90), more: from(0, 4), then };
        case.check(&mut random);
    }
}

#[test]
fn a_number_that_is_none_stays_so_through_every_step() {
    let mut random = Random::new();
    let case = Case { what: InPlace::Columns, batch: 1, m: 20, n: 40, k: 12, more: 0, then: Then::Residual };
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
fn images_of_which_places_are_left_out_are_copied_first() {
    let mut random = Random::new();
    // filter[f, c] * image[n, c, 2 * h, 3 * w]; dimensions: n | f | h, w | c
    let (batch, f, c, h, w) = (2, 14, 11, 5, 7);
    let (rows, columns) = (2 * h - 1, 3 * w);
    let access = |strides: [usize; 5]| Access::new(DType::F32, &strides.map(|s| s as isize));
    let image = access([c * rows * columns, 0, 2 * columns, 3, rows * columns]);
    let contract = Contract {
        m: 1,
        n: 2,
        k: 4,
        lhs: input(0),
        rhs: input(1),
        acc: DType::F32,
        epilogue: Expr::acc(DType::F32),
        accuracy: Default::default(),
    };
    let result = access([f * h * w, h * w, w, 1, 0]);
    let inputs = vec![access([0, c, 0, 0, 1]), image];
    let op = Op::contract(&[batch, f, h, w, c], inputs, vec![result], contract).unwrap();
    assert!(is_known(&op, "columns"));
    check(&op, &mut random, &[]);
}
