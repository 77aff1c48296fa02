//! Convolutions of which every filter sees one channel: depthwise ones, with one filter or several for each channel.
//!
//! There is nothing to share between channels, so that a product of matrices would be a product of vectors. Here a few rows of
//! an image are copied with their border into the nearest cache, with the columns of each phase of the stride side by side;
//! then every tap of a filter is one vector load and one multiply-add for as many results as a vector has lanes. How the work
//! is cut depends on the sizes only. Error bound: that of the sum, `(k + 2) * eps * sum |x| |w|`.
//! Small planes are one line ([`flat`]). Where channels lie side by side, vectors are channels ([`across`]).

pub(crate) mod across;
mod flat;
mod kernel;

use std::cell::RefCell;

use crate::direct::{copy, fill};
use crate::gemm::{Output, TileAt};
use crate::shared::Shared;
use crate::simd::{Isa, vectorize};
use crate::workers::Workers;
use flat::{Flat, Plane};
use kernel::Band;

/// Bytes of a copied band: half of a first-level cache, with room for its results.
const BAND_BYTES: usize = 16 << 10;
/// What a row costs beside its bytes, as bytes that are copied. Measured: some 14 ns.
const ROW_BYTES: usize = 512;
/// Multiply-adds that make a task worth while.
const TASK_WORK: usize = 1 << 16;

/// One axis: a place `p` and a tap `t` read the coordinate `offset + p * stride + t * dilation`, if it is from 0 up to `limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) places: usize,
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

impl Line {
    /// Coordinates from the first that the places read to the last, for so many places.
    fn span(&self, places: usize) -> usize {
        (places - 1) * self.stride + (self.taps - 1) * self.dilation + 1
    }
}

/// Where the numbers of a convolution lie, from the addresses that a run is given.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// To the image and to the filters of each product of the batch.
    pub(crate) images: Vec<isize>,
    pub(crate) filters: Vec<isize>,
    /// How many images the places of a product go over, and from one to the next.
    pub(crate) inner: (usize, isize),
    /// How many filters an image has, and from one to the next.
    pub(crate) outputs: (usize, isize),
    /// To the image's element of all coordinates 0, and to the first element of the filters.
    pub(crate) first: (isize, isize),
    pub(crate) y: Line,
    pub(crate) x: Line,
    /// Whether places are rows of the result and filters its columns, or the other way round.
    pub(crate) places_are_rows: bool,
}

/// A convolution ready for any memory.
pub(crate) struct Depthwise {
    pub(crate) places: Places,
    isa: Isa,
    /// Rows of results of a band.
    rows: usize,
    /// Elements of a phase of a row, and of a whole row, of the copy.
    phase: usize,
    row: usize,
    /// For each tap, elements from a result's place in the copy, and from a filter's first element.
    taps: Vec<usize>,
    weights: Vec<isize>,
    /// For each phase, its first element that exists in the image, and how many there are.
    spans: Vec<(usize, usize)>,
    /// Elements from one row of results to the next before they leave.
    pitch: usize,
    /// Images of a task.
    together: usize,
    /// How small planes are walked as one line.
    flat: Option<Flat>,
}

impl Depthwise {
    /// A convolution; `None` where there is nothing to do, or where lines are so long that bands do not fit a cache.
    pub(crate) fn new(places: Places, isa: Isa) -> Option<Depthwise> {
        let (y, x) = (&places.y, &places.x);
        let none = [y.places, y.taps, x.places, x.taps, places.inner.0, places.outputs.0].contains(&0);
        if none || places.images.is_empty() {
            return None;
        }
        let pitch = x.places.checked_next_multiple_of(kernel::lanes(isa))?;
        let reach = ((x.taps - 1).checked_mul(x.dilation)?) / x.stride;
        let phase = pitch.checked_add(reach)?;
        let row = phase.checked_mul(x.stride)?;
        let bytes = |rows: usize| y.span(rows).saturating_mul(row).saturating_mul(size_of::<f32>());
        if bytes(1) > 16 * BAND_BYTES {
            return None;
        }
        let rows = (1..=y.places).take_while(|&r| bytes(r) <= BAND_BYTES).last().unwrap_or(1);
        let rows = y.places.div_ceil(y.places.div_ceil(rows));
        let each = || (0..y.taps).flat_map(|r| (0..x.taps).map(move |s| (r, s)));
        let weights = each().map(|(r, s)| r as isize * y.filter + s as isize * x.filter).collect();
        let columns = isize::try_from(x.span(x.places)).ok()?;
        let begin = (-x.offset).clamp(0, columns);
        let end = x.limit.saturating_sub(x.offset).clamp(begin, columns);
        // Columns p, p + stride, ... of which those from `begin` to `end` exist.
        let spans = (0..x.stride)
            .map(|p| {
                let first = |column: isize| (column as usize).saturating_sub(p).div_ceil(x.stride).min(phase);
                (first(begin), first(end) - first(begin))
            })
            .collect();
        let taps: Vec<usize> = each()
            .map(|(r, s)| {
                let column = s * x.dilation;
                r * y.dilation * row + column % x.stride * phase + column / x.stride
            })
            .collect();
        let work = taps.len() * y.places * x.places * places.outputs.0;
        let together = (TASK_WORK / work.max(1)).max(1);
        let flat = Flat::new(&places, kernel::lanes(isa));
        Some(Depthwise { isa, rows, phase, row, taps, weights, spans, pitch, together, flat, places })
    }

    /// Results of an image's row, and taps.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.places.y.places * self.places.x.places, self.taps.len())
    }

    /// Bytes that are copied with their border; a row of them costs a few more.
    pub(crate) fn copied(&self) -> u64 {
        let planes = self.places.images.len() as u64 * self.places.inner.0 as u64;
        if let Some(flat) = &self.flat {
            return planes * (flat.room * size_of::<f32>() + ROW_BYTES) as u64;
        }
        let bands = self.places.y.places.div_ceil(self.rows) as u64;
        planes * bands * (self.places.y.span(self.rows) * (self.row * size_of::<f32>() + ROW_BYTES)) as u64
    }

    /// Computes it; the addresses are those of the operands' elements of index 0.
    ///
    /// # Safety
    /// Every element of the image between those that coordinates in their limits name in a row is readable, and every element of the
    /// filters; nobody writes them meanwhile. The output is that of this convolution.
    pub(crate) unsafe fn run(&self, workers: &Workers, image: *const f32, filters: *const f32, out: &Output<'_, f32>) {
        let p = &self.places;
        let planes = p.images.len() * p.inner.0;
        let image = Shared::read(image.wrapping_offset(p.first.0));
        let filters = Shared::read(filters.wrapping_offset(p.first.1));
        workers.run(planes.div_ceil(self.together), &|task| {
            for plane in task * self.together..planes.min((task + 1) * self.together) {
                let (b, n) = (plane / p.inner.0, plane % p.inner.0);
                let from = image.offset(p.images[b] + n as isize * p.inner.1);
                // SAFETY: the caller's; planes are different parts of the output.
                unsafe { self.plane(b, n, from, filters.offset(p.filters[b]), out) };
            }
        });
    }

    /// # Safety
    /// As for [`Depthwise::run`], with the image's element of all coordinates 0 and its first filter.
    unsafe fn plane(&self, b: usize, n: usize, image: *const f32, filters: *const f32, out: &Output<'_, f32>) {
        thread_local! {
            static ROOM: RefCell<Room> = const { RefCell::new(Room { copy: Vec::new(), taps: Vec::new(), done: Vec::new() }) };
        }
        let p = &self.places;
        let (height, width) = (p.y.places, p.x.places);
        ROOM.with_borrow_mut(|room| {
            if let Some(flat) = &self.flat {
                // SAFETY: the caller's.
                let left = unsafe { self.line(flat, (b, n), image, filters, room, out) };
                if !left {
                    return;
                }
            }
            let span = p.y.span(self.rows);
            room.copy.resize((span * self.row).max(room.copy.len()), 0.0);
            room.done.resize((self.rows * self.pitch).max(room.done.len()), 0.0);
            for first in (0..height).step_by(self.rows) {
                let rows = self.rows.min(height - first);
                // SAFETY: the caller's; the copy has room for the rows of a band.
                unsafe { self.copy(image, first, p.y.span(rows), &mut room.copy) };
                for o in 0..p.outputs.0 {
                    let filter = filters.wrapping_offset(o as isize * p.outputs.1);
                    room.taps.clear();
                    for &at in &self.weights {
                        // SAFETY: an element of the filters.
                        room.taps.push(unsafe { *filter.wrapping_offset(at) });
                    }
                    let band = Band {
                        copy: room.copy.as_ptr(),
                        row: p.y.stride * self.row,
                        taps: &self.taps,
                        filter: &room.taps,
                        rows,
                        columns: width,
                        to: room.done.as_mut_ptr(),
                        pitch: self.pitch,
                    };
                    vectorize(self.isa, band);
                    self.store((b, n * height + first, o), rows, self.pitch, &mut room.done, out);
                }
            }
        });
    }

    /// A plane as one line; true, and nothing that counts done, if a filter is not finite: masks leave out its products with zeros.
    ///
    /// # Safety
    /// As for [`Depthwise::plane`].
    unsafe fn line(
        &self,
        flat: &Flat,
        (b, n): (usize, usize),
        image: *const f32,
        filters: *const f32,
        room: &mut Room,
        out: &Output<'_, f32>,
    ) -> bool {
        let p = &self.places;
        let results = flat.results;
        room.copy.resize(flat.room.max(room.copy.len()), 0.0);
        room.done.resize(results.max(room.done.len()), 0.0);
        let to = room.copy.as_mut_ptr();
        // SAFETY: all rows that exist lie one after the other, and are readable; the copy has room for them and for zeros around.
        unsafe {
            fill(to, flat.before, 0.0);
            copy(image, to.add(flat.before), flat.elements);
            fill(to.add(flat.before + flat.elements), flat.room - flat.before - flat.elements, 0.0);
        }
        for o in 0..p.outputs.0 {
            let filter = filters.wrapping_offset(o as isize * p.outputs.1);
            room.taps.clear();
            for &at in &self.weights {
                // SAFETY: an element of the filters.
                room.taps.push(unsafe { *filter.wrapping_offset(at) });
            }
            if !room.taps.iter().all(|w| w.is_finite()) {
                return true;
            }
            // Results that lie one after the other in memory go there.
            let straight = match out {
                Output::Plain(c) => {
                    let (place, output) = if p.places_are_rows { (c.row, c.col) } else { (c.col, c.row) };
                    let first = (n * results) as isize * place + o as isize * output;
                    (place == 1).then(|| c.at(b).wrapping_offset(first))
                }
                Output::Sink(_) => None,
            };
            let to = straight.unwrap_or(room.done.as_mut_ptr());
            let image = room.copy.as_ptr().wrapping_add(flat.before);
            // The copy has the walk's room, and `to` the plane's results: of the output, which are this task's, or in the room.
            vectorize(self.isa, Plane { flat, image, filter: &room.taps, to });
            if straight.is_none() {
                self.store((b, n * p.y.places, o), p.y.places, p.x.places, &mut room.done, out);
            }
        }
        false
    }

    /// Copies the rows of a band with their border, each phase of the stride by itself.
    ///
    /// # Safety
    /// As for [`Depthwise::plane`]; `to` has room for `span` rows.
    unsafe fn copy(&self, image: *const f32, first: usize, span: usize, to: &mut [f32]) {
        let (y, x) = (&self.places.y, &self.places.x);
        debug_assert!(to.len() >= span * self.row);
        for r in 0..span {
            let to = to[r * self.row..].as_mut_ptr();
            let line = y.offset + (first * y.stride + r) as isize;
            if !(0..y.limit).contains(&line) {
                // SAFETY: a row of the copy.
                unsafe { fill(to, self.row, 0.0) };
                continue;
            }
            let from = image.wrapping_offset(line * y.step + x.offset);
            for (p, &(low, inside)) in self.spans.iter().enumerate() {
                let from = from.wrapping_add(p + low * x.stride);
                let to = to.wrapping_add(p * self.phase);
                // SAFETY: the elements exist: their coordinates are inside their limits; a phase has room for `phase` elements.
                unsafe {
                    fill(to, low, 0.0);
                    let to = to.add(low);
                    match x.stride {
                        1 => copy(from, to, inside),
                        // A step that the compiler knows becomes vector moves.
                        2 => {
                            for i in 0..inside {
                                to.add(i).write(*from.add(2 * i));
                            }
                        }
                        step => {
                            for i in 0..inside {
                                to.add(i).write(*from.add(step * i));
                            }
                        }
                    }
                    fill(to.add(inside), self.phase - low - inside, 0.0);
                }
            }
        }
    }

    /// Gives rows of results away, `pitch` apart: of product `b`, from row `first` of all its images on, for one filter.
    fn store(
        &self,
        (b, first, o): (usize, usize, usize),
        rows: usize,
        pitch: usize,
        done: &mut [f32],
        out: &Output<'_, f32>,
    ) {
        let width = self.places.x.places;
        let place = first * width;
        match out {
            Output::Plain(c) => {
                let (place_step, output_step) =
                    if self.places.places_are_rows { (c.row, c.col) } else { (c.col, c.row) };
                let to = c.at(b).wrapping_offset(place as isize * place_step + o as isize * output_step);
                for (r, from) in done.chunks_exact(pitch).take(rows).enumerate() {
                    let to = to.wrapping_offset((r * width) as isize * place_step);
                    // SAFETY: these are elements of the output that belong to this plane's task.
                    unsafe {
                        if place_step == 1 {
                            copy(from.as_ptr(), to, width);
                        } else {
                            for (i, &v) in from[..width].iter().enumerate() {
                                to.wrapping_offset(i as isize * place_step).write(v);
                            }
                        }
                    }
                }
            }
            Output::Sink(sink) => {
                // Rows close up.
                if pitch != width {
                    for r in 1..rows {
                        done.copy_within(r * pitch..r * pitch + width, r * width);
                    }
                }
                let tile = &done[..rows * width];
                let at = if self.places.places_are_rows {
                    TileAt { batch: b, row: place, col: o, rows: tile.len(), cols: 1, ld: 1 }
                } else {
                    TileAt { batch: b, row: o, col: place, rows: 1, cols: tile.len(), ld: tile.len() }
                };
                sink.store(&at, tile);
            }
        }
    }
}

/// A thread's memory.
struct Room {
    copy: Vec<f32>,
    taps: Vec<f32>,
    done: Vec<f32>,
}
