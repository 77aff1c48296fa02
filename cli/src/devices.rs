//! `millstream devices`: what is here, what it can do, its limits.

use millstream::{Device, DeviceProfile, Runtime};
use serde::Serialize;

use crate::args;
use crate::failure::{Failure, Outcome, describe};
use crate::output::say;
use crate::table::{bytes, short};

/// A device, or why there is none.
#[derive(Serialize)]
struct Line<'a> {
    device: &'a str,
    available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a DeviceProfile>,
}

/// The device of that name, or every device that can be opened. A device that was asked for by name must be there.
pub fn chosen(runtime: &Runtime, name: Option<&str>) -> Outcome<Vec<Device>> {
    if let Some(name) = name {
        return Ok(vec![runtime.device(name)?]);
    }
    let names = runtime.list().into_iter().filter(|(_, there)| there.is_ok()).map(|(name, _)| name);
    let open: Vec<Device> = names.filter_map(|name| runtime.device(&name).ok()).collect();
    if open.is_empty() {
        return Err(Failure::no_device("no device of this machine can be opened"));
    }
    Ok(open)
}

/// Runs the command.
pub fn run(args: &args::Devices) -> Outcome {
    let runtime = millstream::default_runtime()?;
    let mut open = 0;
    for (name, there) in runtime.list() {
        let profile = there.and_then(|()| {
            let device = runtime.device(&name)?;
            if args.measure { device.measure_again() } else { Ok(device.profile()) }
        });
        open += usize::from(profile.is_ok());
        if args.json {
            let line = Line {
                device: &name,
                available: profile.is_ok(),
                error: profile.as_ref().err().map(describe),
                profile: profile.as_ref().ok().map(|p| &**p),
            };
            say(serde_json::to_string(&line).map_err(|e| Failure::failed(e.to_string()))?)?;
        } else {
            say(match &profile {
                Ok(profile) => page(&name, profile),
                Err(error) => format!("{name}: not available: {}", describe(error)),
            })?;
        }
    }
    if open == 0 {
        return Err(Failure::no_device("no device of this machine can be opened"));
    }
    Ok(())
}

/// A device on a few lines.
fn page(name: &str, p: &DeviceProfile) -> String {
    let driver = if p.driver.is_empty() { String::new() } else { format!(", {}", p.driver) };
    let mut out = format!("{name}: {} ({}{driver})\n", p.description.trim(), p.architecture);
    out += &format!("  {} units of {} f32 lanes, {} of memory\n", p.units, p.lanes, bytes(p.memory));
    for level in &p.levels {
        let shared = if level.shared_by > 1 { format!(" for {} units", level.shared_by) } else { String::new() };
        out += &format!(
            "  {:<8} {:>9}{shared}, {} GB/s\n",
            level.name,
            bytes(level.bytes as u64),
            short(level.bandwidth / 1e9)
        );
    }
    let rates: Vec<_> = p.rates.iter().map(|(d, rate)| format!("{d} {}", short(rate / 1e9))).collect();
    out += &format!("  arithmetic in GFLOP/s: {}\n", rates.join(", "));
    out += &format!("  a launch takes {} us", short(p.launch * 1e6));
    // Where both are the same memory the bandwidth has no bound, which JSON writes as the largest number.
    if p.transfer.bandwidth < 1e15 {
        out += &format!(", copies from and to the host {} GB/s", short(p.transfer.bandwidth / 1e9));
    }
    if !p.features.is_empty() {
        out += &format!("\n  features: {}", p.features.join(" "));
    }
    out += if p.measured { "\n  (measured on this machine)" } else { "\n  (estimated; --measure measures)" };
    out
}
