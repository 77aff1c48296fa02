//! A CUDA device without a GPU: the generated C++, compiled for the host, over the host's memory.

use std::alloc::Layout;
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use libloading::Library;
use millstream_codegen::{Prepared, Program, Target, generate, supports, variants};
use millstream_core::backend::{
    Backend, BackendStream, Binding, Bindings, DeviceFamily, Kernel, Launch, MemoryAt, Opening, Priority, Support,
};
use millstream_core::cache::stable_hash;
use millstream_core::event::Event;
use millstream_core::how::{Candidate, DeviceProfile, Schedule, Variant};
use millstream_core::memory::{HostPtr, MemoryKind, RawMemory, StreamId};
use millstream_core::{Error, Op, Result};

/// Which operations a device takes.
pub type Takes = fn(&Op) -> bool;

/// The compiler; `None` where there is none that makes what the header needs.
pub fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&'static str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let nothing = "extern \"C\" __global__ void nothing(int*, const int n) {}\n";
        ["g++", "clang++"].into_iter().find(|name| build(name, nothing, &["nothing"]).is_ok())
    })
}

/// The family of one device, which is its own host.
pub struct Family {
    pub target: Target,
    pub profile: DeviceProfile,
    pub takes: Takes,
}

impl DeviceFamily for Family {
    fn list(&self) -> Result<Vec<String>> {
        Ok(vec!["cpu".into()])
    }

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn open(&self, _: &str) -> Opening {
        let (target, profile, takes) = (self.target.clone(), self.profile.clone(), self.takes);
        Box::pin(std::future::ready(Ok(Arc::new(Emulated { target, profile, takes }) as Arc<dyn Backend>)))
    }
}

struct Emulated {
    target: Target,
    profile: DeviceProfile,
    takes: Takes,
}

/// What the driver's memory is aligned to.
const ALIGNMENT: usize = 256;

impl Backend for Emulated {
    fn profile(&self) -> DeviceProfile {
        self.profile.clone()
    }

    fn measure(&self) -> Result<DeviceProfile> {
        Ok(self.profile())
    }

    fn alloc(&self, bytes: usize, _: MemoryKind) -> Result<RawMemory> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|e| Error::internal(e.to_string()))?;
        // SAFETY: `bytes` is not 0, by the contract.
        let pointer = unsafe { std::alloc::alloc_zeroed(layout) };
        Ok(RawMemory { address: pointer as u64, bytes, host: HostPtr::new(pointer), owner: None })
    }

    fn free(&self, memory: RawMemory) {
        let layout = Layout::from_size_align(memory.bytes, ALIGNMENT).unwrap();
        // SAFETY: it came from `alloc` with this layout, and the pool gives it back once.
        unsafe { std::alloc::dealloc(memory.host.unwrap().as_ptr(), layout) };
    }

    fn import(&self, _: &RawMemory) -> Option<RawMemory> {
        None
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
        if !(self.takes)(op) {
            return Support::No("not in this run's sample".into());
        }
        supports(op, &self.target)
    }

    fn variants(&self, op: &Op) -> Vec<Candidate> {
        variants(op, &self.target, &self.profile)
    }

    fn compile(&self, op: &Op, variant: &Variant) -> Result<Arc<dyn Kernel>> {
        let program = generate(op, variant, &self.target)?;
        let name = compiler().ok_or_else(|| Error::internal("there is no C++ compiler"))?;
        let library = build(name, &program.text, &program.entries.iter().map(|e| e.name.as_str()).collect::<Vec<_>>())?;
        Ok(Arc::new(HostKernel(Arc::new(Compiled { program, library }))))
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

/// A text for the host, with a function for each entry that runs a launch of it.
fn host_text(text: &str, entries: &[&str]) -> String {
    let header = include_str!("device.hpp").replace("//- matrix units\n", include_str!("matrix.hpp"));
    let mut all = header + text;
    for name in entries {
        all += &format!(
            "extern \"C\" __global__ int run_{name}(const ms_Launch* launch) {{\n    \
             return ms_run([](const ms_Launch* l) {{ ms_call({name}, l); }}, launch);\n}}\n"
        );
    }
    all
}

/// Compiles a text to a library and loads it. The file is gone when this returns.
fn build(compiler: &str, text: &str, entries: &[&str]) -> Result<Library> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let text = host_text(text, entries);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let stem = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("emulated-{}-{number}", std::process::id()));
    let (source, library) = (stem.with_extension("cpp"), stem.with_extension("so"));
    let trouble = |what: &str| Error::compile(format!("{compiler}: {what}"));
    std::fs::write(&source, &text).map_err(|e| trouble(&e.to_string()))?;
    let mut command = Command::new(compiler);
    command.args(["-O1", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-fwrapv"]);
    command.args(["-ffp-contract=off", "-U_FORTIFY_SOURCE", "-w", "-o"]).arg(&library).arg(&source);
    if cfg!(target_arch = "x86_64") && has_fma() {
        command.arg("-mfma");
    }
    let output = command.output();
    let keep = std::env::var_os("MILLSTREAM_KEEP_TEXT").is_some();
    if !keep {
        let _ = std::fs::remove_file(&source);
    }
    let output = output.map_err(|e| trouble(&e.to_string()))?;
    if !output.status.success() {
        return Err(trouble(&format!("{}\n{text}", String::from_utf8_lossy(&output.stderr))));
    }
    // SAFETY: the library has no initialisers but those of the C++ runtime.
    let loaded = unsafe { Library::new(&library) };
    let _ = std::fs::remove_file(&library);
    loaded.map_err(|e| trouble(&e.to_string()))
}

#[cfg(target_arch = "x86_64")]
fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_fma() -> bool {
    false
}

struct Compiled {
    program: Program,
    library: Library,
}

/// `ms_Launch` of the header.
#[repr(C)]
struct HostLaunch {
    grid: [u32; 3],
    threads: u32,
    addresses: *const u64,
    words: *const u32,
}

impl Compiled {
    fn run(&self, prepared: &Prepared, bindings: &Bindings<'_>) -> Result<()> {
        let address = |b: &Binding<'_>| b.memory.address.wrapping_add(b.offset as u64);
        let mut addresses: Vec<u64> = bindings.inputs.iter().chain(bindings.outputs).map(address).collect();
        if self.program.has_workspace {
            addresses.push(bindings.workspace.as_ref().map_or(0, address));
        }
        if self.program.has_note {
            addresses.push(bindings.note.map_or(0, |n| n.memory.address.wrapping_add(n.offset as u64)));
        }
        prepared.encode(bindings, &mut |dispatch| {
            // What runs has state of its own: one launch at a time.
            static TURN: Mutex<()> = Mutex::new(());
            let _turn = TURN.lock().unwrap_or_else(|failed| failed.into_inner());
            let entry = &self.program.entries[dispatch.entry];
            // Aligned as the struct of the arguments may be.
            let words: Vec<u128> =
                dispatch.words.chunks(4).map(|c| c.iter().rev().fold(0, |w, &x| w << 32 | u128::from(x))).collect();
            let launch = HostLaunch {
                grid: dispatch.grid,
                threads: entry.group,
                addresses: addresses.as_ptr(),
                words: words.as_ptr().cast(),
            };
            // SAFETY: `host_text` has written this function for every entry. The addresses are as many as the text declares, and the
            // dispatcher has checked what lies behind them.
            let status = unsafe {
                let name = format!("run_{}", entry.name);
                let run = self.library.get::<unsafe extern "C" fn(*const c_void) -> c_int>(name.as_bytes());
                run.map_err(|e| Error::internal(e.to_string()))?((&raw const launch).cast())
            };
            match status {
                0 => Ok(()),
                1 => Err(Error::launch(format!("threads of {} wait for one another for ever", entry.name))),
                _ => Err(Error::launch(format!("there is no memory for the threads of {}", entry.name))),
            }
        })
    }
}

struct HostKernel(Arc<Compiled>);

impl Kernel for HostKernel {
    fn text(&self) -> String {
        self.0.program.text.clone()
    }

    fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Arc<dyn Launch>> {
        Ok(Arc::new(PreparedLaunch { prepared: self.0.program.prepare(op, schedule)?, kernel: self.0.clone() }))
    }
}

struct PreparedLaunch {
    prepared: Prepared,
    kernel: Arc<Compiled>,
}

impl Launch for PreparedLaunch {
    fn workspace(&self) -> usize {
        self.prepared.workspace()
    }

    fn notes(&self) -> bool {
        self.kernel.program.has_note
    }

    fn run(&self, bindings: &Bindings<'_>, _: &dyn BackendStream) -> Result<()> {
        self.kernel.run(&self.prepared, bindings)
    }
}

/// A number that stays the same for an operation and differs between them.
pub fn hash(op: &Op, seed: u64) -> u64 {
    stable_hash(format!("{seed} {op:?}").as_bytes()) as u64
}
