//! What only Vulkan tells of a device: how much memory it has, and how many units.

use ash::vk;

/// Facts that `wgpu` does not pass on.
pub(crate) struct Facts {
    /// Bytes of the device's own memory.
    pub memory: Option<u64>,
    /// Units that work independently: multiprocessors, compute units, cores.
    pub units: Option<usize>,
}

/// Asks the driver; `None` where the adapter is not one of Vulkan.
pub(crate) fn facts(adapter: &wgpu::Adapter) -> Option<Facts> {
    // SAFETY: the handles are only used to ask, while the adapter lives.
    unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let (instance, device) = (adapter.shared_instance().raw_instance(), adapter.raw_physical_device());
        Some(Facts { memory: memory(instance, device), units: units(instance, device) })
    }
}

/// # Safety
/// The device must be one of the instance, which must be alive.
unsafe fn memory(instance: &ash::Instance, device: vk::PhysicalDevice) -> Option<u64> {
    // SAFETY: as the caller promises.
    let properties = unsafe { instance.get_physical_device_memory_properties(device) };
    let heaps = properties.memory_heaps_as_slice().iter();
    heaps.filter(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL)).map(|heap| heap.size).max()
}

/// # Safety
/// The device must be one of the instance, which must be alive.
unsafe fn units(instance: &ash::Instance, device: vk::PhysicalDevice) -> Option<usize> {
    // SAFETY: as the caller promises.
    let (properties, extensions) = unsafe {
        let extensions = instance.enumerate_device_extension_properties(device).ok()?;
        (instance.get_physical_device_properties(device), extensions)
    };
    if properties.api_version < vk::API_VERSION_1_1 {
        return None;
    }
    let has = |name: &std::ffi::CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    let ask = |mut more: vk::PhysicalDeviceProperties2<'_>| {
        // SAFETY: the device is of version 1.1, which has this call, and knows the structure that is chained on.
        unsafe { instance.get_physical_device_properties2(device, &mut more) };
    };
    if has(ash::nv::shader_sm_builtins::NAME) {
        let mut nv = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
        ask(vk::PhysicalDeviceProperties2::default().push_next(&mut nv));
        return positive(nv.shader_sm_count);
    }
    if has(ash::amd::shader_core_properties::NAME) {
        let mut amd = vk::PhysicalDeviceShaderCorePropertiesAMD::default();
        ask(vk::PhysicalDeviceProperties2::default().push_next(&mut amd));
        let arrays = amd.shader_engine_count.saturating_mul(amd.shader_arrays_per_engine_count);
        return positive(arrays.saturating_mul(amd.compute_units_per_shader_array));
    }
    if has(ash::arm::shader_core_builtins::NAME) {
        let mut arm = vk::PhysicalDeviceShaderCoreBuiltinsPropertiesARM::default();
        ask(vk::PhysicalDeviceProperties2::default().push_next(&mut arm));
        return positive(arm.shader_core_count);
    }
    None
}

fn positive(n: u32) -> Option<usize> {
    (n > 0).then_some(n as usize)
}
