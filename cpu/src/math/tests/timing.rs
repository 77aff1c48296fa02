//! Prints what a block of 1024 elements costs: `cargo test --release block_kernels_cost -- --ignored --nocapture`.

use super::{run1, run2};
use crate::math::{Form, ReduceOp, binary, reduce, unary};
use crate::simd::Isa;
use millstream_core::{Binary, DType, Unary};
use std::time::Instant;

const N: usize = 1024;

/// The shortest time of one call, in nanoseconds per element.
fn time(mut f: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..3000 {
        let start = Instant::now();
        for _ in 0..4 {
            f();
        }
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    best / (4 * N) as f64
}

#[test]
#[ignore = "a measurement"]
fn block_kernels_cost_this_much() {
    // Positive, within the usual range of every function.
    let single: Vec<f32> = (0..N).map(|i| (i as f32 * 0.618_034).fract() * 6.0 + 0.01).collect();
    let double: Vec<f64> = single.iter().map(|&x| f64::from(x)).collect();
    let (mut y, mut z) = (vec![0f32; N], vec![0f64; N]);
    for isa in Isa::available() {
        println!("{isa:?}: ns per element, f32 and f64");
        for op in Unary::ALL.iter().copied() {
            let (Some(f), Some(g)) = (unary(isa, op, DType::F32), unary(isa, op, DType::F64)) else { continue };
            let a = time(|| run1(f, &single, &mut y));
            let b = time(|| run1(g, &double, &mut z));
            println!("  {:10} {a:7.3} {b:7.3}", format!("{op:?}"));
        }
        // Complex numbers are wider than the results have room for.
        for op in Binary::ALL.iter().copied().filter(|&op| op != Binary::Complex) {
            let (Some(f), Some(g)) = (binary(isa, op, DType::F32, Form::VV), binary(isa, op, DType::F64, Form::VV))
            else {
                continue;
            };
            let a = time(|| run2(f, &single, &single, &mut y));
            let b = time(|| run2(g, &double, &double, &mut z));
            println!("  {:10} {a:7.3} {b:7.3}", format!("{op:?}"));
        }
        for op in [ReduceOp::Sum, ReduceOp::SumProducts, ReduceOp::Max, ReduceOp::Min] {
            let (Some(f), Some(g)) = (reduce(isa, op, DType::F32), reduce(isa, op, DType::F64)) else { continue };
            // SAFETY: the source has N elements, the destination room for any single result.
            let call = |f: crate::math::BlockFn, a: *const u8, dst: &mut [f64]| unsafe {
                f(dst.as_mut_ptr().cast(), a, a, std::ptr::null(), N)
            };
            let a = time(|| call(f, single.as_ptr().cast(), &mut z));
            let b = time(|| call(g, double.as_ptr().cast(), &mut z));
            println!("  {:10} {a:7.3} {b:7.3}", format!("{op:?}"));
        }
    }
}
