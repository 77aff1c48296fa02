//! Memory stays flat over many small items through a pipeline: 20,000, or as many as `MILLSTREAM_ITEMS` says. Alone in its process, because
//! it looks at what the whole process holds.

#[path = "suite/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use millstream::core::testing;
use millstream::{Device, Pipeline, Tensor};

use common::devices;

/// Bytes of host memory that the process has touched and holds; `None` where the system does not say.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

fn watched(name: &str, pipeline: &Pipeline<'_, Tensor, Tensor>, devices: &[&Device]) {
    let items = std::env::var("MILLSTREAM_ITEMS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000u64);
    let most = if items > 20_000 { Duration::from_secs(3600) } else { Duration::from_secs(15) };
    let mut run = pipeline.run((0..items).map(|i| Tensor::from_slice(&[i as f32; 16]))).unwrap();
    let state = || (devices.iter().map(|d| d.pool().stats()).collect::<Vec<_>>(), resident());
    let (started, mut before, mut done) = (Instant::now(), None, 0u64);
    while started.elapsed() < most
        && let Some(result) = run.next()
    {
        let y = result.unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0 * done as f32 + 1.0; 16]);
        done += 1;
        drop(y);
        if done == items / 100 {
            before = Some(state());
        }
    }
    let after = state();
    println!("{name}: {done} items in {:?}\n{}", started.elapsed(), run.statistics());
    if done < items {
        testing::left_out(&format!("{name}: memory was watched over {done} items instead of {items}"));
    }
    let Some(before) = before else { return };
    for (b, a) in before.0.iter().zip(&after.0) {
        assert!(a.blocks <= b.blocks + 16 && a.reserved <= b.reserved, "{name}: {b:?} {a:?}");
    }
    if let (Some(was), Some(is)) = (before.1, after.1) {
        println!("{name}: the process held {was} bytes after {} items, now {is}", items / 100);
        assert!(is <= was + (2 << 20), "{name}: the process held {was} bytes, now {is}");
    }
}

#[test]
fn memory_is_flat_over_many_items() {
    let devices = devices();
    let host = devices.iter().find(|d| d.is_host()).unwrap();
    watched("cpu", &Pipeline::new(host, |x| x * 2.0 + 1.0), &[host]);
    watched("cpu, two in flight", &Pipeline::new(host, |x| x * 2.0 + 1.0).depth(2), &[host]);
    for device in devices.iter().filter(|d| !d.is_host()) {
        let name = format!("cpu + {}", device.name());
        watched(&name, &Pipeline::new(host, |x| x * 2.0).stage(device, |x| x + 1.0), &[host, device]);
    }
}
