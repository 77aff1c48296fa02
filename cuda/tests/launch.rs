//! Kernels, graphs of kernels and matmuls through cuBLASLt on a CUDA device. Skipped where there is none.

mod common;

use std::sync::Arc;
use std::time::Instant;

use common::{Room, backend, get, put, random, stream};
use millstream_core::backend::{Backend, BackendStream, Binding, Bindings, Launch, Moved, Priority};
use millstream_core::how::{Candidate, CandidateRole, Schedule};
use millstream_core::{
    Access, Binary, Contract, DType, ErrorKind, Event, Expr, ExprBuilder, MemoryKind, Op, Scalar, Unary, testing,
};
use millstream_cuda::{CudaBackend, Recaptured};

/// `y = x * p + x`.
fn scale(n: usize) -> Op {
    let mut b = ExprBuilder::new();
    let (x, p) = (b.input(0, DType::F32), b.param(0, DType::F32));
    let y = b.binary(Binary::Mul, x, p).unwrap();
    let y = b.binary(Binary::Add, y, x).unwrap();
    let access = || Access::new(DType::F32, &[1]);
    Op::map(&[n], vec![access()], vec![access()], b.finish(&[y])).unwrap()
}

fn bind<'a>(room: &'a Room<'_>) -> Binding<'a> {
    Binding { memory: &room.1, offset: 0, start: 0, end: room.1.bytes, pack_cache: None }
}

fn prepared(backend: &CudaBackend, op: &Op) -> Arc<dyn Launch> {
    let Candidate { variant, schedule, .. } = backend.variants(op).remove(0);
    backend.compile(op, &variant).unwrap().prepare(op, &schedule).unwrap()
}

fn run(launch: &dyn Launch, x: &Room<'_>, y: &Room<'_>, factor: f32, s: &dyn BackendStream) {
    let bindings = Bindings {
        inputs: &[bind(x)],
        outputs: &[bind(y)],
        params: &[Scalar::new(factor)],
        workspace: None,
        note: None,
    };
    launch.run(&bindings, s).unwrap();
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Random values between -1 and 1.
fn values(n: usize) -> Vec<f32> {
    random(n).into_iter().map(|b| (f32::from(b) - 127.5) / 127.5).collect()
}

#[test]
fn a_kernel_runs_says_what_it_takes_and_survives_as_bytes() {
    let Some(backend) = backend() else { return };
    let s = stream(&backend, Priority::Normal);
    let n = 100_003;
    let op = scale(n);
    let variant = backend.variants(&op).remove(0).variant;
    let kernel = backend.compile(&op, &variant).unwrap();
    let text = kernel.text();
    assert!(text.contains("__global__") && text.contains("registers") && text.contains("occupancy"), "{text}");
    println!("{}", text.lines().filter(|l| l.contains("occupancy")).collect::<Vec<_>>().join("\n"));
    let saved = kernel.bytes().unwrap();
    let start = Instant::now();
    let again = backend.load(&op, &variant, &saved).unwrap();
    println!("loaded {} bytes in {:?}", saved.len(), start.elapsed());
    let x = values(n);
    let (rx, ry) = (Room::new(&backend, 4 * n, MemoryKind::Device), Room::new(&backend, 4 * n, MemoryKind::Device));
    put(&backend, &bytes(&x), &rx, 0, &*s);
    for (kernel, factor) in [(&kernel, 2.0f32), (&again, 3.0)] {
        run(&*kernel.prepare(&op, &Schedule::default()).unwrap(), &rx, &ry, factor, &*s);
        let y = floats(&get(&backend, &ry, 0, 4 * n, &*s));
        for (x, y) in x.iter().zip(&y) {
            let want = x * factor + x;
            assert!((y - want).abs() <= 1e-6 * want.abs().max(1.0), "{x}: {y} instead of {want}");
        }
    }
    // Bytes of another kernel, cut ones, and none at all are refused.
    let other = Op::map(&[n], vec![Access::new(DType::F32, &[1])], vec![Access::new(DType::F32, &[1])], {
        let mut b = ExprBuilder::new();
        let x = b.input(0, DType::F32);
        let y = b.unary(Unary::Exp, x).unwrap();
        b.finish(&[y])
    })
    .unwrap();
    for bad in [&saved[..], &saved[..saved.len().min(20)], &[]] {
        assert_eq!(backend.load(&other, &variant, bad).err().map(|e| e.kind()), Some(ErrorKind::Format));
    }
}

#[test]
fn a_launch_costs_the_host_little_and_its_end_is_seen_soon() {
    let Some(backend) = backend() else { return };
    let s = stream(&backend, Priority::Normal);
    let op = scale(1024);
    let launch = prepared(&backend, &op);
    let (x, y) = (Room::new(&backend, 4096, MemoryKind::Device), Room::new(&backend, 4096, MemoryKind::Device));
    for _ in 0..100 {
        run(&*launch, &x, &y, 1.0, &*s);
    }
    s.synchronize().unwrap();
    let mut queue = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for _ in 0..100 {
            run(&*launch, &x, &y, 1.0, &*s);
        }
        queue = queue.min(start.elapsed().as_secs_f64() / 100.0);
        s.synchronize().unwrap();
    }
    let mut trips: Vec<f64> = (0..500)
        .map(|_| {
            let start = Instant::now();
            run(&*launch, &x, &y, 1.0, &*s);
            let event = Event::new();
            s.record(&event).unwrap();
            event.wait().unwrap();
            start.elapsed().as_secs_f64()
        })
        .collect();
    trips.sort_by(f64::total_cmp);
    println!("queueing a launch {:.2} us, launch and wait {:.2} us (median)", queue * 1e6, trips[250] * 1e6);
    assert!(queue < 50e-6 && trips[250] < 200e-6);
}

#[test]
fn a_graph_replays_many_launches_as_one_and_follows_its_memory() {
    let Some(backend) = backend() else { return };
    let s = stream(&backend, Priority::Normal);
    let n = 4096;
    let op = scale(n);
    let launch = prepared(&backend, &op);
    let room = || Room::new(&backend, 4 * n, MemoryKind::Device);
    let (x, t, y) = (room(), room(), room());
    let input = values(n);
    put(&backend, &bytes(&input), &x, 0, &*s);
    put(&backend, &vec![0u8; 4 * n], &y, 0, &*s);
    let work = |from: &Room<'_>, to: &Room<'_>, factor: f32| {
        run(&*launch, from, &t, factor, &*s);
        run(&*launch, &t, &t, factor, &*s);
        run(&*launch, &t, to, factor, &*s);
        Ok(())
    };
    let mut graph = backend.capture(&*s, || work(&x, &y, 1.0)).unwrap();
    assert_eq!((graph.nodes(), graph.launches()), (3, 3));
    // Nothing has run yet.
    assert!(get(&backend, &y, 0, 4 * n, &*s).iter().all(|&b| b == 0));
    let expect = |room: &Room<'_>, input: &[f32], factor: f32, what: &str| {
        let got = floats(&get(&backend, room, 0, 4 * n, &*s));
        let f = (1.0 + factor).powi(3);
        assert!(
            input.iter().zip(&got).all(|(x, y)| (y - x * f).abs() < 1e-4),
            "{what}: {:?} of {:?}",
            got[0],
            input[0]
        );
    };
    graph.replay(&*s).unwrap();
    expect(&y, &input, 1.0, "as captured");

    // Other memory for the input and the output; what lies between stays.
    let (x2, y2) = (room(), room());
    let input2 = values(n);
    put(&backend, &bytes(&input2), &x2, 0, &*s);
    let moved = |from: &Room<'_>, to: &Room<'_>| Moved { from: from.1.address, bytes: 4 * n, to: to.1.address };
    assert_eq!(graph.rebind(&[moved(&x, &x2), moved(&y, &y2)]).unwrap(), 2);
    assert_eq!(graph.rebind(&[moved(&x, &x2)]).unwrap(), 0);
    put(&backend, &vec![0u8; 4 * n], &y, 0, &*s);
    graph.replay(&*s).unwrap();
    expect(&y2, &input2, 1.0, "rebound");
    assert!(get(&backend, &y, 0, 4 * n, &*s).iter().all(|&b| b == 0), "the old memory was written");

    // Other scalars: recorded anew, the same form is updated in place, another one is built.
    assert_eq!(graph.recapture(&*s, || work(&x, &y, 0.5)).unwrap(), Recaptured::Updated);
    graph.replay(&*s).unwrap();
    expect(&y, &input, 0.5, "recaptured");
    assert_eq!(graph.rebind(&[moved(&x, &x2)]).unwrap(), 1);
    graph.replay(&*s).unwrap();
    expect(&y, &input2, 0.5, "rebound after recapture");
    let longer = || work(&x, &y, 0.5).and_then(|()| work(&x, &y, 0.25));
    assert_eq!(graph.recapture(&*s, longer).unwrap(), Recaptured::Rebuilt);
    assert_eq!(graph.launches(), 6);
    graph.replay(&*s).unwrap();
    expect(&y, &input, 0.25, "rebuilt");

    // The kernels stay loaded as long as the graph.
    drop(launch);
    graph.replay(&*s).unwrap();
    s.synchronize().unwrap();
    expect(&y, &input, 0.25, "without its kernel's owner");
}

#[test]
fn a_graph_of_a_hundred_small_kernels_is_cheap() {
    let Some(backend) = backend() else { return };
    let s = stream(&backend, Priority::Normal);
    let launch = prepared(&backend, &scale(1024));
    let (x, y) = (Room::new(&backend, 4096, MemoryKind::Device), Room::new(&backend, 4096, MemoryKind::Device));
    let graph = backend
        .capture(&*s, || {
            (0..100).for_each(|_| run(&*launch, &x, &y, 1.0, &*s));
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.launches(), 100);
    let mut least = f64::INFINITY;
    for _ in 0..30 {
        let (before, after) = (Event::timed(), Event::timed());
        s.record(&before).unwrap();
        graph.replay(&*s).unwrap();
        s.record(&after).unwrap();
        after.wait().unwrap();
        least = least.min(after.elapsed_since(&before).unwrap().as_secs_f64());
    }
    println!("{:.2} us a kernel in a graph of 100", least * 1e4);

    // The same launches one by one: the host's time to queue them, and the device's to run them.
    let (mut replayed, mut queued, mut launched) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..30 {
        let start = Instant::now();
        graph.replay(&*s).unwrap();
        replayed = replayed.min(start.elapsed().as_secs_f64());
        s.synchronize().unwrap();
        let (before, after) = (Event::timed(), Event::timed());
        s.record(&before).unwrap();
        let start = Instant::now();
        (0..100).for_each(|_| run(&*launch, &x, &y, 1.0, &*s));
        queued = queued.min(start.elapsed().as_secs_f64());
        s.record(&after).unwrap();
        after.wait().unwrap();
        launched = launched.min(after.elapsed_since(&before).unwrap().as_secs_f64());
    }
    println!("host: {:.1} us for a replay, {:.1} us for 100 launches", replayed * 1e6, queued * 1e6);
    println!("device: {:.1} us for a replay, {:.1} us for 100 launches", least * 1e6, launched * 1e6);
    assert!(replayed <= 0.25 * queued, "a replay costs the host {:.2} of its launches", replayed / queued);
    assert!(least <= launched, "a replay costs the device {:.2} of its launches", least / launched);
}

#[test]
fn what_cannot_be_captured_is_an_error_and_the_stream_goes_on() {
    let Some(backend) = backend() else { return };
    let s = stream(&backend, Priority::Normal);
    let error = backend.capture(&*s, || s.record(&Event::new())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Launch, "{error}");
    let error = backend.capture(&*s, || backend.capture(&*s, || Ok(())).map(|_| ())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Launch, "{error}");
    backend.spin(1, &*s).unwrap();
    s.synchronize().unwrap();
}

/// A matmul, row-major, perhaps with a bias for each column and a maximum with 0.
fn matmul(m: usize, n: usize, k: usize, dtype: DType, biased: bool) -> Op {
    let operand = |i: u16| {
        let mut b = ExprBuilder::new();
        let x = b.input(i, dtype);
        b.finish(&[x])
    };
    let (mi, ni, ki) = (m as isize, n as isize, k as isize);
    let _ = mi;
    let mut inputs = vec![Access::new(dtype, &[ki, 0, 1]), Access::new(dtype, &[0, 1, ni])];
    let mut epilogue = Expr::acc(DType::F32);
    if biased {
        inputs.push(Access::new(DType::F32, &[0, 1, 0]));
        let mut b = ExprBuilder::new();
        let (sum, bias) = (b.push(millstream_core::Node::Acc, DType::F32), b.input(2, DType::F32));
        let y = b.binary(Binary::Add, sum, bias).unwrap();
        let zero = b.constant(Scalar::zero(DType::F32));
        let y = b.binary(Binary::Max, y, zero).unwrap();
        epilogue = b.finish(&[y]);
    }
    let contract = Contract {
        m: 0,
        n: 1,
        k: 2,
        lhs: operand(0),
        rhs: operand(1),
        acc: DType::F32,
        epilogue,
        accuracy: Default::default(),
    };
    Op::contract(&[m, n, k], inputs, vec![Access::new(DType::F32, &[ni, 1, 0])], contract).unwrap()
}

/// Runs one variant; gives the result and the best seconds of some runs.
fn multiply(
    backend: &CudaBackend,
    op: &Op,
    candidate: &Candidate,
    rooms: &[Room<'_>],
    out: &Room<'_>,
    times: usize,
) -> f64 {
    let s = stream(backend, Priority::Normal);
    let launch = backend.compile(op, &candidate.variant).unwrap().prepare(op, &candidate.schedule).unwrap();
    let scratch = Room::new(backend, launch.workspace().max(1), MemoryKind::Device);
    let inputs: Vec<Binding<'_>> = rooms.iter().map(bind).collect();
    let bindings =
        Bindings { inputs: &inputs, outputs: &[bind(out)], params: &[], workspace: Some(bind(&scratch)), note: None };
    let mut least = f64::INFINITY;
    for _ in 0..times {
        let (before, after) = (Event::timed(), Event::timed());
        s.record(&before).unwrap();
        launch.run(&bindings, &*s).unwrap();
        s.record(&after).unwrap();
        after.wait().unwrap();
        least = least.min(after.elapsed_since(&before).unwrap().as_secs_f64());
    }
    least
}

#[test]
fn cublas_and_our_kernels_agree() {
    let Some(backend) = backend() else { return };
    let s = stream(&backend, Priority::Normal);
    for (m, n, k) in [(512, 384, 256), (127, 65, 333)] {
        for biased in [false, true] {
            let op = matmul(m, n, k, DType::F32, biased);
            let variants = backend.variants(&op);
            let Some(cublas) = variants.iter().find(|v| v.role == CandidateRole::Library) else {
                testing::left_out("cuda: cuBLASLt is not there to be compared with");
                return;
            };
            let rooms: Vec<Room<'_>> = [m * k, k * n, n]
                .into_iter()
                .take(op.inputs.len())
                .map(|len| {
                    let room = Room::new(&backend, 4 * len, MemoryKind::Device);
                    put(&backend, &bytes(&values(len)), &room, 0, &*s);
                    room
                })
                .collect();
            let out = Room::new(&backend, 4 * m * n, MemoryKind::Device);
            multiply(&backend, &op, cublas, &rooms, &out, 1);
            let theirs = floats(&get(&backend, &out, 0, 4 * m * n, &*s));
            put(&backend, &vec![0xffu8; 4 * m * n], &out, 0, &*s);
            multiply(&backend, &op, &variants[0], &rooms, &out, 1);
            let ours = floats(&get(&backend, &out, 0, 4 * m * n, &*s));
            let worst = theirs.iter().zip(&ours).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
            assert!(worst < 1e-3 && theirs.iter().any(|&x| x != 0.0), "{m}x{n}x{k}, biased {biased}: {worst}");
        }
    }
}

#[test]
fn large_matmuls_in_every_way() {
    let Some(backend) = backend() else { return };
    let n = 4096;
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        let op = matmul(n, n, n, dtype, false);
        let rooms: Vec<Room<'_>> = (0..2)
            .map(|_| {
                let room = Room::new(&backend, n * n * dtype.size(), MemoryKind::Device);
                let s = stream(&backend, Priority::Normal);
                // Small values of any of these types.
                let data: Vec<u8> = values(n * n)
                    .into_iter()
                    .flat_map(|v| match dtype {
                        DType::F32 => v.to_le_bytes().to_vec(),
                        DType::BF16 => v.to_le_bytes()[2..].to_vec(),
                        _ => vec![(v.to_bits() >> 13) as u8, 0x38 | (v.to_bits() >> 31 << 7) as u8],
                    })
                    .collect();
                put(&backend, &data, &room, 0, &*s);
                room
            })
            .collect();
        let out = Room::new(&backend, 4 * n * n, MemoryKind::Device);
        let (chosen, _) = backend
            .variants(&op)
            .into_iter()
            .map(|v| {
                let cost = millstream_core::how::cost(&op, Some(&v.traffic), &backend.profile()).seconds;
                (v, cost)
            })
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap();
        for variant in backend.variants(&op) {
            if dtype != DType::F32 && variant.role != CandidateRole::Library {
                continue;
            }
            let seconds = multiply(&backend, &op, &variant, &rooms, &out, 4);
            let mark = if variant == chosen { "  <- chosen" } else { "" };
            println!("{dtype} {n}^3 {:30} {:8.1} TFLOP/s{mark}", variant.label(), op.flop() as f64 / seconds / 1e12);
        }
    }
}
