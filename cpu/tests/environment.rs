//! `MILLSTREAM_THREADS`, alone in its process because the environment belongs to all of it.

use millstream_core::ErrorKind;
use millstream_cpu::{CpuBackend, CpuOptions};

#[test]
fn the_environment_sets_the_threads_and_a_bad_value_is_reported_when_the_device_is_opened() {
    let open = |text: &str| {
        // SAFETY: this test is the only one of its process, and no other thread runs.
        unsafe { std::env::set_var("MILLSTREAM_THREADS", text) };
        CpuBackend::open(CpuOptions::default())
    };
    assert_eq!(open("3").unwrap().threads(), 3);
    for bad in ["0", "many", "-2", ""] {
        let Err(error) = open(bad) else { panic!("{bad:?} was accepted") };
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains("MILLSTREAM_THREADS"), "{error}");
    }
    assert_eq!(CpuBackend::open(CpuOptions { threads: Some(2), isa: None }).unwrap().threads(), 2);
}
