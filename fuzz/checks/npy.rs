//! An npy file of any bytes gives an array or an error of the format.

use millstream::{ErrorKind, Tensor};

/// Bytes of the array; `None` if the file was refused.
pub fn check(data: &[u8]) -> Option<usize> {
    match Tensor::from_npy_bytes(data) {
        Ok(t) => Some(t.to_bytes().expect("the bytes of what was read").len()),
        Err(error) => {
            let kinds = [ErrorKind::Format, ErrorKind::DType, ErrorKind::Shape];
            assert!(kinds.contains(&error.kind()), "{error}");
            None
        }
    }
}
