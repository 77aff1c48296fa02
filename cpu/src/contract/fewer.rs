//! Convolutions that Winograd's algorithm computes: see [`crate::winograd`]. This finds out which ones, and where their numbers lie.

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, ContractSizes, Family, Tile, Traffic, Variant};
use millstream_core::kept::FormName;
use millstream_core::{Access, Accuracy, Contract, DType, Error, Op, Result};

use super::operand::{Roles, find, is_aligned, origin};
use super::product_isa;
use super::view::{View, guards_axes, reach};
use crate::backend::Machine;
use crate::gemm::Output;
use crate::winograd::{FilterPlaces, Line, Picture, Sizes, Winograd};

/// The families of these kernels, by the results of a tile.
pub(super) const FAMILIES: [(Family, usize); 2] = [(Family::new("winograd 4x4"), 4), (Family::new("winograd 2x2"), 2)];
/// The alignment of scratch memory.
const ALIGN: usize = 64;
/// What the name of a form of filters begins with; names of packed operands begin with a dtype.
const FORM: u64 = u64::from_le_bytes(*b"winograd");

/// A convolution that is computed so.
pub(super) struct Fewer {
    winograd: Winograd,
    /// The inputs that are the image and the filters.
    image: usize,
    filters: usize,
    /// The elements that may be read of both, from the bindings' first.
    reach: [(isize, isize); 2],
}

impl Fewer {
    /// The convolution, if it is one by 3 x 3 filters at every place, and its accuracy allows it.
    pub(super) fn new(op: &Op, m: usize, machine: &Machine) -> Option<Fewer> {
        Roles::either(op, |c, roles| Fewer::of(op, c, m, roles, machine))
    }

    fn of(op: &Op, c: &Contract, m: usize, roles: Roles, machine: &Machine) -> Option<Fewer> {
        if c.accuracy != Accuracy::Winograd {
            return None;
        }
        let Roles { image, filters, places, outputs, places_are_rows } = roles;
        let (a, f) = (op.inputs.get(image)?, op.inputs.get(filters)?);
        if a.dtype != DType::F32 || f.dtype != DType::F32 || !f.is_plain() || outputs.len() > 1 {
            return None;
        }
        if (0..c.m).any(|d| f.strides[d] != 0 && op.dims[d] > 1) {
            return None;
        }
        // Places are numbered by image, row and column.
        let (y, x, several) = match places.len() {
            2 => (places.start, places.start + 1, None),
            3 => (places.start + 1, places.start + 2, Some(places.start)),
            _ => return None,
        };
        let free = |d: usize| a.guards.iter().all(|g| g.coefficients[d] == 0);
        if (0..c.m).chain(several).any(|d| !free(d)) {
            return None;
        }
        let taps = c.k..op.dims.len();
        let threes = || taps.clone().filter(|&d| op.dims[d] == 3);
        let (lines, r, s) = threes().flat_map(|r| threes().map(move |s| (r, s))).find_map(|(r, s)| {
            let apart = r != s && taps.clone().all(|d| d == r || d == s || free(d));
            let lines = (line(a, &op.dims, (y, r), (x, s))?, line(a, &op.dims, (x, s), (y, r))?);
            apart.then_some((lines, r, s))
        })?;
        let mut rest = taps.filter(|&d| d != r && d != s);
        let (channel, None) = (rest.next(), rest.next()) else { return None };
        if a.guards.len() > 2 || a.fill.to_f64() != 0.0 || !guards_axes(a) {
            return None;
        }
        let size = |d: Option<usize>| d.map_or(1, |d| op.dims[d]);
        let stride = |a: &Access, d: Option<usize>| d.map_or(0, |d| a.strides[d]);
        let output = outputs.clone().next();
        let sizes = Sizes {
            batch: op.dims[..c.m].iter().product(),
            images: size(several),
            channels: size(channel),
            filters: size(output),
            rows: op.dims[y],
            columns: op.dims[x],
        };
        let picture = Picture {
            batches: View::new(a, &op.dims, 0..c.m, places.clone(), c.k..op.dims.len()).batch.offsets(),
            image: stride(a, several),
            channel: stride(a, channel),
            first: a.base - lines.0.offset * lines.0.step - lines.1.offset * lines.1.step,
            y: lines.0,
            x: lines.1,
            places_are_rows,
        };
        let of = FilterPlaces {
            first: f.base,
            output: stride(f, output),
            channel: stride(f, channel),
            y: f.strides[r],
            x: f.strides[s],
        };
        let reach = [reach(a, &op.dims)?, reach(f, &op.dims)?];
        let isa = (machine.isa, product_isa(machine.isa));
        let winograd =
            Winograd::new(m, sizes, picture, of, isa, machine.topology.l2().size, machine.workers.threads())?;
        Some(Fewer { winograd, image, filters, reach })
    }

    /// This way to compute it, for the cost model.
    pub(super) fn candidate(&self, family: Family) -> Candidate {
        let w = &self.winograd;
        let ((mr, nr), (tiles, outputs), k) = w.blocks();
        let block = |m, n, k| Block { m, n, k };
        let blocks = [block(mr, nr, 1), block(tiles, nr, k), block(tiles, outputs, k)];
        let products = ContractSizes { batch: w.products(), m: w.tiles(), n: w.sizes.filters, k: w.sizes.channels };
        let (tile, products) = (Tile::new(blocks), Some(products));
        Candidate::new(Variant::plain(family), Traffic { tile, copied: w.copied(), products, ..Traffic::default() })
    }

    /// Bytes of scratch memory.
    pub(super) fn workspace(&self) -> usize {
        self.winograd.scratch() * size_of::<f32>() + ALIGN
    }

    /// Computes it, if the memory allows it.
    pub(super) fn run(
        &self,
        machine: &Machine,
        bindings: &Bindings<'_>,
        out: &Output<'_, f32>,
        room: &mut [u8],
    ) -> Result<bool> {
        let w = &self.winograd;
        let binding = find(bindings.inputs, self.filters)?;
        let places = [origin(find(bindings.inputs, self.image)?, DType::F32)?, origin(binding, DType::F32)?];
        let inside = |i: usize| {
            let ((low, high), o) = (self.reach[i], &places[i]);
            -o.before <= low && high < o.after && is_aligned(o.base, DType::F32)
        };
        let skip = room.as_ptr().align_offset(ALIGN);
        if !inside(0) || !inside(1) || room.len() < skip + w.scratch() * size_of::<f32>() {
            return Ok(false);
        }
        // SAFETY: the room has these bytes from the aligned place on; any bytes are numbers.
        let scratch = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().add(skip).cast::<f32>(), w.scratch()) };
        let (image, filters) = (places[0].base.cast::<f32>(), places[1].base.cast::<f32>());
        let kept = match binding.kept {
            Some(kept) => {
                let FilterPlaces { first, output, channel, y, x } = w.filters;
                let place = binding.offset.wrapping_sub(binding.start) as u64;
                let mut name: FormName = [FORM, w.m as u64, place].into_iter().collect();
                name.extend([first, output, channel, y, x].map(|n| n as u64));
                name.extend([w.sizes.channels, w.sizes.filters, w.panel()].map(|n| n as u64));
                kept.form(&name, w.transformed() * size_of::<f32>(), |at| {
                    // SAFETY: the memory is new, aligned, and has room for so many numbers; all zeros are one.
                    let to = unsafe {
                        at.write_bytes(0, w.transformed() * size_of::<f32>());
                        std::slice::from_raw_parts_mut(at.cast::<f32>(), w.transformed())
                    };
                    // SAFETY: every element of the filters lies in the operand's memory, as was checked.
                    unsafe { w.transform_filters(filters, &machine.workers, to) };
                    Ok(())
                })?
            }
            None => None,
        };
        let (room, scratch) = scratch.split_at_mut(w.transformed());
        let transformed: *const f32 = match &kept {
            Some(form) => {
                form.host_pointer().ok_or_else(|| Error::internal("a form that the host cannot read"))?.cast()
            }
            None => {
                // SAFETY: as above.
                unsafe { w.transform_filters(filters, &machine.workers, room) };
                room.as_ptr()
            }
        };
        // SAFETY: the form or the room has all transformed filters, and nobody writes it while it is read here.
        let transformed = unsafe { std::slice::from_raw_parts(transformed, w.transformed()) };
        // SAFETY: every element that guards allow lies in the image's memory, as was checked; the output is this contraction's.
        unsafe { w.run(&machine.workers, image, transformed, out, scratch) };
        Ok(true)
    }

    /// What is done, in a few words.
    pub(super) fn describe(&self) -> String {
        let w = &self.winograd;
        format!(
            "by Winograd's algorithm: {} products of {} x {} x {} make tiles of {m} x {m} results\n",
            w.products(),
            w.tiles(),
            w.sizes.filters,
            w.sizes.channels,
            m = w.m
        )
    }
}

/// The coordinate that a place and a tap move by one each; `other` are those of the other axis.
fn line(a: &Access, dims: &[usize], (place, tap): (usize, usize), other: (usize, usize)) -> Option<Line> {
    if a.strides[place] != a.strides[tap] {
        return None;
    }
    let step = a.strides[place];
    let mut guards = a.guards.iter().filter(|g| g.coefficients[place] != 0 || g.coefficients[tap] != 0);
    let (guard, None) = (guards.next(), guards.next()) else { return None };
    let Some(g) = guard else {
        return Some(Line { step, offset: 0, limit: dims[place] as isize + 2 });
    };
    let own = g.coefficients[place] == 1 && g.coefficients[tap] == 1;
    let alone = g.coefficients[other.0] == 0 && g.coefficients[other.1] == 0;
    (own && alone).then(|| Line { step, offset: g.offset, limit: isize::try_from(g.limit).unwrap_or(isize::MAX) })
}
