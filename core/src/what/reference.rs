//! Reference.
/// x
pub struct HostTensor;
/// x
pub fn evaluate() {}
