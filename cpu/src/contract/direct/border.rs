//! A copy of an image with its border, so that no window leaves it.

use std::ops::Range;

use millstream_core::Access;

use super::part;

/// Fewer tasks than this are cut again.
const FEW_TASKS: usize = 16;

/// One axis of the image: a coordinate that a guard checks, or a dimension without a guard.
#[derive(Clone, Debug)]
struct BorderAxis {
    /// Elements along it in the copy, and the coordinate of the first; a dimension without a guard begins at 0.
    size: usize,
    low: isize,
    /// Coordinates from 0 up to this exist.
    limit: isize,
    /// Elements from one coordinate to the next, in the image and in the copy.
    step: isize,
    pitch: usize,
}

/// How an image is copied with its border.
pub(crate) struct Border {
    /// The outermost first.
    lines: Vec<BorderAxis>,
    /// From the access's element of index 0 to the image's element of all coordinates 0.
    origin: isize,
    /// From the copy's first element to that of index 0.
    pub(crate) first: usize,
    elements: usize,
    fill: f32,
    phases: Phases,
    /// The guard of the second axis, if it is one's.
    second: Option<usize>,
}

/// How the innermost axis of a copy is ordered: coordinates with the same remainder one after the other, so that pixels a stride apart
/// become neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phases {
    /// How many remainders there are, and elements from one to the next.
    count: usize,
    each: usize,
    /// The guard whose coordinate it is, and that of index 0, counted from the first one in the copy; 0 where there is one phase.
    pub(crate) guard: usize,
    pub(crate) first: isize,
}

impl Phases {
    /// From the beginning of a line to the element of a coordinate that is not negative.
    pub(crate) fn at(&self, coordinate: isize) -> isize {
        let count = self.count as isize;
        coordinate % count * self.each as isize + coordinate / count
    }
}

impl Border {
    /// The copy for an access, and the strides of these dimensions in it; `None` where the access is not an image with a
    /// border: each dimension moves the coordinates of guards or one dimension of the memory.
    pub(crate) fn new(access: &Access, dims: &[usize], moving: Range<usize>) -> Option<(Border, Vec<isize>)> {
        Border::in_phases(access, dims, moving, 1)
    }

    /// As [`Border::new`], with an innermost axis of so many [`Border::phases`], which must be a guard's if there are several; strides are those of
    /// a copy in its usual order, of lines as long.
    pub(crate) fn in_phases(
        access: &Access,
        dims: &[usize],
        moving: Range<usize>,
        count: usize,
    ) -> Option<(Border, Vec<isize>)> {
        let fill = access.fill.get::<f32>()?;
        let outside = |d: usize| !moving.contains(&d);
        // For each guard: elements for one step of its coordinate, by a dimension that moves no other one.
        let mut worth = Vec::new();
        for (g, guard) in access.guards.iter().enumerate() {
            if (0..dims.len()).any(|d| outside(d) && dims[d] > 1 && guard.coefficients[d] != 0) {
                return None;
            }
            let alone = |d: usize| access.guards.iter().enumerate().all(|(h, o)| h == g || o.coefficients[d] == 0);
            let d = moving.clone().find(|&d| dims[d] > 1 && guard.coefficients[d] != 0 && alone(d))?;
            if access.strides[d] % guard.coefficients[d] != 0 {
                return None;
            }
            worth.push(access.strides[d] / guard.coefficients[d]);
        }
        let mut lines: Vec<(BorderAxis, usize)> = Vec::new();
        let mut origin = access.base;
        for (g, guard) in access.guards.iter().enumerate() {
            let (mut low, mut high) = (guard.offset, guard.offset);
            for d in moving.clone() {
                let reach = (dims[d] as isize - 1).checked_mul(guard.coefficients[d])?;
                low += reach.min(0);
                high += reach.max(0);
            }
            origin -= guard.offset.checked_mul(worth[g])?;
            let limit = isize::try_from(guard.limit).ok()?;
            lines.push((BorderAxis { size: (high - low + 1) as usize, low, limit, step: worth[g], pitch: 0 }, g));
        }
        let guards = access.guards.len();
        for d in moving.clone().filter(|&d| dims[d] > 1) {
            let by_guards: isize = access.guards.iter().zip(&worth).map(|(g, w)| g.coefficients[d] * w).sum();
            let guarded = access.guards.iter().any(|g| g.coefficients[d] != 0);
            if guarded && by_guards != access.strides[d] {
                return None;
            }
            if !guarded && access.strides[d] != 0 {
                if access.strides[d] < 0 {
                    return None;
                }
                let size = dims[d];
                lines.push((
                    BorderAxis { size, low: 0, limit: size as isize, step: access.strides[d], pitch: 0 },
                    guards + d,
                ));
            }
        }
        lines.sort_by_key(|(l, _)| std::cmp::Reverse(l.step.abs()));
        let mut phases =
            Phases { count, each: lines.last().map_or(0, |(l, _)| l.size.div_ceil(count)), guard: 0, first: 0 };
        if count > 1 {
            let (line, guard) = lines.last().filter(|(_, key)| *key < guards)?;
            (phases.guard, phases.first) = (*guard, access.guards[*guard].offset - line.low);
        }
        let (mut next, inner) = (1usize, lines.len().saturating_sub(1));
        for (i, (line, _)) in lines.iter_mut().enumerate().rev() {
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
        let pitch = |key: usize| lines.iter().find(|(_, k)| *k == key).map_or(0, |(l, _)| l.pitch as isize);
        let mut strides = vec![0isize; dims.len()];
        for d in moving.filter(|&d| dims[d] > 1) {
            let by_guards: isize = access.guards.iter().enumerate().map(|(g, o)| o.coefficients[d] * pitch(g)).sum();
            strides[d] = by_guards + pitch(guards + d);
        }
        let first: isize = access
            .guards
            .iter()
            .enumerate()
            .map(|(g, o)| (o.offset - lines.iter().find(|(_, k)| *k == g).map_or(0, |(l, _)| l.low)) * pitch(g))
            .sum();
        let second = lines.get(1).map(|(_, key)| *key).filter(|key| *key < guards);
        let lines = lines.into_iter().map(|(l, _)| l).collect();
        let first = usize::try_from(first).ok()?;
        Some((Border { lines, origin: origin - access.base, first, elements: next, fill, phases, second }, strides))
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

    /// Copies what a part of the pixels needs that move along the second axis, `stride` coordinates from one to the next: those from `first` on, `missing`
    /// than this border is made for.
    ///
    /// # Safety
    /// As for [`Border::copy`].
    pub(crate) unsafe fn copy_from(
        &self,
        first: usize,
        missing: usize,
        stride: isize,
        image: *const f32,
        to: *mut f32,
    ) {
        let image = image.wrapping_offset(self.origin);
        let [outer, second, rest @ ..] = &self.lines[..] else { return };
        // Pixels that are not there would need the last coordinates, or the first.
        let less = (missing * stride.unsigned_abs()).min(second.size);
        let needed = if stride < 0 { less..second.size } else { 0..second.size - less };
        for (i, j) in (0..outer.size).flat_map(|i| needed.clone().map(move |j| (i, j))) {
            let at = [outer.low + i as isize, second.low + first as isize * stride + j as isize];
            let there = (0..outer.limit).contains(&at[0]) && (0..second.limit).contains(&at[1]);
            let image = image.wrapping_offset(at[0] * outer.step + at[1] * second.step);
            // SAFETY: passed on, for one index of both axes.
            unsafe { self.fill_or_copy(rest, there, image, to.wrapping_add(i * outer.pitch + j * second.pitch)) };
        }
    }

    /// Whether the second of three axes is this guard's.
    pub(crate) fn is_second(&self, guard: usize) -> bool {
        self.lines.len() == 3 && self.second == Some(guard)
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
    use millstream_core::{DType, Guard, Scalar};

    use super::*;

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
            let data: Vec<f32> = (0..32).map(|i| i as f32 + 100.0).collect();
            let image = data.as_ptr().wrapping_offset(access.base);
            // The innermost axis is a guard's where it can have phases.
            for phases in if x == 1 { 1..4 } else { 1..2 } {
                let (whole, _) = Border::in_phases(&access, &dims, 0..5, phases).unwrap();
                // The whole, or each of two pixels of the first dimension by itself.
                for some in if whole.is_second(0) { 1..3 } else { 2..3 } {
                    let dims = [some, 4, 2, 3, 2];
                    let (border, strides) = Border::in_phases(&access, &dims, 0..5, phases).unwrap();
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
                            let at: isize = index.iter().zip(&strides).map(|(&i, &s)| i as isize * s).sum();
                            let (of, guard) = (border.phases(), &access.guards[border.phases().guard]);
                            let along = of.first
                                + index.iter().zip(&guard.coefficients).map(|(&i, c)| i as isize * c).sum::<isize>();
                            let moved = if phases > 1 { of.at(along) - along } else { 0 };
                            index[0] += later;
                            let expected = access.position(&index).map_or(7.0, |p| data[p as usize]);
                            let got = copy[(border.first as isize + at + moved) as usize];
                            assert_eq!(got, expected, "{index:?}, {phases} phases");
                        }
                    }
                }
            }
        }
    }
}
