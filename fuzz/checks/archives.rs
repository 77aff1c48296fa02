//! Files of several tensors, of any bytes, give tensors or an error of the format.

use millstream::{ErrorKind, Result, Tensor};

/// Bytes of the tensors; `None` if the file was refused.
pub fn check(read: Result<Vec<(String, Tensor)>>) -> Option<usize> {
    match read {
        Ok(list) => Some(list.iter().map(|(_, t)| t.to_bytes().expect("the bytes of what was read").len()).sum()),
        Err(error) => {
            let kinds = [ErrorKind::Format, ErrorKind::DType, ErrorKind::Shape];
            assert!(kinds.contains(&error.kind()), "{error}");
            None
        }
    }
}
