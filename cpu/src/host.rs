//! Host functions: calls the function that the operation brings, on whole operands.
//!
//! A function may count on aligned operands. Memory that others own (a file mapped into memory, an array of another library)
//! may lie anywhere; such an operand goes through a copy.

use std::sync::Arc;

use millstream_core::backend::{Binding, Bindings, Kernel, Launch};
use millstream_core::how::Schedule;
use millstream_core::what::{Fork, HostBody, HostOperand, alignment};
use millstream_core::{Body, Error, Op, Result};

use crate::backend::Machine;
use crate::stream::{CpuLaunch, Run, host_address};
use crate::workers::Workers;

/// The kernel of all host functions.
pub(crate) struct HostKernel {
    machine: Arc<Machine>,
}

impl HostKernel {
    pub(crate) fn new(machine: Arc<Machine>) -> HostKernel {
        HostKernel { machine }
    }
}

impl Kernel for HostKernel {
    fn text(&self) -> String {
        "a function of the host".into()
    }

    fn prepare(&self, op: &Op, _: &Schedule) -> Result<Arc<dyn Launch>> {
        let Body::Host(body) = &op.body else {
            return Err(Error::internal(format!("a {} operation is no host function", op.name())));
        };
        Ok(Arc::new(CpuLaunch(Arc::new(HostCall { body: body.clone(), machine: self.machine.clone() }))))
    }
}

struct HostCall {
    body: HostBody,
    machine: Arc<Machine>,
}

struct Tasks<'a>(&'a Workers);

impl Fork for Tasks<'_> {
    fn run(&self, tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        self.0.run(tasks, f);
    }
}

/// Where an operand lies, after a check that the binding holds all of it.
fn address(binding: &Binding<'_>, operand: &HostOperand) -> Result<*mut u8> {
    let end = binding.offset.checked_add(operand.bytes());
    if operand.is_empty() {
        return Ok(std::ptr::without_provenance_mut(16));
    }
    if binding.offset < binding.start || end.is_none_or(|e| e > binding.end || e > binding.memory.bytes) {
        return Err(Error::internal("an operand of a host function leaves its memory"));
    }
    host_address(binding.memory, binding.offset)
}

/// Room for the bytes of an operand, aligned for every dtype.
fn room(bytes: usize) -> Vec<u128> {
    vec![0; bytes.div_ceil(16)]
}

impl Run for HostCall {
    fn execute(&self, bindings: &Bindings<'_>) -> Result<()> {
        let function = &self.body.function;
        let aligned = |at: *mut u8, o: &HostOperand| at.addr().is_multiple_of(alignment(o.dtype));

        let mut copies: Vec<Vec<u128>> = Vec::new();
        let mut inputs: Vec<&[u8]> = Vec::with_capacity(function.inputs.len());
        for (binding, operand) in bindings.inputs.iter().zip(&function.inputs) {
            let mut at: *const u8 = address(binding, operand)?;
            if !aligned(at.cast_mut(), operand) {
                let mut copy = room(operand.bytes());
                // SAFETY: `address` checked that the bytes are there; the copy has room for them.
                unsafe { std::ptr::copy_nonoverlapping(at, copy.as_mut_ptr().cast::<u8>(), operand.bytes()) };
                at = copy.as_ptr().cast();
                // The words stay where they are when their vector moves into the list.
                copies.push(copy);
            }
            // SAFETY: `address` checked that the bytes are there (a copy has them, too); nobody writes them during the call,
            // since the stream's order keeps writers away and the planner gives outputs memory of their own.
            inputs.push(unsafe { std::slice::from_raw_parts(at, operand.bytes()) });
        }

        // For each wanted output: its address, its bytes, and words to write to if the address is not aligned.
        let mut wanted = Vec::with_capacity(self.body.wanted.len());
        for (binding, &o) in bindings.outputs.iter().zip(&self.body.wanted) {
            let operand = &function.outputs[o as usize];
            let at = address(binding, operand)?;
            let words = if aligned(at, operand) { Vec::new() } else { room(operand.bytes()) };
            wanted.push((o as usize, at, operand.bytes(), words));
        }
        let mut outputs: Vec<Option<&mut [u8]>> = function.outputs.iter().map(|_| None).collect();
        for (o, at, bytes, words) in &mut wanted {
            let to = if words.is_empty() { *at } else { words.as_mut_ptr().cast() };
            // SAFETY: `address` checked the memory, or the words have room; each output is memory of its own, which only this
            // call uses.
            outputs[*o] = Some(unsafe { std::slice::from_raw_parts_mut(to, *bytes) });
        }
        function.run(&inputs, &mut outputs, &Tasks(&self.machine.workers))?;
        for (_, at, bytes, words) in wanted.iter().filter(|w| !w.3.is_empty()) {
            // SAFETY: as above; the words hold what was written.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), *at, *bytes) };
        }
        Ok(())
    }
}
