//! Pairs of narrow numbers: packing everywhere, matmuls on machines that multiply pairs.

use super::super::*;
use super::*;

fn pairs_of<'a, S: Value + Half>(m: &'a Matrix<S>, isa: MicroKernel, side: Side, k: usize) -> Pairs<'a, S> {
    let matrix = if side == Side::A { m.as_a() } else { m.as_b() };
    Pairs::new((isa, side), matrix, k)
}

#[test]
fn pairs_are_packed_where_their_kernels_look_for_them() {
    let mut r = Random::new();
    for round in 0..200 {
        let isa = r.pick(&[MicroKernel::Avx2Pairs, MicroKernel::Avx512Bf16, MicroKernel::Amx]);
        let (rows, k) = (1 + r.below(70), 1 + r.below(90));
        let matrix = Matrix::<bf16>::random(&mut r, 1, rows, k, false);
        let tiled = isa == MicroKernel::Amx && round % 2 == 0;
        let side = if tiled { Side::A } else { Side::B };
        let panel = if isa == MicroKernel::Amx { 32 } else { r.pick(&[6, 14, 16, 32]) };
        let all = isa.packed_k(k);
        let unit = if isa == MicroKernel::Amx { 16 } else { 1 };
        let first = r.below(all / unit) * unit;
        let k_len = (1 + r.below((all - first) / unit)) * unit;
        let top = r.below(rows);
        let block = PackBlock { batch: 0, row: top, rows: 1 + r.below(rows - top), k: first, k_len, panel };
        let transposed = Matrix { data: matrix.data.clone(), row: matrix.col, col: matrix.row, ..matrix };
        let source = pairs_of(if side == Side::A { &matrix } else { &transposed }, isa, side, k);
        let mut packed = vec![f32::NAN; block.len()];
        source.pack(&block, &mut packed);
        for p in 0..block.rows.div_ceil(panel) {
            for row in 0..panel {
                for q in 0..k_len {
                    let at =
                        p * panel * k_len + if tiled { (q / 16 * panel + row) * 16 + q % 16 } else { q * panel + row };
                    let number = |half: usize| {
                        let (i, j) = (top + p * panel + row, 2 * (first + q) + half);
                        if p * panel + row < block.rows && j < k { matrix.get(0, i, j).to_bits() } else { 0 }
                    };
                    let want = u32::from(number(1)) << 16 | u32::from(number(0));
                    assert_eq!(packed[at].to_bits(), want, "{isa:?} {side:?} {block:?} k {k}: panel {p} {row} {q}");
                }
            }
        }
    }
}

#[test]
fn numbers_that_could_underflow_are_noticed_wherever_they_are() {
    let mut r = Random::new();
    let workers = Workers::new(2);
    for round in 0..60 {
        let (rows, k) = (1 + r.below(50), 1 + r.below(50));
        let mut matrix = Matrix::<bf16>::random(&mut r, 1, rows, k, true);
        let big: Vec<bf16> = matrix.data.iter().map(|x| bf16::from_f32(x.to_f32().signum() + x.to_f32())).collect();
        matrix.data = big;
        for special in [0.0, -0.0, f32::INFINITY, f32::NAN, f32::MAX, (-56f32).exp2()] {
            let at = matrix.index(0, r.below(rows), r.below(k));
            matrix.data[at] = bf16::from_f32(special);
        }
        let side = r.pick(&[Side::A, Side::B]);
        let lines = if side == Side::A { rows } else { k };
        let k_len = if side == Side::A { k } else { rows };
        assert!(pairs_of(&matrix, MicroKernel::Amx, side, k_len).ordinary(1, lines, &workers), "round {round}");
        let at = matrix.index(0, r.below(rows), r.below(k));
        matrix.data[at] = bf16::from_f32(r.pick(&[1e-40, -1e-30, (-57f32).exp2(), -9.2e-41]));
        assert!(!pairs_of(&matrix, MicroKernel::Amx, side, k_len).ordinary(1, lines, &workers), "round {round}");
    }
}

fn random_matmuls<S: Value + Half + Widen<T>, T: Tested + Paired>(isas: &[MicroKernel], rounds: usize) {
    let mut r = Random::new();
    let pools = [Workers::new(1), Workers::new(2), Workers::new(3)];
    for &isa in isas.iter().filter(|isa| isa.available()) {
        for round in 0..rounds {
            let size = |r: &mut Random| if r.below(3) == 0 { 1 + r.below(8) } else { 1 + r.below(120) };
            let (batch, m, n, k) = (r.pick(&[1, 1, 2, 3]), size(&mut r), size(&mut r), size(&mut r));
            let a = Matrix::<S>::random(&mut r, batch, m, k, false);
            let b = Matrix::<S>::random(&mut r, batch, k, n, false);
            let mut c = Matrix::<T>::random(&mut r, batch, m, n, true);
            let blocking = random_blocking(&mut r);
            let shape = ContractSizes { batch, m, n, k: isa.packed_k(k) };
            let (pa, pb) = (pairs_of(&a, isa, Side::A, k), pairs_of(&b, isa, Side::B, k));
            run(&Gemm { isa, shape, a: &pa, b: &pb, out: Output::Plain(c.as_c()), blocking }, &pools[round % 3]);
            for _ in 0..100 {
                let (p, i, j) = (r.below(batch), r.below(m), r.below(n));
                let mut pairs = (0..k).map(|q| (a.get(p, i, q).widen(), b.get(p, q, j).widen()));
                T::check(c.get(p, i, j), &mut pairs, &|| format!("{isa:?} {shape:?} {blocking:?} at {p} {i} {j}"));
            }
        }
    }
}

#[test]
fn narrow_integers_multiply_exactly_in_pairs() {
    random_matmuls::<i8, i32>(&[MicroKernel::Avx2Pairs, MicroKernel::Avx512Pairs], 80);
    random_matmuls::<u8, i32>(&[MicroKernel::Avx2Pairs, MicroKernel::Avx512Pairs], 40);
    random_matmuls::<i16, i32>(&[MicroKernel::Avx2Pairs, MicroKernel::Avx512Pairs], 40);
}

#[test]
fn pairs_of_bf16_multiply_within_the_bound() {
    random_matmuls::<bf16, f32>(&[MicroKernel::Avx512Bf16, MicroKernel::Amx], 120);
}

#[test]
fn a_type_without_kernels_for_pairs_refuses_them() {
    let data = [0.0f64; 64];
    let s = Strided::dense_a(&data, 1, 8, 8).unwrap();
    let mut c = vec![0.0; 64];
    let out = Output::Plain(Plain::dense(&mut c, 1, 8, 8).unwrap());
    let blocking = Blocking { mr: 0, nr: 0, mc: 8, nc: 8, kc: 8 };
    let g = Gemm { isa: MicroKernel::Avx2Pairs, shape: ContractSizes::matmul(8, 8, 8), a: &s, b: &s, out, blocking };
    assert_eq!(g.run(&Workers::new(1), &mut [0; 4096]), Err(GemmError::NoSuchMicroKernel(MicroKernel::Avx2Pairs)));
}
