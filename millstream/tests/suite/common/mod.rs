//! What tests of whole programs share: devices, and random numbers from a seed that is printed.
#![allow(dead_code)]

use millstream::core::testing;
use millstream::{Device, Runtime, Tensor, default_runtime};

/// A new seed, printed, so that a failing test shows it; `MILLSTREAM_SEED` repeats one.
pub fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64));
    println!("MILLSTREAM_SEED={seed}");
    seed
}

/// A stream of random numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The stream of a new seed.
    pub fn fresh() -> Random {
        Random::new(seed())
    }

    /// The same stream for the same seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From 0 up to but without `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A shape of up to `rank` dimensions, with sizes up to `most`, of which some are 0 or 1.
    pub fn shape(&mut self, rank: usize, most: usize) -> Vec<usize> {
        (0..self.below(rank) + 1)
            .map(|_| if self.below(6) == 0 { self.below(2) } else { self.below(most) + 1 })
            .collect()
    }

    pub fn floats(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// The tensor, or one with the same elements that lies differently in memory.
    pub fn relaid(&mut self, x: &Tensor) -> Tensor {
        match self.below(3) {
            0 if x.rank() > 0 => {
                let axis = self.below(x.rank()) as isize;
                x.flip(axis).contiguous().flip(axis)
            }
            1 if x.rank() > 1 => x.transpose().contiguous().transpose(),
            _ => x.clone(),
        }
    }
}

/// The devices that can be opened here; `cpu` is always among them. Says which ones are left out, and fails if one of them is
/// required.
pub fn devices() -> Vec<Device> {
    devices_of(default_runtime().unwrap())
}

/// The same of another runtime than the default one.
pub fn devices_of(runtime: &Runtime) -> Vec<Device> {
    let devices: Vec<Device> = runtime
        .list()
        .into_iter()
        .filter_map(|(name, there)| match there.and_then(|()| runtime.device(&name)) {
            Ok(device) => Some(device),
            Err(error) => {
                testing::missing(&name, &error);
                None
            }
        })
        .collect();
    testing::expect_all(&devices.iter().map(Device::name).collect::<Vec<_>>());
    devices
}
