//! Listing and opening, also where there is nothing to list.

use std::process::Command;

use millstream_core::backend::DeviceFamily;
use millstream_core::{ErrorKind, block_on};
use millstream_wgpu::{Api, WgpuFamily};

#[test]
fn every_family_lists_its_devices_or_says_why_there_are_none() {
    for api in Api::ALL {
        let family = WgpuFamily::new(api);
        match family.list() {
            Ok(names) => {
                println!("{names:?}");
                assert!(!names.is_empty());
                assert!(names.iter().all(|name| name.starts_with(&format!("{}:", api.name()))));
            }
            Err(e) => {
                println!("{}: {e}", api.name());
                assert!(matches!(e.kind(), ErrorKind::NoDevice | ErrorKind::Unsupported), "{e}");
            }
        }
    }
    assert!(WgpuFamily::native().iter().all(|family| family.api().is_possible()));
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_its_name() {
    for api in Api::ALL {
        for name in ["nothing:0".to_string(), format!("{}:99", api.name()), format!("{}:x", api.name())] {
            let error = block_on(WgpuFamily::new(api).open(&name)).err().unwrap();
            assert!(matches!(error.kind(), ErrorKind::NoDevice | ErrorKind::Unsupported), "{error}");
        }
    }
}

#[test]
fn a_profile_says_what_a_device_can_do() {
    for api in Api::ALL {
        let Ok(names) = WgpuFamily::new(api).list() else { continue };
        for name in names {
            let Ok(backend) = block_on(WgpuFamily::new(api).open(&name)) else { continue };
            let profile = backend.profile();
            println!("{name}: {profile:?}");
            assert_eq!(profile.kind, api.kind());
            assert!(!profile.description.is_empty() && profile.memory > 0 && profile.units > 0 && profile.lanes > 0);
            assert!(profile.offset_alignment >= 256 && profile.max_binding >= 64 << 20 && profile.max_bindings >= 4);
            assert!(profile.levels.iter().all(|l| l.bandwidth > 0.0) && !profile.measured);
        }
    }
}

#[test]
fn a_measurement_replaces_the_guesses() {
    for api in [Api::Vulkan, Api::Gl] {
        let Ok(backend) = block_on(WgpuFamily::new(api).open(api.name())) else { continue };
        let profile = backend.measure().unwrap();
        println!("{profile:?}");
        assert!(profile.measured && profile.launch > 0.0 && profile.launch < 1.0);
        assert!(profile.transfer.latency > 0.0 && profile.transfer.bandwidth > 1e6);
        assert!(profile.levels.iter().all(|l| l.bandwidth > 1e6 && l.bandwidth.is_finite()));
        assert!(profile.rates.iter().all(|(_, r)| *r > 1e6 && r.is_finite()));
    }
}

/// Runs the listing test again in a process whose drivers are hidden.
#[test]
fn a_machine_without_drivers_gives_reasons_and_no_panic() {
    let run = |hide: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "family::every_family_lists_its_devices_or_says_why_there_are_none", "--nocapture"]);
        command.envs(hide.iter().copied());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_string() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(!text.contains("panicked"), "{text}");
        text
    };
    let nowhere = "/nonexistent/driver.json";
    let hide =
        [("VK_DRIVER_FILES", nowhere), ("VK_ICD_FILENAMES", nowhere), ("__EGL_VENDOR_LIBRARY_DIRS", "/nonexistent")];
    let text = run(&hide);
    if cfg!(target_os = "linux") {
        assert!(text.contains("no such device: Vulkan is"), "{text}");
    }
}
