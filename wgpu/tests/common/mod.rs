//! The devices that the tests of this crate run on.

#![allow(dead_code)] // Each test file uses a part of it.

use std::sync::{Arc, OnceLock};

use millstream_core::backend::{Backend, DeviceFamily, Opening};
use millstream_core::{Device, Error, Result, Runtime};
use millstream_cpu::CpuFamily;
use millstream_wgpu::{Api, WgpuBackend, WgpuFamily};

/// The first device of an API, opened once; `None`, with the reason printed, where this machine has none.
///
/// `MILLSTREAM_REQUIRE_DEVICES=vulkan,gl` makes a missing device a failure.
pub fn device(api: Api) -> Option<Device> {
    static DEVICES: [OnceLock<Result<Device>>; 4] = [const { OnceLock::new() }; 4];
    let opened = DEVICES[api as usize].get_or_init(|| {
        let runtime = Runtime::builder().family(CpuFamily::default()).family(WgpuFamily::new(api)).cache(folder());
        runtime.build().device(&format!("{}:0", api.name()))
    });
    match opened {
        Ok(device) => Some(device.clone()),
        Err(e) => {
            missing(api, e);
            None
        }
    }
}

/// A device of one's own, and its backend, so that it can be lost without hurting others.
pub fn own_device(api: Api) -> Option<(Device, Arc<WgpuBackend>)> {
    let name = format!("{}:0", api.name());
    let backend = match WgpuFamily::new(api).open_backend(&name) {
        Ok(backend) => backend,
        Err(e) => {
            missing(api, &e);
            return None;
        }
    };
    let family = Given { api, backend: backend.clone() };
    let runtime = Runtime::builder().family(CpuFamily::default()).family(family).cache(folder()).build();
    Some((runtime.device(&name).unwrap(), backend))
}

/// Runs a test on the device of each API that this machine has.
pub fn on_each(test: impl Fn(&Device)) {
    for api in [Api::Vulkan, Api::Gl, Api::Metal, Api::Dx12] {
        if api.is_possible()
            && let Some(device) = device(api)
        {
            test(&device);
        }
    }
}

fn missing(api: Api, reason: &Error) {
    millstream_core::testing::missing(api.name(), reason);
}

fn folder() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("millstream-wgpu-tests-{}", std::process::id()))
}

/// A family whose device is open already.
struct Given {
    api: Api,
    backend: Arc<WgpuBackend>,
}

impl DeviceFamily for Given {
    fn list(&self) -> Result<Vec<String>> {
        Ok(vec![format!("{}:0", self.api.name())])
    }

    fn name(&self) -> &'static str {
        self.api.name()
    }

    fn open(&self, _name: &str) -> Opening {
        Box::pin(std::future::ready(Ok(self.backend.clone() as Arc<dyn Backend>)))
    }
}

/// Fresh random numbers.
pub struct Random(u64);

impl Random {
    /// Seeded by the clock.
    pub fn new() -> Random {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = now.as_nanos() as u64 | 1;
        println!("seed {seed}");
        Random(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % end.max(1) as u64) as usize
    }

    /// Random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }
}
