//! Times of the shapes that people compare. Run with `cargo test --release -- --ignored --nocapture times_of`.

use std::time::Instant;

use millstream_core::backend::{Binding, Bindings, Kernel};
use millstream_core::memory::{RawMemory, StreamId};
use millstream_core::{Access, Binary, DType, Expr, ExprBuilder, Op, Reduce, Scalar, Unary};
use std::sync::Arc;

use super::testing::{launch, machine, reach};
use crate::map::MapKernel;
use crate::rows::RowsKernel;
use crate::simd::Isa;
use crate::stream::InlineStream;

/// Memory on huge pages where the system gives them, as the device's own memory is.
struct Memory(std::ptr::NonNull<u8>, std::alloc::Layout);

impl Memory {
    fn new(bytes: usize) -> Memory {
        let layout = std::alloc::Layout::from_size_align(bytes.max(64), 2 << 20).unwrap();
        // SAFETY: the size is not 0.
        let p = std::ptr::NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
        // SAFETY: advice about memory that was just allocated and not yet touched, and writes to it.
        unsafe {
            #[cfg(target_os = "linux")]
            libc::madvise(p.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
            std::ptr::write_bytes(p.as_ptr(), 0, bytes);
        }
        Memory(p, layout)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.0.as_ptr(), self.1) };
    }
}

fn time(name: &str, op: &Op, kernel: Arc<dyn Kernel>) {
    let ins: Vec<Memory> = op
        .inputs
        .iter()
        .map(|a| {
            let n = reach(a, &op.dims).1 as usize;
            let m = Memory::new(n * a.dtype.size());
            if a.dtype == DType::F32 {
                for i in 0..n {
                    // SAFETY: within the memory just allocated.
                    unsafe { *m.0.as_ptr().cast::<f32>().add(i) = ((i * 7919) % 1000) as f32 / 250.0 - 2.0 };
                }
            }
            m
        })
        .collect();
    let outs: Vec<Memory> =
        op.outputs.iter().map(|a| Memory::new(reach(a, &op.dims).1 as usize * a.dtype.size())).collect();
    let i: Vec<*const u8> = ins.iter().map(|m| m.0.as_ptr().cast_const()).collect();
    let o: Vec<*mut u8> = outs.iter().map(|m| m.0.as_ptr()).collect();
    launch(&*kernel, op, &i, &o);
    let prepared = kernel.prepare(op, &millstream_core::how::Schedule::default()).unwrap();
    let mut times: Vec<f64> = Vec::new();
    let begin = Instant::now();
    while times.len() < 7 || (begin.elapsed().as_secs_f64() < 0.7 && times.len() < 2000) {
        let t = now();
        super::testing::prepared(&*prepared, op, &i, &o);
        times.push(now() - t);
    }
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    println!(
        "{name:32} best {:9.4} ms  median {:9.4} ms  {:6.2} GB/s",
        best * 1e3,
        median * 1e3,
        op.least_bytes() as f64 / best / 1e9
    );
}

/// Seconds that this thread has computed, so that a busy machine does not count; wall time for several threads.
fn now() -> f64 {
    if threads() > 1 {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        return START.get_or_init(Instant::now).elapsed().as_secs_f64();
    }
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Nanoseconds of one launch of a small operation, bound once.
fn small(name: &str, op: &Op, kernel: &dyn Kernel) {
    let memory: Vec<Memory> = op
        .inputs
        .iter()
        .chain(&op.outputs)
        .map(|a| Memory::new(reach(a, &op.dims).1 as usize * a.dtype.size()))
        .collect();
    let raw: Vec<RawMemory> = memory.iter().map(|m| RawMemory::foreign(m.0.as_ptr(), m.1.size())).collect();
    let bound: Vec<Binding<'_>> =
        raw.iter().map(|memory| Binding { memory, offset: 0, start: 0, end: memory.bytes, pack_cache: None }).collect();
    let (inputs, outputs) = bound.split_at(op.inputs.len());
    let bindings = Bindings { inputs, outputs, params: &[], workspace: None, note: None };
    let (launch, stream) =
        (kernel.prepare(op, &millstream_core::how::Schedule::default()).unwrap(), InlineStream::new(StreamId(1)));
    let mut best = f64::INFINITY;
    for _ in 0..50 {
        let t = now();
        for _ in 0..1000 {
            launch.run(&bindings, &stream).unwrap();
        }
        best = best.min(now() - t);
    }
    println!("{name:32} {:9.1} ns a launch", best * 1e6);
}

#[test]
#[ignore = "a measurement"]
fn times_of_small_launches() {
    let unit = || Access::new(DType::F32, &[1]);
    for n in [1, 64, 1024] {
        let op = Op::map(&[n], vec![unit(), unit()], vec![unit()], add()).unwrap();
        small(&format!("add {n}"), &op, &*MapKernel::new(&op, machine(Isa::detect(), threads())).unwrap());
        let op = Op::map(&[n], vec![unit(), unit()], vec![unit()], chain()).unwrap();
        small(&format!("chain {n}"), &op, &*MapKernel::new(&op, machine(Isa::detect(), threads())).unwrap());
        let access = |s: &[isize]| Access::new(DType::F32, s);
        let op = Op::rows(&[n], 0, vec![access(&[1])], vec![access(&[0])], reduce(Reduce::Sum)).unwrap();
        small(&format!("sum {n}"), &op, &*RowsKernel::new(&op, machine(Isa::detect(), threads())).unwrap());
    }
    let row = || Access::new(DType::F32, &[64, 1]);
    let op = Op::rows(&[64, 64], 1, vec![row()], vec![row()], crate::rows::tests::softmax(DType::F32)).unwrap();
    let kernel = RowsKernel::new(&op, machine(Isa::detect(), threads())).unwrap();
    small("softmax 64x64", &op, &*kernel);
    println!("{}", kernel.text());
}

fn chain() -> Expr {
    let mut b = ExprBuilder::new();
    let (x, y) = (b.input(0, DType::F32), b.input(1, DType::F32));
    let c = b.constant(Scalar::new(1.5f32));
    let a = b.binary(Binary::Mul, c, x).unwrap();
    let a = b.binary(Binary::Add, a, y).unwrap();
    let t = b.unary(Unary::Tanh, a).unwrap();
    let s = b.unary(Unary::Sigmoid, x).unwrap();
    let p = b.binary(Binary::Mul, t, s).unwrap();
    let q = b.unary(Unary::Abs, y).unwrap();
    let q = b.unary(Unary::Sqrt, q).unwrap();
    let r = b.binary(Binary::Sub, p, q).unwrap();
    b.finish(&[r])
}

fn map(name: &str, dims: &[usize], inputs: &[&[isize]], output: &[isize], expr: Expr) {
    if skipped(name) {
        return;
    }
    let access = |s: &[isize]| Access::new(DType::F32, s);
    let op = Op::map(dims, inputs.iter().map(|s| access(s)).collect(), vec![access(output)], expr).unwrap();
    let kernel = MapKernel::new(&op, machine(Isa::detect(), threads())).unwrap();
    time(name, &op, kernel);
}

fn skipped(name: &str) -> bool {
    std::env::var("CASE").is_ok_and(|c| !name.contains(&c))
}

fn threads() -> usize {
    std::env::var("THREADS").ok().and_then(|t| t.parse().ok()).unwrap_or(1)
}

fn rows(name: &str, dims: &[usize], inputs: &[&[isize]], output: &[isize], expr: Expr) {
    if skipped(name) {
        return;
    }
    let access = |s: &[isize]| Access::new(DType::F32, s);
    let op = Op::rows(dims, 1, inputs.iter().map(|s| access(s)).collect(), vec![access(output)], expr).unwrap();
    let kernel = RowsKernel::new(&op, machine(Isa::detect(), threads())).unwrap();
    if std::env::var("TEXT").is_ok() {
        println!("{}", kernel.text());
    }
    time(name, &op, kernel);
}

fn unary(op: Unary) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let y = b.unary(op, x).unwrap();
    b.finish(&[y])
}

fn add() -> Expr {
    let mut b = ExprBuilder::new();
    let (x, y) = (b.input(0, DType::F32), b.input(1, DType::F32));
    let s = b.binary(Binary::Add, x, y).unwrap();
    b.finish(&[s])
}

fn reduce(op: Reduce) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(0, DType::F32);
    let s = b.reduce(op, x).unwrap();
    b.finish(&[s])
}

#[test]
#[ignore = "a measurement"]
fn times_of_maps() {
    const M: usize = 16 << 20;
    map("add 1024", &[1024], &[&[1], &[1]], &[1], add());
    map("add 65536", &[65536], &[&[1], &[1]], &[1], add());
    map("add 1M", &[1 << 20], &[&[1], &[1]], &[1], add());
    map("add 16M", &[M], &[&[1], &[1]], &[1], add());
    map("copy 16M", &[M], &[&[1]], &[1], Expr::input(DType::F32));
    map("chain 16M", &[M], &[&[1], &[1]], &[1], chain());
    map("chain 64K", &[64 << 10], &[&[1], &[1]], &[1], chain());
    map("exp 64K", &[64 << 10], &[&[1]], &[1], unary(Unary::Exp));
    map("tanh 64K", &[64 << 10], &[&[1]], &[1], unary(Unary::Tanh));
    map("sigmoid 64K", &[64 << 10], &[&[1]], &[1], unary(Unary::Sigmoid));
    map("sqrt 64K", &[64 << 10], &[&[1]], &[1], unary(Unary::Sqrt));
    map("transpose 4096", &[4096, 4096], &[&[1, 4096]], &[4096, 1], Expr::input(DType::F32));
    map("transpose 1000", &[1000, 1000], &[&[1, 1000]], &[1000, 1], Expr::input(DType::F32));
    map("transpose add 4096", &[4096, 4096], &[&[1, 4096], &[4096, 1]], &[4096, 1], add());
    map("bias 4096x4096", &[4096, 4096], &[&[4096, 1], &[0, 1]], &[4096, 1], add());
    map("bias 1Mx3", &[1 << 20, 3], &[&[3, 1], &[0, 1]], &[3, 1], add());
}

#[test]
#[ignore = "a measurement"]
fn times_of_rows() {
    const N: usize = 4096;
    let (row, column): (&[isize], &[isize]) = (&[N as isize, 1], &[1, N as isize]);
    rows("softmax 4096x4096", &[N, N], &[row], row, crate::rows::tests::softmax(DType::F32));
    rows("layernorm 4096x4096", &[N, N], &[row, &[0, 1], &[0, 1]], row, crate::rows::tests::layernorm(DType::F32, N));
    rows("sum 16777216", &[1, N * N], &[&[0, 1]], &[0, 0], reduce(Reduce::Sum));
    rows("max 16777216", &[1, N * N], &[&[0, 1]], &[0, 0], reduce(Reduce::Max));
    rows("argmax 16777216", &[1, N * N], &[&[0, 1]], &[0, 0], {
        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F32);
        let s = b.reduce(Reduce::ArgMax, x).unwrap();
        let s = b.cast(s, DType::F32);
        b.finish(&[s])
    });
    rows("rowsum 4096x4096", &[N, N], &[row], &[1, 0], reduce(Reduce::Sum));
    rows("colsum 4096x4096", &[N, N], &[column], &[1, 0], reduce(Reduce::Sum));
    rows("colmax 4096x4096", &[N, N], &[column], &[1, 0], reduce(Reduce::Max));
    rows("colsum 1048576x16", &[16, 1 << 20], &[&[1, 16]], &[1, 0], reduce(Reduce::Sum));
    rows("softmax 1048576x16", &[1 << 20, 16], &[&[16, 1]], &[16, 1], crate::rows::tests::softmax(DType::F32));
    rows("softmax columns 4096", &[N, N], &[column], column, crate::rows::tests::softmax(DType::F32));
    rows("sum 1024", &[1, 1024], &[&[0, 1]], &[0, 0], reduce(Reduce::Sum));
    rows("softmax 64x64", &[64, 64], &[&[64, 1]], &[64, 1], crate::rows::tests::softmax(DType::F32));
}
