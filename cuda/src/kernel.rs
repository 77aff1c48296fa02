//! Generated kernels: text from codegen, compiled by NVRTC or taken from the cache, launched by the driver.

use std::fmt::Write;
use std::sync::Arc;

use millstream_codegen::{Prepared, Program};
use millstream_core::backend::{BackendStream, Binding, Bindings, Kernel, Launch};
use millstream_core::cache::stable_hash;
use millstream_core::how::Schedule;
use millstream_core::{Error, Op, Result};
use smallvec::SmallVec;

use crate::compile::{Binary, CompileOptions, compile};
use crate::context::Context;
use crate::module::Module;
use crate::nvtx;
use crate::stream::{CudaStream, Shape};
use crate::sys::driver as sys;

/// What a kernel's bytes begin with; the number changes with their form.
const MAGIC: &[u8; 8] = b"MSCUDA\x00\x01";
/// Magic, the hash of what was compiled and how, and whether it is machine code.
const HEADER: usize = 8 + 16 + 1;

/// What a binary belongs to: the text, the architecture and the options. A binary with another one is stale.
fn fingerprint(text: &str, architecture: &str, options: &CompileOptions) -> u128 {
    stable_hash(format!("{architecture} {options:?}\n{text}").as_bytes())
}

fn pack(fingerprint: u128, binary: &Binary) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + binary.bytes.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&fingerprint.to_le_bytes());
    out.push(u8::from(binary.is_native));
    out.extend_from_slice(&binary.bytes);
    out
}

fn unpack(bytes: &[u8], wanted: u128) -> Result<Binary> {
    let bad = |why: &str| Error::format(format!("a cached CUDA kernel {why}"));
    let (head, body) = bytes.split_at_checked(HEADER).ok_or_else(|| bad("is cut off"))?;
    if &head[..8] != MAGIC || body.is_empty() {
        return Err(bad("has another form"));
    }
    if head[8..24] != wanted.to_le_bytes() {
        return Err(bad("was made from another text, or for another device"));
    }
    Ok(Binary { bytes: body.to_vec(), is_native: head[24] == 1, log: String::new() })
}

/// A program on the device.
pub(crate) struct Generated {
    context: Arc<Context>,
    program: Program,
    module: Arc<Module>,
    functions: SmallVec<[sys::Function; 4]>,
    /// Whether its kernels wait for the one before them by themselves: what was compiled for an older architecture does not.
    follows: bool,
    bytes: Vec<u8>,
}

impl Generated {
    /// Compiles a program.
    pub(crate) fn compile(context: &Arc<Context>, program: Program, options: &CompileOptions) -> Result<Generated> {
        context.enter()?;
        let architecture = context.properties.architecture();
        let binary = compile(&program.text, &architecture, options)?;
        let fingerprint = fingerprint(&program.text, &architecture, options);
        Generated::install(context, program, binary, fingerprint)
    }

    /// Takes a program's binary from what [`Generated::bytes`] gave.
    pub(crate) fn load(
        context: &Arc<Context>,
        program: Program,
        options: &CompileOptions,
        bytes: &[u8],
    ) -> Result<Generated> {
        let fingerprint = fingerprint(&program.text, &context.properties.architecture(), options);
        Generated::install(context, program, unpack(bytes, fingerprint)?, fingerprint)
    }

    fn install(context: &Arc<Context>, program: Program, binary: Binary, fingerprint: u128) -> Result<Generated> {
        let module = Arc::new(Module::load(context, &binary)?);
        let functions = program.entries.iter().map(|e| module.function(&e.name)).collect::<Result<_>>()?;
        let bytes = pack(fingerprint, &binary);
        let follows = binary.is_native && context.properties.capability >= (9, 0);
        Ok(Generated { context: context.clone(), program, module, functions, follows, bytes })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// The source, and what each kernel of it takes.
    pub(crate) fn text(&self) -> String {
        let mut text = self.program.text.clone();
        let threads = self.context.properties.max_threads.max(1);
        for (entry, &function) in self.program.entries.iter().zip(&self.functions) {
            let _ = match self.module.resources(function, entry.group) {
                Ok(r) => writeln!(
                    text,
                    "// {}: {} registers, {} bytes shared, {} bytes local, {} groups of {} threads on a multiprocessor \
                     ({}% occupancy)",
                    entry.name,
                    r.registers,
                    r.shared,
                    r.local,
                    r.groups,
                    entry.group,
                    100 * r.groups * entry.group as usize / threads
                ),
                Err(e) => writeln!(text, "// {}: {}", entry.name, e.to_string().lines().next().unwrap_or_default()),
            };
        }
        text
    }

    pub(crate) fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Prepared> {
        self.program.prepare(op, schedule)
    }

    /// Queues what was prepared.
    #[inline]
    pub(crate) fn run(&self, prepared: &Prepared, bindings: &Bindings<'_>, stream: &CudaStream) -> Result<()> {
        let address = |b: &Binding<'_>| b.memory.address.wrapping_add(b.offset as u64);
        let mut addresses: SmallVec<[u64; 16]> = SmallVec::new();
        addresses.extend(bindings.inputs.iter().chain(bindings.outputs).map(address));
        if addresses.len() != self.program.operands {
            return Err(Error::internal("a kernel was given another number of operands than it takes"));
        }
        if self.program.has_workspace {
            // A launch that needs no scratch memory gets an address all the same: the parameter is there.
            addresses.push(bindings.workspace.as_ref().map_or(0, address));
        }
        if self.program.has_note {
            addresses.push(bindings.note.map_or(0, |n| n.memory.address + n.offset as u64));
        }
        prepared.encode(bindings, &mut |dispatch| {
            let (Some(&function), Some(entry)) =
                (self.functions.get(dispatch.entry), self.program.entries.get(dispatch.entry))
            else {
                return Err(Error::internal("a launch names a kernel that its program does not have"));
            };
            let _range = nvtx::range(&entry.name);
            stream.launch(
                &self.module,
                Shape { function, grid: dispatch.grid, group: entry.group, follows: self.follows },
                &addresses,
                dispatch.words,
            )
        })
    }
}

/// A generated kernel as core sees it.
pub(crate) struct CudaKernel(pub(crate) Arc<Generated>);

impl Kernel for CudaKernel {
    fn bytes(&self) -> Option<Vec<u8>> {
        Some(self.0.bytes())
    }

    fn text(&self) -> String {
        self.0.text()
    }

    fn prepare(&self, op: &Op, schedule: &Schedule) -> Result<Arc<dyn Launch>> {
        Ok(Arc::new(CudaLaunch { prepared: self.0.prepare(op, schedule)?, kernel: self.0.clone() }))
    }
}

/// A generated kernel with its sizes packed.
struct CudaLaunch {
    kernel: Arc<Generated>,
    prepared: Prepared,
}

impl Launch for CudaLaunch {
    fn workspace(&self) -> usize {
        self.prepared.workspace()
    }

    fn notes(&self) -> bool {
        self.kernel.program.has_note
    }

    fn run(&self, bindings: &Bindings<'_>, stream: &dyn BackendStream) -> Result<()> {
        let stream = CudaStream::of(stream)?;
        stream.context().enter()?;
        self.kernel.run(&self.prepared, bindings, stream)
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::ErrorKind;

    use super::*;

    #[test]
    fn a_stale_or_broken_binary_is_refused() {
        let options = CompileOptions::default();
        let binary = Binary { bytes: vec![1, 2, 3], is_native: true, log: String::new() };
        let print = fingerprint("kernel", "sm_90", &options);
        let bytes = pack(print, &binary);
        assert_eq!(unpack(&bytes, print).unwrap(), binary);
        let with_lines = CompileOptions { line_info: true, ..options.clone() };
        for other in [
            fingerprint("kernel2", "sm_90", &options),
            fingerprint("kernel", "sm_80", &options),
            fingerprint("kernel", "sm_90", &with_lines),
        ] {
            assert_eq!(unpack(&bytes, other).unwrap_err().kind(), ErrorKind::Format);
        }
        for cut in [0, 8, HEADER - 1, HEADER] {
            assert!(unpack(&bytes[..cut], print).is_err());
        }
    }
}
