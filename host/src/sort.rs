//! Sorting rows.

use millstream_core::what::Fork;
use millstream_core::{DType, Error, HostFunction, HostOperand, HostRun, Result};
use smallvec::{SmallVec, smallvec};

use crate::keys::{Key, Keyed};
use crate::slices::{Rows, for_rows, read, with_type, write_if};

/// Which element comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest; NaN last.
    Ascending,
    /// The largest; NaN first, since it counts as larger than every number.
    Descending,
}

/// Arithmetic of sorting, as comparisons.
fn comparisons(rows: usize, n: usize) -> u64 {
    rows as u64 * n as u64 * u64::from((n.max(2) as u64).ilog2())
}

/// Sorts the rows of `[rows, n]`: the sorted values, and where each was (i64). Equal elements stay in their order.
///
/// A row has fewer than 2^32 elements.
pub fn sort(dtype: DType, rows: usize, n: usize, order: Order) -> Result<HostFunction> {
    short(n)?;
    let operand = |dtype| HostOperand::new(dtype, &[rows, n]);
    let code = Sort { dtype, rows, n, keep: n, order };
    Ok(HostFunction::new(code, vec![operand(dtype)], vec![operand(dtype), operand(DType::I64)], comparisons(rows, n)))
}

/// The first `k` of each sorted row: values, and where each was. Of equal elements the earlier comes first.
pub fn topk(dtype: DType, rows: usize, n: usize, k: usize, order: Order) -> Result<HostFunction> {
    short(n)?;
    if k > n {
        return Err(Error::argument(format!("the first {k} of {n} elements")));
    }
    let operand = |dtype| HostOperand::new(dtype, &[rows, k]);
    let code = Sort { dtype, rows, n, keep: k, order };
    let flop = (rows * n) as u64 + comparisons(rows, k);
    Ok(HostFunction::new(
        code,
        vec![HostOperand::new(dtype, &[rows, n])],
        vec![operand(dtype), operand(DType::I64)],
        flop,
    ))
}

pub(crate) fn short(n: usize) -> Result<()> {
    match u32::try_from(n) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::unsupported(format!("{n} elements in one row; fewer than 2^32 can be sorted"))),
    }
}

struct Sort {
    dtype: DType,
    rows: usize,
    n: usize,
    keep: usize,
    order: Order,
}

impl HostRun for Sort {
    fn name(&self) -> &'static str {
        if self.keep == self.n { "sort" } else { "topk" }
    }

    fn words(&self) -> SmallVec<[u64; 4]> {
        smallvec![self.order as u64]
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        with_type!(self.dtype, T => self.typed::<T>(read(inputs[0])?, outputs, fork))
    }
}

impl Sort {
    fn typed<T: Keyed>(&self, x: &[T], outputs: &mut [Option<&mut [u8]>], fork: &dyn Fork) -> Result<()> {
        if x.is_empty() {
            return Ok(());
        }
        let [values, places] = outputs else { return Err(Error::internal("sort has two outputs")) };
        let values = Rows::new(write_if::<T>(values)?, self.rows);
        let places = Rows::new(write_if::<i64>(places)?, self.rows);
        let (n, keep) = (self.n, self.keep);
        for_rows(fork, self.rows, n, &|row| {
            let x = &x[row * n..(row + 1) * n];
            // SAFETY: each row is visited once.
            let (values, places) = unsafe { (values.at(row), places.at(row)) };
            // A key and its place in one number: sorting such numbers is stable without having to be.
            let mut list: Vec<<T::Key as Key>::Placed> = match self.order {
                Order::Ascending => x.iter().zip(0..).map(|(v, i)| v.key().placed(i)).collect(),
                Order::Descending => x.iter().zip(0..).map(|(v, i)| v.key().reversed().placed(i)).collect(),
            };
            if keep < n && keep > 0 {
                list.select_nth_unstable(keep - 1);
            }
            list.truncate(keep);
            list.sort_unstable();
            if let Some(places) = places {
                for (to, &p) in places.iter_mut().zip(&list) {
                    *to = i64::from(T::Key::place(p));
                }
            }
            if let Some(values) = values {
                for (to, &p) in values.iter_mut().zip(&list) {
                    *to = x[T::Key::place(p) as usize];
                }
            }
            Ok(())
        })
    }
}
