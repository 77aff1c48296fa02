//! The suite itself is tested with a device that is the reference, right or with one flaw.

use std::alloc::Layout;
use std::any::Any;
use std::sync::Arc;

use num_complex::Complex;

use super::*;
use crate::Runtime;
use crate::backend::{
    Backend, BackendStream, Binding, Bindings, DeviceFamily, Kernel, Launch, MemoryAt, Opening, Priority,
};
use crate::event::Event;
use crate::how::{self, Candidate, DeviceKind, DeviceProfile, MemoryLevel, Schedule, Transfer, Variant};
use crate::memory::{HostPtr, MemoryKind, RawMemory, StreamId};
use crate::sim::{Sim, SimFamily};
use crate::what::{Exact, Expected, HostTensor, Scalar};

/// What the device does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// The last element of each output is one too large.
    WrongElement,
    /// Functions of f32 are off by ten units in the last place.
    Inexact,
    /// One element behind the output is written.
    Overrun,
    /// The last element is not written.
    Missing,
    /// True is 2.
    TrueIsTwo,
    /// Elements before index 0 are not reached: flips are ignored.
    NoFlips,
    /// The second variant fails to launch.
    BadVariant,
    /// It has no f64.
    NoDouble,
}

struct Oracle(Flaw);

impl Backend for Oracle {
    fn profile(&self) -> DeviceProfile {
        let level =
            MemoryLevel { name: "memory".into(), bytes: 1 << 30, line: 64, ways: 0, shared_by: 1, bandwidth: 1e9 };
        DeviceProfile {
            kind: DeviceKind::Cpu,
            description: "the reference".into(),
            architecture: "none".into(),
            driver: format!("{:?}", self.0),
            memory: 1 << 30,
            levels: vec![level],
            rates: vec![(DType::F32, 1e9)],
            matrix_rates: Vec::new(),
            warp_rates: Vec::new(),
            units: 1,
            lanes: 1,
            registers: 16,
            shared_memory: 0,
            max_group: 1,
            max_bindings: 64,
            max_binding: 1 << 30,
            offset_alignment: 1,
            walks: None,
            launch: 1e-6,
            groups: None,
            unhidden: 0.0,
            unequal: 0.0,
            tolerance: crate::what::Tolerance::CPU,
            channels_last: false,
            batch_columns: 256,
            transfer: Transfer { latency: 0.0, bandwidth: f64::INFINITY },
            features: vec![],
            measured: true,
        }
    }

    fn measure(&self) -> Result<DeviceProfile> {
        Ok(self.profile())
    }

    fn alloc(&self, bytes: usize, _: MemoryKind) -> Result<RawMemory> {
        let layout = Layout::from_size_align(bytes, 64).unwrap();
        // SAFETY: `bytes` is not 0, by the contract.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        Ok(RawMemory { address: pointer as u64, bytes, host: HostPtr::new(pointer), owner: None })
    }

    fn free(&self, memory: RawMemory) {
        let layout = Layout::from_size_align(memory.bytes, 64).unwrap();
        // SAFETY: it came from `alloc` with this layout, and the pool gives it back once.
        unsafe { std::alloc::dealloc(memory.host.unwrap().as_ptr(), layout) };
    }

    fn import(&self, host: &RawMemory) -> Option<RawMemory> {
        Some(host.clone())
    }

    fn copy(&self, from: MemoryAt<'_>, to: MemoryAt<'_>, bytes: usize, _: &dyn BackendStream) -> Result<()> {
        let at = |p: MemoryAt<'_>| match p {
            // SAFETY: the offset lies inside the memory.
            MemoryAt::Here(m, offset) | MemoryAt::Host(m, offset) | MemoryAt::Peer(m, offset) => unsafe {
                m.host.unwrap().as_ptr().add(offset)
            },
        };
        // SAFETY: both sides hold so many bytes; nothing else touches them meanwhile.
        unsafe { std::ptr::copy(at(from), at(to), bytes) };
        Ok(())
    }

    fn stream(&self, id: StreamId, _: Priority) -> Result<Arc<dyn BackendStream>> {
        Ok(Arc::new(Immediate(id)))
    }

    fn supports(&self, op: &Op) -> Support {
        let double = op.inputs.iter().chain(&op.outputs).any(|a| a.dtype == DType::F64);
        match self.0 {
            Flaw::NoDouble if double => Support::No("it has no f64".into()),
            _ => Support::Native,
        }
    }

    fn variants(&self, _: &Op) -> Vec<Candidate> {
        ["exact", "other"].map(|name| Candidate::plain(how::Family::new(name))).into()
    }

    fn compile(&self, _: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        Ok(Arc::new(Evaluate(self.0, variant.clone())))
    }
}

struct Immediate(StreamId);

impl BackendStream for Immediate {
    fn id(&self) -> StreamId {
        self.0
    }
    fn is_synchronous(&self) -> bool {
        true
    }
    fn record(&self, event: &Event) -> Result<()> {
        event.signal();
        Ok(())
    }
    fn depend(&self, event: &Event) -> Result<()> {
        event.wait()
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Evaluate(Flaw, Variant);

impl Kernel for Evaluate {
    fn text(&self) -> String {
        "the reference".into()
    }
    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        Ok(Arc::new(Prepared { flaw: self.0, variant: self.1.clone(), op: op.clone() }))
    }
}

struct Prepared {
    flaw: Flaw,
    variant: Variant,
    op: Op,
}

impl Launch for Prepared {
    fn run(&self, bindings: &Bindings<'_>, _: &dyn BackendStream) -> Result<()> {
        if self.flaw == Flaw::BadVariant && self.variant.family == how::Family::new("other") {
            return Err(Error::launch("this variant never works"));
        }
        let read = |(b, dtype): (&Binding<'_>, DType)| {
            // SAFETY: the binding lies inside its memory.
            let bytes =
                unsafe { std::slice::from_raw_parts(b.memory.host.unwrap().as_ptr().add(b.start), b.end - b.start) };
            HostTensor { dtype, bytes: bytes.to_vec(), offset: (b.offset - b.start) / dtype.size() }
        };
        let inputs: Vec<_> = bindings.inputs.iter().zip(&self.op.inputs).map(|(b, a)| read((b, a.dtype))).collect();
        let results = evaluate(&self.op, &inputs, bindings.params, Tolerance::CPU)?;
        for ((elements, binding), access) in results.iter().zip(bindings.outputs).zip(&self.op.outputs) {
            for (i, e) in elements.iter().enumerate() {
                self.write(binding, access.dtype, e, i + 1 == elements.len());
            }
        }
        Ok(())
    }
}

impl Prepared {
    fn write(&self, binding: &Binding<'_>, dtype: DType, e: &Expected, last: bool) {
        let size = dtype.size();
        let value = match (e.value, dtype) {
            (Exact::Int(v), _) => Scalar::from_int(v as i64, dtype),
            (Exact::Float(v), DType::F32) if self.flaw == Flaw::Inexact && e.bound > 0.0 => {
                Scalar::new(v as f32 * (1.0 + 10.0 * f32::EPSILON))
            }
            (Exact::Float(v), _) => Scalar::from_f64(v, dtype),
            (Exact::Complex(v), DType::C64) => Scalar::new(Complex::new(v.re as f32, v.im as f32)),
            (Exact::Complex(v), _) => Scalar::new(v),
        };
        let value = match self.flaw {
            Flaw::WrongElement if last => Scalar::from_f64(value.to_f64() + 1.0, dtype),
            Flaw::Missing if last => return,
            _ => value,
        };
        let mut bytes = value.bytes();
        if self.flaw == Flaw::TrueIsTwo && dtype == DType::Bool && bytes[0] == 1 {
            bytes[0] = 2;
        }
        let position = if self.flaw == Flaw::NoFlips { e.position.max(0) } else { e.position };
        let at = (binding.offset as isize + position * size as isize) as usize;
        let count = if self.flaw == Flaw::Overrun && last { 2 } else { 1 };
        for n in 0..count {
            // SAFETY: the element, and the margin behind it, lie inside the memory.
            unsafe {
                let to = binding.memory.host.unwrap().as_ptr().add(at + n * size);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, size);
            }
        }
    }
}

struct Only(Flaw);

impl DeviceFamily for Only {
    fn list(&self) -> Result<Vec<String>> {
        Ok(vec!["cpu".into()])
    }
    fn name(&self) -> &'static str {
        "cpu"
    }
    fn open(&self, _: &str) -> Opening {
        let backend: Arc<dyn Backend> = Arc::new(Oracle(self.0));
        Box::pin(async move { Ok(backend) })
    }
}

fn device(flaw: Flaw) -> Device {
    let folder = std::env::temp_dir().join(format!("millstream-conformance-{}", std::process::id()));
    Runtime::builder().family(Only(flaw)).cache(folder).build().device("cpu").unwrap()
}

fn report(flaw: Flaw, parts: &[Part]) -> Report {
    run(&device(flaw), &Options { parts: parts.to_vec(), variants: 2, ..Options::default() })
}

mod reference_as_a_device {
    crate::conformance_tests!(super::device(super::Flaw::None));
}

#[test]
fn memory_that_the_host_cannot_address_is_served_by_copies() {
    let folder = std::env::temp_dir().join(format!("millstream-conformance-{}", std::process::id()));
    let sim = Sim::new();
    let runtime = Runtime::builder().family(Only(Flaw::None)).family(SimFamily::new(Only(Flaw::None), "cpu", &sim));
    let device = runtime.cache(folder).build().device("sim").unwrap();
    let options = Options { parts: vec![Part::Map, Part::Contract], variants: 1, ..Options::default() };
    let report = run(&device, &options);
    assert!(report.passed(), "{report}");
    assert!(sim.copies() > 2 * report.rows.len() as u64);
}

#[test]
fn every_row_says_what_was_checked() {
    let report = report(Flaw::None, &[Part::Unary, Part::Matmul]);
    assert!(report.rows.iter().all(|r| r.passed() && r.not_native.is_none()));
    assert!(report.rows.iter().any(|r| r.op == "erf" && r.dtype == DType::F16 && r.elements > 50));
    assert!(report.rows.iter().any(|r| r.op == "matmul" && r.layout == "flipped" && r.bound > 0.0));
    let (all, open) = report.rows.iter().fold((0, 0), |(a, u), r| (a + r.elements, u + r.undetermined));
    assert!(open * 20 < all, "{open} of {all} elements could be anything");
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let options = Options { seed: 7, parts: vec![Part::Graph, Part::Cast], ..Options::default() };
    let device = device(Flaw::None);
    assert_eq!(run(&device, &options).rows, run(&device, &options).rows);
}

#[test]
fn each_flaw_is_found() {
    for (flaw, part) in [
        (Flaw::WrongElement, Part::Layout),
        (Flaw::WrongElement, Part::Contract),
        (Flaw::WrongElement, Part::Reduce),
        (Flaw::Inexact, Part::Unary),
        (Flaw::Overrun, Part::Cast),
        (Flaw::Overrun, Part::Rows),
        (Flaw::Missing, Part::Layout),
        (Flaw::TrueIsTwo, Part::Binary),
        (Flaw::NoFlips, Part::Map),
        (Flaw::BadVariant, Part::Matmul),
    ] {
        let report = report(flaw, &[part]);
        assert!(!report.passed(), "{flaw:?} goes through {part:?}");
        assert!(report.to_string().contains(&format!("MILLSTREAM_SEED={}", report.seed)));
    }
}

#[test]
fn what_is_not_supported_is_reported_and_no_failure() {
    let report = report(Flaw::NoDouble, &[Part::Unary]);
    assert!(report.passed());
    let double: Vec<_> = report.rows.iter().filter(|r| r.dtype == DType::F64).collect();
    assert!(!double.is_empty() && double.iter().all(|r| r.not_native.as_deref() == Some("it has no f64")));
}

#[test]
fn a_filter_leaves_only_what_it_names() {
    let options = Options { filter: "sigmoid".into(), ..Options::default() };
    let report = run(&device(Flaw::None), &options);
    assert!(!report.rows.is_empty() && report.rows.iter().all(|r| r.op == "sigmoid"));
}
