//! Convolutions of which every filter sees one channel: depthwise ones, with one filter or several for each channel.
//!
//! There is nothing to share between channels, so that a matmul would be a matrix times a vector. Here vectors are
//! neighbouring pixels of a row: every tap of a filter is one vector load from where the image lies and one multiply-add for as many results as a
//! vector has lanes, and results go straight to where they belong if that is a row, too ([`kernel`]). How the work is cut depends on the sizes
//! only. Error bound: that of the sum, `(k + 2) * eps * sum |x| |w|`.
//! Where rows are short or filters large, channels are made contiguous, a vector of them at a time ([`bundles`]).
//! Where channels are contiguous in memory, vectors are channels, too ([`channels`]).

mod bundles;
pub(crate) mod channels;
mod kernel;
mod recognise;
mod recognise_channels;

use std::ops::Range;

use millstream_core::{Access, Body, Contract, Guard, Op};

use crate::contract::direct::scatter;
use crate::contract::packed::{Output, TileAt};
use crate::shared::Shared;
use crate::simd::{Isa, vectorize};
use crate::workers::Workers;
use kernel::{Piece, Pieces, TapWalk};
pub(super) use recognise::{BUNDLES, FAMILY, Planes};
pub(super) use recognise_channels::{Channels, FAMILY as CHANNELS};

/// Elements of results that wait to be given away at once: half of an L1.
const WAITING: usize = (16 << 10) / size_of::<f32>();
/// Multiply-adds that make a task worth while.
const TASK_WORK: usize = 1 << 16;

/// One axis: a pixel `p` and a tap `t` read the coordinate `offset + p * stride + t * dilation`, if it is from 0 up to `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaneAxis {
    pub(crate) pixels: usize,
    pub(crate) taps: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) offset: isize,
    pub(crate) limit: isize,
    /// Elements from one coordinate to the next; along x it is 1.
    pub(crate) step: isize,
    /// Elements from one tap of the filters to the next.
    pub(crate) filter: isize,
}

impl PlaneAxis {
    /// An axis of one pixel and one tap.
    pub(crate) const SINGLE: PlaneAxis =
        PlaneAxis { pixels: 1, taps: 1, stride: 1, dilation: 1, offset: 0, limit: 1, step: 1, filter: 0 };

    /// Coordinates from the first that the pixels read to the last, for so many pixels, of which there is at least one.
    fn span(&self, pixels: usize) -> Option<usize> {
        (pixels - 1).checked_mul(self.stride)?.checked_add((self.taps - 1).checked_mul(self.dilation)?)?.checked_add(1)
    }
}

/// Where the numbers of a convolution lie, from the addresses that a run is given.
#[derive(Clone, Debug)]
pub(crate) struct PlaneGeometry {
    /// To the image and to the filters of each matrix of the batch.
    pub(crate) images: Vec<isize>,
    pub(crate) filters: Vec<isize>,
    /// How many filters an image has, and from one to the next.
    pub(crate) outputs: (usize, isize),
    /// To the image's element of all coordinates 0, and to the first element of the filters.
    pub(crate) first: (isize, isize),
    pub(crate) y: PlaneAxis,
    pub(crate) x: PlaneAxis,
    /// Whether pixels are rows of the result and filters its columns, or the other way round.
    pub(crate) pixels_are_rows: bool,
}

/// A convolution ready for any memory.
pub(crate) struct Depthwise {
    pub(crate) geometry: PlaneGeometry,
    isa: Isa,
    walk: TapWalk,
    /// For each tap, elements from a filter's first element.
    weights: Vec<isize>,
    /// Rows of results of a task, and planes of one, of which one at least is whole or single.
    rows: usize,
    planes: usize,
}

impl Depthwise {
    /// A convolution; `None` where there is nothing to do, or where numbers are too large.
    pub(crate) fn new(geometry: PlaneGeometry, isa: Isa) -> Option<Depthwise> {
        let (y, x) = (&geometry.y, &geometry.x);
        let none = [y.pixels, y.taps, x.pixels, x.taps, geometry.outputs.0].contains(&0);
        if none || geometry.images.is_empty() {
            return None;
        }
        let walk = TapWalk::new(*y, *x, kernel::lanes(isa))?;
        let each = (0..y.taps).flat_map(|r| (0..x.taps).map(move |s| (r, s)));
        let weights: Vec<isize> = each.map(|(r, s)| r as isize * y.filter + s as isize * x.filter).collect();
        let row = weights.len().checked_mul(x.pixels)?.checked_mul(geometry.outputs.0)?;
        let rows = TASK_WORK.div_ceil(row).next_multiple_of(4).min(y.pixels);
        let planes = (TASK_WORK / row.saturating_mul(y.pixels)).max(1);
        Some(Depthwise { isa, walk, weights, rows, planes, geometry })
    }

    /// Results of an image's plane, and taps.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.geometry.y.pixels * self.geometry.x.pixels, self.weights.len())
    }

    /// Multiply-adds that take as long as all that is done: of whole vectors and of whole blocks of rows, with what makes the taps' vectors.
    pub(crate) fn computed(&self) -> u64 {
        let p = &self.geometry;
        let (lanes, rows) = (kernel::lanes(self.isa), p.y.pixels);
        let rows = if rows >= kernel::ROWS { rows.next_multiple_of(kernel::ROWS) } else { rows };
        let vectors = [p.images.len(), p.outputs.0, rows, p.x.pixels.div_ceil(lanes), lanes];
        let vectors = vectors.iter().map(|&n| n as f64).product::<f64>();
        (vectors * self.walk.work()) as u64
    }

    /// Planes of all images.
    pub(crate) fn planes(&self) -> u64 {
        self.geometry.images.len() as u64
    }

    /// Computes it; the addresses are those of the operands' elements of index 0.
    ///
    /// # Safety
    /// Every element of the image between those that coordinates in their limits name in a row is readable, and every element of the
    /// filters; nobody writes them meanwhile. The output is that of this convolution.
    pub(crate) unsafe fn run(&self, workers: &Workers, image: *const f32, filters: *const f32, out: &Output<'_, f32>) {
        let p = &self.geometry;
        let planes = p.images.len();
        let image = Shared::read(image.wrapping_offset(p.first.0));
        let filters = Shared::read(filters.wrapping_offset(p.first.1));
        let cuts = p.y.pixels.div_ceil(self.rows);
        workers.run(planes.div_ceil(self.planes) * cuts, &|task| {
            let (first, cut) = (task / cuts * self.planes, task % cuts);
            let planes = first..planes.min(first + self.planes);
            let rows = cut * self.rows..p.y.pixels.min((cut + 1) * self.rows);
            let each = planes.flat_map(|b| (0..p.outputs.0).map(move |o| (b, o)));
            let piece = |(b, o): (usize, usize), to: *mut f32| Piece {
                image: image.offset(p.images[b]),
                filter: filters.offset(p.filters[b] + o as isize * p.outputs.1),
                to,
            };
            // What the kernel needs is what the caller promises; these rows of planes are parts of the output that no other task writes.
            let compute = |rows: Range<usize>, pieces: &mut dyn Iterator<Item = Piece>| {
                vectorize(self.isa, Pieces { walk: &self.walk, weights: &self.weights, rows, pieces });
            };
            if let Output::Plain(c) = out {
                let (step, output) = if p.pixels_are_rows { (c.row, c.col) } else { (c.col, c.row) };
                if step == 1 {
                    let pixel = (rows.start * p.x.pixels) as isize;
                    let to = |(b, o): (usize, usize)| c.at(b).wrapping_offset(pixel + o as isize * output);
                    compute(rows.clone(), &mut each.map(|at| piece(at, to(at))));
                    return;
                }
            }
            let some = (WAITING / p.x.pixels).max(1);
            let mut done = vec![0.0; some.min(rows.len()) * p.x.pixels];
            for at in each {
                for first in rows.clone().step_by(some) {
                    let rows = first..rows.end.min(first + some);
                    let count = rows.len() * p.x.pixels;
                    compute(rows, &mut std::iter::once(piece(at, done.as_mut_ptr())));
                    self.store((at.0, first * p.x.pixels, at.1), &done[..count], out);
                }
            }
        });
    }

    /// Gives results away: of matrix `b`, from a pixel on, for one filter.
    fn store(&self, (b, pixel, o): (usize, usize, usize), done: &[f32], out: &Output<'_, f32>) {
        let at = if self.geometry.pixels_are_rows {
            TileAt { batch: b, row: pixel, col: o, rows: done.len(), cols: 1, ld: 1 }
        } else {
            TileAt { batch: b, row: o, col: pixel, rows: 1, cols: done.len(), ld: done.len() }
        };
        match out {
            Output::Plain(c) => scatter(c, &at, done),
            Output::Sink(sink) => sink.store(&at, done),
        }
    }
}

/// The operation over its dimensions in this order, of which the contraction says the groups.
fn reordered(op: &Op, order: &[usize], contract: Contract) -> Op {
    let access = |a: &Access| Access {
        strides: order.iter().map(|&d| a.strides[d]).collect(),
        guards: a
            .guards
            .iter()
            .map(|g| Guard { coefficients: order.iter().map(|&d| g.coefficients[d]).collect(), ..g.clone() })
            .collect(),
        ..a.clone()
    };
    Op::new(
        order.iter().map(|&d| op.dims[d]).collect(),
        op.inputs.iter().map(access).collect(),
        op.outputs.iter().map(access).collect(),
        Body::Contract(Box::new(contract)),
    )
}
