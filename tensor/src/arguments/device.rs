//! Devices by handle or by name.

use millstream_core::{Device, Result};

/// A device, or the name of one of the default runtime: `"cpu"`, `"cuda:0"`, `"vulkan:0"`, `"auto"`, `"best"`.
pub trait IntoDevice {
    /// The device.
    #[doc(hidden)]
    fn device(self) -> Result<Device>;
}

impl IntoDevice for &Device {
    fn device(self) -> Result<Device> {
        Ok(self.clone())
    }
}

impl IntoDevice for Device {
    fn device(self) -> Result<Device> {
        Ok(self)
    }
}

impl IntoDevice for &str {
    fn device(self) -> Result<Device> {
        crate::default_runtime()?.device(self)
    }
}

impl IntoDevice for &String {
    fn device(self) -> Result<Device> {
        self.as_str().device()
    }
}
