//! The device's parts below core, with kernels written by hand.

use std::sync::Arc;

use millstream_core::backend::{Backend, BackendStream, MemoryAt, Priority, Support};
use millstream_core::memory::{MemoryKind, RawMemory, StreamId};
use millstream_core::{Access, Binary, DType, ErrorKind, Event, ExprBuilder, Op};

use crate::backend::WgpuBackend;
use crate::family::{Api, WgpuFamily};
use crate::kernel::Compiled;
use crate::memory::block;
use crate::stream::{Call, WgpuStream};

/// Runs a test on the first device of each API that this machine has; says which it has not.
///
/// One test at a time: NVIDIA's driver (580.159, Vulkan) waits for itself in `vkDestroyDevice` when many devices, each just
/// opened, are closed at once.
fn on_each(test: impl Fn(&WgpuBackend)) {
    static TURN: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _turn = TURN.lock();
    for api in Api::ALL.into_iter().filter(|api| api.is_possible()) {
        match WgpuFamily::new(api).open_backend(api.name()) {
            Ok(backend) => test(&backend),
            Err(e) => millstream_core::testing::missing(api.name(), &e),
        }
    }
}

fn stream(backend: &WgpuBackend, id: u64) -> Arc<dyn BackendStream> {
    backend.stream(StreamId(id), Priority::Normal).unwrap()
}

fn upload(backend: &WgpuBackend, bytes: &[u8], to: &RawMemory, at: usize, stream: &dyn BackendStream) {
    let host = RawMemory::foreign(bytes.as_ptr(), bytes.len());
    backend.copy(MemoryAt::Host(&host, 0), MemoryAt::Here(to, at), bytes.len(), stream).unwrap();
}

fn download(backend: &WgpuBackend, from: &RawMemory, at: usize, bytes: usize, stream: &dyn BackendStream) -> Vec<u8> {
    let mut out = vec![0u8; bytes];
    let host = RawMemory::foreign(out.as_mut_ptr(), bytes);
    backend.copy(MemoryAt::Here(from, at), MemoryAt::Host(&host, 0), bytes, stream).unwrap();
    stream.synchronize().unwrap();
    out
}

const TIMES_PLUS: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@group(1) @binding(0) var<uniform> args: array<vec4<u32>, 2>;
@compute @workgroup_size(64)
fn times_plus(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < args[0].x {
        y[id.x + args[0].w] = x[id.x + args[0].z] * args[0].y + args[1].x;
    }
}
";

fn times_plus(backend: &WgpuBackend) -> Compiled {
    Compiled::new(backend.gpu(), TIMES_PLUS, &["times_plus"], 2).unwrap()
}

/// `y[i + to] = x[i + from] * times + plus` for n values.
struct Line {
    n: u32,
    times: u32,
    plus: u32,
    from: u32,
    to: u32,
}

fn launch(backend: &WgpuBackend, kernel: &Compiled, x: &RawMemory, y: &RawMemory, l: &Line, s: &dyn BackendStream) {
    let words = [l.n, l.times, l.from, l.to, l.plus, 0, 0, 0];
    let call = Call { kernel, entry: 0, grid: [l.n.div_ceil(64), 1, 1], words: &words };
    let stream = WgpuStream::of(s, backend.gpu()).unwrap();
    stream.batch().launch(backend.gpu(), &call, &[block(x).unwrap(), block(y).unwrap()]).unwrap();
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
}

#[test]
fn a_kernel_reads_what_was_uploaded_and_the_host_reads_what_it_wrote() {
    on_each(|backend| {
        let s = stream(backend, 1);
        let kernel = times_plus(backend);
        let x = backend.alloc(4096, MemoryKind::Device).unwrap();
        let y = backend.alloc(4096, MemoryKind::Device).unwrap();
        let data: Vec<u8> = (0..1024u32).flat_map(u32::to_le_bytes).collect();
        upload(backend, &data, &x, 0, &*s);
        launch(backend, &kernel, &x, &y, &Line { n: 1000, times: 3, plus: 7, from: 0, to: 0 }, &*s);
        let got = words(&download(backend, &y, 0, 4000, &*s));
        assert!(got.iter().zip(0..).all(|(got, i)| *got == i * 3 + 7), "{:?}", &got[..8]);
    });
}

#[test]
fn many_launches_in_place_run_in_order() {
    on_each(|backend| {
        let s = stream(backend, 1);
        let kernel = times_plus(backend);
        let x = backend.alloc(65536, MemoryKind::Device).unwrap();
        upload(backend, &[0; 4096], &x, 0, &*s);
        let mut expected = 0u32;
        // More than one submission and more than one buffer of arguments.
        for i in 0..1500u32 {
            launch(backend, &kernel, &x, &x, &Line { n: 1000, times: 5, plus: i, from: 0, to: 0 }, &*s);
            expected = expected.wrapping_mul(5).wrapping_add(i);
        }
        let got = words(&download(backend, &x, 0, 4000, &*s));
        assert!(got.iter().all(|v| *v == expected), "{:?} instead of {expected}", &got[..4]);
    });
}

#[test]
fn two_streams_see_each_others_work_through_events() {
    on_each(|backend| {
        let (a, b) = (stream(backend, 1), stream(backend, 2));
        let kernel = times_plus(backend);
        let x = backend.alloc(65536, MemoryKind::Device).unwrap();
        upload(backend, &[0; 4096], &x, 0, &*a);
        let mut expected = 0u32;
        for i in 0..40u32 {
            let (one, other) = if i % 2 == 0 { (&a, &b) } else { (&b, &a) };
            launch(backend, &kernel, &x, &x, &Line { n: 1000, times: 3, plus: i, from: 0, to: 0 }, &**one);
            let event = Event::new();
            one.record(&event).unwrap();
            other.depend(&event).unwrap();
            expected = expected.wrapping_mul(3).wrapping_add(i);
        }
        let got = words(&download(backend, &x, 0, 4000, &*a));
        assert!(got.iter().all(|v| *v == expected));
    });
}

#[test]
fn an_event_of_another_kind_is_waited_for() {
    on_each(|backend| {
        let s = stream(backend, 1);
        let event = Event::new();
        let signaller = event.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            signaller.signal();
        });
        s.depend(&event).unwrap();
        assert!(event.is_complete());
        thread.join().unwrap();
        let failed = Event::new();
        failed.fail(millstream_core::Error::launch("on purpose"));
        assert_eq!(s.depend(&failed).unwrap_err().kind(), ErrorKind::Launch);
    });
}

#[test]
fn text_that_is_no_wgsl_gives_an_error_that_shows_the_line() {
    on_each(|backend| {
        let text = TIMES_PLUS.replace("args[1].x", "args[1].nothing");
        let error = Compiled::new(backend.gpu(), &text, &["times_plus"], 2).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Compile);
        assert!(error.to_string().contains("nothing"), "{error}");
        let error = Compiled::new(backend.gpu(), TIMES_PLUS, &["missing"], 2).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Compile);
        // The device still works.
        times_plus(backend);
    });
}

#[test]
fn a_kernel_is_made_again_from_its_bytes_and_only_from_its_own() {
    let op = |binary| {
        let mut b = ExprBuilder::new();
        let (x, y) = (b.input(0, DType::I32), b.input(1, DType::I32));
        let z = b.binary(binary, x, y).unwrap();
        let row = || Access::new(DType::I32, &[1]);
        Op::map(&[100], vec![row(), row()], vec![row()], b.finish(&[z])).unwrap()
    };
    let (sum, product) = (op(Binary::Add), op(Binary::Mul));
    on_each(|backend| {
        let variant = backend.variants(&sum).remove(0).variant;
        let kernel = backend.compile(&sum, &variant).unwrap();
        if !backend.gpu().features.contains(wgpu::Features::PIPELINE_CACHE) {
            assert!(kernel.bytes().is_none());
            assert_eq!(backend.load(&sum, &variant, b"bytes").err().unwrap().kind(), ErrorKind::Unsupported);
            return;
        }
        let bytes = kernel.bytes().unwrap();
        let again = backend.load(&sum, &variant, &bytes).unwrap();
        assert_eq!(again.text(), kernel.text());
        let mut other = bytes.clone();
        other[0] ^= 1;
        for (what, bytes, op) in [
            ("nothing", &[][..], &sum),
            ("a head alone", &bytes[..24], &sum),
            ("a part of a head", &bytes[..10], &sum),
            ("another form", &other[..], &sum),
            ("another kernel's", &bytes[..], &product),
        ] {
            let error = backend.load(op, &variant, bytes).err().unwrap_or_else(|| panic!("{what} was taken"));
            assert_eq!(error.kind(), ErrorKind::Format, "{what}: {error}");
        }
        // The library's own head behind ours: what it refuses is compiled as if there were no data.
        let mut stale = bytes.clone();
        stale[24] ^= 0xff;
        assert_eq!(backend.load(&sum, &variant, &stale).unwrap().text(), kernel.text());
    });
}

#[test]
fn more_buffers_than_a_kernel_can_have_are_refused_with_the_numbers() {
    on_each(|backend| {
        let most = backend.profile().max_bindings;
        let sum_of = |inputs: usize| {
            let mut b = ExprBuilder::new();
            let mut sum = b.input(0, DType::F32);
            for i in 1..inputs {
                let x = b.input(i as u16, DType::F32);
                sum = b.binary(Binary::Add, sum, x).unwrap();
            }
            let rows = || vec![Access::new(DType::F32, &[1]); inputs];
            Op::map(&[10], rows(), vec![Access::new(DType::F32, &[1])], b.finish(&[sum])).unwrap()
        };
        assert_eq!(backend.supports(&sum_of(most - 1)), Support::Native);
        match backend.supports(&sum_of(most)) {
            Support::No(reason) => assert!(
                reason.contains(&(most + 1).to_string()) && reason.contains(&format!("at most {most}")),
                "{reason}"
            ),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn bind_groups_are_dropped_with_their_buffers_and_bounded() {
    on_each(|backend| {
        let s = stream(backend, 1);
        let kernel = times_plus(backend);
        let x = backend.alloc(4096, MemoryKind::Device).unwrap();
        for i in 0..20 {
            let y = backend.alloc(4096, MemoryKind::Device).unwrap();
            launch(backend, &kernel, &x, &y, &Line { n: 4, times: 1, plus: i, from: 0, to: 0 }, &*s);
            s.synchronize().unwrap();
            backend.free(y);
        }
        assert_eq!(backend.gpu().binds.cached(), 0);
    });
}

#[test]
fn the_device_tells_the_time_between_two_events() {
    on_each(|backend| {
        if backend.gpu().timer.is_none() {
            println!("skipped on {}: it has no clock", backend.gpu().name);
            return;
        }
        let s = stream(backend, 1);
        let kernel = times_plus(backend);
        let x = backend.alloc(8 << 20, MemoryKind::Device).unwrap();
        let line = Line { n: 2 << 20, times: 3, plus: 1, from: 0, to: 0 };
        launch(backend, &kernel, &x, &x, &line, &*s);
        let mark = || {
            let event = Event::timed();
            s.record(&event).unwrap();
            event
        };
        let first = mark();
        for _ in 0..8 {
            launch(backend, &kernel, &x, &x, &line, &*s);
        }
        let second = mark();
        let third = mark();
        assert!(third.elapsed_since(&first).is_none() || third.is_complete());
        third.wait().unwrap();
        let work = second.elapsed_since(&first).unwrap();
        let nothing = third.elapsed_since(&second).unwrap();
        println!("{}: 8 launches take {work:?}, none {nothing:?}", backend.gpu().name);
        assert!(work > nothing && work.as_secs_f64() > 1e-6 && work.as_secs_f64() < 60.0, "{work:?} {nothing:?}");
    });
}

#[test]
fn a_small_launch_and_its_wait_are_quick() {
    on_each(|backend| {
        let s = stream(backend, 1);
        let kernel = times_plus(backend);
        let x = backend.alloc(4096, MemoryKind::Device).unwrap();
        let line = Line { n: 64, times: 3, plus: 1, from: 0, to: 0 };
        let mut times = Vec::new();
        for _ in 0..300 {
            let start = std::time::Instant::now();
            launch(backend, &kernel, &x, &x, &line, &*s);
            let event = Event::new();
            s.record(&event).unwrap();
            let queued = start.elapsed();
            event.wait().unwrap();
            times.push((start.elapsed(), queued));
        }
        times.sort();
        let (whole, queued) = times[times.len() / 2];
        println!("{}: a launch and its wait take {whole:?}, {queued:?} of it to queue", backend.gpu().name);
        assert!(whole < std::time::Duration::from_millis(50));
    });
}

#[test]
#[ignore = "a measurement to look at, not a check"]
fn how_fast_copies_are() {
    on_each(|backend| {
        let s = stream(backend, 1);
        let n = 64 << 20;
        let memory = backend.alloc(n, MemoryKind::Device).unwrap();
        let bytes = vec![1u8; n];
        let mut back = vec![0u8; n];
        let host = RawMemory::foreign(back.as_mut_ptr(), n);
        for _ in 0..5 {
            let start = std::time::Instant::now();
            upload(backend, &bytes, &memory, 0, &*s);
            let written = start.elapsed();
            s.synchronize().unwrap();
            let up = start.elapsed();
            let start = std::time::Instant::now();
            backend.copy(MemoryAt::Here(&memory, 0), MemoryAt::Host(&host, 0), n, &*s).unwrap();
            let asked = start.elapsed();
            s.synchronize().unwrap();
            let down = start.elapsed();
            println!("{}: up {written:?} {up:?}, down {asked:?} {down:?}", backend.gpu().name);
        }
        let start = std::time::Instant::now();
        back.copy_from_slice(&bytes);
        println!("within the host {:?}", start.elapsed());
        println!("{:?}", backend.measure().unwrap());
    });
}
