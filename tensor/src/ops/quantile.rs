//! Medians and quantiles, from sorted rows.

use millstream_core::what::{Dims, count};
use millstream_core::{Error, Result};

use crate::Order;
use crate::Tensor;
use crate::arguments::Axes;
use crate::ops::reductions::{Keep, reductions};

reductions! {
    //! # Medians and quantiles

    /// The value below which the part `q` (from 0 to 1) of the elements lies, over axes: of the sorted elements that of number
    /// `q * (n - 1)`, between two of them by their distance. NaN if there is a NaN. Integers count as f32. Between two elements
    /// rounded thrice, else exact.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::from_slice(&[4.0f32, 1.0, 3.0, 2.0, 5.0]);
    /// assert_eq!(x.quantile(0.25, 0).item::<f32>()?, 2.0);
    /// assert_eq!(x.quantile(0.875, ..).item::<f32>()?, 4.5);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    quantile, quantile_keepdim: |x, q: f64; axes, keep| Tensor::build("quantile", || x.at_part(q, axes, keep));
    /// The middle of the sorted elements, or the mean of the two in the middle: [`Tensor::quantile`] with `q` = 0.5.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let x = Tensor::new([[3, 1, 4, 9], [1, 1, 8, 2]]);
    /// assert_eq!(x.median(1).to_vec::<f32>()?, [3.5, 1.5]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    median, median_keepdim: |x; axes, keep| Tensor::build("median", || x.at_part(0.5, axes, keep));
}

impl Tensor {
    fn at_part(&self, q: f64, axes: &Axes, keep: Keep) -> Result<Tensor> {
        self.check()?;
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::argument(format!("a part of {q} does not lie from 0 to 1")));
        }
        if self.dtype().is_complex() {
            return Err(Error::dtype("complex numbers have no quantiles"));
        }
        let axes = axes.sorted(self.rank())?;
        let x = self.as_float();
        let rest: Vec<usize> = (0..self.rank()).filter(|d| !axes.contains(d)).collect();
        let order: Vec<usize> = rest.iter().chain(&axes).copied().collect();
        let sizes: Dims = axes.iter().map(|&d| self.sizes()[d]).collect();
        let n = count(&sizes)?;
        if n == 0 {
            return Err(Error::argument("there is no quantile of no elements"));
        }
        let mut shape: Dims = rest.iter().map(|&d| self.sizes()[d]).collect();
        let rows = count(&shape)?;
        let sorted = x.permute(&order).reshape([rows, n]).sort(1, Order::Ascending);
        sorted.check()?;
        let at = q * (n - 1) as f64;
        let (low, part) = (at.floor(), at - at.floor());
        let low = sorted.select(1, low as usize);
        let mut value = low.clone();
        if part > 0.0 {
            let high = sorted.select(1, at.floor() as usize + 1);
            // Where the difference overflows, or is one of infinities, the two are weighed.
            let gap = &high - &low;
            value = gap.isfinite().where_(&(&low + &gap * part), &(&low * (1.0 - part) + &high * part));
        }
        // NaN sorts last.
        let last = sorted.select(1, -1);
        let value = last.isnan().where_(&last, &value);
        if keep == Keep::Yes {
            shape = (0..self.rank()).map(|d| if axes.contains(&d) { 1 } else { self.sizes()[d] }).collect();
        }
        Ok(value.reshape(&shape))
    }
}
