//! Prints rates; run by hand: `cargo test --release speed -- --ignored --nocapture`, with `T` threads and `SHAPES` as MxKxN.

use std::time::Instant;

use super::super::*;
use super::Random;
use crate::topology::Topology;

#[test]
#[ignore = "prints timings"]
fn speed() {
    let mut r = Random::new();
    let threads: usize = std::env::var("T").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let workers = Workers::new(threads);
    let topology = Topology::detect();
    let isa = MicroKernel::detect();
    let shapes = std::env::var("SHAPES").unwrap_or(
        "1024x1024x1024 4096x64x256 64x64x4096 2048x512x2048 64x4096x64 256x256x256 128x128x128 64x64x64 32x32x32 16x16x16 2048x2048x2048 1x1024x1024 1024x1024x1".into(),
    );
    let over = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<usize>().ok());
    for text in shapes.split(' ') {
        let d: Vec<usize> = text.split('x').map(|s| s.parse().unwrap()).collect();
        let (m, k, n) = (d[0], d[1], d[2]);
        let a: Vec<f32> = (0..m * k).map(|_| r.unit() as f32).collect();
        let b: Vec<f32> = (0..n * k).map(|_| r.unit() as f32).collect();
        let mut c = vec![0f32; m * n];
        let shape = ContractSizes::matmul(m, n, k);
        let mut blocking = Blocking::for_caches::<f32>(&topology, isa, shape).spread(shape, threads);
        blocking.mc = over("MC").unwrap_or(blocking.mc);
        blocking.nc = over("NC").unwrap_or(blocking.nc);
        blocking.kc = over("KC").unwrap_or(blocking.kc);
        let mut ws = vec![0u8; workspace_bytes::<f32>(isa, shape, &blocking, true, threads)];
        let (sa, sb) = (Strided::dense_a(&a, 1, m, k).unwrap(), Strided::dense_b(&b, 1, k, n).unwrap());
        let g =
            Gemm { isa, shape, a: &sa, b: &sb, out: Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap()), blocking };
        let flop = 2.0 * (m * n * k) as f64;
        let reps = ((3e10 / flop) as usize).clamp(3, 20000);
        let mut peaks = Vec::new();
        let every = (reps / 30).max(1);
        let mut times: Vec<f64> = (0..reps)
            .map(|i| {
                if i % every == 0 {
                    peaks.push(peak());
                }
                let t = Clock::now(threads);
                g.run(&workers, &mut ws).unwrap();
                t.seconds()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        peaks.sort_by(f64::total_cmp);
        let t = times[times.len() / 2];
        let Blocking { mc, nc, kc, .. } = blocking;
        println!(
            "{text:>18} {:9.1} us {:7.1} GFLOP/s (best {:5.1}); core's peak {:5.1} (best {:5.1}); mc {mc} nc {nc} kc {kc}",
            t * 1e6,
            flop / t / 1e9,
            flop / times[0] / 1e9,
            peaks[peaks.len() / 2],
            peaks[peaks.len() - 1],
        );
    }
}

#[test]
#[ignore = "prints timings"]
fn convolution_speed() {
    let mut r = Random::new();
    let workers = Workers::new(1);
    let topology = Topology::detect();
    let isa = MicroKernel::detect();
    // Channels in and out, size, window, stride, padding; NCHW.
    for (ci, co, size, window, stride, pad) in [
        (3, 64, 224, 7, 2, 3),
        (64, 64, 56, 3, 1, 1),
        (128, 128, 28, 3, 1, 1),
        (256, 256, 14, 3, 1, 1),
        (512, 512, 7, 3, 1, 1),
        (64, 256, 56, 1, 1, 0),
        (256, 512, 56, 1, 2, 0),
    ] {
        let out = (size + 2 * pad - window) / stride + 1;
        let (m, n, k) = (co, out * out, ci * window * window);
        let image: Vec<f32> = (0..ci * size * size).map(|_| r.unit() as f32).collect();
        let weights: Vec<f32> = (0..m * k).map(|_| r.unit() as f32).collect();
        let mut c = vec![0f32; m * n];
        let at = |i: usize| (i * stride) as i32 - pad as i32;
        let row_y: Vec<i32> = (0..n).map(|i| at(i / out)).collect();
        let row_x: Vec<i32> = (0..n).map(|i| at(i % out)).collect();
        let rows: Vec<isize> = (0..n).map(|i| (row_y[i] * size as i32 + row_x[i]) as isize).collect();
        let k_y: Vec<i32> = (0..k).map(|i| (i / window % window) as i32).collect();
        let k_x: Vec<i32> = (0..k).map(|i| (i % window) as i32).collect();
        let k_offsets: Vec<isize> = (0..k)
            .map(|i| (i / (window * window) * size * size) as isize + (k_y[i] * size as i32 + k_x[i]) as isize)
            .collect();
        let guards = [
            GuardTable { rows: &row_y, k_offsets: &k_y, extent: size as i32 },
            GuardTable { rows: &row_x, k_offsets: &k_x, extent: size as i32 },
        ];
        let guards = if pad > 0 { &guards[..] } else { &[] };
        // SAFETY: the guards exclude what is outside the image.
        let b = unsafe { Gathered::from_raw(image.as_ptr(), &rows, &k_offsets, Batch::SAME, guards, 0.0) };
        let shape = ContractSizes::matmul(m, n, k);
        let blocking = Blocking::for_caches::<f32>(&topology, isa, shape);
        let layout = PackedLayout::new::<f32>(Side::A, isa, shape, &blocking);
        let mut packed = vec![0f32; layout.elements()];
        assert!(layout.pack(&Strided::dense_a(&weights, 1, m, k).unwrap(), 1, &workers, &mut packed));
        let a = Packed::new(&packed, layout).unwrap();
        let g = Gemm { isa, shape, a: &a, b: &b, out: Output::Plain(Plain::dense(&mut c, 1, m, n).unwrap()), blocking };
        let mut ws = vec![0u8; g.workspace(1)];
        let flop = 2.0 * (m * n * k) as f64;
        let mut times: Vec<f64> = (0..20)
            .map(|_| {
                let t = Clock::now(1);
                g.run(&workers, &mut ws).unwrap();
                t.seconds()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let Blocking { mc, nc, kc, .. } = blocking;
        println!(
            "{ci:>4} -> {co:>3} {size:>3}x{size:<3} {window}x{window}/{stride}: {:8.1} us {:6.1} GFLOP/s (best {:5.1}); peak {:5.1}; mc {mc} nc {nc} kc {kc}",
            times[10] * 1e6,
            flop / times[10] / 1e9,
            flop / times[0] / 1e9,
            peak(),
        );
    }
}

/// GFLOP/s of this core at this moment, by multiply-adds in registers: other work on the machine changes it.
#[cfg(target_arch = "x86_64")]
fn peak() -> f64 {
    use core::arch::x86_64::*;
    #[target_feature(enable = "avx2,fma")]
    fn burn(n: usize) -> f32 {
        let mut acc = [_mm256_set1_ps(1.0); 12];
        let x = _mm256_set1_ps(std::hint::black_box(0.999));
        let y = _mm256_set1_ps(std::hint::black_box(1e-3));
        for _ in 0..n {
            for a in &mut acc {
                *a = _mm256_fmadd_ps(*a, x, y);
            }
        }
        let sum = acc.into_iter().fold(_mm256_setzero_ps(), |s, a| _mm256_add_ps(s, a));
        _mm256_cvtss_f32(sum)
    }
    if !MicroKernel::Avx2.available() {
        return f64::NAN;
    }
    let n = 20000;
    let t = Clock::now(1);
    // SAFETY: the features were just found.
    std::hint::black_box(unsafe { burn(std::hint::black_box(n)) });
    (n * 12 * 16) as f64 / t.seconds() / 1e9
}

#[cfg(not(target_arch = "x86_64"))]
fn peak() -> f64 {
    f64::NAN
}

/// The time that a thread had a core, where one thread is measured: others' work does not count. Else the wall's time.
enum Clock {
    Wall(Instant),
    #[cfg(target_os = "linux")]
    Thread(f64),
}

impl Clock {
    #[cfg(target_os = "linux")]
    fn thread() -> f64 {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
        t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
    }

    fn now(threads: usize) -> Clock {
        #[cfg(target_os = "linux")]
        if threads == 1 {
            return Clock::Thread(Clock::thread());
        }
        Clock::Wall(Instant::now())
    }

    fn seconds(&self) -> f64 {
        match self {
            Clock::Wall(t) => t.elapsed().as_secs_f64(),
            #[cfg(target_os = "linux")]
            Clock::Thread(t) => Clock::thread() - t,
        }
    }
}
