//! Every type, instruction set, stride and output against the exact result.

use super::super::*;
use super::*;
use crate::contract::gemv::Gemv;

fn random_shape(r: &mut Random) -> ContractSizes {
    let size = |r: &mut Random| match r.below(6) {
        0 => 1,
        1 => r.below(4),
        2 | 3 => 1 + r.below(20),
        _ => 1 + r.below(100),
    };
    ContractSizes { batch: r.pick(&[1, 1, 1, 2, 3, 0]), m: size(r), n: size(r), k: size(r) }
}

/// Some elements of C, not all: checking costs more than computing.
fn spots(r: &mut Random, shape: ContractSizes) -> Vec<(usize, usize, usize)> {
    let ContractSizes { batch, m, n, .. } = shape;
    let total = batch * m * n;
    let count = total.min(300);
    (0..count)
        .map(|i| {
            let at = if count == total { i } else { r.below(total) };
            (at / (m * n), at / n % m, at % n)
        })
        .collect()
}

fn random_matmuls<S: Value + Widen<T>, T: Tested>(rounds: usize) {
    let mut r = Random::new();
    let pools = [Workers::new(1), Workers::new(2), Workers::new(3)];
    for isa in isas() {
        for round in 0..rounds {
            let shape = random_shape(&mut r);
            let a = Matrix::<S>::random(&mut r, shape.batch, shape.m, shape.k, false);
            let b = Matrix::<S>::random(&mut r, shape.batch, shape.k, shape.n, false);
            let mut c = Matrix::<T>::random(&mut r, shape.batch, shape.m, shape.n, true);
            let blocking = random_blocking(&mut r);
            let before = c.data.clone();
            let (sa, sb) = (a.as_a(), b.as_b());
            run(&Gemm { isa, shape, a: &sa, b: &sb, out: Output::Plain(c.as_c()), blocking }, &pools[round % 3]);
            for (p, i, j) in spots(&mut r, shape) {
                let mut pairs = (0..shape.k).map(|q| (a.get(p, i, q).widen(), b.get(p, q, j).widen()));
                let what = || format!("{isa:?} {shape:?} {blocking:?} at {p} {i} {j}, C strides {} {}", c.row, c.col);
                T::check(c.get(p, i, j), &mut pairs, &what);
            }
            // What lies between the elements of C is somebody else's.
            let mut mine = vec![false; c.data.len()];
            for p in 0..shape.batch {
                for i in 0..shape.m {
                    for j in 0..shape.n {
                        mine[c.index(p, i, j)] = true;
                    }
                }
            }
            for (at, mine) in mine.iter().enumerate() {
                assert!(*mine || c.data[at] == before[at], "{isa:?} {shape:?} {blocking:?} wrote outside C");
            }
        }
    }
}

#[test]
fn f32_products_are_right_for_any_shape_and_strides() {
    random_matmuls::<f32, f32>(400);
}

#[test]
fn f64_products_are_right_for_any_shape_and_strides() {
    random_matmuls::<f64, f64>(300);
}

#[test]
fn sixteen_bit_floats_are_multiplied_exactly_and_summed_in_f32() {
    random_matmuls::<f16, f32>(150);
    random_matmuls::<bf16, f32>(150);
}

#[test]
fn integer_matmuls_wrap() {
    random_matmuls::<i32, i32>(120);
    random_matmuls::<i64, i64>(120);
    random_matmuls::<i8, i32>(40);
    random_matmuls::<u8, i32>(40);
    random_matmuls::<i16, i32>(40);
    random_matmuls::<u16, i32>(40);
    random_matmuls::<u32, i32>(40);
    random_matmuls::<i8, i64>(40);
    random_matmuls::<u32, i64>(40);
    random_matmuls::<u64, i64>(40);
}

/// Matmuls with one row or one column, of matrices stored as `S` and a vector for all or one for each, stored as `V`; the same on any
/// number of threads, whether results are stored or passed on.
fn gemv_matmuls<S: Value + Widen<T>, V: Value + Widen<T>, T: Tested>(shapes: &[(usize, usize)]) {
    let mut r = Random::new();
    let pools = [Workers::new(1), Workers::new(3)];
    for isa in isas() {
        for &(rows, k) in shapes {
            for by_column in [false, true] {
                let (m, n) = if by_column { (rows, 1) } else { (1, rows) };
                let batch = 1 + r.below(2);
                let (shape, blocking) = (ContractSizes { batch, m, n, k }, random_blocking(&mut r));
                let matrix = Matrix::<S>::random(&mut r, batch, rows, k, true);
                let vector = Matrix::<V>::random(&mut r, batch, 1, k, false);
                let (sm, sv) = (matrix.as_a(), vector.as_a());
                let (a, b): (&dyn PackSource<T>, &dyn PackSource<T>) = if by_column { (&sm, &sv) } else { (&sv, &sm) };
                let results = [(0, false), (1, false), (1, true)].map(|(pool, passed)| {
                    // What was there before counts for nothing.
                    let mut c: Vec<T> = (0..batch * rows).map(|_| T::random(&mut r)).collect();
                    let plain = Plain::dense(&mut c, batch, m, n).unwrap();
                    let sink = Converted::new(plain, |x: T| x);
                    let out = if passed { Output::Sink(&sink) } else { Output::Plain(plain) };
                    match Gemv::new(isa, shape, a, b) {
                        Some(gemv) => {
                            let mut acc = vec![T::ZERO; gemv.elements()];
                            gemv.run(isa, a, b, &out, &pools[pool], &mut acc);
                        }
                        None => run(&Gemm { isa, shape, a, b, out, blocking }, &pools[pool]),
                    }
                    c
                });
                assert!(results.iter().all(|c| *c == results[0]), "{isa:?} {shape:?}");
                for (p, i, j) in spots(&mut r, shape) {
                    let at = i.max(j);
                    let mut pairs = (0..k).map(|q| (matrix.get(p, at, q).widen(), vector.get(p, 0, q).widen()));
                    let what = || format!("{isa:?} {shape:?} at {p} {i} {j}, strides {} {}", matrix.row, matrix.col);
                    T::check(results[0][p * rows + at], &mut pairs, &what);
                }
            }
        }
    }
}

#[test]
fn matmuls_with_a_vector_are_right_for_any_length_and_type() {
    let mut r = Random::new();
    let mut shapes: Vec<(usize, usize)> = (0..60).map(|_| (1 + r.below(40), 1 + r.below(40))).collect();
    // Around a block that is widened at a time, several chunks, several slices.
    shapes.extend([
        (511, 9),
        (513, 17),
        (1030, 8),
        (9, 511),
        (17, 513),
        (8, 1030),
        (5000, 70),
        (70, 5000),
        (3, 20_000),
    ]);
    gemv_matmuls::<f32, f32, f32>(&shapes);
    gemv_matmuls::<f64, f64, f64>(&shapes);
    gemv_matmuls::<bf16, bf16, f32>(&shapes);
    gemv_matmuls::<f16, f16, f32>(&shapes);
    gemv_matmuls::<bf16, f32, f32>(&shapes);
    gemv_matmuls::<f32, f16, f32>(&shapes);
    gemv_matmuls::<i32, i32, i32>(&shapes);
    gemv_matmuls::<i64, i64, i64>(&shapes);
    gemv_matmuls::<i8, i8, i32>(&shapes);
    gemv_matmuls::<u8, i16, i32>(&shapes);
    gemv_matmuls::<i32, u8, i32>(&shapes);
    gemv_matmuls::<u32, u64, i64>(&shapes);
    gemv_matmuls::<Complex<f32>, Complex<f32>, Complex<f32>>(&shapes);
    // More than caches hold: what comes later is prefetched, past the end of the matrix.
    gemv_matmuls::<f32, f32, f32>(&[(4200, 530), (530, 4200)]);
    gemv_matmuls::<bf16, bf16, f32>(&[(4200, 1030), (1030, 4200)]);
}

#[test]
fn complex_matmuls_are_right() {
    random_matmuls::<Complex<f32>, Complex<f32>>(80);
    random_matmuls::<Complex<f64>, Complex<f64>>(80);
}

/// Remembers what it was given, and how often.
struct Recorder {
    m: usize,
    n: usize,
    cells: parking_lot::Mutex<Vec<(f32, usize)>>,
}

impl TileSink<f32> for Recorder {
    fn store(&self, at: &TileAt, tile: &[f32]) {
        let mut cells = self.cells.lock();
        for i in 0..at.rows {
            for j in 0..at.cols {
                let cell = &mut cells[(at.batch * self.m + at.row + i) * self.n + at.col + j];
                *cell = (tile[i * at.ld + j], cell.1 + 1);
            }
        }
    }
}

#[test]
fn an_epilogue_sees_every_element_once_with_its_final_sum() {
    let mut r = Random::new();
    let workers = Workers::new(2);
    for isa in isas() {
        for round in 0..150 {
            let mut shape = random_shape(&mut r);
            if round % 10 == 0 {
                shape.k = 2000;
            }
            let a = Matrix::<f32>::random(&mut r, shape.batch, shape.m, shape.k, false);
            let b = Matrix::<f32>::random(&mut r, shape.batch, shape.k, shape.n, false);
            let blocking = random_blocking(&mut r);
            let sink =
                Recorder { m: shape.m, n: shape.n, cells: vec![(f32::NAN, 0); shape.batch * shape.m * shape.n].into() };
            let (sa, sb) = (a.as_a(), b.as_b());
            run(&Gemm { isa, shape, a: &sa, b: &sb, out: Output::Sink(&sink), blocking }, &workers);
            let cells = sink.cells.into_inner();
            assert!(cells.iter().all(|c| c.1 == 1), "{isa:?} {shape:?} {blocking:?}");
            for (p, i, j) in spots(&mut r, shape) {
                let mut pairs = (0..shape.k).map(|q| (a.get(p, i, q), b.get(p, q, j)));
                let got = cells[(p * shape.m + i) * shape.n + j].0;
                f32::check(got, &mut pairs, &|| format!("{isa:?} {shape:?} {blocking:?} at {p} {i} {j}"));
            }
        }
    }
}

#[test]
fn results_can_be_narrowed_on_their_way_out() {
    let (m, n, k) = (37, 29, 61);
    let mut r = Random::new();
    let a = Matrix::<f16>::random(&mut r, 1, m, k, true);
    let b = Matrix::<f16>::random(&mut r, 1, k, n, true);
    let mut c = Matrix::<f16>::random(&mut r, 1, m, n, true);
    let isa = MicroKernel::detect();
    let sink = Converted::new(c.as_c(), f16::from_f32);
    let (sa, sb) = (a.as_a(), b.as_b());
    let blocking = random_blocking(&mut r);
    run(
        &Gemm::<f32> { isa, shape: ContractSizes::matmul(m, n, k), a: &sa, b: &sb, out: Output::Sink(&sink), blocking },
        &Workers::new(2),
    );
    for i in 0..m {
        for j in 0..n {
            let want: f64 = (0..k).map(|q| a.get(0, i, q).to_f64() * b.get(0, q, j).to_f64()).sum();
            assert!((c.get(0, i, j).to_f64() - want).abs() <= 1e-5 + want.abs() / 2048.0);
        }
    }
}

#[test]
fn a_k_of_zero_gives_zeros_and_an_empty_result_is_left_alone() {
    let workers = Workers::new(2);
    for isa in isas() {
        let mut c = vec![7.0f32; 35];
        let empty: [f32; 0] = [];
        let (a, b) = (Strided::dense_a(&empty, 1, 5, 0).unwrap(), Strided::dense_b(&empty, 1, 0, 7).unwrap());
        let blocking = Blocking { mr: 6, nr: 16, mc: 4, nc: 4, kc: 4 };
        for (m, n) in [(5, 7), (1, 7), (5, 1)] {
            c.fill(7.0);
            let out = Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap());
            run(&Gemm { isa, shape: ContractSizes::matmul(m, n, 0), a: &a, b: &b, out, blocking }, &workers);
            assert!(c[..m * n].iter().all(|&x| x == 0.0) && c[m * n..].iter().all(|&x| x == 7.0));
        }
        let sink = Recorder { m: 5, n: 7, cells: vec![(f32::NAN, 0); 35].into() };
        run(
            &Gemm { isa, shape: ContractSizes::matmul(5, 7, 0), a: &a, b: &b, out: Output::Sink(&sink), blocking },
            &workers,
        );
        assert!(sink.cells.into_inner().iter().all(|&c| c == (0.0, 1)));
        c.fill(7.0);
        for shape in [
            ContractSizes::matmul(0, 7, 3),
            ContractSizes::matmul(5, 0, 3),
            ContractSizes { batch: 0, ..ContractSizes::matmul(5, 7, 3) },
        ] {
            let out = Output::Plain(Plain::dense(&mut c, 1, 5, 7).unwrap());
            Gemm { isa, shape, a: &a, b: &b, out, blocking }.run(&workers, &mut []).unwrap();
            assert!(c.iter().all(|&x| x == 7.0));
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut r = Random::new();
    let pools = [Workers::new(1), Workers::new(2), Workers::new(3)];
    let topology = crate::topology::Topology::detect();
    let shapes = [(1, 3000, 700), (700, 1, 3000), (1, 1, 100_000), (64, 64, 4096), (150, 130, 300), (20, 700, 600)];
    for isa in isas() {
        for (m, n, k) in shapes {
            let shape = ContractSizes::matmul(m, n, k);
            let a = Matrix::<f32>::random(&mut r, 1, m, k, true);
            let b = Matrix::<f32>::random(&mut r, 1, k, n, true);
            let fitted = Blocking::for_caches::<f32>(&topology, isa, shape);
            // Tiles for the pool, and for more threads than it has.
            let results = [(0, 1), (1, 2), (2, 3), (2, 16)].map(|(pool, threads)| {
                let (workers, blocking) = (&pools[pool], fitted.spread(shape, threads));
                let mut c = vec![0f32; m * n];
                let (sa, sb) = (a.as_a(), b.as_b());
                let out = Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap());
                run(&Gemm { isa, shape, a: &sa, b: &sb, out, blocking }, workers);
                c.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            });
            assert!(results.iter().all(|r| *r == results[0]), "{isa:?} {shape:?}");
            for (p, i, j) in spots(&mut r, shape) {
                let mut pairs = (0..k).map(|q| (a.get(p, i, q), b.get(p, q, j)));
                f32::check(f32::from_bits(results[0][i * n + j]), &mut pairs, &|| {
                    format!("{isa:?} {shape:?} at {i} {j}")
                });
            }
        }
    }
}

#[test]
fn matrices_in_place_give_what_packed_ones_do() {
    // One thread packs B where several read it in place, and cut A between panels.
    let mut r = Random::new();
    let (m, n, k) = (900, 200, 300);
    let shape = ContractSizes::matmul(m, n, k);
    let topology = crate::topology::Topology::detect();
    let [a, b] = [m * k, k * n].map(|count| (0..count).map(|_| f32::random(&mut r)).collect::<Vec<f32>>());
    for isa in isas() {
        let results = [1, 2, 3, 7].map(|threads| {
            let blocking = Blocking::for_caches::<f32>(&topology, isa, shape).spread(shape, threads);
            let mut c = vec![f32::NAN; m * n];
            let (sa, sb) = (Strided::dense_a(&a, 1, m, k).unwrap(), Strided::dense_b(&b, 1, k, n).unwrap());
            let out = Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap());
            run(&Gemm { isa, shape, a: &sa, b: &sb, out, blocking }, &Workers::new(threads));
            c.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        });
        assert!(results.iter().all(|r| *r == results[0]), "{isa:?}");
        for (_, i, j) in spots(&mut r, shape) {
            let mut pairs = (0..k).map(|q| (a[i * k + q], b[q * n + j]));
            f32::check(f32::from_bits(results[0][i * n + j]), &mut pairs, &|| format!("{isa:?} at {i} {j}"));
        }
    }
}

#[test]
fn complex_sums_that_overflow_do_so_wherever_they_are() {
    // A row by a matrix whose K is cut into slices.
    let (n, k) = (4096, 128);
    let shape = ContractSizes::matmul(1, n, k);
    let workers = Workers::new(2);
    let large = Complex::new(1e20f32, 0.0);
    for isa in isas() {
        for at in [3, 100] {
            let (mut a, mut b) = (vec![Complex::new(0f32, 0.0); k], vec![Complex::new(0f32, 0.0); k * n]);
            a[at] = large;
            b[at * n..(at + 1) * n].fill(large);
            let mut c = vec![Complex::new(f32::NAN, f32::NAN); n];
            let (sa, sb) = (Strided::dense_a(&a, 1, 1, k).unwrap(), Strided::dense_b(&b, 1, k, n).unwrap());
            let out = Output::Plain(Plain::dense(&mut c, 1, 1, n).unwrap());
            let blocking = Blocking { mr: 4, nr: 8, mc: 4, nc: 64, kc: 64 };
            run(&Gemm { isa, shape, a: &sa, b: &sb, out, blocking }, &workers);
            assert!(c.iter().all(|x| *x == Complex::new(f32::INFINITY, 0.0)), "{isa:?}, k_len {at}: {}", c[0]);
        }
    }
}

#[test]
fn infinities_and_nans_pass_through() {
    let workers = Workers::new(1);
    for isa in isas() {
        for n in [1, 5, 16, 40] {
            let (m, k) = (9, 20);
            let mut a = vec![1.0f32; m * k];
            let b = vec![1.0f32; k * n];
            (a[3 * k + 7], a[5 * k + 19]) = (f32::INFINITY, f32::NAN);
            let mut c = vec![0f32; m * n];
            let (sa, sb) = (Strided::dense_a(&a, 1, m, k).unwrap(), Strided::dense_b(&b, 1, k, n).unwrap());
            let out = Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap());
            let blocking = Blocking { mr: 6, nr: 16, mc: 6, nc: 16, kc: 8 };
            run(&Gemm { isa, shape: ContractSizes::matmul(m, n, k), a: &sa, b: &sb, out, blocking }, &workers);
            for (i, row) in c.chunks(n).enumerate() {
                assert!(row.iter().all(|&x| match i {
                    3 => x == f32::INFINITY,
                    5 => x.is_nan(),
                    _ => x == 20.0,
                }));
            }
        }
    }
}

#[test]
fn bad_arguments_are_errors() {
    let workers = Workers::new(1);
    let (a, mut c) = (vec![1.0f32; 64 * 64], vec![0f32; 64 * 64]);
    assert!(Strided::dense_a(&a, 1, 64, 65).is_none() && Plain::dense(&mut c, 2, 64, 64).is_none());
    let s = Strided::dense_a(&a, 1, 64, 64).unwrap();
    let table = [0isize; 3];
    // SAFETY: three equal offsets, inside the data.
    let short = unsafe { Gathered::from_raw(a.as_ptr(), &table, &table, Batch::SAME, &[], 0.0) };
    let blocking = Blocking { mr: 0, nr: 0, mc: 16, nc: 16, kc: 16 };
    let out = Output::Plain(Plain::dense(&mut c, 1, 64, 64).unwrap());
    let g = Gemm { isa: MicroKernel::Portable, shape: ContractSizes::matmul(64, 64, 64), a: &s, b: &s, out, blocking };
    assert!(matches!(g.run(&workers, &mut [0; 100]), Err(GemmError::WorkspaceTooSmall { given: 100, .. })));
    let missing = if cfg!(target_arch = "aarch64") { MicroKernel::Avx2 } else { MicroKernel::Neon };
    assert_eq!(Gemm { isa: missing, ..g }.run(&workers, &mut []), Err(GemmError::NoSuchMicroKernel(missing)));
    assert_eq!(Gemm { b: &short, ..g }.run(&workers, &mut []), Err(GemmError::OperandTooSmall('B')));
    assert_eq!(Gemm { a: &short, ..g }.run(&workers, &mut []), Err(GemmError::OperandTooSmall('A')));
}

/// Writes tiles where their accumulators waited.
struct AtHome<'a>(Plain<'a, f32>);

impl TileSink<f32> for AtHome<'_> {
    fn store(&self, at: &TileAt, tile: &[f32]) {
        crate::contract::packed::sink::scatter(&self.0, at, tile, |x| x);
    }

    fn home(&self) -> Option<Plain<'_, f32>> {
        Some(self.0)
    }
}

#[test]
fn tiles_of_many_panels_are_packed_by_several_threads() {
    let mut r = Random::new();
    let pools = [Workers::new(1), Workers::new(2), Workers::new(6)];
    for isa in isas() {
        let shape = ContractSizes { batch: 2, m: 300 + r.below(40), n: 560 + r.below(40), k: 700 + r.below(100) };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        a.resize_with(2 * shape.batch * shape.m * shape.k, || f32::random(&mut r));
        b.resize_with(2 * shape.batch * shape.k * shape.n, || f32::random(&mut r));
        // Every other element: nothing can be read in place.
        let (row_a, row_b) = (2 * shape.k as isize, 2 * shape.n as isize);
        // SAFETY: the vectors have twice as many elements as the operands, and outlive them.
        let (sa, sb) = unsafe {
            (
                Strided::from_raw(a.as_ptr(), row_a, 2, Batch::Stride(row_a * shape.m as isize)),
                Strided::from_raw(b.as_ptr(), 2, row_b, Batch::Stride(row_b * shape.k as isize)),
            )
        };
        let blocking = Blocking { mr: 0, nr: 0, mc: 150 + r.below(30), nc: 250 + r.below(30), kc: 512 };
        let results = [0, 1, 2].map(|pool| {
            let mut c = vec![f32::NAN; shape.batch * shape.m * shape.n];
            let out = Output::Plain(Plain::dense(&mut c, shape.batch, shape.m, shape.n).unwrap());
            run(&Gemm { isa, shape, a: &sa, b: &sb, out, blocking }, &pools[pool]);
            c.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        });
        assert!(results.iter().all(|c| *c == results[0]), "{isa:?} {shape:?} {blocking:?}");
        for (p, i, j) in spots(&mut r, shape) {
            let (row, col) = (p * shape.m + i, 2 * j);
            let mut pairs =
                (0..shape.k).map(|q| (a[2 * (row * shape.k + q)], b[2 * (p * shape.k + q) * shape.n + col]));
            let got = f32::from_bits(results[0][row * shape.n + j]);
            f32::check(got, &mut pairs, &|| format!("{isa:?} {shape:?} {blocking:?} at {p} {i} {j}"));
        }
    }
}

#[test]
fn sums_are_the_same_however_much_is_packed_at_a_time() {
    let mut r = Random::new();
    // One and two threads compute strips, six pack everything first.
    let pools = [Workers::new(1), Workers::new(2), Workers::new(6)];
    let k = 2500 + r.below(100);
    for isa in isas() {
        for (batch, m, n) in [(1, 300, 540), (1, 260, 300), (2, 61, 401), (1, 333, 59)] {
            let shape = ContractSizes { batch, m, n, k };
            let blocking = Blocking { mr: 0, nr: 0, mc: 20 + r.below(30), nc: 30 + r.below(30), kc: 60 + r.below(99) };
            let a = Matrix::<f32>::random(&mut r, batch, m, k, true);
            let b = Matrix::<f32>::random(&mut r, batch, k, n, true);
            let (sa, sb) = (a.as_a(), b.as_b());
            let mut results = Vec::new();
            let mut room = Vec::new();
            for workers in &pools {
                for way in 0..3 {
                    let mut c = vec![f32::NAN; batch * m * n];
                    let plain = Plain::dense(&mut c, batch, m, n).unwrap();
                    let (home, away) = (AtHome(plain), Converted::new(plain, |x: f32| x));
                    let out = match way {
                        0 => Output::Plain(plain),
                        1 => Output::Sink(&home),
                        _ => Output::Sink(&away),
                    };
                    let g = Gemm { isa, shape, a: &sa, b: &sb, out, blocking };
                    run(&g, workers);
                    room.push(g.workspace(workers.threads()));
                    results.push(c.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
                }
            }
            assert!(results.iter().all(|c| *c == results[0]), "{isa:?} {shape:?} {blocking:?}");
            for (p, i, j) in spots(&mut r, shape) {
                let mut pairs = (0..k).map(|q| (a.get(p, i, q), b.get(p, q, j)));
                let got = f32::from_bits(results[0][(p * m + i) * n + j]);
                f32::check(got, &mut pairs, &|| format!("{isa:?} {shape:?} {blocking:?} at {p} {i} {j}"));
            }
            // Two operands of 8 MB together are packed in parts, unless accumulators cannot wait or there are many threads.
            if (m, n) == (300, 540) {
                let (few, much): (Vec<_>, Vec<_>) = (0..9).partition(|i| i / 3 < 2 && i % 3 < 2);
                assert!(few.iter().all(|&i| room[i] < 4 << 20), "{isa:?} {blocking:?}: {room:?}");
                assert!(much.iter().all(|&i| room[i] > 8 << 20), "{isa:?} {blocking:?}: {room:?}");
            }
        }
    }
}
