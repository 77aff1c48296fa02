//! Row programs against the reference.

use millstream_core::{Access, Binary, DType, Expr, ExprBuilder, Guard, Id, Node, Op, Reduce, Scalar, Unary};

use super::RowsKernel;
use crate::program::testing::{Random, access, check, machine, reach};
use crate::simd::Isa;

fn inputs(r: &mut Random, op: &Op) -> Vec<millstream_core::what::HostTensor> {
    op.inputs
        .iter()
        .map(|a| {
            let (low, high) = reach(a, &op.dims);
            r.tensor(a.dtype, (high - low) as usize, (-low) as usize)
        })
        .collect()
}

fn random_case(r: &mut Random, isa: Isa, nodes: usize) {
    let rank = 1 + r.below(3);
    let inner = r.below(rank + 1);
    let dims: Vec<usize> = (0..rank)
        .map(|_| {
            let most = r.pick(&[1, 3, 9, 40]);
            1 + r.below(most) - usize::from(r.below(60) == 0)
        })
        .collect();
    let dtypes: Vec<DType> = (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect();
    let mut params = Vec::new();
    let (b, pool) = r.expr(&dtypes, &mut params, rank, nodes, true);
    let wanted: Vec<Id> =
        (0..1 + r.below(2)).map(|i| if i == 0 { pool[pool.len() - 1] } else { r.pick(&pool) }).collect();
    let out_types: Vec<DType> = wanted.iter().map(|&o| b.dtype(o)).collect();
    let expr = b.finish(&wanted);
    let accesses: Vec<Access> = dtypes
        .iter()
        .map(|&d| {
            let mut a = access(r, d, &dims, false);
            if r.below(6) == 0 {
                let d = r.below(rank);
                let mut coefficients = vec![0isize; rank];
                coefficients[d] = r.pick(&[1, 1, 2, -1]);
                let (offset, limit) = (r.below(7) as isize - 3, 1 + r.below(dims[d].max(1) + 2));
                a.guards.push(Guard { coefficients: coefficients.as_slice().into(), offset, limit });
                a.fill = r.scalar(a.dtype);
            }
            a
        })
        .collect();
    let body = millstream_core::Body::Rows { inner, expr: expr.clone() };
    let varies = Op::new(dims.as_slice().into(), accesses.clone(), vec![], body).varying();
    let outs: Vec<Access> = expr
        .outputs()
        .iter()
        .zip(&out_types)
        .map(|(id, &d)| {
            let mut a = access(r, d, &dims, true);
            if !varies[id.at()] && r.below(2) == 0 {
                // One for each row; neighbouring rows may then be neighbours in memory.
                let mut next = 1;
                for i in (0..rank).rev() {
                    a.strides[i] = if i < inner { next } else { 0 };
                    next *= if i < inner { dims[i].max(1) as isize } else { 1 };
                }
            }
            a
        })
        .collect();
    let Ok(op) = Op::rows(&dims, inner, accesses, outs, expr) else { return };
    let inputs = inputs(r, &op);
    let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
    check(&op, &*kernel, &inputs, &params, r.below(8) == 0);
}

#[test]
fn random_row_programs_give_what_the_reference_gives() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for round in 0..400 {
            let seed = r.0;
            let case = || random_case(&mut r, isa, 1 + round % 12);
            if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(case)) {
                eprintln!("MILLSTREAM_SEED={seed} {isa:?} round {round}");
                std::panic::resume_unwind(e);
            }
        }
    }
}

/// The sum, largest and index of the largest over the last `rank - inner` dimensions.
fn reductions(dtype: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(0, dtype);
    let all: Vec<Id> = [Reduce::Sum, Reduce::Max, Reduce::ArgMax, Reduce::Min, Reduce::ArgMin]
        .iter()
        .map(|&r| b.reduce(r, x).unwrap())
        .collect();
    b.finish(&all)
}

#[test]
fn rows_of_every_length_and_layout_are_reduced_right() {
    let mut r = Random::fresh();
    let isa = Isa::detect();
    for dtype in [DType::F32, DType::F64, DType::I32, DType::F16, DType::U8] {
        for (rows, row) in
            [(3usize, 5000usize), (700, 3), (129, 64), (1, 70_000), (300, 1500), (5, 0), (0, 5), (2, 130)]
        {
            for transposed in [false, true] {
                let strides = if transposed { [1, rows.max(1) as isize] } else { [row as isize, 1] };
                let outs = [dtype, dtype, DType::I64, dtype, DType::I64];
                let outs = outs.iter().map(|&d| Access::new(d, &[1, 0])).collect();
                let op =
                    Op::rows(&[rows, row], 1, vec![Access::new(dtype, &strides)], outs, reductions(dtype)).unwrap();
                let x = inputs(&mut r, &op);
                let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
                check(&op, &*kernel, &x, &[], false);
            }
        }
    }
}

#[test]
fn wide_columns_are_reduced_four_elements_at_a_time() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for dtype in [DType::F32, DType::F64] {
            for reduce in [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min] {
                // Rows of two dimensions end within a group of four, and beside long rows other rows lie between.
                let (lanes, outer, inner) = (1 + r.below(700), 1 + r.below(9), 1 + r.below(300));
                let mut b = ExprBuilder::new();
                let x = b.input(0, dtype);
                let result = b.reduce(reduce, x).unwrap();
                let expr = b.finish(&[result]);
                let gap = (lanes + r.below(3)) as isize;
                let read = Access::new(dtype, &[1, gap * (inner as isize + 1), gap]);
                let out = Access::new(dtype, &[1, 0, 0]);
                let op = Op::rows(&[lanes, outer, inner], 1, vec![read], vec![out], expr).unwrap();
                let x = inputs(&mut r, &op);
                let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
                check(&op, &*kernel, &x, &[], r.below(3) == 0);
            }
        }
    }
}

#[test]
fn narrow_columns_are_reduced_several_elements_at_a_time() {
    let mut r = Random::fresh();
    let isa = Isa::detect();
    for dtype in [DType::F32, DType::F64, DType::I32, DType::F16, DType::U8] {
        for (rows, row) in [(1usize, 3000usize), (3, 9), (16, 40_001), (7, 517), (16, 130_000), (60, 1100), (130, 600)]
        {
            let mut b = ExprBuilder::new();
            let (x, scale) = (b.input(0, dtype), b.input(1, dtype));
            let y = b.binary(Binary::Mul, x, scale).unwrap();
            let (sum, most) = (b.reduce(Reduce::Sum, y).unwrap(), b.reduce(Reduce::Max, x).unwrap());
            let both = b.binary(Binary::Add, sum, most).unwrap();
            let expr = b.finish(&[sum, most, both]);
            let reads = vec![Access::new(dtype, &[1, rows as isize]), Access::new(dtype, &[0, 0])];
            let outs = (0..3).map(|_| Access::new(dtype, &[1, 0])).collect();
            let op = Op::rows(&[rows, row], 1, reads, outs, expr).unwrap();
            let x = inputs(&mut r, &op);
            let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
            check(&op, &*kernel, &x, &[], r.below(3) == 0);
        }
    }
}

#[test]
fn results_of_narrow_columns_that_need_no_pass_are_written_once() {
    let mut r = Random::fresh();
    for (rows, row) in [(1usize, 3000usize), (3, 90), (5, 20), (16, 517)] {
        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F16);
        let same = b.binary(Binary::Ge, x, x).unwrap();
        let any = b.reduce(Reduce::Max, same).unwrap();
        let constant = b.constant(Scalar::new(half::f16::from_f32(0.5)));
        let less = b.binary(Binary::Lt, any, any).unwrap();
        let chosen = b.select(less, any, any).unwrap();
        let expr = b.finish(&[chosen, constant]);
        let reads = vec![Access::new(DType::F16, &[1, rows as isize])];
        let outs = [DType::Bool, DType::F16].map(|d| Access::new(d, &[1, 0])).to_vec();
        let op = Op::rows(&[rows, row], 1, reads, outs, expr).unwrap();
        let x = inputs(&mut r, &op);
        let kernel = RowsKernel::new(&op, machine(Isa::detect(), 2)).unwrap();
        check(&op, &*kernel, &x, &[], r.below(3) == 0);
    }
}

pub(crate) fn softmax(dtype: DType) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(0, dtype);
    let m = b.reduce(Reduce::Max, x).unwrap();
    let d = b.binary(Binary::Sub, x, m).unwrap();
    let e = b.unary(Unary::Exp, d).unwrap();
    let s = b.reduce(Reduce::Sum, e).unwrap();
    let y = b.binary(Binary::Div, e, s).unwrap();
    b.finish(&[y])
}

pub(crate) fn layernorm(dtype: DType, n: usize) -> Expr {
    let mut b = ExprBuilder::new();
    let (x, w, bias) = (b.input(0, dtype), b.input(1, dtype), b.input(2, dtype));
    let count = b.constant(Scalar::from_f64(1.0 / n as f64, dtype));
    let eps = b.constant(Scalar::from_f64(1e-5, dtype));
    let s = b.reduce(Reduce::Sum, x).unwrap();
    let mean = b.binary(Binary::Mul, s, count).unwrap();
    let d = b.binary(Binary::Sub, x, mean).unwrap();
    let q = b.binary(Binary::Mul, d, d).unwrap();
    let v = b.reduce(Reduce::Sum, q).unwrap();
    let v = b.binary(Binary::Mul, v, count).unwrap();
    let v = b.binary(Binary::Add, v, eps).unwrap();
    let r = b.unary(Unary::Rsqrt, v).unwrap();
    let y = b.binary(Binary::Mul, d, r).unwrap();
    let y = b.binary(Binary::Mul, y, w).unwrap();
    let y = b.binary(Binary::Add, y, bias).unwrap();
    b.finish(&[y])
}

#[test]
fn softmax_and_layernorm_hold_their_bounds_in_every_shape() {
    let mut r = Random::fresh();
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        for (rows, row) in [(5usize, 1000usize), (300, 10), (2, 300_000), (64, 128), (3, 1)] {
            for transposed in [false, true] {
                if row > 100_000 && (transposed || dtype != DType::F32) {
                    continue;
                }
                let strides = if transposed { [1, rows as isize] } else { [row as isize, 1] };
                let x = || Access::new(dtype, &strides);
                let w = || Access::new(dtype, &[0, 1]);
                for (reads, expr) in [(vec![x()], softmax(dtype)), (vec![x(), w(), w()], layernorm(dtype, row))] {
                    let op = Op::rows(&[rows, row], 1, reads, vec![x()], expr).unwrap();
                    let mut tensors = inputs(&mut r, &op);
                    for t in &mut tensors {
                        for i in 0..t.len() {
                            t.set(i, Scalar::from_f64(r.unit() * 4.0, dtype)).unwrap();
                        }
                    }
                    let kernel = RowsKernel::new(&op, machine(Isa::detect(), 2)).unwrap();
                    check(&op, &*kernel, &tensors, &[], false);
                }
            }
        }
    }
}

#[test]
fn windows_overlap_and_padding_is_filled() {
    // The largest of every 3x3 window of an image, one pixel of padding around it.
    let mut r = Random::fresh();
    let (h, w) = (9usize, 14usize);
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let m = b.reduce(Reduce::Max, x).unwrap();
    let expr = b.finish(&[m]);
    let guard = |a: isize, b: isize, c: isize, d: isize, limit: usize| Guard {
        coefficients: [a, b, c, d].as_slice().into(),
        offset: -1,
        limit,
    };
    let access = Access {
        base: -(w as isize) - 1,
        guards: [guard(1, 0, 1, 0, h), guard(0, 1, 0, 1, w)].into_iter().collect(),
        fill: Scalar::lowest(DType::F32),
        ..Access::new(DType::F32, &[w as isize, 1, w as isize, 1])
    };
    let out = Access::new(DType::F32, &[w as isize, 1, 0, 0]);
    let op = Op::rows(&[h, w, 3, 3], 2, vec![access], vec![out], expr).unwrap();
    let x = [r.tensor(DType::F32, h * w, 0)];
    let kernel = RowsKernel::new(&op, machine(Isa::detect(), 1)).unwrap();
    check(&op, &*kernel, &x, &[], false);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut r = Random::fresh();
    let n = 700_001;
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let s = b.reduce(Reduce::Sum, x).unwrap();
    let op = Op::rows(
        &[1, n],
        1,
        vec![Access::new(DType::F32, &[n as isize, 1])],
        vec![Access::new(DType::F32, &[1, 0])],
        b.finish(&[s]),
    )
    .unwrap();
    let data: Vec<f32> = (0..n).map(|_| r.unit() as f32).collect();
    let sums: Vec<u32> = [1, 2, 3]
        .into_iter()
        .map(|threads| {
            let kernel = RowsKernel::new(&op, machine(Isa::detect(), threads)).unwrap();
            let mut out = [0f32];
            crate::program::testing::launch(&*kernel, &op, &[data.as_ptr().cast()], &[out.as_mut_ptr().cast()]);
            out[0].to_bits()
        })
        .collect();
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0], sums[2]);
}

#[test]
fn indices_are_the_first_of_equals_and_of_nans_in_every_shape() {
    let mut r = Random::fresh();
    // Lanes along rows and over several of them, around the lengths of parts, of vectors and of pieces.
    let shapes = [(3, 1), (5, 31), (2, 2047), (2, 2049), (1, 70_000), (33, 64), (40, 5000), (4100, 70), (1, 0), (3, 0)];
    for isa in Isa::available() {
        for (rows, row) in shapes {
            for transposed in [false, true] {
                let strides = if transposed { [1, rows as isize] } else { [row as isize, 1] };
                let dtype =
                    r.pick(&[DType::F32, DType::F64, DType::F16, DType::I64, DType::U8, DType::I32, DType::Bool]);
                let op = r.pick(&[Reduce::ArgMax, Reduce::ArgMin]);
                let mut b = ExprBuilder::new();
                let x = b.input(0, dtype);
                let index = b.reduce(op, x).unwrap();
                let out = Access::new(DType::I64, &[1, 0]);
                let op = Op::rows(&[rows, row], 1, vec![Access::new(dtype, &strides)], vec![out], b.finish(&[index]));
                let op = op.unwrap();
                // Few values, so that many are equal; rarely none is a number.
                let mut x = r.tensor(dtype, (rows * row).max(1), 0);
                let (few, nans) = (r.below(3), r.below(3) == 0);
                for i in 0..x.len() {
                    let value = match few {
                        0 => continue,
                        1 => r.pick(&[f64::NEG_INFINITY, f64::INFINITY, 0.0, -0.0, 1.0]),
                        _ => 1.0,
                    };
                    let value = if nans && r.below(500) == 0 { f64::NAN } else { value };
                    x.set(i, Scalar::from_f64(value, dtype)).unwrap();
                }
                let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
                check(&op, &*kernel, &[x], &[], false);
            }
        }
    }
}

#[test]
fn a_listing_names_every_stage() {
    let x = || Access::new(DType::F32, &[100, 1]);
    let op = Op::rows(&[8, 100], 1, vec![x()], vec![x()], softmax(DType::F32)).unwrap();
    let text = RowsKernel::new(&op, machine(Isa::detect(), 1)).unwrap().text();
    assert!(text.contains("stage 2") && text.contains("exp_less.f32") && text.contains("cached0"), "{text}");
    assert_eq!(text.matches("exp_less.f32").count(), 1, "{text}");
    assert!(!op.exprs().any(|e| e.nodes().iter().any(|(n, _)| *n == Node::Acc)));
}

/// Something that follows the reduction of windows of `[images, height, width, ..]`, with its inputs and parameters.
fn after(
    r: &mut Random,
    b: &mut ExprBuilder,
    reduced: Id,
    accesses: &mut Vec<Access>,
    dims: &[usize],
) -> (Id, Vec<Scalar>) {
    let dtype = b.dtype(reduced);
    let (high, wide) = (dims[1] as isize, dims[2] as isize);
    let other = match r.below(6) {
        0 => {
            let p = b.param(0, dtype);
            return (b.binary(Binary::Div, reduced, p).unwrap(), vec![Scalar::from_f64(9.0, dtype)]);
        }
        // A table that is the same for all images, an element for each image, an element for each window, or columns.
        1 => [0, wide, 1, 0, 0],
        2 => [1, 0, 0, 0, 0],
        3 => [high * wide, wide, 1, 0, 0],
        4 => [0, 1, high, 0, 0],
        _ => return (reduced, Vec::new()),
    };
    accesses.push(Access::new(dtype, &other));
    let y = b.input(1, dtype);
    let mut sum = b.binary(Binary::Add, reduced, y).unwrap();
    if r.below(3) == 0 {
        let index = b.push(Node::Index(r.below(3) as u8), DType::I64);
        let index = b.cast(index, dtype);
        sum = b.binary(Binary::Max, sum, index).unwrap();
    }
    (if r.below(3) == 0 { b.cast(sum, DType::F32) } else { sum }, Vec::new())
}

#[test]
fn windows_of_images_are_reduced_right_at_every_border() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for round in 0..60 {
            let reduce = r.pick(&[Reduce::Max, Reduce::Min, Reduce::Sum]);
            let (images, size, window) =
                (1 + r.below(3), [1 + r.below(9), 8 + r.below(60)], [1 + r.below(3), 2 + r.below(3)]);
            let (step, spread, pad) = (1 + r.below(2), 1 + r.below(2), r.below(3));
            let out = |d: usize| (size[d] + 2 * pad).checked_sub(spread * (window[d] - 1) + 1).map(|n| n / step + 1);
            let (Some(oh), Some(ow)) = (out(0), out(1)) else { continue };
            let (st, sp, wide) = (step as isize, spread as isize, size[1] as isize);
            let strides = [wide * size[0] as isize, wide * st, st, wide * sp, sp];
            let dtype = r.pick(&[DType::F32, DType::F32, DType::F16, DType::BF16]);
            let mut image = Access::new(dtype, &strides);
            if pad > 0 {
                let guard = |pixel: usize, within: usize, limit: usize| {
                    let mut coefficients = [0isize; 5];
                    (coefficients[pixel], coefficients[within]) = (st, sp);
                    Guard { coefficients: coefficients.as_slice().into(), offset: -(pad as isize), limit }
                };
                image.base = -(pad as isize) * (wide + 1);
                image.guards = [guard(1, 3, size[0]), guard(2, 4, size[1])].into_iter().collect();
                // What changes nothing, or else something that counts.
                let nothing = match reduce {
                    Reduce::Max => f32::NEG_INFINITY,
                    Reduce::Min => f32::INFINITY,
                    _ => 0.0,
                };
                image.fill = Scalar::from_f64(if round % 4 == 0 { 0.25 } else { nothing.into() }, dtype);
            }
            let mut b = ExprBuilder::new();
            let x = b.input(0, dtype);
            let reduced = b.reduce(reduce, x).unwrap();
            let dims = [images, oh, ow, window[0], window[1]];
            let result_strides = [(oh * ow) as isize, ow as isize, 1, 0, 0];
            let mut accesses = vec![image];
            let (result, params) = after(&mut r, &mut b, reduced, &mut accesses, &dims);
            let expr = b.finish(&[result]);
            let output = Access::new(expr.dtype(expr.outputs()[0]), &result_strides);
            let op = Op::rows(&dims, 3, accesses, vec![output], expr).unwrap();
            let mut tensors = inputs(&mut r, &op);
            tensors[0] = r.tensor(dtype, images * size[0] * size[1], 0);
            if round % 5 == 1 && reduce != Reduce::Sum {
                let at = r.below(images * size[0] * size[1]);
                tensors[0].set(at, Scalar::from_f64(f64::NAN, dtype)).unwrap();
            }
            let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
            // Short accumulators may be cheaper by rows. Rows of windows that are one line are joined.
            let may = images * oh * ow >= 8 && (pad == 0 || round % 4 != 0);
            let must = may && window[0] > 1 && ow >= 16 && oh > 1;
            let is = kernel.text().starts_with("windows");
            assert!((may || !is) && (is || !must), "{op:#?}\n{}", kernel.text());
            check(&op, &*kernel, &tensors, &params, round % 7 == 0);
        }
    }
}

#[test]
fn windows_of_images_with_channels_last_are_reduced_right_at_every_border() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for round in 0..40 {
            let reduce = r.pick(&[Reduce::Max, Reduce::Min, Reduce::Sum]);
            let (images, channels) = (1 + r.below(2), 8 + r.below(40));
            let (size, window) = ([4 + r.below(5), 4 + r.below(9)], [1 + r.below(3), 2 + r.below(3)]);
            let (step, pad) = (1 + r.below(2), r.below(2));
            let [oh, ow] = [0, 1].map(|d| (size[d] + 2 * pad - window[d]) / step + 1);
            let (c, st) = (channels as isize, step as isize);
            let wide = size[1] as isize * c;
            let mut image = Access::new(DType::F32, &[wide * size[0] as isize, wide * st, c * st, 1, wide, c]);
            if pad > 0 {
                let guard = |pixel: usize, within: usize, limit: usize| {
                    let mut coefficients = [0isize; 6];
                    (coefficients[pixel], coefficients[within]) = (st, 1);
                    Guard { coefficients: coefficients.as_slice().into(), offset: -1, limit }
                };
                image.base = -(wide + c);
                image.guards = [guard(1, 4, size[0]), guard(2, 5, size[1])].into_iter().collect();
                let nothing = match reduce {
                    Reduce::Max => f32::NEG_INFINITY,
                    Reduce::Min => f32::INFINITY,
                    _ => 0.0,
                };
                image.fill = Scalar::new(if round % 4 == 0 { 0.25 } else { nothing });
            }
            // Windows of one line may be rows like others, and lanes may lie along pixels where those are more.
            let by_windows = (pad == 0 || round % 4 > 0) && window[0] > 1 && channels >= ow;
            let mut b = ExprBuilder::new();
            let x = b.input(0, DType::F32);
            let result = b.reduce(reduce, x).unwrap();
            let dims = [images, oh, ow, channels, window[0], window[1]];
            let result_strides = [(oh * ow) as isize * c, ow as isize * c, c, 1, 0, 0];
            let expr = b.finish(&[result]);
            let op = Op::rows(&dims, 4, vec![image], vec![Access::new(DType::F32, &result_strides)], expr).unwrap();
            let x = r.tensor(DType::F32, images * size[0] * size[1] * channels, 0);
            let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
            if cfg!(target_arch = "x86_64") && isa != Isa::Portable && by_windows && oh > 1 && ow > 1 {
                assert!(kernel.text().starts_with("windows"), "{op:?}\n{}", kernel.text());
            }
            check(&op, &*kernel, &[x], &[], round % 7 == 0);
        }
    }
}

#[test]
fn the_lanes_that_a_guard_holds_for_are_found_by_division() {
    let mut r = Random::fresh();
    for _ in 0..2000 {
        let (at, step) = (r.below(60) as isize - 30, r.below(9) as isize - 4);
        let limit = r.below(25);
        let found = super::windows::held(at, step, limit);
        for i in 0..100 {
            let holds = (0..limit as isize).contains(&(at + i as isize * step));
            assert_eq!(found.contains(&i), holds, "{at} + {i} * {step} below {limit}: {found:?}");
        }
    }
}

/// Each row to mean 0 and variance 1, then scaled by a number for each of its elements.
fn layer_norm(dtype: DType, n: usize) -> Expr {
    let mut b = ExprBuilder::new();
    let (x, weight) = (b.input(0, dtype), b.input(1, dtype));
    let part = b.constant(Scalar::from_f64(1.0 / n as f64, dtype));
    let sum = b.reduce(Reduce::Sum, x).unwrap();
    let mean = b.binary(Binary::Mul, sum, part).unwrap();
    let less = b.binary(Binary::Sub, x, mean).unwrap();
    let square = b.binary(Binary::Mul, less, less).unwrap();
    let sum = b.reduce(Reduce::Sum, square).unwrap();
    let one = b.constant(Scalar::from_f64(1.0, dtype));
    let more = b.binary(Binary::Add, sum, one).unwrap();
    let root = b.unary(Unary::Sqrt, more).unwrap();
    let whole = b.binary(Binary::Div, less, root).unwrap();
    let scaled = b.binary(Binary::Mul, whole, weight).unwrap();
    b.finish(&[scaled, mean])
}

#[test]
fn short_rows_are_transposed_and_give_what_the_reference_gives() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for row in [1usize, 2, 3, 5, 7, 8, 9, 16, 23, 64, 100, 190, 300] {
            let rows = [1, 40, 64, 65, 150, 700][r.below(6)];
            for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
                // Rows one behind the other, or with a gap; an order of dimensions in which neighbouring rows lie apart.
                let pitch = (row + r.below(2)) as isize;
                let between = 1 + r.below(3);
                let dims = [between, rows, row];
                let input = Access::new(dtype, &[pitch, pitch * between as isize, 1]);
                let out = Access::new(dtype, &[(rows * row) as isize, row as isize, 1]);
                let each = Access::new(dtype, &[rows as isize, 1, 0]);
                let weights = Access::new(dtype, &[0, 0, 1]);
                let ops = [
                    Op::rows(&dims, 2, vec![input.clone()], vec![out.clone()], softmax(dtype)),
                    Op::rows(&dims, 2, vec![input.clone(), weights], vec![out, each.clone()], layer_norm(dtype, row)),
                ];
                for op in ops {
                    let op = op.unwrap();
                    let x = inputs(&mut r, &op);
                    let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
                    check(&op, &*kernel, &x, &[], r.below(3) == 0);
                }
                let outs = [dtype, dtype, DType::I64, dtype, DType::I64];
                let outs = outs.iter().map(|&d| Access::new(d, &[rows as isize, 1, 0])).collect();
                let op = Op::rows(&dims, 2, vec![input], outs, reductions(dtype)).unwrap();
                let x = inputs(&mut r, &op);
                let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
                check(&op, &*kernel, &x, &[], false);
            }
        }
    }
}

#[test]
fn rows_of_any_length_that_are_one_fold_are_reduced() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for dtype in [DType::F32, DType::F64, DType::I32, DType::BF16, DType::U8] {
            for reduce in [Reduce::Sum, Reduce::Max, Reduce::ArgMax, Reduce::ArgMin] {
                let (rows, row) = (1 + r.below(30), 300 + r.below(9000));
                let mut b = ExprBuilder::new();
                let x = b.input(0, dtype);
                let result = b.reduce(reduce, x).unwrap();
                let stored = b.dtype(result);
                let expr = b.finish(&[result]);
                let reads = vec![Access::new(dtype, &[row as isize + 3, 1])];
                let op = Op::rows(&[rows, row], 1, reads, vec![Access::new(stored, &[1, 0])], expr).unwrap();
                let x = inputs(&mut r, &op);
                let kernel = RowsKernel::new(&op, machine(isa, 2)).unwrap();
                check(&op, &*kernel, &x, &[], r.below(3) == 0);
            }
        }
    }
}
