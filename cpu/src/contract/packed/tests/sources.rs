//! Packing: every source writes the layout that it promises.

use super::super::*;
use super::*;

/// What a packed block must hold.
fn expected<T: Element>(block: &PackBlock, get: impl Fn(usize, usize) -> T) -> Vec<T> {
    let mut all = vec![T::ZERO; block.len()];
    for r in 0..block.rows {
        for k in 0..block.k_len {
            all[r / block.panel * block.panel * block.k_len + k * block.panel + r % block.panel] =
                get(block.row + r, block.k + k);
        }
    }
    all
}

fn random_block(r: &mut Random, batch: usize, rows: usize, k_len: usize) -> PackBlock {
    let (row, k) = (r.below(rows), r.below(k_len));
    let panel = r.pick(&[4, 6, 8, 12, 14, 16, 32, 5]);
    PackBlock { batch: r.below(batch), row, rows: 1 + r.below(rows - row), k, k_len: 1 + r.below(k_len - k), panel }
}

fn strided_blocks<S: Value + Widen<T>, T: Tested>(rounds: usize) {
    let mut r = Random::new();
    for _ in 0..rounds {
        let (batch, rows, k_len) = (1 + r.below(3), 1 + r.below(80), 1 + r.below(90));
        let m = Matrix::<S>::random(&mut r, batch, rows, k_len, true);
        let block = random_block(&mut r, batch, rows, k_len);
        let mut got = vec![T::random(&mut r); block.len()];
        PackSource::<T>::pack(&m.as_a(), &block, &mut got);
        let want = expected(&block, |i, k| m.get(block.batch, i, k).widen());
        assert!(got == want, "{block:?}, strides {} {}", m.row, m.col);
    }
}

#[test]
fn strided_matrices_are_packed_as_promised() {
    strided_blocks::<f32, f32>(600);
    strided_blocks::<f64, f64>(400);
    strided_blocks::<f16, f32>(300);
    strided_blocks::<bf16, f32>(300);
    strided_blocks::<i64, i64>(100);
    strided_blocks::<i8, i32>(100);
    strided_blocks::<Complex<f32>, Complex<f32>>(200);
    strided_blocks::<Complex<f64>, Complex<f64>>(100);
}

/// A convolution's window access over an image `[channels, height, width]` or `[height, width, channels]`.
struct Windows {
    rows: Vec<isize>,
    k_offsets: Vec<isize>,
    row_y: Vec<i32>,
    row_x: Vec<i32>,
    k_y: Vec<i32>,
    k_x: Vec<i32>,
    size: (usize, usize, usize),
}

fn windows(r: &mut Random) -> Windows {
    let (c, h, w) = (1 + r.below(11), 1 + r.below(20), 1 + r.below(30));
    let (kh, kw) = (1 + r.below(4), 1 + r.below(4));
    let (stride, dilation, pad) = (1 + r.below(3) as isize, 1 + r.below(2) as isize, r.below(3) as isize);
    let out = |size: usize, kernel: usize| {
        let span = dilation * (kernel as isize - 1) + 1;
        ((size as isize + 2 * pad - span) / stride + 1).max(1)
    };
    let (oh, ow) = (out(h, kh), out(w, kw));
    let (sc, sy, sx) =
        if r.below(2) == 0 { ((h * w) as isize, w as isize, 1) } else { (1, (w * c) as isize, c as isize) };
    let mut v = Windows {
        rows: vec![],
        k_offsets: vec![],
        row_y: vec![],
        row_x: vec![],
        k_y: vec![],
        k_x: vec![],
        size: (c, h, w),
    };
    for y in 0..oh {
        for x in 0..ow {
            let (y, x) = (y * stride - pad, x * stride - pad);
            v.rows.push(y * sy + x * sx);
            v.row_y.push(y as i32);
            v.row_x.push(x as i32);
        }
    }
    let mut add_k = |ci: usize, ky: usize, kx: usize| {
        let (y, x) = (ky as isize * dilation, kx as isize * dilation);
        v.k_offsets.push(ci as isize * sc + y * sy + x * sx);
        v.k_y.push(y as i32);
        v.k_x.push(x as i32);
    };
    if sc == 1 {
        (0..kh).for_each(|y| (0..kw).for_each(|x| (0..c).for_each(|ci| add_k(ci, y, x))));
    } else {
        (0..c).for_each(|ci| (0..kh).for_each(|y| (0..kw).for_each(|x| add_k(ci, y, x))));
    }
    v
}

fn window_blocks<S: Value + Widen<T>, T: Tested>(rounds: usize) {
    let mut r = Random::new();
    for _ in 0..rounds {
        let v = windows(&mut r);
        let (c, h, w) = v.size;
        let image: Vec<S> = (0..2 * c * h * w).map(|_| S::random(&mut r)).collect();
        let guards = [
            GuardTable { rows: &v.row_y, k_offsets: &v.k_y, extent: h as i32 },
            GuardTable { rows: &v.row_x, k_offsets: &v.k_x, extent: w as i32 },
        ];
        let fill = S::random(&mut r);
        let batch = Batch::Stride((c * h * w) as isize);
        // SAFETY: the guards exclude what is outside the image.
        let source = unsafe { Gathered::from_raw(image.as_ptr(), &v.rows, &v.k_offsets, batch, &guards, fill) };
        assert!(PackSource::<T>::covers(&source, 2, v.rows.len(), v.k_offsets.len()));
        let block = random_block(&mut r, 2, v.rows.len(), v.k_offsets.len());
        let mut got = vec![T::random(&mut r); block.len()];
        source.pack(&block, &mut got);
        let want = expected(&block, |i, k| {
            let (y, x) = (v.row_y[i] + v.k_y[k], v.row_x[i] + v.k_x[k]);
            if y < 0 || x < 0 || y >= h as i32 || x >= w as i32 {
                fill.widen()
            } else {
                image[((block.batch * c * h * w) as isize + v.rows[i] + v.k_offsets[k]) as usize].widen()
            }
        });
        assert!(got == want, "{block:?} {:?}", v.size);
    }
}

#[test]
fn padded_windows_read_the_fill_value_outside() {
    window_blocks::<f32, f32>(1500);
    window_blocks::<f64, f64>(100);
    window_blocks::<f16, f32>(100);
    window_blocks::<i16, i32>(100);
}

#[test]
fn offset_tables_without_guards_read_anything() {
    let mut r = Random::new();
    for _ in 0..500 {
        let data: Vec<f32> = (0..500).map(|_| f32::random(&mut r)).collect();
        let (rows, k_len) = (1 + r.below(60), 1 + r.below(40));
        let step = r.pick(&[1, 1, 2, 3]);
        let row_offsets: Vec<isize> =
            (0..rows).map(|i| if r.below(9) > 0 { i * step } else { r.below(250) } as isize).collect();
        let unit = r.below(2) == 0;
        let k_offsets: Vec<isize> = (0..k_len).map(|i| if unit { i } else { r.below(250) } as isize).collect();
        // SAFETY: the largest offset is below 500.
        let source = unsafe { Gathered::from_raw(data.as_ptr(), &row_offsets, &k_offsets, Batch::SAME, &[], 9.0) };
        let block = random_block(&mut r, 1, rows, k_len);
        let mut got = vec![f32::NAN; block.len()];
        source.pack(&block, &mut got);
        assert!(got == expected(&block, |i, k| data[(row_offsets[i] + k_offsets[k]) as usize]), "{block:?}");
    }
}

fn bytes<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an Element is plain numbers, without padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// A whole operand packed by several threads, piece by piece, against its blocks packed at once.
fn layouts<T: Element>(source: &dyn PackSource<T>, layout: PackedLayout, what: &str) {
    let PackedLayout { rows, k: k_len, panel, kc } = layout;
    let mut want = Vec::new();
    for k in (0..k_len).step_by(kc) {
        let block = PackBlock { batch: 0, row: 0, rows, k, k_len: kc.min(k_len - k), panel };
        let mut part = vec![T::ZERO; block.len()];
        source.pack(&block, &mut part);
        want.extend(part);
    }
    for threads in [1, 3] {
        // Any bytes that are not the operand's.
        let mut got: Vec<T> = want.iter().rev().copied().collect();
        assert!(layout.pack(source, 1, &Workers::new(threads), &mut got));
        // Pairs may be bits of numbers that are not equal to themselves.
        assert!(bytes(&got) == bytes(&want), "{what} {layout:?} on {threads} threads");
    }
}

#[test]
fn operands_are_packed_in_pieces_without_holes() {
    let mut r = Random::new();
    for _ in 0..6 {
        let (rows, k_len) = (150 + r.below(90), 1100 + r.below(200));
        let m = Matrix::<f32>::random(&mut r, 1, rows, k_len, true);
        // Parts of a panel, a panel each, and several at a time.
        for (panel, kc) in [(32, 512), (64, 384), (14, 1200), (6, 1400), (14, 96), (5, 40)] {
            layouts::<f32>(&m.as_a(), PackedLayout { rows, k: k_len, panel, kc }, "f32");
        }
        let m = Matrix::<bf16>::random(&mut r, 1, rows, k_len, true);
        layouts::<f32>(&m.as_a(), PackedLayout { rows, k: k_len, panel: 32, kc: 512 }, "bf16");
        for (isa, side) in
            [(MicroKernel::Amx, Side::A), (MicroKernel::Amx, Side::B), (MicroKernel::Avx512Bf16, Side::B)]
        {
            // Packing needs no instruction set.
            let pairs = Pairs::new((isa, side), m.as_a(), k_len);
            let k_len = isa.packed_k(k_len);
            layouts::<f32>(&pairs, PackedLayout { rows, k: k_len, panel: 32, kc: 512 }, "pairs");
        }
    }
}

#[test]
fn a_matmul_with_weights_packed_before_is_bit_identical() {
    let mut r = Random::new();
    let workers = Workers::new(2);
    for isa in isas() {
        for round in 0..60 {
            let shape =
                ContractSizes { batch: 1 + r.below(3), m: 1 + r.below(90), n: 1 + r.below(90), k: r.below(120) };
            let mut a = Matrix::<f32>::random(&mut r, 1, shape.m, shape.k, true);
            let mut b = Matrix::<f32>::random(&mut r, shape.batch, shape.k, shape.n, false);
            a.each = 0;
            if round % 2 == 0 {
                b.each = 0;
            }
            let blocking = random_blocking(&mut r);
            let (sa, sb) = (a.as_a(), b.as_b());
            let layout = |side, blocking| PackedLayout::new::<f32>(side, isa, shape, blocking);
            // A blocking other than the matmul's: then the packed form is read, not used as it is.
            let other = random_blocking(&mut r);
            let la = layout(Side::A, if round % 3 == 0 { &other } else { &blocking });
            let lb = layout(Side::B, &blocking);
            let (mut pa, mut pb) = (vec![0f32; la.elements()], vec![0f32; lb.elements()]);
            assert!(la.pack(&sa, 1, &workers, &mut pa) && lb.pack(&sb, 1, &workers, &mut pb));
            let (pa, pb) = (Packed::new(&pa, la).unwrap(), Packed::new(&pb, lb).unwrap());
            let compute = |a: &dyn PackSource<f32>, b: &dyn PackSource<f32>| {
                let mut c = vec![0f32; shape.batch * shape.m * shape.n];
                let out = Output::Plain(Plain::dense(&mut c, shape.batch, shape.m, shape.n).unwrap());
                run(&Gemm { isa, shape, a, b, out, blocking }, &workers);
                c
            };
            // A matmul with a vector has a way of its own for plain memory.
            if shape.m > 1 && shape.n > 1 {
                assert_eq!(compute(&pa, &sb), compute(&sa, &sb), "{isa:?} {shape:?} {blocking:?}");
            }
            if round % 2 == 0 {
                let both = compute(&pa, &pb);
                for (at, &x) in both.iter().enumerate() {
                    let (i, j) = (at / shape.n % shape.m, at % shape.n);
                    let mut pairs = (0..shape.k).map(|q| (a.get(0, i, q), b.get(0, q, j)));
                    f32::check(x, &mut pairs, &|| format!("{isa:?} {shape:?}"));
                }
            }
        }
    }
}
