//! Memory shared with others: taken over, lent, written by them, and let go in every order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::Random;
use millstream::core::Priority;
use millstream::core::sim::{Sim, SimFamily};
use millstream::cpu::{CpuFamily, CpuOptions};
use millstream::{
    AttentionOptions, DType, Device, ErrorKind, Exported, FftNorm, Order, RawTensor, Result, Runtime, Sharing, Side,
    Tensor, compile, compile_all,
};

fn own() -> (Runtime, Device) {
    let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).build();
    let device = runtime.device("cpu").expect("the CPU");
    (runtime, device)
}

/// Memory of somebody outside: numbers that he writes whenever he likes. It outlives the tensors over it.
struct Outside {
    pointer: *mut f32,
    len: usize,
    /// How many tensors over it were let go.
    gone: Arc<AtomicUsize>,
}

/// What a tensor over it keeps.
struct Handle(Arc<AtomicUsize>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Outside {
    fn new(values: Vec<f32>) -> Outside {
        let len = values.len();
        Outside { pointer: Box::into_raw(values.into_boxed_slice()).cast(), len, gone: Arc::default() }
    }

    fn fill(&self, value: f32) {
        // SAFETY: the memory is this one's until it is dropped, and no tensor reads it at this moment.
        (0..self.len).for_each(|i| unsafe { self.pointer.add(i).write(value) });
    }

    fn values(&self) -> Vec<f32> {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len).to_vec() }
    }

    fn raw(&self, device: &Device, shape: &[usize], sharing: Sharing) -> RawTensor {
        let mut strides = vec![1isize; shape.len()];
        (1..shape.len()).rev().for_each(|d| strides[d - 1] = strides[d] * shape[d] as isize);
        let (address, shape, dtype) = (self.pointer as u64, shape.to_vec(), DType::F32);
        RawTensor { address, shape, strides, dtype, device: device.clone(), sharing }
    }

    fn tensor(&self, device: &Device, shape: &[usize], sharing: Sharing) -> Result<Tensor> {
        // SAFETY: the memory outlives the tensors of each test, which write only between calls.
        unsafe { Tensor::import(self.raw(device, shape, sharing), Box::new(Handle(self.gone.clone()))) }
    }

    fn gone(&self) -> usize {
        self.gone.load(Ordering::SeqCst)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.pointer, self.len);
        // SAFETY: it came from a box of this length.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// Lent memory as somebody outside writes to it.
fn overwrite(exported: &Exported, value: f32) {
    let raw = exported.raw();
    assert_eq!(raw.sharing, Sharing::Writable);
    let mut index = vec![0usize; raw.shape.len()];
    for _ in 0..raw.shape.iter().product() {
        let at: isize = index.iter().zip(&raw.strides).map(|(&i, &s)| i as isize * s).sum();
        // SAFETY: the element lies in memory that is lent for writing, and nobody reads it at this moment.
        unsafe { (raw.address as *mut f32).offset(at).write(value) };
        for (i, &n) in index.iter_mut().zip(&raw.shape).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
    }
}

fn read(exported: &Exported, at: isize) -> f32 {
    // SAFETY: the caller names an element of the memory.
    unsafe { (exported.raw().address as *const f32).offset(at).read() }
}

/// How often something was evaluated because others may write to what it reads, and how often in all.
fn evaluations(runtime: &Runtime) -> (usize, usize) {
    let records = runtime.profiler().records();
    let all = || records.iter().filter(|r| &*r.name == "evaluate");
    (all().filter(|r| r.note.starts_with("Foreign")).count(), all().count())
}

fn counted(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 + 1.0).collect()
}

#[test]
fn memory_of_any_strides_is_seen_where_it_lies() -> Result<()> {
    let (_runtime, device) = own();
    let mut random = Random::fresh();
    for _ in 0..200 {
        let rank = random.below(4);
        let shape: Vec<usize> = (0..rank).map(|_| random.below(5)).collect();
        let strides: Vec<isize> = (0..rank).map(|_| random.below(13) as isize - 6).collect();
        let reach = |sign: isize| -> isize {
            shape.iter().zip(&strides).map(|(&n, &s)| (n as isize - 1).max(0) * (s * sign).max(0)).sum()
        };
        // At any alignment: bytes of shorts, from a byte that is odd or not.
        let (low, odd) = (reach(-1), random.below(2));
        let mut bytes = vec![0u8; odd + 2 * (low + reach(1) + 1) as usize];
        for (i, pair) in bytes[odd..].chunks_exact_mut(2).enumerate() {
            pair.copy_from_slice(&(i as i16).to_ne_bytes());
        }
        let address = bytes[odd + 2 * low as usize..].as_ptr() as u64;
        let expected: Vec<i16> = (0..shape.iter().product())
            .map(|mut n: usize| {
                let mut at = low;
                for (&size, &stride) in shape.iter().zip(&strides).rev() {
                    at += (n % size) as isize * stride;
                    n /= size;
                }
                at as i16
            })
            .collect();
        let (dtype, sharing) = (DType::I16, [Sharing::ReadOnly, Sharing::Writable][random.below(2)]);
        let raw = RawTensor { address, shape: shape.clone(), strides, dtype, device: device.clone(), sharing };
        // SAFETY: the vector lives until it is dropped with the tensor, and nobody writes to it.
        let x = unsafe { Tensor::import(raw, Box::new(bytes))? };
        assert_eq!(x.to_vec::<i16>()?, expected);
        let (twice, all) = (&x + &x, x.flip(..).contiguous());
        assert_eq!(twice.to_vec::<i16>()?, expected.iter().map(|v| 2 * v).collect::<Vec<_>>());
        assert_eq!(all.to_vec::<i16>()?, expected.iter().rev().copied().collect::<Vec<_>>());
        if !x.is_empty() {
            assert_eq!(x.export()?.raw().address, address);
        }
    }
    Ok(())
}

#[test]
fn memory_that_cannot_be_is_refused_and_let_go() {
    let (_runtime, device) = own();
    let outside = Outside::new(vec![0.0; 4]);
    let mut refused = 0;
    let mut refuse = |change: &dyn Fn(&mut RawTensor), kind: ErrorKind| {
        let mut raw = outside.raw(&device, &[2, 2], Sharing::ReadOnly);
        change(&mut raw);
        // SAFETY: it is refused before anybody reads it.
        let error = unsafe { Tensor::import(raw, Box::new(Handle(outside.gone.clone()))) }.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.location().is_some_and(|l| l.file().ends_with("exchange.rs")));
        refused += 1;
        assert_eq!(outside.gone(), refused);
    };
    refuse(&|raw| raw.strides.truncate(1), ErrorKind::Shape);
    refuse(&|raw| raw.address = 0, ErrorKind::Shape);
    refuse(&|raw| raw.strides[0] = isize::MIN, ErrorKind::Shape);
    refuse(&|raw| raw.strides[0] = isize::MAX, ErrorKind::Shape);
    refuse(&|raw| raw.shape[0] = usize::MAX, ErrorKind::Shape);
    let sim = Sim::new();
    let runtime = millstream::runtime().family(SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim));
    let other = runtime.build().device("sim").unwrap();
    refuse(&|raw| raw.device = other.clone(), ErrorKind::Unsupported);
}

/// One of each kind of operation over a square matrix of positive numbers.
fn operations(x: &Tensor) -> Vec<Tensor> {
    let mask = x.gt(3.0);
    let (values, indices) = x.topk(2, 1, Order::Descending);
    let index = Tensor::new([[1i64, 0], [2, 1]]);
    let mut changed = x.clone();
    changed.slice_assign(0, 1..2, 7.0).unwrap();
    let mut into = Tensor::zeros([4, 4], DType::F32);
    into.slice_assign(0, 1..3, &x.slice(0, 1..3)).unwrap();
    let mut whole = Tensor::zeros([4, 4], DType::F32);
    whole.assign(x).unwrap();
    let mut set = Tensor::zeros([4, 4], DType::F32);
    set.set((1, ..), &x.select(0, 2)).unwrap();
    vec![
        x + 1.0,
        1.0 - x,
        x * x.transpose(),
        x.exp().log() + x.sqrt(),
        x.copy(),
        x.transpose().contiguous(),
        x.transpose().reshape(16),
        x.cast(DType::I32),
        x.softmax(1),
        x.layernorm(-1, 1e-5),
        x.sum(..),
        x.var(0),
        x.logsumexp(1),
        x.argmax(1),
        x.matmul(x),
        x.attention(x, x, &AttentionOptions::default()),
        x.sort(1, Order::Ascending),
        values,
        indices,
        x.cumsum(0),
        x.take(&index.slice(0, 0..1).reshape(2), 0),
        x.take_along_axis(&index.reshape([4, 1]), 1),
        mask.where_(x, 0.0),
        Tensor::concat(&[x, &x.flip(0)], 1),
        x.pad(&[(1, 1)], 0.0),
        x.fft(None, 0, FftNorm::default()).abs(),
        x.nonzero().unwrap().remove(0),
        x.reshape(16).searchsorted(&Tensor::new([3.5f32]), Side::Left),
        x.inv(),
        x.tril(0),
        x.unsqueeze(0).unsqueeze(0).conv2d(
            &x.slice(0, ..2).slice(1, ..2).unsqueeze(0).unsqueeze(0),
            None,
            &Default::default(),
        ),
        changed,
        into,
        whole,
        set,
        x.to("cpu").copy(),
        x.conj(),
    ]
}

#[test]
fn what_is_computed_from_memory_that_others_write_is_not_changed_by_them() -> Result<()> {
    let (runtime, device) = own();
    let mut values = counted(16);
    (0..4).for_each(|i| values[i * 5] += 20.0);
    let outside = Outside::new(values.clone());
    let shared = outside.tensor(&device, &[4, 4], Sharing::Writable)?;
    assert!(shared.is_volatile() && shared.transpose().is_volatile());
    let expected = operations(&Tensor::from_shape([4, 4], &values).to(&device));
    let expected: Vec<Vec<u8>> = expected.iter().map(Tensor::to_bytes).collect::<Result<_>>()?;
    runtime.profiler().start();
    let got = operations(&shared);
    runtime.profiler().stop();
    let (foreign, _) = evaluations(&runtime);
    // All by themselves, but for two results of one call, and one whose shape depends on the values.
    assert!(foreign >= got.len() - 2, "{foreign} evaluations of {}", got.len());
    outside.fill(-1.0);
    for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert!(!got.is_volatile(), "operation {i}");
        assert_eq!(&got.to_bytes()?, expected, "operation {i}");
    }
    // The tensor itself and its views show what lies there.
    assert_eq!(shared.transpose().to_vec::<f32>()?, [-1.0; 16]);
    assert_eq!((&shared + 1.0).to_vec::<f32>()?, [0.0; 16]);
    assert_eq!(outside.values(), [-1.0; 16]);
    Ok(())
}

#[test]
fn a_method_of_many_operations_is_computed_once() -> Result<()> {
    let (runtime, device) = own();
    let outside = Outside::new(counted(64));
    let shared = outside.tensor(&device, &[8, 8], Sharing::Writable)?;
    let methods: [(&str, &dyn Fn() -> Tensor); 5] = [
        ("add", &|| &shared + 1.0),
        ("softmax", &|| shared.softmax(1)),
        ("layernorm", &|| shared.layernorm(-1, 1e-5)),
        ("var", &|| shared.var(0)),
        ("topk", &|| shared.topk(2, 1, Order::Descending).0),
    ];
    for (name, method) in methods {
        runtime.profiler().clear();
        runtime.profiler().start();
        let result = method();
        assert_eq!(evaluations(&runtime), (1, 1), "{name}");
        result.eval()?;
        assert_eq!(evaluations(&runtime), (1, 1), "{name}");
        // What is made of the result waits again.
        let later = &result * 2;
        assert_eq!(evaluations(&runtime), (1, 1), "{name}");
        drop(later);
        runtime.profiler().stop();
    }
    Ok(())
}

#[test]
fn memory_that_nobody_writes_is_read_when_it_is_needed() -> Result<()> {
    let (runtime, device) = own();
    let outside = Outside::new(counted(16));
    let x = outside.tensor(&device, &[4, 4], Sharing::ReadOnly)?;
    runtime.profiler().start();
    let y = (&x + 1.0).softmax(1).sum(..);
    assert_eq!(evaluations(&runtime), (0, 0));
    assert!((y.item::<f32>()? - 4.0).abs() < 1e-5);
    assert_eq!(evaluations(&runtime), (0, 1));
    // It is never written in place, either.
    let mut z = x.clone();
    drop(x);
    z.slice_assign(0, ..1, 9.0)?;
    z.eval()?;
    assert_eq!(outside.values(), counted(16));
    assert_eq!(z.to_vec::<f32>()?[..5], [9.0, 9.0, 9.0, 9.0, 5.0]);
    Ok(())
}

#[test]
fn assignments_write_to_memory_of_their_own() -> Result<()> {
    let (_runtime, device) = own();
    let outside = Outside::new(counted(4));
    let mut x = outside.tensor(&device, &[4], Sharing::Writable)?;
    x.slice_assign(0, ..1, 9.0)?;
    assert!(!x.is_volatile());
    assert_eq!(outside.gone(), 1);
    outside.fill(0.0);
    x.slice_assign(0, 1..2, 8.0)?;
    assert_eq!(x.to_vec::<f32>()?, [9.0, 8.0, 3.0, 4.0]);
    assert_eq!(outside.values(), [0.0; 4]);
    // A value from outside is read at once, and what it goes into is still changed in place.
    let outside = Outside::new(vec![5.0]);
    let value = outside.tensor(&device, &[1], Sharing::Writable)?;
    let mut y = Tensor::zeros(1 << 16, DType::F32).to(&device).copy();
    y.eval()?;
    let before = device.pool().stats().peak;
    for i in 0..10 {
        outside.fill(i as f32);
        y.slice_assign(0, i..i + 1, &value)?;
    }
    y.eval()?;
    assert_eq!(y.slice(0, ..10).to_vec::<f32>()?, (0..10).map(|i| i as f32).collect::<Vec<_>>());
    assert!(device.pool().stats().peak < before + (1 << 16), "the whole was copied");
    Ok(())
}

#[test]
fn compiled_functions_read_memory_of_others_within_the_call() -> Result<()> {
    let (_runtime, device) = own();
    let outside = Outside::new(counted(4));
    let held = Outside::new(vec![100.0; 4]);
    let (x, bias) = (outside.tensor(&device, &[4], Sharing::Writable)?, held.tensor(&device, &[4], Sharing::Writable)?);
    let f = compile_all(|[x]: [&Tensor; 1]| [(x * 2.0 + &bias).sqrt().square(), x.flip(0)]);
    for round in 0..30 {
        outside.fill(round as f32);
        let [y, view] = f.call_all([&x])?;
        outside.fill(-7.0);
        // What the function holds is that of the time when it was compiled.
        held.fill(round as f32);
        let y = y.to_vec::<f32>()?;
        assert!(y.iter().all(|v| (v - (2.0 * round as f32 + 100.0)).abs() < 1e-3), "{round}: {y:?}");
        assert_eq!(view.to_vec::<f32>()?, [-7.0; 4]);
    }
    assert_eq!(f.kinds(), 1);
    Ok(())
}

#[test]
fn lent_memory_is_neither_overwritten_nor_reused() -> Result<()> {
    let (_runtime, device) = own();
    let n = 1 << 14;
    let mut x = Tensor::from_slice(&counted(n)).to(&device).copy();
    let out = x.export()?;
    let address = out.raw().address;
    assert_eq!(x.export()?.raw().address, address, "the value was copied");
    // Assigned to, dropped, and everything of its size asked for again.
    x.slice_assign(0, .., 0.0)?;
    assert_eq!(x.sum(..).item::<f32>()?, 0.0);
    drop(x);
    for i in 0..20 {
        let y = Tensor::from_slice(&counted(n)).to(&device) * 0.0 - i as f64;
        y.eval()?;
        assert_ne!(y.export()?.raw().address, address);
    }
    assert!((0..n).all(|i| read(&out, i as isize) == i as f32 + 1.0));
    // Once it is let go, it is.
    let in_use = device.pool().stats().in_use;
    drop(out);
    assert_eq!(device.pool().stats().in_use, in_use - n * 4);
    Ok(())
}

#[test]
fn who_may_write_gets_the_memory_itself_and_others_keep_their_values() -> Result<()> {
    let (runtime, device) = own();
    let mut x = Tensor::from_slice(&counted(8)).to(&device).copy();
    let address = x.export()?.raw().address;
    // Nobody else has it: no copy.
    let out = x.export_writable()?;
    assert_eq!(out.raw().address, address);
    assert!(x.is_volatile());
    overwrite(&out, 5.0);
    assert_eq!(x.to_vec::<f32>()?, [5.0; 8]);
    // Once more: the same memory, for all of them.
    let again = x.slice(0, ..4).export_writable()?;
    assert_eq!(again.raw().address, address);
    let y = &x + 1.0;
    overwrite(&again, 0.0);
    assert_eq!(y.to_vec::<f32>()?, [6.0; 8]);
    drop(out);
    assert!(x.is_volatile());
    drop(again);
    // All have let go: what reads it waits again.
    assert!(!x.is_volatile());
    runtime.profiler().start();
    let later = &x + 1.0;
    assert_eq!(evaluations(&runtime), (0, 0));
    assert_eq!(later.to_vec::<f32>()?[3..5], [1.0, 6.0]);
    runtime.profiler().stop();

    // A clone, a view, an operation that waits, a compiled function, and who reads from outside.
    let clone = x.clone();
    let view = x.slice(0, 2..6).flip(0);
    let pending = &x * 2.0;
    let held = x.clone();
    let f = compile(move |t| t + &held);
    let zeros = Tensor::zeros(8, DType::F32).to(&device).copy();
    assert_eq!(f.call(&zeros)?.to_vec::<f32>()?[7], 5.0);
    let reader = x.export()?;
    let out = x.export_writable()?;
    assert_ne!(out.raw().address, address);
    overwrite(&out, -1.0);
    assert_eq!(x.to_vec::<f32>()?, [-1.0; 8]);
    assert_eq!(clone.to_vec::<f32>()?[3..5], [0.0, 5.0]);
    assert_eq!(view.to_vec::<f32>()?, [5.0, 5.0, 0.0, 0.0]);
    assert_eq!(pending.to_vec::<f32>()?[3..5], [0.0, 10.0]);
    assert_eq!(f.call(&zeros)?.to_vec::<f32>()?[7], 5.0);
    assert_eq!((read(&reader, 0), read(&reader, 7)), (0.0, 5.0));
    Ok(())
}

#[test]
fn what_cannot_be_written_is_copied_for_who_may_write() -> Result<()> {
    let (_runtime, device) = own();
    let outside = Outside::new(counted(4));
    let mut x = outside.tensor(&device, &[4], Sharing::ReadOnly)?;
    let out = x.export_writable()?;
    overwrite(&out, 0.0);
    assert_eq!(outside.values(), counted(4));
    assert_eq!(x.to_vec::<f32>()?, [0.0; 4]);
    // Elements that overlap, or are one.
    let mut ones = Tensor::ones([3, 4], DType::F32).to(&device);
    assert_eq!(ones.export()?.raw().strides, [0, 0]);
    let out = ones.export_writable()?;
    assert_eq!(out.raw().strides, [4, 1]);
    // What somebody else owns and may be written is passed on as it is.
    let mut x = outside.tensor(&device, &[2, 2], Sharing::Writable)?.transpose();
    let out = x.export_writable()?;
    assert_eq!((out.raw().address, &out.raw().strides[..]), (outside.pointer as u64, &[1, 2][..]));
    overwrite(&out, 3.0);
    assert_eq!(outside.values(), [3.0; 4]);
    // Without elements.
    let mut none = Tensor::zeros([0, 3], DType::F32).to(&device);
    assert_eq!(none.export_writable()?.raw().shape, [0, 3]);
    Ok(())
}

#[test]
fn memory_is_let_go_once_in_every_order_of_drops() -> Result<()> {
    let (_runtime, device) = own();
    let before = device.pool().stats().in_use;
    // Orders of five things, in the factorial number system.
    for order in 0..120usize {
        let outside = Outside::new(counted(6));
        let mut x = outside.tensor(&device, &[6], Sharing::Writable)?;
        let view = x.slice(0, 1..4);
        let made = &x + 1.0;
        let out = x.export_writable()?;
        let other = view.export()?;
        let mut things: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(x), Box::new(view), Box::new(made), Box::new(out), Box::new(other)];
        let mut rest = order;
        let mut foreign = 4;
        while !things.is_empty() {
            let n = things.len();
            let thing = things.remove(rest % n);
            rest /= n;
            let is_made = thing.downcast_ref::<Tensor>().is_some_and(|t| !t.is_volatile());
            drop(thing);
            foreign -= usize::from(!is_made);
            assert_eq!(outside.gone(), usize::from(foreign == 0), "order {order}, {foreign} left");
        }
    }
    // The same with memory of our own.
    for order in 0..6usize {
        let mut x = Tensor::from_slice(&counted(1000)).to(&device).copy();
        let (out, reader) = (x.export_writable()?, x.export()?);
        let mut things: Vec<Box<dyn std::any::Any>> = vec![Box::new(x), Box::new(out), Box::new(reader)];
        assert!(device.pool().stats().in_use > before);
        drop(things.remove(order % 3));
        assert!(device.pool().stats().in_use > before);
        drop(things.remove(order / 3));
        assert!(device.pool().stats().in_use > before);
    }
    assert_eq!(device.pool().stats().in_use, before);
    Ok(())
}

#[test]
fn queued_work_keeps_memory_of_others_until_it_is_through() -> Result<()> {
    let (_runtime, device) = own();
    let outside = Outside::new(counted(1000));
    let x = outside.tensor(&device, &[1000], Sharing::ReadOnly)?;
    let stream = device.take_stream(Priority::Normal)?;
    let gate = millstream::Event::new();
    stream.depend(&gate)?;
    let y = &x + 1.0;
    let done = y.eval_on(&stream)?;
    std::thread::scope(|scope| {
        let last = scope.spawn(move || drop(x));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!done.is_complete());
        assert_eq!(outside.gone(), 0, "it was let go while work was queued that reads it");
        gate.signal();
        last.join().expect("no panic");
    });
    assert_eq!(outside.gone(), 1);
    assert_eq!(y.to_vec::<f32>()?[999], 1001.0);
    // Work that reads memory of our own is through before somebody outside may write there.
    let gate = millstream::Event::new();
    stream.depend(&gate)?;
    let mut x = y;
    let twice = &x * 2.0;
    twice.eval_on(&stream)?;
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        gate.signal();
    });
    overwrite(&x.export_writable()?, 0.0);
    assert_eq!(twice.to_vec::<f32>()?[999], 2002.0);
    opener.join().expect("no panic");
    device.return_stream(stream);
    Ok(())
}

#[test]
fn another_device_sees_what_lies_there_at_the_time_of_the_call() -> Result<()> {
    for queued in [false, true] {
        let sim = Sim::new();
        let family = SimFamily::new(CpuFamily::new(CpuOptions::default()), "cpu", &sim);
        let family = if queued { family.queued() } else { family };
        let runtime = Runtime::builder().family(CpuFamily::new(CpuOptions::default())).family(family).build();
        let (host, device) = (runtime.host()?, runtime.device("sim")?);
        let outside = Outside::new(vec![1.0; 64]);
        let shared = outside.tensor(&host, &[64], Sharing::Writable)?;
        let there = Tensor::from_slice(&counted(64)).to(&device);
        let mut sums = Vec::new();
        // Often enough that the plan is captured, where that is done.
        for round in 0..30 {
            outside.fill(round as f32);
            sums.push((&there + &shared, shared.to(&device)));
            outside.fill(-1.0);
        }
        for (round, (sum, moved)) in sums.iter().enumerate() {
            assert_eq!(sum.to_vec::<f32>()?[63], 64.0 + round as f32);
            assert_eq!(moved.to_vec::<f32>()?, [round as f32; 64]);
            assert!(!moved.is_volatile());
        }
        // A value that was on both devices, and is written on one from outside.
        let mut x = Tensor::from_slice(&counted(4)).to(&host).copy();
        x.eval()?;
        assert_eq!((x.to(&device) + 0.0).to_vec::<f32>()?, counted(4));
        let out = x.export_writable()?;
        overwrite(&out, 7.0);
        assert_eq!((x.to(&device) + 0.0).to_vec::<f32>()?, [7.0; 4]);
        drop(out);
        assert_eq!((x.to(&device) + 0.0).to_vec::<f32>()?, [7.0; 4]);
        assert_eq!(there.export_writable_of_clone().unwrap_err().kind(), ErrorKind::Unsupported);
    }
    Ok(())
}

/// Exporting what lies on a device whose memory has no address.
trait ExportClone {
    fn export_writable_of_clone(&self) -> Result<Exported>;
}

impl ExportClone for Tensor {
    fn export_writable_of_clone(&self) -> Result<Exported> {
        (self + 0.0).export_writable()
    }
}

#[test]
fn packed_forms_are_not_kept_of_memory_that_others_write() -> Result<()> {
    let (_runtime, device) = own();
    let n = 128;
    let outside = Outside::new(vec![1.0; n * n]);
    let weights = outside.tensor(&device, &[n, n], Sharing::Writable)?.keep()?;
    let x = Tensor::ones([n, n], DType::F32).to(&device).copy();
    for round in 1..5 {
        outside.fill(round as f32);
        assert_eq!(x.matmul(&weights).to_vec::<f32>()?, vec![(n * round) as f32; n * n]);
    }
    // Nor of a tensor of our own once somebody may write to it.
    let mut weights = Tensor::ones([n, n], DType::F32).to(&device).copy().keep()?;
    x.matmul(&weights).eval()?;
    let out = weights.export_writable()?;
    overwrite(&out, 3.0);
    assert_eq!(x.matmul(&weights).to_vec::<f32>()?[0], 3.0 * n as f32);
    drop(out);
    assert_eq!(x.matmul(&weights).to_vec::<f32>()?[0], 3.0 * n as f32);
    Ok(())
}

#[test]
fn threads_exchange_at_the_same_time() -> Result<()> {
    let (_runtime, device) = own();
    let base = Tensor::from_slice(&counted(256)).to(&device).copy();
    let f = compile(|x| (x * 3.0).sum(..));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|t| {
                let (base, device, f) = (&base, &device, &f);
                scope.spawn(move || -> Result<()> {
                    for i in 0..100 {
                        // All export what they share; who writes has memory of his own.
                        let mut mine = base.clone();
                        let out = mine.export_writable()?;
                        overwrite(&out, (t * 100 + i) as f32);
                        let sum = mine.sum(..);
                        let called = f.call(&mine)?;
                        overwrite(&out, 0.0);
                        assert_eq!(sum.item::<f32>()?, 256.0 * (t * 100 + i) as f32);
                        assert_eq!(called.item::<f32>()?, 3.0 * 256.0 * (t * 100 + i) as f32);
                        let outside = Outside::new(vec![i as f32; 256]);
                        let y = outside.tensor(device, &[256], Sharing::Writable)? + base;
                        outside.fill(-1.0);
                        drop(outside);
                        assert_eq!(y.to_vec::<f32>()?[255], 256.0 + i as f32);
                        assert_eq!(base.export()?.raw().shape, [256]);
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().expect("no panic"))
    })?;
    assert_eq!(base.to_vec::<f32>()?, counted(256));
    Ok(())
}

#[test]
fn bytes_of_bool_that_others_wrote_are_true_or_false() -> Result<()> {
    let (_runtime, device) = own();
    let bytes = Box::new([0u8, 1, 2, 255]);
    let (address, shape, strides) = (bytes.as_ptr() as u64, vec![4], vec![1]);
    let raw = RawTensor { address, shape, strides, dtype: DType::Bool, device, sharing: Sharing::ReadOnly };
    // SAFETY: the box stays where it is, and nobody writes to it.
    let x = unsafe { Tensor::import(raw, bytes)? };
    assert_eq!(x.to_vec::<bool>()?, [false, true, true, true]);
    assert_eq!(x.clone().where_(1, 0).to_vec::<i64>()?, [0, 1, 1, 1]);
    assert!(x.slice(0, 2..).all(..).item::<bool>()?);
    Ok(())
}
