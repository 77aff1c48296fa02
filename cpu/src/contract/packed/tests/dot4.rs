use super::super::*;
use super::{Matrix, Random, Tested, Value, random_blocking, run};

fn groups_of<'a, S: Value + Byte>(
    m: &'a Matrix<S>,
    isa: MicroKernel,
    side: Side,
    other_signed: bool,
    k: usize,
) -> Dot4<'a, S> {
    let matrix = if side == Side::A { m.as_a() } else { m.as_b() };
    Dot4::new((isa, side), other_signed, matrix, k)
}

/// The instruction sets that multiply such numbers.
fn sets<A: Byte, B: Byte>() -> [MicroKernel; 4] {
    [
        MicroKernel::Avx2Dot4,
        MicroKernel::Avx512Dot4,
        MicroKernel::NeonDot4,
        MicroKernel::AmxDot4 { signed: [A::SIGNED, B::SIGNED] },
    ]
}

/// K indices of a block: AMX has no heads, and any multiple of 16.
fn block(isa: MicroKernel) -> usize {
    if isa.tiled() { 48 } else { isa.dot4_block() + 1 }
}

/// Accumulators of what is packed, computed as the instructions do, for one panel of each operand: heads, then groups of four.
fn multiply(isa: MicroKernel, a: &[i32], b: &[i32], panels: (usize, usize), at: (usize, usize), k_len: usize) -> i32 {
    let signed = match isa {
        MicroKernel::AmxDot4 { signed } => signed,
        _ => [isa == MicroKernel::NeonDot4, true],
    };
    let value = |x: u8, signed: bool| if signed { i32::from(x as i8) } else { i32::from(x) };
    (0..k_len).fold(0i32, |sum, q| {
        let index = if isa.tiled() { (q / 16 * panels.0 + at.0) * 16 + q % 16 } else { q * panels.0 + at.0 };
        let (x, y) = (a[index], b[q * panels.1 + at.1]);
        if !isa.tiled() && q % block(isa) == 0 {
            return sum.wrapping_add(x).wrapping_add(y);
        }
        let both = x.to_le_bytes().into_iter().zip(y.to_le_bytes());
        both.fold(sum, |sum, (x, y)| sum.wrapping_add(value(x, signed[0]) * value(y, signed[1])))
    })
}

/// Whatever the machine can compute itself: panels hold what instructions for them multiply.
fn packed_matmuls<A: Value + Byte, B: Value + Byte>(rounds: usize) {
    let mut r = Random::new();
    for round in 0..rounds {
        let isa = sets::<A, B>()[round % 4];
        let k = if r.below(4) == 0 { 1000 + r.below(4000) } else { 1 + r.below(90) };
        let (m, n) = (1 + r.below(40), 1 + r.below(300));
        let (a, b) = (Matrix::<A>::random(&mut r, 1, m, k, true), Matrix::<B>::random(&mut r, 1, k, n, true));
        let sources: [&dyn PackSource<i32>; 2] =
            [&groups_of(&a, isa, Side::A, B::SIGNED, k), &groups_of(&b, isa, Side::B, A::SIGNED, k)];
        let panels = if isa.tiled() { (32, 32) } else { (r.pick(&[6, 8, 14]), r.pick(&[12, 16, 32, 48])) };
        let k_len = isa.packed_k(k);
        let pack = |source: &dyn PackSource<i32>, rows, panel| {
            // In one piece, or in several that are cut anywhere.
            let layout = PackedLayout { rows, k: k_len, panel, kc: block(isa) };
            let mut whole = vec![i32::MIN; layout.elements()];
            assert!(layout.pack(source, 1, &Workers::new(2), &mut whole));
            whole
        };
        let (pa, pb) = (pack(sources[0], m, panels.0), pack(sources[1], n, panels.1));
        for _ in 0..60 {
            let (i, j) = (r.below(m), r.below(n));
            let want = (0..k).fold(0i32, |s, q| s.wrapping_add(a.get(0, i, q).value() * b.get(0, q, j).value()));
            // Block by block of K, all panels of each.
            let mut got = 0i32;
            for first in (0..k_len).step_by(block(isa)) {
                let here = block(isa).min(k_len - first);
                let part = |data: &[i32], rows: usize, panel: usize, at: usize| {
                    let from = rows.next_multiple_of(panel) * first + at / panel * panel * here;
                    data[from..from + panel * here].to_vec()
                };
                let (x, y) = (part(&pa, m, panels.0, i), part(&pb, n, panels.1, j));
                got = got.wrapping_add(multiply(isa, &x, &y, panels, (i % panels.0, j % panels.1), here));
            }
            assert_eq!(got, want, "{isa:?} {m} x {n} x {k} at {i} {j}, panels {panels:?}");
        }
    }
}

#[test]
fn groups_of_four_are_packed_so_that_their_products_are_those_of_the_numbers() {
    packed_matmuls::<i8, i8>(60);
    packed_matmuls::<i8, u8>(60);
    packed_matmuls::<u8, i8>(60);
    packed_matmuls::<u8, u8>(60);
}

fn random_matmuls<A: Value + Byte, B: Value + Byte>(rounds: usize) {
    let mut r = Random::new();
    let pools = [Workers::new(1), Workers::new(2), Workers::new(3)];
    for isa in sets::<A, B>().into_iter().filter(|isa| isa.available()) {
        for round in 0..rounds {
            let size = |r: &mut Random| if r.below(3) == 0 { 1 + r.below(8) } else { 1 + r.below(120) };
            let (batch, m, n) = (r.pick(&[1, 1, 2, 3]), size(&mut r), size(&mut r));
            // Around the ends of blocks of K, too.
            let block = 4 * isa.dot4_block();
            let k = if r.below(4) == 0 { block * (1 + r.below(3)) + r.below(9) - 4 } else { size(&mut r) };
            let a = Matrix::<A>::random(&mut r, batch, m, k, false);
            let b = Matrix::<B>::random(&mut r, batch, k, n, false);
            let mut c = Matrix::<i32>::random(&mut r, batch, m, n, true);
            let blocking = random_blocking(&mut r);
            let shape = ContractSizes { batch, m, n, k: isa.packed_k(k) };
            let pa = groups_of(&a, isa, Side::A, B::SIGNED, k);
            let pb = groups_of(&b, isa, Side::B, A::SIGNED, k);
            run(&Gemm { isa, shape, a: &pa, b: &pb, out: Output::Plain(c.as_c()), blocking }, &pools[round % 3]);
            for _ in 0..100 {
                let (p, i, j) = (r.below(batch), r.below(m), r.below(n));
                let mut pairs = (0..k).map(|q| (a.get(p, i, q).value(), b.get(p, q, j).value()));
                i32::check(c.get(p, i, j), &mut pairs, &|| format!("{isa:?} {shape:?} {blocking:?} at {p} {i} {j}"));
            }
        }
    }
}

#[test]
fn bytes_multiply_exactly_in_dot4() {
    random_matmuls::<i8, i8>(60);
    random_matmuls::<i8, u8>(60);
    random_matmuls::<u8, i8>(60);
    random_matmuls::<u8, u8>(60);
}

#[test]
fn the_largest_bytes_multiply_exactly_in_dot4() {
    for isa in sets::<i8, i8>().into_iter().filter(|isa| isa.available()) {
        let (m, n, k) = (17, 35, 5000);
        for (x, y) in [(i8::MIN, i8::MIN), (i8::MIN, i8::MAX), (i8::MAX, i8::MAX)] {
            let (a, b, mut c) = (vec![x; m * k], vec![y; k * n], vec![1; m * n]);
            let sa = Dot4::new((isa, Side::A), true, Strided::dense_a(&a, 1, m, k).unwrap(), k);
            let sb = Dot4::new((isa, Side::B), true, Strided::dense_b(&b, 1, k, n).unwrap(), k);
            let shape = ContractSizes::matmul(m, n, isa.packed_k(k));
            let blocking = Blocking { mr: 0, nr: 0, mc: 64, nc: 64, kc: 64 };
            let out = Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap());
            run(&Gemm { isa, shape, a: &sa, b: &sb, out, blocking }, &Workers::new(1));
            assert!(c.iter().all(|&z| z == k as i32 * i32::from(x) * i32::from(y)), "{isa:?} {x} {y}");
        }
    }
}
