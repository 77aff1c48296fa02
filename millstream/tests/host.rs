//! How functions that only the host computes go through plans and devices.

use millstream::core::{Record, RecordKind};
use millstream::{Device, Devices, Order, Result, Tensor};

#[test]
fn outputs_of_one_call_are_computed_together_and_only_if_somebody_holds_them() -> Result<()> {
    let runtime = Tensor::runtime()?;
    let profiler = runtime.profiler();
    // Tests run at once: each looks for a function that only it calls.
    profiler.start();
    let x = Tensor::from_slice(&[31.5f64, -7.25, 19.125]) * 2.0;
    let (values, indices) = x.topk(2, 0, Order::Descending);
    // A map before, a host step, a map behind it: the host function stands alone.
    let next = &values + 1.0;
    assert_eq!(next.to_vec::<f64>()?, [64.0, 39.25]);
    assert_eq!((values.to_vec::<f64>()?, indices.to_vec::<i64>()?), (vec![63.0, 38.25], vec![0, 2]));
    let records = profiler.records();
    let mine = |r: &&Record| r.kind == RecordKind::Step && &*r.name == "host topk";
    assert_eq!(records.iter().filter(mine).count(), 1, "{records:?}");
    Ok(())
}

#[test]
fn a_shape_that_depends_on_values_is_computed_at_once_and_the_profile_says_why() -> Result<()> {
    let profiler = Tensor::runtime()?.profiler();
    // Tests run at once: each looks for a function that only it calls.
    profiler.start();
    let x = Tensor::from_slice(&[0i32, 3, 0, 5, 17]) * 3;
    assert_eq!(x.unique_values().shape(), [4]);
    let records = profiler.records();
    assert!(records.iter().any(|r| r.kind == RecordKind::Evaluate && r.note.starts_with("Shape")), "{records:?}");
    Ok(())
}

#[test]
fn results_of_a_host_function_read_later_share_its_one_run() -> Result<()> {
    let (values, counts) = Tensor::from_slice(&[1i32, 1, 2]).unique_counts();
    let (a, b) = (values.to_vec::<i32>()?, counts.to_vec::<i64>()?);
    assert_eq!((a, b), (vec![1, 2], vec![2, 1]));
    Ok(())
}

#[test]
fn on_the_device_auto_the_rest_of_the_graph_may_go_elsewhere() -> Result<()> {
    let x = Tensor::from_slice(&[2.0f32, -1.0, 0.5]).to(&Device::auto()?);
    let y = (&x * 2.0).sort(0, Order::Ascending) + 1.0;
    assert_eq!(y.to_vec::<f32>()?, [-1.0, 2.0, 5.0]);
    Ok(())
}
