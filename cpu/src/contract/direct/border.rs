//! A copy of an image with its border, so that no window leaves it.

use std::ops::Range;

use millstream_core::Access;
use millstream_core::what::WindowAxis;

use super::part;

/// Fewer tasks than this are cut again.
const FEW_TASKS: usize = 16;

/// One axis of the image: one along which windows are moved, or a dimension of the operation.
#[derive(Clone, Debug)]
struct BorderAxis {
    /// What moves along it.
    moved_by: MovedBy,
    /// Elements along it in the copy, and the coordinate of the first; a dimension begins at 0.
    size: usize,
    low: isize,
    /// Coordinates from 0 up to this exist.
    limit: isize,
    /// Elements from one coordinate to the next, in the image and in the copy.
    step: isize,
    pitch: usize,
}

/// What moves along an axis of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum MovedBy {
    /// The dimensions of the axis of windows with this number.
    Windows(usize),
    Dimension(usize),
}

/// How an image is copied with its border.
pub(crate) struct Border {
    /// The outermost first.
    lines: Vec<BorderAxis>,
    /// From the access's element of index 0 to the image's element of all coordinates 0.
    origin: isize,
    elements: usize,
    fill: f32,
    phases: Phases,
}

/// How the innermost axis of a copy is ordered: coordinates with the same remainder one after the other, so that pixels a stride apart
/// become neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phases {
    /// How many remainders there are, and elements from one to the next.
    count: usize,
    each: usize,
}

impl Phases {
    /// From the beginning of a line to the element of a coordinate that is not negative.
    pub(crate) fn at(&self, coordinate: isize) -> isize {
        let count = self.count as isize;
        coordinate % count * self.each as isize + coordinate / count
    }
}

impl Border {
    /// The copy of an image, and the strides of these dimensions in it, from the copy's first element: with a border along those of its axes of
    /// windows that have padding. `None` where another dimension moves backwards.
    pub(crate) fn new(
        access: &Access,
        dims: &[usize],
        moving: Range<usize>,
        axes: &[WindowAxis],
    ) -> Option<(Border, Vec<isize>)> {
        Border::in_phases(access, dims, moving, axes, 1)
    }

    /// As [`Border::new`], with an innermost axis of so many [`Border::phases`], which must have padding if there are several; strides are those of
    /// a copy in its usual order, of lines as long.
    pub(crate) fn in_phases(
        access: &Access,
        dims: &[usize],
        moving: Range<usize>,
        axes: &[WindowAxis],
        count: usize,
    ) -> Option<(Border, Vec<isize>)> {
        let fill = access.fill.get::<f32>()?;
        let padded = || axes.iter().enumerate().filter(|(_, axis)| axis.is_padded());
        let mut lines = Vec::new();
        let mut origin = 0isize;
        for (i, axis) in padded() {
            origin = origin.checked_add(axis.before.checked_mul(axis.step)?)?;
            let (low, limit) = (axis.before.checked_neg()?, isize::try_from(axis.size).ok()?);
            let moved_by = MovedBy::Windows(i);
            lines.push(BorderAxis { moved_by, size: axis.span(), low, limit, step: axis.step, pitch: 0 });
        }
        let windowed = |d: usize| padded().any(|(_, axis)| axis.output == Some(d) || axis.tap == Some(d));
        for d in moving.clone().filter(|&d| dims[d] > 1 && access.strides[d] != 0 && !windowed(d)) {
            if access.strides[d] < 0 {
                return None;
            }
            let (moved_by, limit) = (MovedBy::Dimension(d), dims[d] as isize);
            lines.push(BorderAxis { moved_by, size: dims[d], low: 0, limit, step: access.strides[d], pitch: 0 });
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.step.abs()));
        let phases = Phases { count, each: lines.last().map_or(0, |line| line.size.div_ceil(count)) };
        if count > 1 && !matches!(lines.last()?.moved_by, MovedBy::Windows(_)) {
            return None;
        }
        let (mut next, inner) = (1usize, lines.len().saturating_sub(1));
        for (i, line) in lines.iter_mut().enumerate().rev() {
            // Planes a power of two apart would crowd a few sets of L1.
            if i == 0 && next > 64 {
                next = next.next_multiple_of(16);
                next += if (next / 16).is_multiple_of(2) { 16 } else { 0 };
            }
            line.pitch = next;
            next = next.checked_mul(if i == inner { count.checked_mul(phases.each)? } else { line.size })?;
        }
        if next > 1 << 28 {
            return None;
        }
        let mut strides = vec![0isize; dims.len()];
        for line in &lines {
            match line.moved_by {
                MovedBy::Windows(i) => {
                    for (stride, by) in strides.iter_mut().zip(axes[i].coefficients(dims.len())) {
                        *stride += by * line.pitch as isize;
                    }
                }
                MovedBy::Dimension(d) => strides[d] = line.pitch as isize,
            }
        }
        Some((Border { lines, origin, elements: next, fill, phases }, strides))
    }

    /// The order of the innermost axis.
    pub(crate) fn phases(&self) -> Phases {
        self.phases
    }

    /// Elements of the copy.
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    /// How many tasks the copy is cut into: one for each index of the outermost axis, or several where there are few.
    pub(crate) fn tasks(&self) -> usize {
        self.lines.first().map_or(0, |l| l.size * self.pieces())
    }

    /// Parts that the second axis is cut into.
    fn pieces(&self) -> usize {
        match &self.lines[..] {
            [outer, inner, ..] => FEW_TASKS.div_ceil(outer.size.max(1)).min(inner.size).max(1),
            _ => 1,
        }
    }

    /// Copies one part. `image` is the access's element of index 0.
    ///
    /// # Safety
    /// Every element of the image is readable; `to` is writable for [`Border::elements`] elements.
    pub(crate) unsafe fn copy(&self, task: usize, image: *const f32, to: *mut f32) {
        let image = image.wrapping_offset(self.origin);
        let Some((outer, inner)) = self.lines.split_first() else { return };
        let (task, piece) = (task / self.pieces(), task % self.pieces());
        let at = outer.low + task as isize;
        let to = to.wrapping_add(task * outer.pitch);
        let there = (0..outer.limit).contains(&at);
        let image = image.wrapping_offset(at * outer.step);
        let Some((line, rest)) = inner.split_first().filter(|_| self.pieces() > 1) else {
            // SAFETY: passed on; a part that does not exist is only filled.
            unsafe { self.fill_or_copy(inner, there, image, to) };
            return;
        };
        let (first, count) = part(line.size, self.pieces(), piece);
        for i in first..first + count {
            let at = line.low + i as isize;
            let there = there && (0..line.limit).contains(&at);
            // SAFETY: passed on, for one index of the second axis.
            unsafe {
                self.fill_or_copy(rest, there, image.wrapping_offset(at * line.step), to.wrapping_add(i * line.pitch))
            };
        }
    }

    /// Copies what a part of the pixels needs that move along the second axis, `stride` coordinates from one to the next: those from `first` on, so many
    /// fewer than this border is made for.
    ///
    /// # Safety
    /// As for [`Border::copy`].
    pub(crate) unsafe fn copy_from(
        &self,
        first: usize,
        missing: usize,
        stride: usize,
        image: *const f32,
        to: *mut f32,
    ) {
        let image = image.wrapping_offset(self.origin);
        let [outer, second, rest @ ..] = &self.lines[..] else { return };
        // Pixels that are not there would need the last coordinates.
        let needed = second.size.saturating_sub(missing * stride);
        for (i, j) in (0..outer.size).flat_map(|i| (0..needed).map(move |j| (i, j))) {
            let at = [outer.low + i as isize, second.low + (first * stride + j) as isize];
            let there = (0..outer.limit).contains(&at[0]) && (0..second.limit).contains(&at[1]);
            let image = image.wrapping_offset(at[0] * outer.step + at[1] * second.step);
            // SAFETY: passed on, for one index of both axes.
            unsafe { self.fill_or_copy(rest, there, image, to.wrapping_add(i * outer.pitch + j * second.pitch)) };
        }
    }

    /// Whether it has three axes, the second and the third of which are these axes of windows.
    pub(crate) fn is_image(&self, second: usize, third: usize) -> bool {
        let moved_by = self.lines.iter().map(|line| line.moved_by);
        self.lines.len() == 3 && moved_by.skip(1).eq([second, third].map(MovedBy::Windows))
    }

    /// # Safety
    /// As for [`Border::copy`], for the lines that are left.
    unsafe fn fill_or_copy(&self, lines: &[BorderAxis], there: bool, image: *const f32, to: *mut f32) {
        let Some((line, rest)) = lines.split_first() else {
            // SAFETY: one element, which exists or is filled.
            unsafe { to.write(if there { image.read_unaligned() } else { self.fill }) };
            return;
        };
        if rest.is_empty() {
            // SAFETY: passed on.
            unsafe { self.copy_line(line, line.inside(), there, image, to) };
            return;
        }
        let inside = rest[0].inside();
        for i in 0..line.size {
            let at = line.low + i as isize;
            let there = there && (0..line.limit).contains(&at);
            let (image, to) = (image.wrapping_offset(at * line.step), to.wrapping_add(i * line.pitch));
            // SAFETY: passed on.
            unsafe {
                match rest {
                    [last] => self.copy_line(last, inside, there, image, to),
                    _ => self.fill_or_copy(rest, there, image, to),
                }
            }
        }
    }

    /// The innermost line, which lies without gaps in the copy; `inside` says how much of it exists.
    ///
    /// # Safety
    /// As for [`Border::copy`], for this line.
    #[inline(always)]
    unsafe fn copy_line(
        &self,
        line: &BorderAxis,
        (before, count): (usize, usize),
        there: bool,
        image: *const f32,
        to: *mut f32,
    ) {
        // SAFETY: the line has `size` elements in the copy, or whole phases; `count` of them exist in the image.
        unsafe {
            if self.phases.count > 1 {
                self.copy_phases(line, if there { (before, count) } else { (line.size, 0) }, image, to);
                return;
            }
            if !there {
                fill(to, line.size, self.fill);
                return;
            }
            fill(to, before, self.fill);
            let (from, into) =
                (image.wrapping_offset((line.low + before as isize) * line.step), to.wrapping_add(before));
            if line.step == 1 {
                copy(from, into, count);
            } else {
                for i in 0..count {
                    into.add(i).write(from.wrapping_offset(i as isize * line.step).read_unaligned());
                }
            }
            fill(into.wrapping_add(count), line.size - before - count, self.fill);
        }
    }

    /// As [`Border::copy_line`], in phases.
    ///
    /// # Safety
    /// As for [`Border::copy_line`].
    unsafe fn copy_phases(&self, line: &BorderAxis, (before, count): (usize, usize), image: *const f32, to: *mut f32) {
        let Phases { count: phases, each, .. } = self.phases;
        let end = before + count;
        let from = |x: usize| image.wrapping_offset((line.low + x as isize) * line.step);
        // Of each phase, those up to `first` and from `last` on are single ones: between them, all exist.
        let (mut first, mut last) = (before.div_ceil(phases), end / phases);
        if last < first + PAIRS || line.step != 1 || phases != 2 {
            (first, last) = (each, each);
        }
        for phase in 0..phases {
            for i in (0..first).chain(last..each) {
                let x = i * phases + phase;
                // SAFETY: the caller's: each phase has `each` elements, and of the image's those of coordinates from `before` to `end` exist.
                unsafe {
                    let element = if (before..end).contains(&x) { from(x).read_unaligned() } else { self.fill };
                    to.add(phase * each + i).write(element);
                }
            }
        }
        let mut i = first;
        while i < last {
            // The last ones again with some before them.
            i = i.min(last - PAIRS);
            // SAFETY: as above.
            unsafe { part_pairs(from(2 * i), to.add(i), to.add(each + i)) };
            i += PAIRS;
        }
    }
}

/// Pairs that are parted at a time.
const PAIRS: usize = 4;

/// The first and the second elements of some pairs, each one after the other.
///
/// # Safety
/// `from` is readable for [`PAIRS`] pairs, `firsts` and `seconds` are writable for as many elements.
#[inline(always)]
unsafe fn part_pairs(from: *const f32, firsts: *mut f32, seconds: *mut f32) {
    // SAFETY: the caller's; SSE is part of x86-64, NEON of AArch64.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::*;
            let (low, high) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(PAIRS)));
            _mm_storeu_ps(firsts, _mm_shuffle_ps::<0b10_00_10_00>(low, high));
            _mm_storeu_ps(seconds, _mm_shuffle_ps::<0b11_01_11_01>(low, high));
        }
        #[cfg(target_arch = "aarch64")]
        {
            use core::arch::aarch64::*;
            let parted = vld2q_f32(from);
            vst1q_f32(firsts, parted.0);
            vst1q_f32(seconds, parted.1);
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        for i in 0..PAIRS {
            firsts.add(i).write(from.add(2 * i).read_unaligned());
            seconds.add(i).write(from.add(2 * i + 1).read_unaligned());
        }
    }
}

impl BorderAxis {
    /// How many elements lie before the first one that exists, and how many exist.
    fn inside(&self) -> (usize, usize) {
        let end = self.low + self.size as isize;
        let (first, last) = (self.low.max(0), self.limit.min(end));
        if first < last { ((first - self.low) as usize, (last - first) as usize) } else { (self.size, 0) }
    }
}

/// Lines are short: a call of the system's functions for each would take as long as the copy itself.
///
/// # Safety
/// `to` is writable for `count` elements.
#[inline]
unsafe fn fill(to: *mut f32, count: usize, value: f32) {
    for i in 0..count {
        // SAFETY: the caller's.
        unsafe { to.add(i).write(value) };
    }
}

/// # Safety
/// `from` is readable and `to` writable for `count` elements; they do not overlap.
#[inline]
unsafe fn copy(from: *const f32, to: *mut f32, count: usize) {
    const STEP: usize = 8;
    // SAFETY: the caller's; the last step goes over elements that the one before has written already.
    unsafe {
        let piece = |i: usize| {
            to.add(i).cast::<[f32; STEP]>().write_unaligned(from.add(i).cast::<[f32; STEP]>().read_unaligned())
        };
        if count < STEP {
            for i in 0..count {
                to.add(i).write(from.add(i).read_unaligned());
            }
            return;
        }
        for i in (0..count - STEP).step_by(STEP) {
            piece(i);
        }
        piece(count - STEP);
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::{Body, Contract, DType, Expr, ExprBuilder, Guard, Op, Scalar};

    use super::*;

    /// The axes of windows that a contraction of filters with this image has; pixels are the first two dimensions, all others are summed.
    fn axes(image: &Access, dims: &[usize]) -> Vec<WindowAxis> {
        let read = |i: u16| {
            let mut b = ExprBuilder::new();
            let x = b.input(i, DType::F32);
            b.finish(&[x])
        };
        let (lhs, rhs, acc) = (read(0), read(1), DType::F32);
        let contract =
            Contract { m: 0, n: 0, k: 2, lhs, rhs, acc, epilogue: Expr::acc(acc), accuracy: Default::default() };
        let filters = Access::new(DType::F32, &[0, 0, 6, 2, 1]);
        let body = Body::Contract(Box::new(contract));
        let op =
            Op::new(dims.into(), vec![filters, image.clone()], vec![Access::new(DType::F32, &[4, 1, 0, 0, 0])], body);
        op.windows().iter().find(|w| w.image == 1).unwrap().axes.to_vec()
    }

    #[test]
    fn the_copy_has_what_the_access_reads_at_every_index() {
        // x[c, 2h + r - 1, w + 2s - 2] of a 2 x 3 x 4 image: 2 x 4 pixels, windows of 3 x 2.
        let guard = |coefficients: [isize; 5], offset, limit| Guard {
            coefficients: coefficients.as_slice().into(),
            offset,
            limit,
        };
        for (channel, x) in [(12, 1), (1, 2)] {
            let y = 4 * x;
            let access = Access {
                base: -y - 2 * x,
                fill: Scalar::new(7.0f32),
                guards: [guard([2, 0, 0, 1, 0], -1, 3), guard([0, 1, 0, 0, 2], -2, 4)].into_iter().collect(),
                ..Access::new(DType::F32, &[2 * y, x, channel, y, 2 * x])
            };
            let dims = [2, 4, 2, 3, 2];
            let axes = axes(&access, &dims);
            let data: Vec<f32> = (0..32).map(|i| i as f32 + 100.0).collect();
            let image = data.as_ptr().wrapping_offset(access.base);
            // The innermost axis is one of windows where it can have phases.
            for phases in if x == 1 { 1..4 } else { 1..2 } {
                let (whole, _) = Border::in_phases(&access, &dims, 0..5, &axes, phases).unwrap();
                // The whole, or each of two pixels of the first dimension by itself.
                for some in if whole.is_image(0, 1) { 1..3 } else { 2..3 } {
                    let dims = [some, 4, 2, 3, 2];
                    let axes = [axes[0].with_outputs(some), axes[1]];
                    let (border, strides) = Border::in_phases(&access, &dims, 0..5, &axes, phases).unwrap();
                    for later in 0..3 - some {
                        let mut copy = vec![f32::NAN; border.elements()];
                        // SAFETY: the image has all elements that guards allow, the copy its own.
                        unsafe {
                            match some {
                                2 => (0..border.tasks()).for_each(|task| border.copy(task, image, copy.as_mut_ptr())),
                                _ => border.copy_from(later, 0, 2, image, copy.as_mut_ptr()),
                            }
                        }
                        for i in 0..dims.iter().product() {
                            let mut rest = i;
                            let mut index = [0; 5];
                            for d in (0..5).rev() {
                                index[d] = rest % dims[d];
                                rest /= dims[d];
                            }
                            let sum = |by: &[isize]| index.iter().zip(by).map(|(&i, s)| i as isize * s).sum::<isize>();
                            let (at, along) = (sum(&strides), sum(&axes[1].coefficients(5)));
                            let moved = if phases > 1 { border.phases().at(along) - along } else { 0 };
                            index[0] += later;
                            let expected = access.position(&index).map_or(7.0, |p| data[p as usize]);
                            assert_eq!(copy[(at + moved) as usize], expected, "{index:?}, {phases} phases");
                        }
                    }
                }
            }
        }
    }
}
