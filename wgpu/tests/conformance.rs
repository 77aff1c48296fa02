//! The conformance suite on every API of this machine.

mod common;

macro_rules! suite {
    ($($name:ident: $api:ident),*) => {
        $(mod $name {
            millstream_core::conformance_tests!(match super::common::device(millstream_wgpu::Api::$api) {
                Some(device) => device,
                None => return,
            });
        })*
    };
}

suite!(vulkan: Vulkan, gl: Gl, metal: Metal, dx12: Dx12);
