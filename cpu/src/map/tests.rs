//! Maps against the reference.

use millstream_core::{Access, Binary, DType, ExprBuilder, Guard, Op, Unary};

use super::MapKernel;
use crate::program::testing::{Random, access, check, machine, reach};
use crate::simd::Isa;

/// A random map over random layouts.
fn random_case(r: &mut Random, isa: Isa, nodes: usize) {
    let rank = r.below(4);
    let dims: Vec<usize> = (0..rank)
        .map(|_| {
            let most = r.pick(&[1, 3, 9, 40]);
            1 + r.below(most) - usize::from(r.below(60) == 0)
        })
        .collect();
    let dtypes: Vec<DType> = (0..1 + r.below(3)).map(|_| r.pick(&DType::ALL)).collect();
    let mut params = Vec::new();
    let (b, pool) = r.expr(&dtypes, &mut params, rank, nodes, false);
    let count = 1 + r.below(2);
    let outputs: Vec<_> = (0..count).map(|i| if i == 0 { pool[pool.len() - 1] } else { r.pick(&pool) }).collect();
    let out_types: Vec<DType> = outputs.iter().map(|&o| b.dtype(o)).collect();
    let expr = b.finish(&outputs);
    let accesses: Vec<Access> = dtypes
        .iter()
        .map(|&d| {
            let mut a = access(r, d, &dims, false);
            if rank > 0 && r.below(6) == 0 {
                guard(r, &mut a, &dims);
            }
            a
        })
        .collect();
    let outs: Vec<Access> = out_types.iter().map(|&d| access(r, d, &dims, true)).collect();
    let Ok(op) = Op::map(&dims, accesses, outs, expr) else { panic!("a bad operation") };
    let inputs: Vec<_> = op
        .inputs
        .iter()
        .map(|a| {
            let (low, high) = reach(a, &op.dims);
            r.tensor(a.dtype, (high - low) as usize, (-low) as usize)
        })
        .collect();
    let kernel = MapKernel::new(&op, machine(isa, 2)).unwrap();
    check(&op, &*kernel, &inputs, &params, r.below(8) == 0);
}

/// Lets an access begin before its memory and end behind it, where a guard forbids it.
fn guard(r: &mut Random, a: &mut Access, dims: &[usize]) {
    let d = r.below(dims.len());
    let mut coefficients = vec![0isize; dims.len()];
    coefficients[d] = r.pick(&[1, 1, 2, -1]);
    let offset = r.below(7) as isize - 3;
    let limit = 1 + r.below(dims[d].max(1) + 2);
    a.guards.push(Guard { coefficients: coefficients.as_slice().into(), offset, limit });
    a.fill = r.scalar(a.dtype);
}

#[test]
fn random_maps_give_what_the_reference_gives() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        for round in 0..400 {
            let seed = r.0;
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| random_case(&mut r, isa, 1 + round % 12)));
            if let Err(e) = result {
                eprintln!("MILLSTREAM_SEED={seed} {isa:?} round {round}");
                std::panic::resume_unwind(e);
            }
        }
    }
}

#[test]
fn long_strips_and_many_tasks_cover_every_element() {
    let mut r = Random::fresh();
    for n in [1usize, 1000, 65_536, 200_001] {
        let mut b = ExprBuilder::new();
        let (x, y) = (b.input(0, DType::F32), b.input(1, DType::F32));
        let p = b.binary(Binary::Mul, x, y).unwrap();
        let s = b.binary(Binary::Add, p, x).unwrap();
        let t = b.unary(Unary::Abs, s).unwrap();
        let unit = || Access::new(DType::F32, &[1]);
        let op = Op::map(&[n], vec![unit(), unit()], vec![unit(), unit()], b.finish(&[s, t])).unwrap();
        let inputs = [r.tensor(DType::F32, n, 0), r.tensor(DType::F32, n, 0)];
        for threads in [1, 2] {
            let kernel = MapKernel::new(&op, machine(Isa::detect(), threads)).unwrap();
            check(&op, &*kernel, &inputs, &[], false);
        }
    }
}

#[test]
fn every_cast_gives_what_the_reference_gives() {
    let mut r = Random::fresh();
    for from in DType::ALL {
        for to in DType::ALL {
            let mut b = ExprBuilder::new();
            let x = b.input(0, from);
            let y = b.cast(x, to);
            let op =
                Op::map(&[77], vec![Access::new(from, &[1])], vec![Access::new(to, &[1])], b.finish(&[y])).unwrap();
            let kernel = MapKernel::new(&op, machine(Isa::detect(), 1)).unwrap();
            check(&op, &*kernel, &[r.tensor(from, 77, 0)], &[], false);
        }
    }
}

#[test]
fn transposes_of_every_element_size_move_every_element() {
    let mut r = Random::fresh();
    for dtype in [DType::U8, DType::F16, DType::F32, DType::I64, DType::C128] {
        for (a, b, c) in [(1usize, 70usize, 600usize), (3, 9, 17), (2, 64, 64), (1, 8, 1000), (1, 129, 33)] {
            // The last two dimensions swapped, with a gap after each row of the input.
            let from = [(b * (c + 3)) as isize, 1, b as isize + 3];
            let from = [from[0] + (c * 3) as isize, from[1], from[2]];
            let to = [(b * c) as isize, c as isize, 1];
            let op = Op::map(
                &[a, b, c],
                vec![Access::new(dtype, &from)],
                vec![Access::new(dtype, &to)],
                millstream_core::Expr::input(dtype),
            )
            .unwrap();
            let (_, high) = reach(&op.inputs[0], &op.dims);
            let x = [r.tensor(dtype, high as usize, 0)];
            let kernel = MapKernel::new(&op, machine(Isa::detect(), 2)).unwrap();
            check(&op, &*kernel, &x, &[], r.below(3) == 0);
        }
    }
}

#[test]
fn inputs_with_other_neighbours_are_read_tile_by_tile() {
    let mut r = Random::fresh();
    for (dtype, a, b) in
        [(DType::F32, 300usize, 70usize), (DType::F16, 33, 513), (DType::F64, 20, 20), (DType::I8, 5, 2100)]
    {
        let mut e = ExprBuilder::new();
        let (x, y) = (e.input(0, dtype), e.input(1, dtype));
        let s = e.binary(Binary::Add, x, y).unwrap();
        let t = e.binary(Binary::Mul, s, y).unwrap();
        let (cols, rows) = ([b as isize, 1], [1, 64 + a as isize]);
        let reads = vec![Access::new(dtype, &cols), Access::new(dtype, &rows)];
        let writes = vec![Access::new(dtype, &cols), Access::new(dtype, &cols)];
        let op = Op::map(&[a, b], reads, writes, e.finish(&[s, t])).unwrap();
        let x: Vec<_> = op.inputs.iter().map(|i| r.tensor(dtype, reach(i, &op.dims).1 as usize, 0)).collect();
        for misalign in [false, true] {
            let kernel = MapKernel::new(&op, machine(Isa::detect(), 2)).unwrap();
            check(&op, &*kernel, &x, &[], misalign);
        }
    }
}

#[test]
fn tiles_written_past_the_caches_hold_every_element_and_nothing_beside() {
    let mut r = Random::fresh();
    for isa in Isa::available() {
        let (_, Some(streamed)) = super::transpose::kernels(isa, 4) else { continue };
        for _ in 0..12 {
            let (cols, rows) = (1 + r.below(200), 1 + r.below(200));
            let wide = (cols + r.below(40)).next_multiple_of(16);
            let source: Vec<u32> = (0..cols * rows).map(|_| r.next() as u32).collect();
            let mut target = vec![[0xa5a5_a5a5u32; 16]; wide / 16 * rows + 1];
            // Whole lines of the output are aligned to 64 bytes.
            let flat = target.as_flattened_mut();
            let skip = flat.as_ptr().align_offset(64);
            let tile = super::transpose::TransposeTile {
                cols,
                rows,
                from_stride: (rows * 4) as isize,
                to_stride: (wide * 4) as isize,
            };
            // SAFETY: the source has cols times rows elements, the target down lines of `wide`.
            unsafe { streamed(source.as_ptr().cast(), flat[skip..].as_mut_ptr().cast(), &tile) };
            crate::program::fence();
            for (at, &x) in flat[skip..skip + wide * rows].iter().enumerate() {
                let (j, i) = (at / wide, at % wide);
                let want = if i < cols { source[i * rows + j] } else { 0xa5a5_a5a5 };
                assert_eq!(x, want, "{isa:?} {cols} x {rows}: row {j} column {i}");
            }
        }
    }
}
