//! What a CUDA device says of itself.

use std::ffi::{c_char, c_int};

use millstream_core::Result;

use crate::error::driver_error;
use crate::sys::driver::{Device, Driver};

/// All that the driver tells about a device. Plain data; sizes are bytes, clocks hertz.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CudaProperties {
    /// The maker's name for it.
    pub name: String,
    /// The version of CUDA that the driver serves: 13.0 is (13, 0).
    pub driver: (u32, u32),
    /// The compute capability: 9.0 is (9, 0).
    pub capability: (u32, u32),
    /// Memory in all.
    pub memory: u64,
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Threads of one warp.
    pub warp: usize,
    /// The most threads of one group.
    pub max_group: usize,
    /// The most threads that one multiprocessor holds.
    pub max_threads: usize,
    /// The most groups that one multiprocessor holds.
    pub max_groups: usize,
    /// The most groups along each axis of a grid.
    pub max_grid: [usize; 3],
    /// Registers of 32 bits for one group, and for one multiprocessor.
    pub registers: (usize, usize),
    /// Shared memory that a group may declare statically.
    pub shared: usize,
    /// Shared memory that a group may have when it asks for it.
    pub shared_optin: usize,
    /// Shared memory of one multiprocessor.
    pub shared_multiprocessor: usize,
    /// Constant memory.
    pub constant: usize,
    /// The L2 cache.
    pub l2: usize,
    /// The multiprocessors' clock.
    pub clock: u64,
    /// The memory's clock.
    pub memory_clock: u64,
    /// The width of the way to memory in bits.
    pub memory_bus: usize,
    /// Whether memory corrects its errors.
    pub ecc: bool,
    /// Whether it shares the host's memory.
    pub integrated: bool,
    /// Whether host and device have one address space.
    pub unified_addressing: bool,
    /// Whether there is memory that host and device both address.
    pub managed: bool,
    /// Whether both may touch such memory at the same time.
    pub concurrent_managed: bool,
    /// Whether kernels may read the host's ordinary memory through the host's own page tables.
    pub host_page_tables: bool,
    /// Whether kernels may run beside each other.
    pub concurrent_kernels: bool,
    /// Engines that copy beside kernels.
    pub copy_engines: usize,
    /// Whether streams have priorities.
    pub priorities: bool,
    /// Whether groups may work in clusters or on one launch together.
    pub cooperative: bool,
    /// Whether a watchdog ends long kernels, as on a GPU with a display.
    pub watchdog: bool,
    /// Where on the PCI bus: domain, bus, device.
    pub pci: (u32, u32, u32),
}

/// The driver's numbers for what it can be asked.
mod attribute {
    pub(super) const MAX_GROUP: i32 = 1;
    pub(super) const MAX_GRID: [i32; 3] = [5, 6, 7];
    pub(super) const SHARED: i32 = 8;
    pub(super) const CONSTANT: i32 = 9;
    pub(super) const WARP: i32 = 10;
    pub(super) const REGISTERS: i32 = 12;
    pub(super) const CLOCK: i32 = 13;
    pub(super) const MULTIPROCESSORS: i32 = 16;
    pub(super) const WATCHDOG: i32 = 17;
    pub(super) const INTEGRATED: i32 = 18;
    pub(super) const CONCURRENT_KERNELS: i32 = 31;
    pub(super) const ECC: i32 = 32;
    pub(super) const PCI_BUS: i32 = 33;
    pub(super) const PCI_DEVICE: i32 = 34;
    pub(super) const MEMORY_CLOCK: i32 = 36;
    pub(super) const MEMORY_BUS: i32 = 37;
    pub(super) const L2: i32 = 38;
    pub(super) const MAX_THREADS: i32 = 39;
    pub(super) const COPY_ENGINES: i32 = 40;
    pub(super) const UNIFIED_ADDRESSING: i32 = 41;
    pub(super) const PCI_DOMAIN: i32 = 50;
    pub(super) const MAJOR: i32 = 75;
    pub(super) const MINOR: i32 = 76;
    pub(super) const PRIORITIES: i32 = 78;
    pub(super) const SHARED_MULTIPROCESSOR: i32 = 81;
    pub(super) const REGISTERS_MULTIPROCESSOR: i32 = 82;
    pub(super) const MANAGED: i32 = 83;
    pub(super) const CONCURRENT_MANAGED: i32 = 89;
    pub(super) const COOPERATIVE: i32 = 95;
    pub(super) const SHARED_OPTIN: i32 = 97;
    pub(super) const HOST_PAGE_TABLES: i32 = 100;
    pub(super) const MAX_GROUPS: i32 = 106;
}

impl CudaProperties {
    /// Asks the driver. Needs no context.
    pub(crate) fn query(driver: &Driver, device: Device) -> Result<CudaProperties> {
        let check = |status, doing: &str| match status {
            0 => Ok(()),
            code => Err(driver_error(driver, code, doing)),
        };
        // An attribute that this driver does not know is 0: the device lacks it.
        let ask = |attribute: i32| {
            let mut value: c_int = 0;
            // SAFETY: the driver writes one number.
            let status = unsafe { (driver.device_attribute)(&mut value, attribute, device) };
            if status == 0 { value.max(0) as usize } else { 0 }
        };
        let has = |attribute: i32| ask(attribute) != 0;
        let mut version: c_int = 0;
        let mut name = [0 as c_char; 256];
        let mut memory = 0usize;
        // SAFETY: the driver writes one number each, and at most 256 bytes of text.
        unsafe {
            check((driver.driver_version)(&mut version), "asking for the driver's version")?;
            check((driver.device_name)(name.as_mut_ptr(), 256, device), "asking for a device's name")?;
            check((driver.device_memory)(&mut memory, device), "asking for a device's memory")?;
        }
        let bytes: Vec<u8> = name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        use attribute as a;
        Ok(CudaProperties {
            name: String::from_utf8_lossy(&bytes).into_owned(),
            driver: (version as u32 / 1000, version as u32 % 1000 / 10),
            capability: (ask(a::MAJOR) as u32, ask(a::MINOR) as u32),
            memory: memory as u64,
            multiprocessors: ask(a::MULTIPROCESSORS),
            warp: ask(a::WARP).max(1),
            max_group: ask(a::MAX_GROUP).max(1),
            max_threads: ask(a::MAX_THREADS),
            max_groups: ask(a::MAX_GROUPS),
            max_grid: a::MAX_GRID.map(ask),
            registers: (ask(a::REGISTERS), ask(a::REGISTERS_MULTIPROCESSOR)),
            shared: ask(a::SHARED),
            shared_optin: ask(a::SHARED_OPTIN),
            shared_multiprocessor: ask(a::SHARED_MULTIPROCESSOR),
            constant: ask(a::CONSTANT),
            l2: ask(a::L2),
            // The driver counts clocks in kilohertz.
            clock: ask(a::CLOCK) as u64 * 1000,
            memory_clock: ask(a::MEMORY_CLOCK) as u64 * 1000,
            memory_bus: ask(a::MEMORY_BUS),
            ecc: has(a::ECC),
            integrated: has(a::INTEGRATED),
            unified_addressing: has(a::UNIFIED_ADDRESSING),
            managed: has(a::MANAGED),
            concurrent_managed: has(a::CONCURRENT_MANAGED),
            host_page_tables: has(a::HOST_PAGE_TABLES),
            concurrent_kernels: has(a::CONCURRENT_KERNELS),
            copy_engines: ask(a::COPY_ENGINES),
            priorities: has(a::PRIORITIES),
            cooperative: has(a::COOPERATIVE),
            watchdog: has(a::WATCHDOG),
            pci: (ask(a::PCI_DOMAIN) as u32, ask(a::PCI_BUS) as u32, ask(a::PCI_DEVICE) as u32),
        })
    }

    /// The architecture that kernels are compiled for: `sm_90`.
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }

    /// f32 lanes of one multiprocessor.
    pub fn lanes(&self) -> usize {
        match self.capability {
            (7, _) | (8, 0) => 64,
            (6, 0) => 64,
            _ => 128,
        }
    }

    /// f64 lanes of one multiprocessor.
    pub fn double_lanes(&self) -> usize {
        match self.capability {
            (6, 0) | (7, 0) | (8, 0) => 32,
            (9, 0) | (10, 0) => 64,
            (10, _) => 2,
            _ => 2,
        }
    }

    /// 32-bit integer lanes of one multiprocessor, for multiplications.
    pub fn integer_lanes(&self) -> usize {
        64
    }

    /// Bytes a second between the device and its memory, by its clock and width: two transfers a clock.
    pub fn bandwidth(&self) -> f64 {
        2.0 * self.memory_clock as f64 * self.memory_bus as f64 / 8.0
    }

    /// The features in short, for a profile.
    pub fn features(&self) -> Vec<String> {
        let mut out: Vec<String> = vec!["fma".into(), "f64".into(), "int64".into()];
        let (major, minor) = self.capability;
        let mut add = |on: bool, name: &str| {
            if on {
                out.push(name.into());
            }
        };
        add(major >= 6, "f16");
        add(major >= 8, "bf16");
        add(major >= 7, "matrix-f16");
        add(major >= 8, "matrix-bf16");
        add(major >= 8, "matrix-tf32");
        add((major, minor) >= (8, 9), "matrix-f8");
        add(major >= 9, "clusters");
        add(true, "subgroups");
        add(self.unified_addressing, "unified-addressing");
        add(self.managed, "managed-memory");
        add(self.concurrent_managed, "concurrent-managed-access");
        add(self.host_page_tables, "host-page-tables");
        add(self.concurrent_kernels, "concurrent-kernels");
        add(self.priorities, "stream-priorities");
        add(self.cooperative, "cooperative-launch");
        add(self.ecc, "ecc");
        add(self.integrated, "integrated");
        add(self.watchdog, "watchdog");
        out.push(format!("copy-engines-{}", self.copy_engines));
        out.push(format!("shared-optin-{}", self.shared_optin));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_names_follow_from_the_numbers() {
        let h200 = CudaProperties {
            capability: (9, 0),
            memory_clock: 3_201_000_000,
            memory_bus: 6144,
            copy_engines: 3,
            ecc: true,
            ..CudaProperties::default()
        };
        assert_eq!(h200.architecture(), "sm_90");
        assert!((4.9e12..4.93e12).contains(&h200.bandwidth()), "{}", h200.bandwidth());
        assert_eq!((h200.lanes(), h200.double_lanes()), (128, 64));
        let features = h200.features();
        for name in ["bf16", "clusters", "ecc", "copy-engines-3"] {
            assert!(features.iter().any(|f| f == name), "{name} is missing in {features:?}");
        }
        assert!(!features.iter().any(|f| f == "integrated"));
    }
}
