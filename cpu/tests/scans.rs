//! Running reductions against the reference, and in lengths for which the reference is too slow against sums that are exact.

mod common;

use common::{Alignment, Random, check, check_with, default_stream, run};
use millstream_core::backend::Backend;
use millstream_core::what::HostTensor;
use millstream_core::{Access, DType, Op, Reduce, Scalar};
use millstream_cpu::{CpuBackend, CpuOptions, Isa};

const REDUCES: [Reduce; 4] = [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min];

fn scan(dtype: DType, dims: &[usize], from: &[isize], to: &[isize], reduce: Reduce) -> Op {
    Op::scan(dims, Access::new(dtype, from), Access::new(dtype, to), reduce).unwrap()
}

fn takes(dtype: DType, reduce: Reduce) -> bool {
    reduce.result(dtype) == Some(dtype)
}

#[test]
fn rows_of_any_length_are_scanned() {
    let mut random = Random::new();
    for (i, n) in [1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 100].into_iter().enumerate() {
        for (j, reduce) in REDUCES.into_iter().enumerate() {
            let others = [DType::F16, DType::BF16, DType::I32, DType::U8, DType::C64, DType::C128];
            for dtype in [DType::F32, DType::F64, DType::I64, others[(i + j) % 6]] {
                if takes(dtype, reduce) {
                    let pitch = n as isize + 1;
                    check(&scan(dtype, &[3, n], &[pitch, 1], &[n as isize, 1], reduce), &mut random, &[]);
                }
            }
        }
    }
}

#[test]
fn short_rows_without_gaps_are_scanned_together() {
    let mut random = Random::new();
    for (i, n) in [1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 64, 100, 127, 128, 129].into_iter().enumerate() {
        let rows = 2 + random.below(40);
        for (j, reduce) in REDUCES.into_iter().enumerate() {
            let others = [DType::F16, DType::BF16, DType::I32, DType::U8, DType::C64, DType::C128];
            for dtype in [DType::F32, DType::F64, DType::I64, others[(i + j) % 6]] {
                if takes(dtype, reduce) {
                    let (row, all) = (n as isize, (rows * n) as isize);
                    check(&scan(dtype, &[rows, n], &[row, 1], &[row, 1], reduce), &mut random, &[]);
                    let strides = [all, row, 1];
                    check(&scan(dtype, &[2, rows, n], &strides, &strides, reduce), &mut random, &[]);
                }
            }
        }
    }
}

#[test]
fn short_rows_are_the_same_on_any_number_of_threads() {
    let mut random = Random::new();
    for dtype in [DType::F32, DType::F64, DType::I64, DType::I32] {
        for n in [2, 5, 8, 24, 75] {
            let rows = 150_000 / n;
            let op = scan(dtype, &[rows, n], &[n as isize, 1], &[n as isize, 1], Reduce::Sum);
            let values: Vec<f64> = (0..rows * n).map(|_| random.below(41) as f64 - 20.0).collect();
            for got in results(&op, &tensor(dtype, &values)) {
                let got = f64s(&got);
                for (row, (got, values)) in got.chunks(n).zip(values.chunks(n)).enumerate() {
                    let mut sum = 0.0;
                    for (got, v) in got.iter().zip(values) {
                        sum += v;
                        assert_eq!(*got, sum, "{dtype} in row {row} of {n}");
                    }
                }
            }
        }
    }
}

#[test]
fn columns_are_scanned_side_by_side() {
    let mut random = Random::new();
    for (i, wide) in [2, 7, 8, 15, 16, 17, 40, 63, 64, 65, 130].into_iter().enumerate() {
        for (j, reduce) in REDUCES.into_iter().enumerate() {
            let others = [DType::F16, DType::U8, DType::I16, DType::C64, DType::C128];
            for dtype in [DType::F32, DType::F64, DType::I64, others[(i + j) % 5]] {
                if takes(dtype, reduce) {
                    let w = wide as isize;
                    // Results lie as the input does, or transposed.
                    check(&scan(dtype, &[wide, 9], &[1, w], &[1, w], reduce), &mut random, &[]);
                    check(&scan(dtype, &[wide, 9], &[1, w], &[9, 1], reduce), &mut random, &[]);
                    check(&scan(dtype, &[wide, 9], &[9, 1], &[1, w], reduce), &mut random, &[]);
                }
            }
        }
    }
    check(&scan(DType::F32, &[1100, 3], &[1, 1100], &[1, 1100], Reduce::Sum), &mut random, &[]);
    check(&scan(DType::F64, &[1100, 3], &[1, 1100], &[1, 1100], Reduce::Sum), &mut random, &[]);
    check(&scan(DType::F32, &[2, 70, 5], &[350, 1, 70], &[350, 1, 70], Reduce::Max), &mut random, &[]);
}

#[test]
fn rows_may_lie_anyhow() {
    let mut random = Random::new();
    for reduce in REDUCES {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            for (from, to) in
                [([30, -1], [30, 1]), ([60, 2], [30, 1]), ([30, 1], [60, 2]), ([0, 1], [30, 1]), ([30, 0], [30, 1])]
            {
                check(&scan(dtype, &[3, 30], &from, &to, reduce), &mut random, &[]);
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_so() {
    let mut random = Random::new();
    for reduce in REDUCES {
        for dtype in [DType::F32, DType::F64] {
            for _ in 0..10 {
                let n = 1 + random.below(40);
                let mut input = random.tensor(dtype, n);
                for _ in 0..2 {
                    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0][random.below(5)];
                    input.set(random.below(n), Scalar::from_f64(odd, dtype)).unwrap();
                }
                check_with(&scan(dtype, &[n], &[1], &[1], reduce), &[input.clone()], &[]);
                check_with(&scan(dtype, &[1, n], &[1, 1], &[1, 1], reduce), &[input], &[]);
            }
        }
    }
}

/// The results of each instruction set, which are the same on one thread and on several.
fn results(op: &Op, input: &HostTensor) -> Vec<HostTensor> {
    let mut out = Vec::new();
    for isa in Isa::available() {
        let mut last: Option<HostTensor> = None;
        for threads in [1, 2, 5] {
            let backend = CpuBackend::open(CpuOptions { threads: Some(threads), isa: Some(isa) }).unwrap();
            let variant = &backend.variants(op)[0];
            for alignment in [Alignment::Aligned, Alignment::Misaligned] {
                let got =
                    run(&backend, &*default_stream(&backend), op, variant, std::slice::from_ref(input), &[], alignment)
                        .remove(0);
                assert!(last.as_ref().is_none_or(|l| *l == got), "{threads} threads of {}", isa.name());
                last = Some(got);
            }
        }
        out.extend(last);
    }
    out
}

fn f64s(t: &HostTensor) -> Vec<f64> {
    (0..t.len()).map(|i| t.get(i).unwrap().to_f64()).collect()
}

fn tensor(dtype: DType, values: &[f64]) -> HostTensor {
    let mut t = HostTensor::zeros(dtype, values.len());
    for (i, v) in values.iter().enumerate() {
        t.set(i, Scalar::from_f64(*v, dtype)).unwrap();
    }
    t
}

/// Lengths around the chunks of a long row.
fn lengths(dtype: DType) -> [usize; 4] {
    let chunk = (256 << 10) / dtype.size();
    [2 * chunk, 2 * chunk + 1, 3 * chunk, 3 * chunk + 77]
}

#[test]
fn long_rows_are_the_same_on_any_number_of_threads() {
    let mut random = Random::new();
    for dtype in [DType::F32, DType::F64, DType::I64, DType::C128, DType::I32] {
        for reduce in REDUCES.into_iter().filter(|&r| takes(dtype, r)) {
            let n = lengths(dtype)[random.below(4)];
            results(&scan(dtype, &[n], &[1], &[1], reduce), &random.tensor(dtype, n));
        }
    }
}

#[test]
fn long_sums_of_whole_numbers_are_exact() {
    let mut random = Random::new();
    for dtype in [DType::F32, DType::F64, DType::I64] {
        for n in lengths(dtype) {
            let values: Vec<f64> = (0..n).map(|_| random.below(41) as f64 - 20.0).collect();
            for got in results(&scan(dtype, &[n], &[1], &[1], Reduce::Sum), &tensor(dtype, &values)) {
                let mut sum = 0.0;
                for (i, (got, v)) in f64s(&got).into_iter().zip(&values).enumerate() {
                    sum += v;
                    assert_eq!(got, sum, "{dtype} at {i} of {n}");
                }
            }
        }
    }
}

#[test]
fn long_extremes_pass_chunks_and_keep_nan() {
    let mut random = Random::new();
    for dtype in [DType::F32, DType::F64, DType::I64] {
        let n = lengths(dtype)[3];
        let mut values: Vec<f64> = (0..n).map(|i| (random.below(1000) + i / 100) as f64).collect();
        if dtype.is_float() {
            values[n - 500] = f64::NAN;
        }
        for (reduce, sign) in [(Reduce::Max, 1.0), (Reduce::Min, -1.0)] {
            let input: Vec<f64> = values.iter().map(|v| v * sign).collect();
            for got in results(&scan(dtype, &[n], &[1], &[1], reduce), &tensor(dtype, &input)) {
                let mut best = f64::NEG_INFINITY;
                for (i, (got, v)) in f64s(&got).into_iter().zip(&values).enumerate() {
                    best = if best.is_nan() || v.is_nan() { f64::NAN } else { best.max(*v) };
                    assert!(got * sign == best || got.is_nan() && best.is_nan(), "{dtype} at {i}: {got}, not {best}");
                }
            }
        }
    }
}

#[test]
fn long_sums_lose_nothing_to_numbers_that_cancel() {
    // 1 is lost beside 1e17 unless what additions lose is kept.
    let n = lengths(DType::F64)[3];
    let mut values = vec![1.0; n];
    let chunk = (256 << 10) / 8;
    (values[10], values[2 * chunk + 3]) = (1e17, -1e17);
    for got in results(&scan(DType::F64, &[n], &[1], &[1], Reduce::Sum), &tensor(DType::F64, &values)) {
        let got = f64s(&got);
        for (i, got) in got.iter().enumerate().skip(2 * chunk + 3) {
            // The vectors of 1e17 and of -1e17 are added plainly: each loses less than 64.
            assert!((got - (i as f64 - 1.0)).abs() <= 128.0, "{got} at {i}");
        }
    }
}

#[test]
fn infinities_of_one_chunk_reach_the_next() {
    let n = lengths(DType::F64)[3];
    for dtype in [DType::F32, DType::F64] {
        let mut values = vec![1.0; n];
        values[100] = f64::INFINITY;
        values[n - 100] = f64::NEG_INFINITY;
        let n = lengths(dtype)[3].min(n);
        let op = scan(dtype, &[1, 1, n], &[0, 0, 1], &[0, 0, 1], Reduce::Sum);
        for got in results(&op, &tensor(dtype, &values[..n])) {
            let got = f64s(&got);
            assert_eq!(got[99], 100.0);
            assert!(got[100..n - 100].iter().all(|&x| x == f64::INFINITY));
            assert!(values[..n].contains(&f64::NEG_INFINITY) == got[n - 100].is_nan());
        }
    }
}

#[test]
fn results_that_no_cache_holds_are_the_same() {
    // Larger than the last-level cache of most machines: one row, rows, columns.
    let shapes: [(&[usize], &[isize]); 4] = [
        (&[12 << 20], &[1]),
        (&[24, 1 << 19], &[1 << 19, 1]),
        (&[3072, 4096], &[1, 3072]),
        (&[3001, 4096], &[1, 3001]),
    ];
    for (dims, strides) in shapes {
        let len = dims.iter().product();
        let mut input = HostTensor::zeros(DType::F32, len);
        for i in 0..len {
            input.bytes[4 * i..4 * i + 4].copy_from_slice(&((i % 7) as f32 - 3.0).to_ne_bytes());
        }
        let op = scan(DType::F32, dims, strides, strides, Reduce::Sum);
        let read = |t: &HostTensor, i: usize| f32::from_ne_bytes(t.bytes[4 * i..4 * i + 4].try_into().unwrap());
        let backend = CpuBackend::open(CpuOptions { threads: Some(2), isa: None }).unwrap();
        let variant = &backend.variants(&op)[0];
        for alignment in [Alignment::Aligned, Alignment::Misaligned] {
            let got =
                run(&backend, &*default_stream(&backend), &op, variant, std::slice::from_ref(&input), &[], alignment)
                    .remove(0);
            let (rows, n) = (len / dims[dims.len() - 1], dims[dims.len() - 1]);
            for r in 0..rows {
                let mut sum = 0.0;
                for i in 0..n {
                    let at = if dims.len() == 1 { i } else { r * strides[0] as usize + i * strides[1] as usize };
                    sum += read(&input, at);
                    assert_eq!(read(&got, at), sum, "row {r}, element {i} of {dims:?}");
                }
            }
        }
    }
}
