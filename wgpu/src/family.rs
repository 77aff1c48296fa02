//! The graphics APIs, and the adapters that each of them shows on this machine.
//!
//! Drivers are asked at the first use, once in a process: an instance costs tens of milliseconds, and two OpenGL instances
//! in one process would share a context without knowing of each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use millstream_core::backend::{Backend, DeviceFamily, Opening};
use millstream_core::{DeviceKind, Error, Result, block_on};

use crate::backend::WgpuBackend;
use crate::gpu::panic_text;

/// A graphics API that can compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// Vulkan: Linux, Windows, Android.
    Vulkan,
    /// OpenGL 4.3 or OpenGL ES 3.1 through EGL or WGL.
    Gl,
    /// Metal: macOS, iOS.
    Metal,
    /// Direct3D 12: Windows.
    Dx12,
}

impl Api {
    /// Every API.
    pub const ALL: [Api; 4] = [Api::Vulkan, Api::Gl, Api::Metal, Api::Dx12];

    /// What stands before the colon in a device's name.
    pub const fn name(self) -> &'static str {
        match self {
            Api::Vulkan => "vulkan",
            Api::Gl => "gl",
            Api::Metal => "metal",
            Api::Dx12 => "dx12",
        }
    }

    /// The name that people use.
    pub const fn title(self) -> &'static str {
        match self {
            Api::Vulkan => "Vulkan",
            Api::Gl => "OpenGL",
            Api::Metal => "Metal",
            Api::Dx12 => "Direct3D 12",
        }
    }

    /// The family of its devices.
    pub const fn kind(self) -> DeviceKind {
        match self {
            Api::Vulkan => DeviceKind::Vulkan,
            Api::Gl => DeviceKind::Gl,
            Api::Metal => DeviceKind::Metal,
            Api::Dx12 => DeviceKind::Dx12,
        }
    }

    const fn backends(self) -> wgpu::Backends {
        match self {
            Api::Vulkan => wgpu::Backends::VULKAN,
            Api::Gl => wgpu::Backends::GL,
            Api::Metal => wgpu::Backends::METAL,
            Api::Dx12 => wgpu::Backends::DX12,
        }
    }

    /// Whether programs for this platform can have it at all.
    pub fn is_possible(self) -> bool {
        wgpu::Instance::enabled_backend_features().contains(self.backends())
    }
}

/// The devices of one graphics API.
#[derive(Clone, Copy, Debug)]
pub struct WgpuFamily {
    api: Api,
}

impl WgpuFamily {
    /// The family of this API.
    pub const fn new(api: Api) -> WgpuFamily {
        WgpuFamily { api }
    }

    /// Devices `vulkan:0`, ...: real GPUs first, then those that a processor imitates.
    pub const fn vulkan() -> WgpuFamily {
        WgpuFamily::new(Api::Vulkan)
    }

    /// Devices `gl:0`, ...
    pub const fn gl() -> WgpuFamily {
        WgpuFamily::new(Api::Gl)
    }

    /// Devices `metal:0`, ...
    pub const fn metal() -> WgpuFamily {
        WgpuFamily::new(Api::Metal)
    }

    /// Devices `dx12:0`, ...
    pub const fn dx12() -> WgpuFamily {
        WgpuFamily::new(Api::Dx12)
    }

    /// The families that this platform can have, the one to prefer first. Asks no driver.
    pub fn native() -> Vec<WgpuFamily> {
        let order = [Api::Metal, Api::Vulkan, Api::Dx12, Api::Gl];
        order.into_iter().filter(|api| api.is_possible()).map(WgpuFamily::new).collect()
    }

    /// The API.
    pub const fn api(self) -> Api {
        self.api
    }

    /// Opens a device of that name, in a form that can also be told to [give up](WgpuBackend::destroy).
    pub fn open_backend(self, name: &str) -> Result<Arc<WgpuBackend>> {
        let adapter = self.find(name)?;
        let opened = catch_unwind(AssertUnwindSafe(|| WgpuBackend::open(self.api, name, &adapter)));
        opened.unwrap_or_else(|panic| {
            Err(Error::no_device(format!("{name} could not be opened: {}", panic_text(&*panic))))
        })
    }

    fn find(self, name: &str) -> Result<wgpu::Adapter> {
        let api = self.api.name();
        let number = match name.strip_prefix(api) {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix(':').and_then(|n| n.parse::<usize>().ok()),
            None => None,
        };
        let number = number.ok_or_else(|| {
            Error::no_device(format!("there is no device {name:?}; {}'s are named {api}:0, ...", self.api.title()))
        })?;
        let adapters = adapters(self.api)?;
        let adapter = adapters.get(number).ok_or_else(|| {
            Error::no_device(format!("there is no device {name:?}; {} shows {}", self.api.title(), adapters.len()))
        })?;
        can_compute(adapter)?;
        Ok(adapter.clone())
    }
}

impl DeviceFamily for WgpuFamily {
    fn list(&self) -> Result<Vec<String>> {
        let mut reason = None;
        let mut names = Vec::new();
        for (i, adapter) in adapters(self.api)?.iter().enumerate() {
            match can_compute(adapter) {
                Ok(()) => names.push(format!("{}:{i}", self.api.name())),
                Err(e) => reason = Some(e),
            }
        }
        match reason {
            Some(reason) if names.is_empty() => Err(reason),
            _ => Ok(names),
        }
    }

    fn name(&self) -> &'static str {
        self.api.name()
    }

    fn open(&self, name: &str) -> Opening {
        let (family, name) = (*self, name.to_string());
        Box::pin(async move { family.open_backend(&name).map(|b| b as Arc<dyn Backend>) })
    }
}

fn can_compute(adapter: &wgpu::Adapter) -> Result<()> {
    let flags = adapter.get_downlevel_capabilities().flags;
    let info = adapter.get_info();
    if info.backend == wgpu::Backend::Gl
        && let Some(reason) = gl_lacks_compute(&info.driver_info)
    {
        return Err(Error::unsupported(format!("{} comes with {reason}", info.name)));
    }
    if flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS)
        && adapter.limits().max_storage_buffers_per_shader_stage >= 3
    {
        return Ok(());
    }
    Err(Error::unsupported(format!("{} has no compute shaders with enough storage buffers in this API", info.name)))
}

/// Why an OpenGL of this version has no compute shaders; `None` where it has. A driver may show the functions in an older
/// version, too, but its shader language does not have them there.
fn gl_lacks_compute(version: &str) -> Option<String> {
    if version.starts_with("WebGL") {
        return Some(format!("{version}, and WebGL has no compute shaders; browsers compute through WebGPU"));
    }
    let es = version.starts_with("OpenGL ES");
    let number = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = number.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().ok());
    let enough = match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= if es { (3, 1) } else { (4, 3) },
        // What cannot be read is left to the driver.
        _ => true,
    };
    let named = if es { version.to_string() } else { format!("OpenGL {version}") };
    (!enough).then(|| format!("{named}; compute shaders need OpenGL 4.3 or OpenGL ES 3.1"))
}

/// The adapters of an API, real GPUs first, or why there are none.
fn adapters(api: Api) -> Result<&'static [wgpu::Adapter]> {
    static FOUND: [OnceLock<Result<Vec<wgpu::Adapter>>>; 4] = [const { OnceLock::new() }; 4];
    let found = FOUND[api as usize].get_or_init(|| {
        catch_unwind(|| enumerate(api)).unwrap_or_else(|panic| {
            let text = panic_text(&*panic);
            Err(Error::no_device(format!("{} could not list its devices: {text}", api.title())))
        })
    });
    found.as_deref().map_err(Error::clone)
}

fn enumerate(api: Api) -> Result<Vec<wgpu::Adapter>> {
    if !api.is_possible() {
        return Err(Error::no_device(format!("this platform has no {}", api.title())));
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: api.backends(),
        // Validation layers and labels cost time in every call; our own tests find what they would.
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut adapters = block_on(instance.enumerate_adapters(api.backends()));
    if adapters.is_empty() {
        return Err(Error::no_device(reason(api)));
    }
    adapters.sort_by_key(|a| rank(a.get_info().device_type));
    // The instance must outlive the process's use of it; see the module.
    std::mem::forget(instance);
    Ok(adapters)
}

fn rank(kind: wgpu::DeviceType) -> u8 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

/// Why an API shows nothing: its library is missing, or no driver stands behind it.
fn reason(api: Api) -> String {
    let failure: Option<String> = match api {
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
        Api::Vulkan => init_failure::<wgpu::hal::api::Vulkan>(),
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
        Api::Gl => init_failure::<wgpu::hal::api::Gles>(),
        _ => None,
    };
    match failure {
        Some(failure) => format!("{} is not installed here: {failure}", api.title()),
        None => format!("{} is installed, but no driver shows a device", api.title()),
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
fn init_failure<A: wgpu::hal::Api>() -> Option<String> {
    use std::error::Error as _;
    use wgpu::hal::Instance as _;
    let descriptor = wgpu::hal::InstanceDescriptor {
        name: "millstream",
        flags: wgpu::InstanceFlags::empty(),
        memory_budget_thresholds: Default::default(),
        backend_options: Default::default(),
        telemetry: None,
        display: None,
    };
    // SAFETY: the instance is dropped at once; it shares nothing with others, for there are none of this API.
    match unsafe { A::Instance::init(&descriptor) } {
        Ok(_) => None,
        Err(e) => Some(e.source().map_or_else(|| e.to_string(), |source| format!("{e} ({source})"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_opengl_decides_about_compute() {
        for (version, can) in [
            ("3.3.0 NVIDIA 580.159.04", false),
            ("4.5 (Core Profile) Mesa 22.3.6", true),
            ("4.3.0", true),
            ("4.2 Something", false),
            ("OpenGL ES 3.2 Mesa", true),
            ("OpenGL ES 3.0 Something", false),
            ("WebGL 2.0 (OpenGL ES 3.0 Chromium)", false),
            ("", true),
        ] {
            assert_eq!(gl_lacks_compute(version).is_none(), can, "{version}");
        }
        let reason = gl_lacks_compute("WebGL 2.0 (OpenGL ES 3.0 Chromium)").unwrap();
        assert!(reason.contains("no compute shaders") && reason.contains("WebGPU"), "{reason}");
        let reason = gl_lacks_compute("3.3.0 NVIDIA 580.159.04").unwrap();
        assert!(reason.contains("3.3.0") && reason.contains("need OpenGL 4.3"), "{reason}");
    }
}
