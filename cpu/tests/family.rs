//! The CPU as a runtime opens it: names, threads, and what a bad setting says.

use millstream_core::backend::{Backend, DeviceFamily};
use millstream_core::memory::MemoryKind;
use millstream_core::{ErrorKind, block_on};
use millstream_cpu::{CpuBackend, CpuFamily, CpuOptions, Isa};

#[test]
fn the_family_has_one_device_and_refuses_other_names() {
    let family = CpuFamily::default();
    assert_eq!((family.name(), family.list().unwrap()), ("cpu", vec!["cpu".to_string()]));
    let Err(error) = block_on(family.open("cpu:1")) else { panic!("there is no second CPU") };
    assert_eq!(error.kind(), ErrorKind::NoDevice);
}

#[test]
fn threads_come_from_the_option_and_nonsense_is_a_bad_argument() {
    let backend = CpuBackend::open(CpuOptions { threads: Some(3), isa: Some(Isa::Portable) }).unwrap();
    assert_eq!((backend.threads(), backend.isa(), backend.profile().units), (3, Isa::Portable, 3));
    for threads in [0, 1 << 20] {
        let Err(error) = CpuBackend::open(CpuOptions { threads: Some(threads), isa: None }) else {
            panic!("{threads} threads make no sense")
        };
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}

#[test]
fn ways_are_compared_alike_for_any_number_of_threads() {
    let reference = |threads| {
        let backend = CpuBackend::open(CpuOptions { threads: Some(threads), isa: None }).unwrap();
        backend.reference_profile().cloned()
    };
    assert!(reference(1).is_some_and(|p| p.units == 1));
    assert_eq!(reference(1), reference(5));
}

#[test]
fn a_profile_survives_its_way_through_a_file() {
    let profile = CpuBackend::open(CpuOptions::default()).unwrap().profile();
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<millstream_core::DeviceProfile>(&text).unwrap(), profile);
}

#[test]
fn imported_memory_is_used_where_it_is() {
    let backend = CpuBackend::open(CpuOptions::default()).unwrap();
    let data = [1u8, 2, 3];
    let memory = millstream_core::memory::RawMemory::foreign(data.as_ptr(), data.len());
    assert_eq!(backend.import(&memory).unwrap().address, data.as_ptr() as u64);
    let error = backend.alloc(isize::MAX as usize, MemoryKind::Device).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
}
