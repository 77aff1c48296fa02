//! One opened device: its context, whether it still lives, and the small things that streams and events share.
//!
//! Millstream uses a device's *primary* context, so that memory of other CUDA libraries in the process can be shared. An
//! error that leaves the context unusable is noted once for everybody who uses that context: from then on every call
//! fails at once with `DeviceLost`, and nothing of it is given back to the driver any more. Opening the device again
//! resets the context first.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use millstream_core::{Error, Result};
use parking_lot::Mutex;

use crate::error::{driver_error, is_sticky, missing_driver};
use crate::event::EventPool;
use crate::gate::Slots;
use crate::properties::CudaProperties;
use crate::sys::Status;
use crate::sys::driver::{self as sys, Driver, driver};
use crate::watch::Watchers;

/// Whether a context still lives; shared by all who opened it.
pub(crate) struct Health {
    lost: OnceLock<Error>,
    /// Tells a context from an earlier one with the same handle, after a reset.
    number: u64,
}

impl Default for Health {
    fn default() -> Health {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Health { lost: OnceLock::new(), number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }
}

thread_local! {
    /// The number of the context that this thread made current last.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The contexts that this process has opened, by the device's number.
static HEALTH: Mutex<Option<HashMap<i32, Arc<Health>>>> = Mutex::new(None);

/// One opened device.
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) properties: CudaProperties,
    /// The device's name, for messages.
    pub(crate) name: String,
    device: sys::Device,
    raw: sys::Context,
    health: Arc<Health>,
    pub(crate) events: EventPool,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) slots: Slots,
    /// Launches a kernel that may be set up while the one before it still runs, where driver and device have that (compute
    /// capability 9.0; graphs keep it since CUDA 12.3). Only for kernels that wait for the one before by themselves.
    pub(crate) early_launch: Option<EarlyLaunch>,
}

/// The driver's function for launches with attributes.
pub(crate) type EarlyLaunch =
    unsafe extern "C" fn(*const sys::LaunchConfig, sys::Function, *mut *mut c_void, *mut *mut c_void) -> Status;

/// The driver, initialised, and the number of devices; or why there is none.
pub(crate) fn devices() -> Result<(&'static Driver, usize)> {
    static READY: OnceLock<Result<(&'static Driver, usize)>> = OnceLock::new();
    READY
        .get_or_init(|| {
            let driver = driver().map_err(|missing| missing_driver(&missing))?;
            let check = |status, doing: &str| if status == 0 { Ok(()) } else { Err(unusable(driver, status, doing)) };
            let (mut version, mut count): (c_int, c_int) = (0, 0);
            // SAFETY: the driver writes one number each.
            unsafe {
                check((driver.driver_version)(&mut version), "asking for the CUDA driver's version")?;
                check((driver.init)(0), "starting the CUDA driver")?;
                check((driver.device_count)(&mut count), "counting CUDA devices")?;
            }
            if count <= 0 {
                return Err(unusable(driver, 100, "counting CUDA devices"));
            }
            Ok((driver, count as usize))
        })
        .clone()
}

/// Why no device can be used, with the one reason that people run into most often.
fn unusable(driver: &Driver, status: Status, doing: &str) -> Error {
    let error = driver_error(driver, status, doing);
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(list) if status == 100 && (list.is_empty() || list.trim().starts_with('-')) => {
            Error::no_device(format!("CUDA_VISIBLE_DEVICES={list:?} hides all CUDA devices"))
                .with_code(status.into())
                .suggest("unset CUDA_VISIBLE_DEVICES, or give it the numbers of the devices to use")
        }
        _ => error,
    }
}

impl Context {
    /// Opens a device by its number.
    pub(crate) fn open(ordinal: usize) -> Result<Arc<Context>> {
        let (driver, count) = devices()?;
        let name = format!("cuda:{ordinal}");
        if ordinal >= count {
            return Err(Error::no_device(format!("there is no device {name}; this machine has {count}")));
        }
        let check = |status, doing: &str| if status == 0 { Ok(()) } else { Err(driver_error(driver, status, doing)) };
        let mut device: sys::Device = 0;
        // SAFETY: the driver writes one number.
        check(unsafe { (driver.device_get)(&mut device, ordinal as c_int) }, "looking for a CUDA device")?;
        let properties = CudaProperties::query(driver, device)?;
        let mut all = HEALTH.lock();
        let health = all.get_or_insert_default().entry(device).or_default();
        if health.lost.get().is_some() {
            // SAFETY: whoever holds handles of the lost context has stopped using them, because its health says so.
            check(unsafe { (driver.primary_reset)(device) }, "resetting a lost CUDA device")?;
            *health = Arc::new(Health::default());
        }
        let health = health.clone();
        let mut raw = sys::Context::NULL;
        // SAFETY: the driver writes a handle.
        check(unsafe { (driver.primary_retain)(&mut raw, device) }, "opening a CUDA device")?;
        drop(all);
        let can_follow = properties.capability >= (9, 0) && properties.driver >= (12, 3);
        Ok(Arc::new(Context {
            early_launch: driver.launch_ex.filter(|_| can_follow),
            driver,
            properties,
            name,
            device,
            raw,
            health,
            events: EventPool::default(),
            watchers: Arc::default(),
            slots: Slots::default(),
        }))
    }

    /// The reason, if the device is lost.
    #[inline]
    pub(crate) fn loss(&self) -> Option<&Error> {
        self.health.lost.get()
    }

    /// Makes the context current on this thread, if the device still lives.
    ///
    /// The driver is asked which context is current, because other libraries in the process change it too; the question
    /// costs a few nanoseconds.
    #[inline]
    pub(crate) fn enter(&self) -> Result<()> {
        if let Some(error) = self.loss() {
            return Err(error.clone());
        }
        if CURRENT.get() == self.health.number {
            let mut current = sys::Context::NULL;
            // SAFETY: the driver writes a handle.
            if unsafe { (self.driver.ctx_get_current)(&mut current) } == 0 && current == self.raw {
                return Ok(());
            }
        }
        // SAFETY: the handle is this context's, which is retained until `self` is dropped.
        self.check(unsafe { (self.driver.ctx_set_current)(self.raw) }, "making a CUDA context current")?;
        CURRENT.set(self.health.number);
        Ok(())
    }

    /// Turns a status into a result; an error that ends the context marks the device lost.
    #[inline]
    pub(crate) fn check(&self, status: Status, doing: &str) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.failed(status, doing)) }
    }

    /// The error for a status, with the device's name.
    #[cold]
    pub(crate) fn failed(&self, status: Status, doing: &str) -> Error {
        let error = driver_error(self.driver, status, &format!("{}: {doing}", self.name));
        if is_sticky(status) {
            let first = self.health.lost.get_or_init(|| error.clone()).clone();
            // Nobody else will ever tell those who wait for a callback.
            self.watchers.fail_all(&first);
        }
        error
    }

    /// The device's number.
    pub(crate) fn ordinal(&self) -> i32 {
        self.device
    }

    /// Free and total memory of the device.
    pub(crate) fn memory_info(&self) -> Result<(usize, usize)> {
        self.enter()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: the driver writes two numbers.
        self.check(unsafe { (self.driver.mem_info)(&mut free, &mut total) }, "asking for free memory")?;
        Ok((free, total))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // What a lost context held is gone; its handles must not reach the driver again.
        if self.loss().is_some() || self.enter().is_err() {
            return;
        }
        self.events.destroy(self.driver);
        self.watchers.destroy(self.driver);
        self.slots.destroy(self.driver);
        // SAFETY: this releases the one reference that `open` took.
        unsafe { (self.driver.primary_release)(self.device) };
    }
}
