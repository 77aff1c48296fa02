//! Lookups against the reference: every size of element, every dtype of index, lengths around the kernels' blocks.

mod common;

use common::{Random, check_with, default_stream, extent, run};
use millstream_core::backend::Backend;
use millstream_core::what::{HostTensor, row_major};
use millstream_core::{Access, DType, Kind, Lookup, Op, Outside, Scalar};
use millstream_cpu::{CpuBackend, CpuOptions, Isa};

const DTYPES: [DType; 8] =
    [DType::I64, DType::I32, DType::U8, DType::I16, DType::U64, DType::I8, DType::U32, DType::U16];

/// Indices of which most exist, counted from the front or from the end, and some do not; now and then far outside.
fn indices(random: &mut Random, dtype: DType, len: usize, size: usize, all_exist: bool) -> HostTensor {
    let mut t = HostTensor::zeros(dtype, len);
    let unsigned = dtype.kind() == Kind::Unsigned;
    let most = match dtype.size() {
        1 => 127,
        2 => 32767,
        _ => i64::MAX,
    };
    let size = (size as i64).min(most);
    for i in 0..len {
        let from = if unsigned { 0 } else { -size };
        let mut value = from + random.below((size - from).max(1) as usize) as i64;
        if !all_exist {
            value = match random.below(40) {
                0 => size,
                1 if !unsigned => -size - 1,
                2 => most,
                3 if unsigned => -1,
                4 if !unsigned => -most - 1,
                _ => value,
            };
        }
        t.set(i, Scalar::from_int(value, dtype)).unwrap();
    }
    t
}

/// A lookup along axes, held against the reference with indices that all exist and with some that do not.
fn check(random: &mut Random, dtype: DType, dims: &[usize], table: Access, axes: &[(Access, Lookup)], out: Access) {
    let mut table = table;
    table.fill = random.scalar(dtype);
    let lookups: Vec<Lookup> = axes.iter().map(|(_, l)| *l).collect();
    let none = lookups.iter().any(|l| l.size == 0);
    for all_exist in [true, false] {
        let (mut len, mut offset) = extent(&table, dims);
        for l in &lookups {
            let far = (l.size.max(1) - 1) * l.stride.unsigned_abs();
            len += far;
            offset += if l.stride < 0 { far } else { 0 };
        }
        let mut inputs = vec![random.tensor(dtype, len).with_offset(offset)];
        let mut accesses = vec![table.clone()];
        for (access, lookup) in axes {
            let (len, offset) = extent(access, dims);
            inputs.push(indices(random, access.dtype, len, lookup.size, all_exist).with_offset(offset));
            accesses.push(access.clone());
        }
        let outside = if all_exist && !none { Outside::Error } else { Outside::Fill };
        let op = Op::gather(dims, accesses, out.clone(), &lookups, outside).unwrap();
        check_with(&op, &inputs, &[]);
    }
}

#[test]
fn single_elements_come_from_their_indices() {
    let mut random = Random::new();
    let elements = [DType::F32, DType::U8, DType::F64, DType::F16, DType::C128, DType::C64];
    for (i, n) in [1, 7, 8, 9, 15, 16, 17, 63, 64, 80, 255, 256, 257, 600].into_iter().enumerate() {
        for (j, index) in DTYPES.into_iter().enumerate() {
            let dtype = elements[(i + j) % elements.len()];
            let size = 1 + random.below(100);
            let table = Access::new(dtype, &[0]);
            let axis = (Access::new(index, &[1]), Lookup { stride: 1, size });
            check(&mut random, dtype, &[n], table, &[axis], Access::new(dtype, &[1]));
        }
    }
}

#[test]
fn rows_of_any_length_are_copied_whole() {
    let mut random = Random::new();
    for bytes in
        [1, 2, 3, 4, 5, 7, 8, 11, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 256, 700, 2047, 2048, 3000]
    {
        let rows = 1 + random.below(9);
        let index = DTYPES[random.below(8)];
        let table = Access::new(DType::U8, &[0, 1]);
        let axis = (Access::new(index, &[1, 0]), Lookup { stride: bytes as isize, size: rows });
        let out = Access::new(DType::U8, &[bytes as isize, 1]);
        check(&mut random, DType::U8, &[5, bytes], table, &[axis], out);
    }
    for dtype in [DType::F32, DType::C128, DType::BF16] {
        let table = Access::new(dtype, &[0, 1]);
        let axis = (Access::new(DType::I64, &[1, 0]), Lookup { stride: 48, size: 6 });
        check(&mut random, dtype, &[70, 48], table, &[axis], Access::new(dtype, &[48, 1]));
    }
}

#[test]
fn indices_along_an_axis_look_into_their_own_row() {
    let mut random = Random::new();
    for (rows, n, size) in [(3, 40, 11), (5, 64, 20), (2, 300, 100), (4, 16, 1), (9, 130, 33)] {
        for dtype in [DType::F32, DType::F64, DType::I16] {
            let (pitch, wide) = (size as isize, n as isize);
            let axis = (Access::new(DType::I64, &[wide, 1]), Lookup { stride: 1, size });
            let out = Access::new(dtype, &[wide, 1]);
            check(&mut random, dtype, &[rows, n], Access::new(dtype, &[pitch, 0]), &[axis], out.clone());
            // The table backwards: its first element is the last of a row.
            let axis = (Access::new(DType::I32, &[wide, 1]), Lookup { stride: -1, size });
            check(&mut random, dtype, &[rows, n], Access::new(dtype, &[pitch, 0]), &[axis], out.clone());
            // Down the columns of a table, whose own start moves along the result.
            let axis = (Access::new(DType::I64, &[wide, 1]), Lookup { stride: wide, size });
            check(&mut random, dtype, &[rows, n], Access::new(dtype, &[0, 1]), &[axis], out);
        }
    }
}

#[test]
fn indices_and_results_may_lie_anyhow() {
    let mut random = Random::new();
    for dtype in [DType::F32, DType::U8, DType::C64] {
        let table = Access::new(dtype, &[0]);
        for step in [-1isize, 0, 2, 3] {
            let axis = (Access::new(DType::I64, &[step]), Lookup { stride: 3, size: 20 });
            check(&mut random, dtype, &[50], table.clone(), &[axis], Access::new(dtype, &[1]));
        }
        for step in [-1isize, 2] {
            let axis = (Access::new(DType::I32, &[1]), Lookup { stride: 1, size: 20 });
            check(&mut random, dtype, &[50], table.clone(), &[axis], Access::new(dtype, &[step]));
        }
        // The last dimension is short, so another one is walked.
        let dims = [40, 3];
        let axis = (Access::new(DType::I64, &[3, 1]), Lookup { stride: 3, size: 9 });
        check(&mut random, dtype, &dims, Access::new(dtype, &[0, 1]), &[axis], Access::new(dtype, &row_major(&dims)));
    }
}

#[test]
fn two_axes_are_looked_up_at_once() {
    let mut random = Random::new();
    for (n, dtype) in [(5, DType::F32), (300, DType::F64), (64, DType::U8), (17, DType::F32)] {
        let axes = [
            (Access::new(DType::I64, &[1]), Lookup { stride: 12, size: 7 }),
            (Access::new(DType::I16, &[1]), Lookup { stride: 1, size: 12 }),
        ];
        check(&mut random, dtype, &[n], Access::new(dtype, &[0]), &axes, Access::new(dtype, &[1]));
        let axes = axes.map(|(a, l)| (Access::new(a.dtype, &[1, 0]), Lookup { stride: l.stride * 6, ..l }));
        check(&mut random, dtype, &[n, 6], Access::new(dtype, &[0, 1]), &axes, Access::new(dtype, &[6, 1]));
    }
    let nothing = [(Access::new(DType::I64, &[1]), Lookup { stride: 1, size: 0 })];
    check(&mut random, DType::F32, &[20], Access::new(DType::F32, &[0]), &nothing, Access::new(DType::F32, &[1]));
}

/// Rows of a table of numbered bytes, taken by every backend of these instruction sets, are what their indices say.
fn check_large(rows: usize, bytes: usize, size: usize, alignment: usize) {
    let mut random = Random::new();
    let table = random.tensor(DType::U8, rows * bytes);
    let wanted = indices(&mut random, DType::I64, size, rows, true);
    let (pitch, dims) = (bytes as isize, [size, bytes]);
    let lookup = Lookup { stride: pitch, size: rows };
    let (from, to) = (Access::new(DType::U8, &[0, 1]), Access::new(DType::U8, &[pitch, 1]));
    let op = Op::gather(&dims, vec![from, Access::new(DType::I64, &[1, 0])], to, &[lookup], Outside::Error).unwrap();
    for isa in Isa::available() {
        let backend = CpuBackend::open(CpuOptions { threads: Some(3), isa: Some(isa) }).unwrap();
        let alignment = if alignment == 0 { common::Alignment::Aligned } else { common::Alignment::Misaligned };
        let variant = &backend.variants(&op)[0];
        let inputs = [table.clone(), wanted.clone()];
        let out = run(&backend, &*default_stream(&backend), &op, variant, &inputs, &[], alignment).remove(0);
        for i in 0..size {
            let at = wanted.bytes[8 * i..8 * i + 8].try_into().map(i64::from_ne_bytes).unwrap();
            let at = at.rem_euclid(rows as i64) as usize;
            let (got, want) = (&out.bytes[i * bytes..(i + 1) * bytes], &table.bytes[at * bytes..(at + 1) * bytes]);
            assert!(got == want, "row {i} on {}", isa.name());
        }
    }
}

#[test]
fn long_rows_are_cut_and_many_are_shared() {
    check_large(3, 700_001, 4, 0);
    check_large(2, 1 << 20, 3, 1);
    check_large(50, 4, 300_001, 0);
    check_large(50, 8, 150_003, 1);
    check_large(7, 1, 700_001, 0);
}

#[test]
fn results_that_no_cache_holds_are_the_same() {
    // Larger than the last-level cache of most machines: whole lines, rows that begin anywhere, single elements.
    check_large(1000, 256, 200_000, 0);
    check_large(1000, 3001, 15_000, 1);
    check_large(1 << 20, 4, 12 << 20, 0);
    check_large(1 << 16, 8, 6 << 20, 1);
}
