//! The kernel texts of an operation, without a device: what a test compiles for every architecture.

use millstream_codegen::{Program, generate, supports, variants};
use millstream_core::backend::Support;
use millstream_core::{Op, Result};

use crate::cublas;
use crate::profile;
use crate::properties::CudaProperties;

/// Every kernel text that a device with these properties could be asked to run for an operation, under the name of its
/// variant; none where it does not support the operation.
#[doc(hidden)]
pub fn programs(op: &Op, properties: &CudaProperties) -> Result<Vec<(String, Program)>> {
    let (target, profile) = (profile::target(properties), profile::estimate(properties));
    if supports(op, &target) != Support::Native {
        return Ok(Vec::new());
    }
    let mut list = Vec::new();
    for candidate in variants(op, &target, &profile) {
        list.push((candidate.label(), generate(op, &candidate.variant, &target)?));
    }
    if let Some(candidate) = cublas::candidate(op, &profile)
        && let Some(epilogue) = cublas::epilogue(op)?
    {
        for inner in variants(&epilogue, &target, &profile) {
            let label = format!("{}, then {}", candidate.label(), inner.label());
            list.push((label, generate(&epilogue, &inner.variant, &target)?));
        }
    }
    Ok(list)
}
