//! Assignment: tensors that are changed, in the style of in-place operations.

use std::panic::Location;
use std::sync::Arc;

use millstream_core::what::elements;
use millstream_core::{Error, Layout, Result};
use rustc_hash::FxHashSet;

use crate::arguments::{Integer, Span};
use crate::compiled::is_tracing;
use crate::graph::volatile::{self, is_volatile, snapshot};
use crate::graph::{Assign, Input, Inputs, Kind, Node, compose, is_whole};
use crate::ops::padding::number;
use crate::{Operand, Tensor, plan};

/// How many waiting operations are looked at to learn whether one reads a tensor; more are taken to do so.
const LOOKED_AT: usize = 1024;

/// # Assignment
///
/// Values never change under anybody's eyes. An assignment gives its tensor a new value, which is the old one with a part replaced;
/// clones and views made before, and what was computed or is still to be computed from them, keep the old one. If nobody has the
/// old value any more when the new one is computed, it is written into the same memory, and only the part that is assigned is
/// touched; else the old value is copied first. See also [`Tensor::set`].
impl Tensor {
    /// Gives every element the value of `value`, which is broadcast to the shape. The tensor keeps its shape and dtype.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let mut x = Tensor::from_slice(&[1.0f32, 2.0, 3.0]);
    /// let before = x.clone();
    /// x.assign(7.0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [7.0; 3]);
    /// assert_eq!(before.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// A value that does not broadcast to the shape, or of a dtype that would lose something in this one. The tensor is
    /// then what it was.
    #[track_caller]
    pub fn assign<'a>(&mut self, value: impl Into<Operand<'a>>) -> Result<()> {
        let location = Location::caller();
        let value = self.assignable(value.into(), self.sizes()).map_err(|e| e.in_op("assign").at(location))?;
        *self = value;
        Ok(())
    }

    /// Assigns to a range of one dimension, as [`Tensor::slice`] takes it. See also [`Tensor::set`].
    ///
    /// ```
    /// use millstream::Tensor;
    /// let mut x = Tensor::arange(0, 6).reshape(&[2, 3]);
    /// x.slice_assign(1, ..2, &Tensor::from_slice(&[8i64, 9]))?;
    /// assert_eq!(x.to_vec::<i64>()?, [8, 9, 2, 8, 9, 5]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::assign`].
    #[track_caller]
    pub fn slice_assign<'a>(
        &mut self,
        axis: impl Integer,
        range: impl Into<Span>,
        value: impl Into<Operand<'a>>,
    ) -> Result<()> {
        let (location, range) = (Location::caller(), range.into());
        self.assign_at(|x| Tensor::build_at("slice_assign", location, || Ok(x.slice(axis, range))), value)
    }

    /// Assigns to what a view shows. The function makes the view from the tensor that it is given, by any views: slices, single
    /// indices, transposes, diagonals. The value is broadcast to the view's shape.
    ///
    /// The value may be computed from the tensor itself: everything is read before anything is written. It is then computed
    /// at once, so that the old value is let go.
    ///
    /// ```
    /// use millstream::Tensor;
    /// let mut x = Tensor::arange(0, 9).reshape(&[3, 3]);
    /// x.assign_at(|x| x.select(0, 1), 7)?;
    /// x.assign_at(|x| x.slice(0, ..2).select(1, 2), &Tensor::from_slice(&[-1i64, -2]))?;
    /// assert_eq!(x.to_vec::<i64>()?, [0, 1, -1, 7, 7, -2, 6, 7, 8]);
    /// x.assign_at(|x| x.select(0, 0), &(x.select(0, 0) + x.select(0, 2)))?;
    /// assert_eq!(x.select(0, 0).to_vec::<i64>()?, [6, 8, 7]);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::assign`]; also a function whose result is no view of what it was given, and a view that shows an
    /// element more than once.
    #[track_caller]
    pub fn assign_at<'a>(&mut self, view: impl FnOnce(&Tensor) -> Tensor, value: impl Into<Operand<'a>>) -> Result<()> {
        let location = Location::caller();
        let new = self.assigned(view, value.into(), location).map_err(|e| match e.location() {
            Some(_) => e,
            None => e.in_op("assign").at(location),
        })?;
        *self = new;
        Ok(())
    }

    /// The value in this dtype and shape.
    pub(crate) fn assignable(&self, value: Operand<'_>, shape: &[usize]) -> Result<Tensor> {
        self.check()?;
        let value = match value {
            Operand::Tensor(value) => {
                value.check()?;
                if self.dtype().promote(value.dtype())? != self.dtype() {
                    return Err(Error::dtype(format!("{} into a tensor of {}", value.dtype(), self.dtype()))
                        .suggest("cast the value if what is lost does not matter"));
                }
                // What others may write to is read now: only that, not the tensor that it goes into.
                let value = if is_volatile(value) { snapshot(value)? } else { value.clone() };
                value.cast(self.dtype())
            }
            plain => Tensor::scalar(number(plain, self.dtype())?),
        };
        Ok(Tensor { layout: value.layout.broadcast(shape)?, node: value.node })
    }

    fn assigned(
        &self,
        view: impl FnOnce(&Tensor) -> Tensor,
        value: Operand<'_>,
        location: &'static Location<'static>,
    ) -> Result<Tensor> {
        self.check()?;
        // A stand-in shows which elements the view takes.
        let (shape, none) = (self.sizes().into(), Inputs::new());
        let probe = Node::pending(Input.into(), shape, self.dtype(), None, none, location);
        let probe = Tensor { layout: Layout::contiguous(self.sizes())?, node: probe };
        let region = view(&probe);
        region.check()?;
        if !Arc::ptr_eq(&region.node, &probe.node) {
            return Err(Error::argument("the function did not return a view of the tensor that it was given")
                .suggest("use views only: slice, select, permute, reshape, flip"));
        }
        let call = volatile::Call::enter();
        let mut value = self.assignable(value, region.sizes())?;
        if region.is_empty() {
            return Ok(self.clone());
        }
        let (region, order) = in_order(&region.layout)?;
        value.layout = reordered(&value.layout, &order)?;

        // The whole of what the tensor's memory holds, where the tensor shows all of it in any order; else only what it shows.
        let held = match self.node.value() {
            Some(Ok(buffer)) => buffer.len() / self.dtype().size(),
            // Of an argument of a function that is being compiled only what it shows is known.
            _ if matches!(self.node.kind, Kind::Input(_)) && !is_whole(&self.layout) => usize::MAX,
            _ => elements(&self.node.shape),
        };
        let (base, region, layout) = if is_whole(&self.layout) && self.len() == held {
            (self.clone(), region, self.layout.clone())
        } else if self.len() == held && is_distinct(&self.layout) {
            let whole = Tensor { layout: Layout::contiguous(&[held])?, node: self.node.clone() };
            match compose(&self.layout, self.sizes(), &region)? {
                Some(through) => {
                    let (through, order) = in_order(&through)?;
                    value.layout = reordered(&value.layout, &order)?;
                    (whole, through, self.layout.clone())
                }
                None => (self.clone(), region, Layout::contiguous(self.sizes())?),
            }
        } else {
            (self.clone(), region, Layout::contiguous(self.sizes())?)
        };
        if !is_tracing() && matches!(self.readers_in(&value), Reads::Alone) {
            value = if Arc::ptr_eq(&value.node, &self.node) { value.copy() } else { value };
            plan::trigger(&[self, &value], plan::Trigger::Assign)?;
        }
        let mut new = Tensor::new_node(Assign { region }, Inputs::from_buf([base, value]))?;
        if let Some(node) = Arc::get_mut(&mut new.node) {
            node.location = location;
        }
        let new = Tensor { layout, node: new.node };
        call.leave([&new])?;
        Ok(new)
    }

    /// Whether the waiting operations below a value read this tensor, and whether anybody else has it.
    fn readers_in(&self, value: &Tensor) -> Reads {
        let mut reads = 0;
        // The value as a view of the tensor: held by this call and by the caller.
        let mut handles = 1;
        if Arc::ptr_eq(&value.node, &self.node) {
            reads += 1;
            handles += 2;
        }
        let mut seen: FxHashSet<*const Node> = FxHashSet::default();
        let mut stack = vec![value.node.clone()];
        while let Some(node) = stack.pop() {
            if node.value().is_some() || Arc::ptr_eq(&node, &self.node) || !seen.insert(Arc::as_ptr(&node)) {
                continue;
            }
            if seen.len() > LOOKED_AT {
                return Reads::Alone;
            }
            node.with_inputs(|inputs| {
                for input in inputs {
                    if Arc::ptr_eq(&input.node, &self.node) {
                        reads += 1;
                        handles += 1;
                    } else {
                        stack.push(input.node.clone());
                    }
                }
            });
        }
        drop(stack);
        match reads {
            0 => Reads::None,
            _ if Arc::strong_count(&self.node) > handles + 1 => Reads::Others,
            _ => Reads::Alone,
        }
    }
}

/// Who has the value of a tensor that is assigned to.
enum Reads {
    /// What is assigned does not read it.
    None,
    /// What is assigned reads it, and others have it, too: it will be copied anyway.
    Others,
    /// What is assigned reads it, and nobody else has it.
    Alone,
}

/// For each dimension of a reordered layout, the old dimension and whether it is walked backwards.
type Order = Vec<(usize, bool)>;

/// The same elements walked upward in memory, long strides first; an error if one is there twice.
fn in_order(layout: &Layout) -> Result<(Layout, Order)> {
    let mut order: Order = (0..layout.rank()).map(|d| (d, layout.strides()[d] < 0)).collect();
    order.sort_by_key(|&(d, _)| std::cmp::Reverse(layout.strides()[d].unsigned_abs()));
    let out = reordered(layout, &order)?;
    if !is_distinct(&out) {
        return Err(Error::argument("the view shows an element more than once").suggest(
            "assign to the tensor itself: a broadcast view or overlapping windows have no single element for a value",
        ));
    }
    Ok((out, order))
}

/// Dimensions in this order and direction.
fn reordered(layout: &Layout, order: &[(usize, bool)]) -> Result<Layout> {
    let mut out = layout.clone();
    for &(d, back) in order {
        if back {
            out = out.flip(d)?;
        }
    }
    let axes: Vec<usize> = order.iter().map(|&(d, _)| d).collect();
    out.permute(&axes)
}

/// Whether no two indices show the same element, as far as strides tell: each stride reaches beyond all that shorter ones
/// cover. That is so of every view made by slicing, reordering and reshaping.
pub(crate) fn is_distinct(layout: &Layout) -> bool {
    let mut dims: Vec<(usize, usize)> = layout
        .strides()
        .iter()
        .zip(layout.shape())
        .filter(|(_, n)| **n > 1)
        .map(|(s, &n)| (s.unsigned_abs(), n))
        .collect();
    dims.sort_unstable();
    let mut covered = 0;
    dims.into_iter().all(|(stride, n)| {
        let disjoint = stride > covered;
        covered += stride.saturating_mul(n - 1);
        disjoint
    })
}
