//! What a device is and what it can do, as plain data.

use serde::{Deserialize, Serialize};

use super::walk::Walks;
use crate::what::{DType, Tolerance};

/// The family of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeviceKind {
    /// The processor that the program runs on.
    Cpu,
    /// An NVIDIA GPU through CUDA.
    Cuda,
    /// A GPU through Vulkan.
    Vulkan,
    /// A GPU through Metal.
    Metal,
    /// A GPU through Direct3D 12.
    Dx12,
    /// A GPU through OpenGL or OpenGL ES.
    Gl,
    /// A GPU through a browser.
    WebGpu,
}

/// One level of memory, nearest first in a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryLevel {
    /// `L1`, `L2`, `shared`, `memory`, ...
    pub name: String,
    /// Bytes of one instance.
    pub bytes: usize,
    /// Bytes of one line or transaction.
    pub line: usize,
    /// Ways, where the level is a set-associative cache; 0 otherwise.
    pub ways: usize,
    /// How many compute units share one instance.
    pub shared_by: usize,
    /// Bytes a second that all units together get from this level.
    pub bandwidth: f64,
}

/// The way between the host's memory and the device's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Seconds before the first byte.
    pub latency: f64,
    /// Bytes a second after it; `f64::MAX` where both are the same memory.
    pub bandwidth: f64,
}

/// How a unit runs groups of threads: what a price needs to know of a GPU and of the kernels for it beyond rates and bandwidths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Groups {
    /// The most threads that a unit keeps at once.
    pub threads: f64,
    /// Threads with which a unit does half of what it can: more hide what each waits for.
    pub half: f64,
    /// Seconds from a read of memory to having the data in shared memory.
    pub latency: f64,
    /// Seconds of a launch that needs what the one before it wrote.
    pub dependent_launch: f64,
    /// Registers of a thread for each accumulator.
    pub accumulator_registers: f64,
    /// Registers of a thread beside its accumulators.
    pub other_registers: f64,
    /// Instructions that fetch an element of a plain operand and put it into shared memory.
    pub fetch: f64,
    /// Further instructions where K has several dimensions.
    pub fetch_several: f64,
    /// Further instructions for each guard.
    pub fetch_guard: f64,
    /// What an element fetched takes of the bandwidth of shared memory, in elements.
    pub carried: f64,
    /// What it takes beyond that where K has several dimensions: its step is read there, and it comes alone.
    pub carried_several: f64,
    /// Instructions for each multiply-add of a walk over rows.
    pub row_product: f64,
    /// Vectors of four elements that a thread has on their way at once where it walks along a row in a loop.
    pub in_flight: f64,
}

/// What a device is and can do: queried from the driver, completed by a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// The family.
    pub kind: DeviceKind,
    /// The maker's name for it.
    pub description: String,
    /// The architecture kernels are made for: `avx2`, `sm_90`, ...
    pub architecture: String,
    /// The driver and its version, where there is one.
    pub driver: String,
    /// Bytes of memory that programs can use.
    pub memory: u64,
    /// Memory levels, nearest first; the last one is the device's main memory.
    pub levels: Vec<MemoryLevel>,
    /// Arithmetic operations a second of the whole device, by dtype; a dtype that is missing is computed as another.
    pub rates: Vec<(DType, f64)>,
    /// Arithmetic operations a second that matrix units do, by the dtype that they multiply; none where a device has no such units or nobody
    /// has measured them.
    pub matrix_rates: Vec<(DType, f64)>,
    /// The same where warps give them their operands from registers, which on some devices is not the fastest way. Where nobody has measured
    /// it, kernels that work so have no price and are not chosen.
    #[serde(default)] // Measurements that were kept before have none.
    pub warp_rates: Vec<(DType, f64)>,
    /// Units that work independently: cores (as many as are used), multiprocessors.
    pub units: usize,
    /// f32 lanes that work in step in one unit: a SIMD vector, a warp or subgroup.
    pub lanes: usize,
    /// Registers of 32 bits for one unit.
    pub registers: usize,
    /// Bytes of memory that a group of threads shares; 0 where there is none.
    pub shared_memory: usize,
    /// The most threads of one group; 1 on a CPU.
    pub max_group: usize,
    /// The most buffers that one kernel can be given.
    pub max_bindings: usize,
    /// The most bytes that one binding can have.
    pub max_binding: u64,
    /// What offsets of bindings must be multiples of, in bytes.
    pub offset_alignment: usize,
    /// Seconds that a launch takes beyond its work.
    pub launch: f64,
    /// How its units run groups of threads; `None` where each unit runs one thread.
    pub groups: Option<Groups>,
    /// What walks over strided operands cost; `None` where units run groups of threads.
    pub walks: Option<Walks>,
    /// The share of what is done beside the longest part of a kernel that is not hidden behind it.
    pub unhidden: f64,
    /// Tasks' worth of time by which the last unit finishes late, because units are not equally fast.
    pub unequal: f64,
    /// How exact its functions are.
    pub tolerance: Tolerance,
    /// Whether values between convolutions may be stored with their channels last: its kernels for that order are worth a look.
    pub channels_last: bool,
    /// Columns from which on matmuls of a batch that share their left operand are better computed one by one; narrower ones are computed as one.
    #[serde(default)] // A fact of this version: measurements that were kept before have none.
    pub batch_columns: usize,
    /// The way from and to the host.
    pub transfer: Transfer,
    /// What else it can do, by name: `fma`, `f16`, `subgroups`, ...
    pub features: Vec<String>,
    /// Whether bandwidths and rates were measured on this machine rather than estimated.
    pub measured: bool,
}

impl DeviceProfile {
    /// Operations a second for this dtype; f32's where it has no entry of its own.
    pub fn rate(&self, dtype: DType) -> f64 {
        let find = |d: DType| self.rates.iter().find(|(r, _)| *r == d).map(|(_, rate)| *rate);
        find(dtype).or_else(|| find(dtype.compute().real())).or_else(|| find(DType::F32)).unwrap_or(1e9)
    }

    /// Operations a second of matrix units that multiply this dtype, where they are known.
    pub fn matrix_rate(&self, dtype: DType) -> Option<f64> {
        self.matrix_rates.iter().find(|(d, _)| *d == dtype).map(|(_, rate)| *rate)
    }

    /// Operations a second of matrix units that warps give their operands, where they are known.
    pub fn warp_rate(&self, dtype: DType) -> Option<f64> {
        self.warp_rates.iter().find(|(d, _)| *d == dtype).map(|(_, rate)| *rate)
    }

    /// The most operations a second that any units do for matmuls of this dtype.
    pub fn peak(&self, dtype: DType) -> f64 {
        [self.matrix_rate(dtype), self.warp_rate(dtype)].into_iter().flatten().fold(self.rate(dtype), f64::max)
    }

    /// The same device with the better of each number that both have measured: what else runs on a machine can only make one worse.
    #[must_use]
    pub fn better(mut self, other: &DeviceProfile) -> DeviceProfile {
        let lists = [
            (&mut self.rates, &other.rates),
            (&mut self.matrix_rates, &other.matrix_rates),
            (&mut self.warp_rates, &other.warp_rates),
        ];
        for (ours, theirs) in lists {
            for (dtype, rate) in ours {
                let theirs = theirs.iter().find(|(d, _)| d == dtype).map_or(0.0, |(_, rate)| *rate);
                *rate = rate.max(theirs);
            }
        }
        for (level, theirs) in self.levels.iter_mut().zip(&other.levels) {
            level.bandwidth = level.bandwidth.max(theirs.bandwidth);
        }
        self.launch = self.launch.min(other.launch);
        self.transfer.latency = self.transfer.latency.min(other.transfer.latency);
        self.transfer.bandwidth = self.transfer.bandwidth.max(other.transfer.bandwidth);
        self
    }

    /// This profile with the rates that these bytes hold, if they are a profile in this version's format; else as it is, to be
    /// measured again when somebody asks for it.
    pub fn with_stored_rates(self, bytes: &[u8]) -> DeviceProfile {
        match serde_json::from_slice(bytes) {
            Ok(measured) => self.with_rates(&measured),
            Err(_) => self,
        }
    }

    /// The same device with the rates of an earlier measurement; whatever is a fact (sizes, limits, features) stays as the driver
    /// tells it now. A number that no measurement can give is left out.
    #[must_use]
    pub fn with_rates(mut self, measured: &DeviceProfile) -> DeviceProfile {
        let sound = |x: f64| x.is_finite() && x > 0.0;
        let lists = [
            (&mut self.rates, &measured.rates),
            (&mut self.matrix_rates, &measured.matrix_rates),
            (&mut self.warp_rates, &measured.warp_rates),
        ];
        for (ours, theirs) in lists {
            for &(dtype, rate) in theirs.iter().filter(|(_, rate)| sound(*rate)) {
                match ours.iter_mut().find(|(d, _)| *d == dtype) {
                    Some((_, own)) => *own = rate,
                    None => ours.push((dtype, rate)),
                }
            }
        }
        for level in &mut self.levels {
            let theirs = measured.levels.iter().find(|l| l.name == level.name).map(|l| l.bandwidth);
            level.bandwidth = theirs.filter(|b| sound(*b)).unwrap_or(level.bandwidth);
        }
        // A latency may be too short to be seen.
        let time = |new: f64, old: f64| if sound(new) || new == 0.0 { new } else { old };
        self.launch = time(measured.launch, self.launch);
        self.transfer.latency = time(measured.transfer.latency, self.transfer.latency);
        if sound(measured.transfer.bandwidth) {
            self.transfer.bandwidth = measured.transfer.bandwidth;
        }
        self.measured = measured.measured;
        self
    }

    /// The main memory.
    pub fn main_memory(&self) -> Option<&MemoryLevel> {
        self.levels.last()
    }

    /// The nearest level in which so many bytes find room, all instances of a level together.
    pub fn level_for(&self, bytes: u64) -> Option<&MemoryLevel> {
        self.levels
            .iter()
            .find(|l| (l.bytes * (self.units.max(1)).div_ceil(l.shared_by.max(1))) as u64 >= bytes)
            .or(self.levels.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(rate: f64, bandwidth: f64, launch: f64) -> DeviceProfile {
        let name = "memory".into();
        DeviceProfile {
            kind: DeviceKind::Cpu,
            description: "a processor".into(),
            architecture: "any".into(),
            driver: String::new(),
            memory: 1 << 30,
            levels: vec![MemoryLevel { name, bytes: 1 << 30, line: 64, ways: 0, shared_by: 1, bandwidth }],
            rates: vec![(DType::F32, rate)],
            matrix_rates: Vec::new(),
            warp_rates: Vec::new(),
            units: 1,
            lanes: 8,
            registers: 128,
            shared_memory: 0,
            max_group: 1,
            max_bindings: 8,
            max_binding: 1 << 30,
            offset_alignment: 4,
            walks: None,
            launch,
            groups: None,
            unhidden: 0.0,
            unequal: 0.0,
            tolerance: Tolerance::CPU,
            channels_last: false,
            batch_columns: 256,
            transfer: Transfer { latency: 0.0, bandwidth: f64::MAX },
            features: Vec::new(),
            measured: true,
        }
    }

    #[test]
    fn the_better_of_two_measurements_has_the_best_of_each_number() {
        let (calm, busy) = (profile(1e11, 2e10, 3e-6), profile(5e10, 4e10, 9e-6));
        let best = profile(1e11, 4e10, 3e-6);
        assert_eq!(calm.clone().better(&busy), best);
        assert_eq!(busy.better(&calm), best);
        // A rate that only one of them has stays.
        let none = DeviceProfile { rates: Vec::new(), ..calm.clone() };
        assert_eq!(calm.clone().better(&none), calm);
    }
    #[test]
    fn rates_come_from_a_measurement_and_facts_do_not() {
        let own = DeviceProfile { measured: false, ..profile(1e9, 1e9, 1e-6) };
        let mut cached = profile(7e11, 3e10, 2e-6);
        cached.levels[0].bytes = 1;
        let forged = DeviceProfile { max_binding: 64, offset_alignment: 1 << 20, units: 0, memory: 0, ..cached };
        let taken = own.clone().with_rates(&forged);
        assert_eq!(taken, profile(7e11, 3e10, 2e-6));
        // Rates of matrix units are measured, too.
        let matrix_rates = vec![(DType::F16, 8e14)];
        let taken = own.clone().with_rates(&DeviceProfile { matrix_rates: matrix_rates.clone(), ..forged });
        assert_eq!(taken, DeviceProfile { matrix_rates, ..profile(7e11, 3e10, 2e-6) });
        // Numbers that nobody measured.
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            let taken = own.clone().with_rates(&DeviceProfile { measured: false, ..profile(wrong, wrong, wrong) });
            assert_eq!(taken, own);
        }
    }
}
