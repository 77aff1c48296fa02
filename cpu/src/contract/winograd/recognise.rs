//! Convolutions that Winograd's algorithm computes: which ones, what they cost, and where their numbers lie.

use millstream_core::backend::Bindings;
use millstream_core::how::{Block, Candidate, ContractSizes, Family, Tile, Traffic, Variant};
use millstream_core::pack_cache::FormName;
use millstream_core::what::{WindowAxis, Windows};
use millstream_core::{Access, Accuracy, Body, DType, Op, Result};

use super::{FilterStrides, ImageAxis, Picture, Sizes, Winograd};
use crate::backend::Machine;
use crate::contract::cached::CachedForm;
use crate::contract::gemm_isa;
use crate::contract::view::View;
use crate::contract::way::{Asked, InPlace, Parts, Ran, Way, bytes_of, numbers};

/// The families of these kernels, by the results of a tile.
pub(in crate::contract) const LARGE: Family = Family::new("winograd 4x4");
pub(in crate::contract) const SMALL: Family = Family::new("winograd 2x2");
/// What the name of a form of filters begins with; names of packed operands begin with a dtype.
const FORM: u64 = u64::from_le_bytes(*b"winograd");

/// A convolution that is computed so.
pub(in crate::contract) struct WinogradWay {
    winograd: Winograd,
    image: InPlace,
    filters: InPlace,
}

impl WinogradWay {
    /// The convolution, if it is one by 3 x 3 filters at every pixel, and its accuracy allows it.
    pub(in crate::contract) fn recognise(asked: &Asked<'_>, m: usize) -> Option<WinogradWay> {
        asked.op.windows().iter().find_map(|w| WinogradWay::of(asked.op, w, m, asked.machine))
    }

    fn of(op: &Op, windows: &Windows, m: usize, machine: &Machine) -> Option<WinogradWay> {
        let Body::Contract(c) = &op.body else { return None };
        let (image, filters, outputs) = (windows.image, windows.filters?, windows.outputs.clone());
        let (a, f) = (&op.inputs[image], &op.inputs[filters]);
        let single = c.acc == DType::F32 && a.dtype == DType::F32 && f.dtype == DType::F32;
        if c.accuracy != Accuracy::Winograd || !single || outputs.len() > 1 || windows.channels.len() > 1 {
            return None;
        }
        if windows.groups.iter().any(|&d| op.dims[d] > 1) || a.guards.len() > 2 || a.fill.to_f64() != 0.0 {
            return None;
        }
        // Pixels are numbered by image, row and column.
        let (y, x, several) = match windows.axes[..] {
            [y, x] => (y, x, None),
            [images, y, x] if !images.is_padded() && images.taps == 1 => (y, x, images.output),
            _ => return None,
        };
        let (yd, r, xd, s) = (y.output?, y.tap?, x.output?, x.tap?);
        if [y, x].iter().any(|axis| axis.taps != 3 || axis.stride != 1 || axis.dilation != 1) {
            return None;
        }
        let channel = windows.channels.first().copied();
        let line = |axis: WindowAxis| ImageAxis {
            step: axis.step,
            offset: -axis.before,
            limit: isize::try_from(axis.size).unwrap_or(isize::MAX),
        };
        let lines = (line(y), line(x));
        let size = |d: Option<usize>| d.map_or(1, |d| op.dims[d]);
        let stride = |a: &Access, d: Option<usize>| d.map_or(0, |d| a.strides[d]);
        let output = outputs.into_iter().next();
        let sizes = Sizes {
            batch: op.dims[..c.m].iter().product(),
            images: size(several),
            channels: size(channel),
            filters: size(output),
            rows: op.dims[yd],
            columns: op.dims[xd],
        };
        let picture = Picture {
            batches: View::new(a, &op.dims, 0..c.m, windows.pixels(c), c.k..op.dims.len()).batch.offsets(),
            image: stride(a, several),
            channel: stride(a, channel),
            first: a.base - lines.0.offset * lines.0.step - lines.1.offset * lines.1.step,
            y: lines.0,
            x: lines.1,
            pixels_are_rows: windows.pixels_are_rows(),
        };
        let of = FilterStrides {
            first: f.base,
            output: stride(f, output),
            channel: stride(f, channel),
            y: f.strides[r],
            x: f.strides[s],
        };
        let image = InPlace::new(image, a, &op.dims)?;
        let filters = InPlace::new(filters, f, &op.dims)?;
        let isa = (machine.isa, gemm_isa(machine.isa));
        let winograd =
            Winograd::new(m, sizes, picture, of, isa, machine.topology.l2().size, machine.workers.threads())?;
        Some(WinogradWay { winograd, image, filters })
    }
}

impl Way for WinogradWay {
    fn candidates(&self, _: &Asked<'_>) -> Vec<Candidate> {
        let w = &self.winograd;
        let ((mr, nr), (tiles, outputs), k) = w.blocks();
        let block = |m, n, k| Block { m, n, k };
        let blocks = [block(mr, nr, 1), block(tiles, nr, k), block(tiles, outputs, k)];
        let matmuls = ContractSizes { batch: w.matmuls(), m: w.tiles(), n: w.sizes.filters, k: w.sizes.channels };
        let (tile, matmuls) = (Tile::new(blocks), Some(matmuls));
        vec![Candidate::new(
            Variant::plain(if w.m == 4 { LARGE } else { SMALL }),
            Traffic { tile, copied: w.copied(), matmuls, ..Traffic::default() },
        )]
    }

    fn workspace(&self) -> usize {
        bytes_of(self.winograd.scratch())
    }

    fn run(&self, parts: &Parts, bindings: &Bindings<'_>, room: &mut [u8]) -> Result<Ran> {
        let (w, workers) = (&self.winograd, &parts.machine.workers);
        let (binding, filters) = self.filters.find(bindings)?;
        let (Some(image), Some(filters)) = (self.image.find(bindings)?.1, filters) else { return Ok(Ran::ODD) };
        let Some(scratch) = numbers(room, w.scratch()) else { return Ok(Ran::ROOM) };
        // SAFETY: every element of the filters lies in the operand's memory, as was checked.
        let transform = |to: &mut [f32]| unsafe { w.transform_filters(filters, workers, to) };
        let form = match binding.pack_cache {
            Some(cache) => {
                let FilterStrides { first, output, channel, y, x } = w.filters;
                let offset = binding.offset.wrapping_sub(binding.start) as u64;
                let mut name: FormName = [FORM, w.m as u64, offset].into_iter().collect();
                name.extend([first, output, channel, y, x].map(|n| n as u64));
                name.extend([w.sizes.channels, w.sizes.filters, w.panel()].map(|n| n as u64));
                CachedForm::new(cache, &name, w.transformed(), |to| {
                    transform(to);
                    Ok(())
                })?
            }
            None => None,
        };
        let (room, scratch) = scratch.split_at_mut(w.transformed());
        let transformed: &[f32] = match form.as_ref().and_then(CachedForm::elements) {
            Some(transformed) => transformed,
            None => {
                transform(room);
                room
            }
        };
        parts.epilogue.with_output(bindings, |out| {
            // SAFETY: every element that guards allow lies in the image's memory, as was checked; the output is this contraction's.
            unsafe { w.run(workers, image, transformed, out, scratch) };
            Ok(Ran::Done)
        })
    }

    fn describe(&self) -> String {
        let w = &self.winograd;
        format!(
            "by Winograd's algorithm: {} matmuls of {} x {} x {} make tiles of {m} x {m} results\n",
            w.matmuls(),
            w.tiles(),
            w.sizes.filters,
            w.sizes.channels,
            m = w.m
        )
    }
}
