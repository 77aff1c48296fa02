//! Elements picked by truth values. How many there are is known beforehand: whoever asks has counted.

use millstream_core::what::{Fork, elements};
use millstream_core::{DType, Error, HostFunction, HostOperand, HostRun, Result};

use crate::slices::{read, write_if};

fn miscounted() -> Error {
    Error::internal("another number of true elements than was counted")
}

/// Where a bool tensor is true: for each of its dimensions the indices (i64), in row-major order of the elements.
pub fn nonzero(shape: &[usize], count: usize) -> HostFunction {
    let outputs = shape.iter().map(|_| HostOperand::new(DType::I64, &[count])).collect();
    let code = NonZero { shape: shape.to_vec(), count };
    HostFunction::new(code, vec![HostOperand::new(DType::Bool, shape)], outputs, elements(shape) as u64)
}

struct NonZero {
    shape: Vec<usize>,
    count: usize,
}

impl HostRun for NonZero {
    fn name(&self) -> &'static str {
        "nonzero"
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], _fork: &dyn Fork) -> Result<()> {
        let x = read::<bool>(inputs[0])?;
        if x.iter().filter(|&&v| v).count() != self.count {
            return Err(miscounted());
        }
        let mut step = 1;
        for (&n, output) in self.shape.iter().zip(outputs).rev() {
            if let Some(list) = write_if::<i64>(output)? {
                let places = x.iter().enumerate().filter(|(_, v)| **v);
                for (to, (at, _)) in list.iter_mut().zip(places) {
                    *to = (at / step % n) as i64;
                }
            }
            // Only a shape without elements can overflow, and nobody asks for its indices.
            step = step.saturating_mul(n);
        }
        Ok(())
    }
}

/// The rows of `[rows, row]` where a bool `[rows]` is true.
pub fn mask(dtype: DType, rows: usize, row: usize, count: usize) -> HostFunction {
    let inputs = vec![HostOperand::new(dtype, &[rows, row]), HostOperand::new(DType::Bool, &[rows])];
    let code = Mask { bytes: row * dtype.size(), count };
    HostFunction::new(
        code,
        inputs,
        vec![HostOperand::new(dtype, &[count, row])],
        (rows as u64).saturating_mul(row as u64),
    )
}

struct Mask {
    /// Bytes of a row.
    bytes: usize,
    count: usize,
}

impl HostRun for Mask {
    fn name(&self) -> &'static str {
        "mask"
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], _fork: &dyn Fork) -> Result<()> {
        let mask = read::<bool>(inputs[1])?;
        if mask.iter().filter(|&&v| v).count() != self.count {
            return Err(miscounted());
        }
        let [Some(output)] = outputs else { return Ok(()) };
        if self.bytes == 0 {
            return Ok(());
        }
        let picked = inputs[0].chunks_exact(self.bytes).zip(mask).filter(|(_, v)| **v);
        for (to, (from, _)) in output.chunks_exact_mut(self.bytes).zip(picked) {
            to.copy_from_slice(from);
        }
        Ok(())
    }
}
