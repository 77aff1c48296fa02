//! Convolutions whose filters see one channel each, by vectors of channels: which ones, what they cost, and where their numbers lie.

use std::ops::Range;

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, Family, Tile, Traffic, Variant};
use millstream_core::pack_cache::FormName;
use millstream_core::what::Windows;
use millstream_core::{Body, Contract, DType, Guard, Op, Result};

use super::channels::{ChannelGeometry, ChannelKernel, TapOffset};
use crate::contract::cached::CachedForm;
use crate::contract::epilogue::Epilogue;
use crate::contract::way::{Asked, InPlace, Parts, Ran, Way, bytes_of, numbers};
use crate::simd::Isa;

/// The family of these kernels.
pub(in crate::contract) const FAMILY: Family = Family::new("depthwise channels");
/// What the name of a form of filters begins with; names of packed operands begin with a dtype.
const FORM: u64 = u64::from_le_bytes(*b"dw chans");
/// Entries beyond which tables would take more memory than they are worth.
const MOST_ENTRIES: usize = 1 << 20;

/// A convolution that is computed by vectors of channels.
pub(in crate::contract) struct Channels {
    kernel: ChannelKernel,
    /// Its epilogue: rows are pixels and columns channels, which are matrices of a batch in the operation.
    epilogue: Epilogue,
    image: InPlace,
    filters: InPlace,
    /// For each tap, the filters' element of the first channel, and from one channel to the next.
    weights: Vec<isize>,
    weight: isize,
    pixels_are_rows: bool,
}

impl Channels {
    /// The convolution, if it is one of channels by themselves that are neighbours in memory.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>) -> Option<Channels> {
        asked.op.windows().iter().find_map(|w| Channels::of(asked.op, w, asked.machine.isa))
    }

    fn of(op: &Op, windows: &Windows, isa: Isa) -> Option<Channels> {
        let Body::Contract(c) = &op.body else { return None };
        let (image, filters, pixels) = (windows.image, windows.filters?, windows.pixels(c));
        let (a, f) = (&op.inputs[image], &op.inputs[filters]);
        let single = c.acc == DType::F32 && a.dtype == DType::F32 && f.dtype == DType::F32;
        let several = windows.outputs.clone().any(|d| op.dims[d] != 1);
        if !single || several || pixels.is_empty() {
            return None;
        }
        let channel = (0..c.m).find(|&d| a.strides[d] == 1 && op.dims[d] > 1)?;
        let others: Vec<usize> = (0..c.m).filter(|&d| d != channel).collect();
        // Other matrices of the batch are images, which see the same filters.
        let numbered = (0..op.dims.len()).any(|d| c.epilogue.uses_index(d));
        if others.iter().any(|d| windows.groups.contains(d)) || numbered {
            return None;
        }
        let taps = c.k..op.dims.len();
        let size = |dims: Range<usize>, n: usize| {
            dims.into_iter().try_fold(n, |n, d| n.checked_mul(op.dims[d])).filter(|&n| n <= MOST_ENTRIES)
        };
        let columns = pixels.end - 1;
        size(0..c.m, 1)?;
        size(pixels.clone(), 1)?;
        // Finding out where columns leave the image looks at every tap of every column.
        size(taps.clone(), op.dims[columns])?;
        let coordinates = |d: usize| a.guards.iter().map(|g| g.coefficients[d]).collect::<Vec<isize>>();
        let walk = |dims: &[usize]| -> Vec<TapOffset> {
            let mut all = vec![TapOffset { offset: 0, coordinates: vec![0; a.guards.len()] }];
            for &d in dims {
                let step = coordinates(d);
                let next = |(s, i): (&TapOffset, isize)| TapOffset {
                    offset: s.offset + i * a.strides[d],
                    coordinates: s.coordinates.iter().zip(&step).map(|(c, by)| c + i * by).collect(),
                };
                all = all.iter().flat_map(|s| (0..op.dims[d] as isize).map(move |i| (s, i))).map(next).collect();
            }
            all
        };
        let weights = |dims: Range<usize>| -> Vec<isize> {
            dims.fold(vec![f.base], |all, d| {
                all.iter().flat_map(|&at| (0..op.dims[d] as isize).map(move |i| at + i * f.strides[d])).collect()
            })
        };
        let rows: Vec<usize> = pixels.clone().filter(|&d| d != columns).collect();
        let limit = |g: &Guard| (g.offset, isize::try_from(g.limit).unwrap_or(isize::MAX));
        let of = ChannelGeometry {
            channels: op.dims[channel],
            batches: walk(&others).into_iter().map(|s| s.offset).collect(),
            rows: walk(&rows),
            columns: op.dims[columns],
            column: TapOffset { offset: a.strides[columns], coordinates: coordinates(columns) },
            taps: walk(&taps.clone().collect::<Vec<_>>()),
            guards: a.guards.iter().map(limit).collect(),
            fill: if a.is_plain() { 0.0 } else { a.fill.get::<f32>()? },
        };
        let order: Vec<usize> = others.into_iter().chain(pixels).chain([channel]).chain(taps.clone()).collect();
        // Its operands depend on n both, so that it is no contraction any more; only its results matter.
        let k = order.len() - taps.len();
        let transposed = super::reordered(op, &order, Contract { m: c.m - 1, n: k - 1, k, ..(**c).clone() });
        let Body::Contract(by_channels) = &transposed.body else { return None };
        let epilogue = Epilogue::new::<f32>(&transposed, by_channels, isa).ok()?;
        let image = InPlace::new(image, a, &op.dims)?;
        let filters = InPlace::new(filters, f, &op.dims)?;
        let kernel = ChannelKernel::new(of, isa)?;
        let (weights, weight) = (weights(taps), f.strides[channel]);
        let pixels_are_rows = windows.pixels_are_rows();
        Some(Channels { kernel, epilogue, image, filters, weights, weight, pixels_are_rows })
    }
}

impl Way for Channels {
    fn candidates(&self, _: &Asked<'_>) -> Vec<Candidate> {
        let (pixels, taps) = self.kernel.sizes();
        // Vectors of channels in registers; from farther levels an element comes once for all taps.
        let block = |far: usize, near: usize, k: usize| match self.pixels_are_rows {
            true => Block { m: near, n: far, k },
            false => Block { m: far, n: near, k },
        };
        let blocks = [block(1, 1, 1), block(taps, pixels, taps)];
        vec![Candidate::new(Variant::plain(FAMILY), Traffic { tile: Tile::new(blocks), ..Traffic::default() })]
    }

    fn workspace(&self) -> usize {
        bytes_of(self.kernel.filters())
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let Some(image) = self.image.first(bindings)? else { return Ok(Ran::ODD) };
        let (binding, Some(filters)) = self.filters.find(bindings)? else { return Ok(Ran::ODD) };
        let elements = self.kernel.filters();
        let channels = self.kernel.geometry.channels;
        let arrange = |to: &mut [f32]| {
            for (line, &at) in to.chunks_exact_mut(channels).zip(&self.weights) {
                for (c, w) in line.iter_mut().enumerate() {
                    // SAFETY: an element of the filters, all of which lie in the operand's memory, as was checked.
                    *w = unsafe { *filters.wrapping_offset(at + c as isize * self.weight) };
                }
            }
        };
        let form = match binding.pack_cache {
            Some(cache) => {
                // Whatever decides about the numbers is part of the name.
                let offset = binding.offset.wrapping_sub(binding.start) as u64;
                let mut name: FormName = [FORM, offset, channels as u64, self.weight as u64].into_iter().collect();
                name.extend(self.weights.iter().map(|&at| at as u64));
                CachedForm::new(cache, &name, elements, |to| {
                    arrange(to);
                    Ok(())
                })?
            }
            None => None,
        };
        let filters: &[f32] = match form.as_ref().and_then(CachedForm::elements) {
            Some(filters) => filters,
            None => {
                let Some(to) = numbers(room, elements) else { return Ok(Ran::ROOM) };
                arrange(to);
                to
            }
        };
        self.epilogue.with_output(bindings, |out| {
            // SAFETY: every element that guards allow lies in the image's memory, as was checked; the output is this contraction's.
            unsafe { self.kernel.run(&parts.machine.workers, image, filters, out) };
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        let (pixels, taps) = self.kernel.sizes();
        let channels = self.kernel.geometry.channels;
        format!(
            "by vectors of {channels} channels: {pixels} pixels, {taps} taps, input {} is the image\n",
            self.image.input
        )
    }
}
