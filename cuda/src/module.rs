//! Machine code on the device.

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

use millstream_core::{Error, Result};

use crate::compile::Binary;
use crate::context::Context;
use crate::sys::driver::{self as sys, number};

/// A loaded module; unloaded when the last kernel of it is dropped.
pub(crate) struct Module {
    context: Arc<Context>,
    raw: sys::Module,
}

/// What a kernel takes of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Registers of one thread.
    pub(crate) registers: usize,
    /// Bytes of shared memory of one group.
    pub(crate) shared: usize,
    /// Bytes of a thread's own memory that did not find room in registers.
    pub(crate) local: usize,
    /// Groups that one multiprocessor holds at a time.
    pub(crate) groups: usize,
}

impl Module {
    /// Loads a compiled text.
    pub(crate) fn load(context: &Arc<Context>, binary: &Binary) -> Result<Module> {
        context.enter()?;
        let mut raw = sys::Module::NULL;
        let mut log = vec![0u8; 8192];
        let mut options = [number::JIT_ERROR_LOG, number::JIT_ERROR_LOG_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
        // SAFETY: the bytes are a whole CUBIN, or PTX that ends with a zero; the log has the size that is said.
        let status = unsafe {
            (context.driver.module_load)(
                &mut raw,
                binary.bytes.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if status != 0 {
            let error = context.failed(status, "loading a kernel");
            let log = String::from_utf8_lossy(&log);
            let log = log.trim_end_matches('\0').trim();
            return Err(if log.is_empty() { error } else { error.through(log) });
        }
        Ok(Module { context: context.clone(), raw })
    }

    /// The kernel of that name.
    pub(crate) fn function(&self, name: &str) -> Result<sys::Function> {
        self.context.enter()?;
        let text = CString::new(name).map_err(|_| Error::internal("a kernel's name contains a zero byte"))?;
        let mut function = sys::Function::NULL;
        // SAFETY: the driver writes a handle; the name ends with a zero.
        let status = unsafe { (self.context.driver.module_function)(&mut function, self.raw, text.as_ptr()) };
        self.context.check(status, &format!("looking for the kernel {name}"))?;
        Ok(function)
    }

    /// What a kernel of this module takes when its groups have so many threads.
    pub(crate) fn resources(&self, function: sys::Function, group: u32) -> Result<Resources> {
        self.context.enter()?;
        let driver = self.context.driver;
        let ask = |attribute: c_int| -> Result<usize> {
            let mut value: c_int = 0;
            // SAFETY: the driver writes one number; the function is of this module.
            let status = unsafe { (driver.function_attribute)(&mut value, attribute, function) };
            self.context.check(status, "asking what a kernel takes")?;
            Ok(value.max(0) as usize)
        };
        let mut groups: c_int = 0;
        // SAFETY: as above.
        let status = unsafe { (driver.occupancy)(&mut groups, function, group as c_int, 0) };
        self.context.check(status, "asking for a kernel's occupancy")?;
        Ok(Resources {
            registers: ask(number::FUNCTION_REGISTERS)?,
            shared: ask(number::FUNCTION_SHARED_BYTES)?,
            local: ask(number::FUNCTION_LOCAL_BYTES)?,
            groups: groups.max(0) as usize,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.loss().is_none() && self.context.enter().is_ok() {
            // SAFETY: kernels of the module hold it; there are none any more. The driver waits for those that run.
            unsafe { (self.context.driver.module_unload)(self.raw) };
        }
    }
}
