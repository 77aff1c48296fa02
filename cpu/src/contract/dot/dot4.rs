//! Operands of 8-bit integers, packed four at a time.
//!
//! Where a processor multiplies four pairs of 8-bit numbers and adds the products to a 32-bit sum, the panels of a matmul
//! hold four neighbours along K as one element; what is missing of the last four is zero.
//!
//! Such instructions want numbers of A without a sign and numbers of B with one (x86-64), or all with one (NEON). Others are moved by
//! 128, which flips their highest bit: `a = a' + p` and `b = b' + q`, where `p` and `q` are 0, 128 or -128, have products
//!
//! ```text
//! sum a b = sum a' b' + q sum a' + p sum b
//! ```
//!
//! The last two terms, one for each row of A and one for each column of B, are the heads of a block ([`Kernels::heads`]): the first of its
//! K indices, followed by its groups of four. All is exact in 32 bits that wrap.
//!
//! AMX takes any signs: numbers stay as they are, and there are no heads. Its tiles of A are 16 rows of 16 groups of four: rows of memory with adjacent
//! K indices, copied 64 bytes at a time.
//!
//! [`Kernels::heads`]: crate::contract::packed::kernel::Kernels::heads

use crate::contract::packed::pack::{BlockStrides, pack_strided};
use crate::contract::packed::{MicroKernel, PackBlock, PackSource, Side, Strided, TILE};
use crate::prefetch::prefetch;
use crate::simd::{Simd, WithSimd, vectorize};

/// An 8-bit integer.
pub trait Byte: Copy + Send + Sync + 'static {
    /// Whether it has a sign.
    const SIGNED: bool;

    /// Its bits.
    fn bits(self) -> u8;

    /// Its value.
    fn value(self) -> i32;
}

macro_rules! byte {
    ($($t:ty: $signed:literal),*) => {$(impl Byte for $t {
        const SIGNED: bool = $signed;

        #[inline(always)]
        fn bits(self) -> u8 {
            self as u8
        }

        #[inline(always)]
        fn value(self) -> i32 {
            i32::from(self)
        }
    })*};
}
byte!(i8: true, u8: false);

/// Whether an instruction set wants the numbers of an operand to have a sign.
fn wants_sign(isa: MicroKernel, side: Side) -> bool {
    side == Side::B || isa == MicroKernel::NeonDot4
}

/// What is to be added to numbers in the form that an instruction set wants, for them to be as they are stored.
fn moved(isa: MicroKernel, side: Side, signed: bool) -> i32 {
    match (signed, wants_sign(isa, side)) {
        _ if isa.tiled() => 0,
        (true, false) => -128,
        (false, true) => 128,
        _ => 0,
    }
}

/// A matrix in memory with any strides, packed in groups of four for an instruction set that multiplies them.
#[derive(Clone, Copy, Debug)]
pub struct Dot4<'a, S> {
    isa: MicroKernel,
    matrix: Strided<'a, S>,
    /// Single numbers along K.
    k: usize,
    /// Packed as AMX wants its left operand.
    tiled: bool,
    /// What bits are flipped by.
    flip: u8,
    /// A head is the sum of a block's numbers, each less this one, times the factor.
    less: i32,
    factor: i32,
}

/// K indices of a packed block, one after the other.
enum KPart {
    /// The heads of these groups of four.
    Heads { first: usize, count: usize },
    /// So many groups of four from this one on.
    Numbers { first: usize, count: usize },
}

impl<'a, S: Byte> Dot4<'a, S> {
    /// This matrix with so many indices of K. For B, rows are its columns. The numbers of the other operand are `other_signed` or not.
    pub fn new((isa, side): (MicroKernel, Side), other_signed: bool, matrix: Strided<'a, S>, k: usize) -> Dot4<'a, S> {
        let own = moved(isa, side, S::SIGNED);
        let (other, less) = if side == Side::A { (Side::B, own) } else { (Side::A, 0) };
        let flip = if own == 0 { 0 } else { 0x80 };
        let factor = moved(isa, other, other_signed);
        let tiled = isa.tiled() && side == Side::A;
        Dot4 { isa, matrix, k, tiled, flip, less, factor }
    }

    /// Groups of four of which all numbers exist.
    fn whole(&self) -> usize {
        self.k / 4
    }

    /// What each of a block's K indices is: the first of them, counted from the block's first, and its part.
    fn parts(&self, block: &PackBlock) -> impl Iterator<Item = (usize, KPart)> + use<S> {
        let (size, start, end) = (self.isa.dot4_block(), block.k, block.k + block.k_len);
        let heads = !self.isa.tiled();
        let mut q = start;
        std::iter::from_fn(move || {
            if !heads {
                let all = (0, KPart::Numbers { first: start, count: end - start });
                return (std::mem::replace(&mut q, end) < end).then_some(all);
            }
            let (unit, within) = (q / (size + 1), q % (size + 1));
            let first = unit * size + within.saturating_sub(1);
            let count = if within == 0 { 1 } else { (size + 1 - within).min(end.saturating_sub(q)) };
            let part = if within == 0 { KPart::Heads { first, count: size } } else { KPart::Numbers { first, count } };
            let at = q - start;
            q += count;
            (at < end - start).then_some((at, part))
        })
    }

    /// The K indices of some groups of four, as far as there are any.
    #[inline(always)]
    fn k_range(&self, first: usize, count: usize) -> std::ops::Range<usize> {
        (4 * first).min(self.k)..(4 * (first + count)).min(self.k)
    }

    /// The head of groups of four whose numbers, so many of them, have this sum.
    #[inline(always)]
    fn head(&self, sum: i32, count: usize) -> i32 {
        self.factor.wrapping_mul(sum.wrapping_sub(self.less.wrapping_mul(count as i32)))
    }

    /// One four; numbers past the end of K are zero.
    ///
    /// # Safety
    /// The row exists.
    #[inline(always)]
    unsafe fn four(&self, batch: usize, row: usize, four: usize) -> i32 {
        let mut bytes = [0; 4];
        for (byte, k) in bytes.iter_mut().zip(self.k_range(four, 1)) {
            // SAFETY: the maker vouched for every element, and the caller for the row.
            *byte = unsafe { *self.matrix.at(batch, row, k) }.bits() ^ self.flip;
        }
        i32::from_le_bytes(bytes)
    }

    /// For every 16 groups of four of K, a panel's rows of 16 groups of four.
    #[inline(always)]
    fn pack_tiles(&self, block: &PackBlock, dst: &mut [i32]) {
        const SIDE: usize = 32;
        let PackBlock { batch, row, rows, k, k_len, panel } = *block;
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            let (top, have) = (row + p * panel, panel.min(rows - p * panel));
            // Tiles of which all numbers exist.
            let whole = (self.whole() / TILE).saturating_sub(k / TILE).min(k_len / TILE);
            for g in if self.matrix.k == 1 { whole } else { 0 }..k_len / TILE {
                let out = &mut out[g * panel * TILE..][..panel * TILE];
                if self.matrix.row == 1 && g < whole && panel == SIDE {
                    // Four lines of memory are dealt out like cards, then transposed.
                    let mut buffer = [0; SIDE * TILE];
                    for (q, to) in buffer.chunks_exact_mut(SIDE).enumerate() {
                        let line = self.matrix.at(batch, top, 4 * (k + g * TILE + q));
                        // SAFETY: rows are adjacent, and these are in the block; the four K indices exist.
                        unsafe { interleave(line, self.matrix.k, 0, &mut to[..have]) };
                    }
                    let strides = BlockStrides { row: SIDE as isize, k: 1 };
                    // SAFETY: the buffer holds 16 lines of `SIDE` groups of four.
                    unsafe { pack_strided(buffer.as_ptr(), strides, TILE, SIDE, TILE, out) };
                    continue;
                }
                for (r, out) in out.chunks_exact_mut(TILE).enumerate() {
                    for (q, o) in out.iter_mut().enumerate() {
                        // SAFETY: the row is in the block.
                        let four = || unsafe { self.four(batch, top + r, k + g * TILE + q) };
                        *o = if r < have { four() } else { 0 };
                    }
                }
            }
            for r in 0..if self.matrix.k == 1 && whole > 0 { panel } else { 0 } {
                let line = self.matrix.at(batch, top + r, 4 * k).cast::<[i32; TILE]>();
                for (g, out) in out.chunks_exact_mut(panel * TILE).enumerate().take(whole) {
                    // SAFETY: K is contiguous, all numbers of whole tiles exist, and the row is in the block; any bytes are groups of four.
                    let groups = if r < have { unsafe { line.add(g).read_unaligned() } } else { [0; TILE] };
                    out[r * TILE..][..TILE].copy_from_slice(&groups);
                }
            }
        }
    }

    /// K is contiguous: groups of four are collected row by row, then dealt to the panels.
    #[inline(always)]
    fn pack_contiguous_k(&self, block: &PackBlock, dst: &mut [i32]) {
        const ROWS: usize = 32;
        const K_PART: usize = 64;
        let PackBlock { batch, row, rows, k_len, panel, .. } = *block;
        let flip = i32::from_le_bytes([self.flip; 4]);
        let mut buffer = [0; ROWS * K_PART];
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            let top = row + p * panel;
            let have = panel.min(rows - p * panel);
            for (at, part) in self.parts(block) {
                let (first, count) = match part {
                    KPart::Numbers { first, count } => (first, count),
                    KPart::Heads { first, count } => {
                        let range = self.k_range(first, count);
                        out[at * panel..][..panel].fill(0);
                        for r in 0..if self.factor == 0 { 0 } else { have } {
                            // SAFETY: K is contiguous, the range exists, and the row is in the block.
                            let sum = unsafe { sum(self.matrix.at(batch, top + r, range.start), range.len()) };
                            out[at * panel + r] = self.head(sum, range.len());
                        }
                        continue;
                    }
                };
                for done in (0..count).step_by(K_PART) {
                    let (four, part) = (first + done, K_PART.min(count - done));
                    let whole = part.min(self.whole().saturating_sub(four));
                    for r in 0..have {
                        let to = &mut buffer[r * K_PART..][..part];
                        // SAFETY: K is contiguous, all numbers of `whole` groups of four exist, and the row is in the block.
                        unsafe { collect(self.matrix.at(batch, top + r, 4 * four), flip, whole, to.as_mut_ptr()) };
                        if whole < part {
                            // SAFETY: the row is in the block.
                            to[whole] = unsafe { self.four(batch, top + r, four + whole) };
                        }
                    }
                    let strides = BlockStrides { row: K_PART as isize, k: 1 };
                    let out = &mut out[(at + done) * panel..][..part * panel];
                    // SAFETY: the buffer holds `have` rows of `part` groups of four.
                    unsafe { pack_strided(buffer.as_ptr(), strides, have, part, panel, out) };
                }
            }
        }
    }

    /// Rows are adjacent: four lines of memory are dealt out like cards.
    #[inline(always)]
    fn pack_rows(&self, block: &PackBlock, dst: &mut [i32]) {
        /// Panels written together: enough to use whole pages of the source.
        const SIDE_BY_SIDE: usize = 8;
        /// How many K indices ahead memory is prefetched.
        const AHEAD: isize = 32;
        let PackBlock { batch, row, rows, k_len, panel, .. } = *block;
        let flip = i32::from_le_bytes([self.flip; 4]);
        for (g, dst) in dst.chunks_mut((SIDE_BY_SIDE * panel * k_len).max(1)).enumerate() {
            let panels = dst.len() / (panel * k_len);
            let start = g * SIDE_BY_SIDE * panel;
            let wide = (panels * panel).min(rows - start);
            for (at, part) in self.parts(block) {
                let (first, count) = match part {
                    KPart::Numbers { first, count } => (first, count),
                    KPart::Heads { first, count } => {
                        let range = self.k_range(first, count);
                        for p in 0..panels {
                            dst[(p * k_len + at) * panel..][..panel].fill(0);
                        }
                        if self.factor == 0 {
                            continue;
                        }
                        for k in range.clone() {
                            let line = self.matrix.at(batch, row + start, k);
                            fetch(line.wrapping_offset(AHEAD * self.matrix.k), wide);
                            for p in 0..panels {
                                let have = panel.min(wide - p * panel);
                                let acc = &mut dst[(p * k_len + at) * panel..][..have];
                                // SAFETY: rows are adjacent, and these are in the block; the K index exists.
                                unsafe { add(line.wrapping_add(p * panel), acc) };
                            }
                        }
                        for p in 0..panels {
                            let have = panel.min(wide - p * panel);
                            for sum in &mut dst[(p * k_len + at) * panel..][..have] {
                                *sum = self.head(*sum, range.len());
                            }
                        }
                        continue;
                    }
                };
                for i in 0..count {
                    let four = first + i;
                    let line = self.matrix.at(batch, row + start, 4 * four);
                    // Heads have prefetched already.
                    for n in 0..if self.factor == 0 { 4 } else { 0 } {
                        fetch(line.wrapping_offset((AHEAD + n) * self.matrix.k), wide);
                    }
                    if four < self.whole() && panel % 16 == 0 && wide == panels * panel {
                        for (p, out) in dst.chunks_exact_mut(panel * k_len).enumerate() {
                            let (line, out) = (line.wrapping_add(p * panel), &mut out[(at + i) * panel..][..panel]);
                            for (c, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                                // SAFETY: rows are adjacent, and these are in the block; the four K indices exist.
                                unsafe {
                                    interleave_some::<S, 16>(
                                        line.wrapping_add(16 * c),
                                        self.matrix.k,
                                        flip,
                                        out.as_mut_ptr(),
                                    )
                                };
                            }
                        }
                        continue;
                    }
                    for p in 0..panels {
                        let have = panel.min(wide - p * panel);
                        let out = &mut dst[(p * k_len + at + i) * panel..][..panel];
                        if four < self.whole() {
                            // SAFETY: rows are adjacent, and these are in the block; the four K indices exist.
                            unsafe { interleave(line.wrapping_add(p * panel), self.matrix.k, flip, &mut out[..have]) };
                        } else {
                            for (r, o) in out[..have].iter_mut().enumerate() {
                                // SAFETY: the row is in the block.
                                *o = unsafe { self.four(batch, row + start + p * panel + r, four) };
                            }
                        }
                        if have < panel {
                            out[have..].fill(0);
                        }
                    }
                }
            }
        }
    }

    /// Any strides, one element at a time.
    fn pack_each(&self, block: &PackBlock, dst: &mut [i32]) {
        let PackBlock { batch, row, rows, k_len, panel, .. } = *block;
        for (p, out) in dst.chunks_exact_mut((panel * k_len).max(1)).enumerate() {
            for (at, part) in self.parts(block) {
                let (first, count, heads) = match part {
                    KPart::Heads { first, count } => (first, count, true),
                    KPart::Numbers { first, count } => (first, count, false),
                };
                for (r, here) in (p * panel..(p + 1) * panel).enumerate() {
                    if heads {
                        let range = if here < rows && self.factor != 0 { self.k_range(first, count) } else { 0..0 };
                        let len = range.len();
                        // SAFETY: the row is in the block, and the K index exists.
                        let sum = range.map(|k| unsafe { *self.matrix.at(batch, row + here, k) }.value()).sum();
                        out[at * panel + r] = self.head(sum, len);
                        continue;
                    }
                    for i in 0..count {
                        // SAFETY: the row is in the block.
                        let four = || unsafe { self.four(batch, row + here, first + i) };
                        out[(at + i) * panel + r] = if here < rows { four() } else { 0 };
                    }
                }
            }
        }
    }
}

// What follows is compiled with the vectors of whoever calls: no calls but to what is always inlined, and loops of a fixed length, which
// become a few vector instructions where what they read is a value of its own.

/// Prefetches so many adjacent numbers, without promise; any address will do.
#[inline(always)]
fn fetch<S: Byte>(numbers: *const S, count: usize) {
    for i in (0..count).step_by(64) {
        prefetch::<false>(numbers.wrapping_add(i).cast());
    }
}

/// The sum of so many adjacent numbers: fewer than would leave 32 bits.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn sum<S: Byte>(numbers: *const S, count: usize) -> i32 {
    const LANES: usize = 64;
    let (mut acc, mut i) = ([0; LANES], 0);
    while i + LANES <= count {
        // SAFETY: the caller's; a number is one byte.
        let some = unsafe { *numbers.add(i).cast::<[S; LANES]>() };
        for j in 0..LANES {
            acc[j] += some[j].value();
        }
        i += LANES;
    }
    let mut all = 0;
    for sum in acc {
        all += sum;
    }
    for j in i..count {
        // SAFETY: the caller's.
        all += unsafe { *numbers.add(j) }.value();
    }
    all
}

/// Adds adjacent numbers to as many accumulators.
///
/// # Safety
/// They are readable.
#[inline(always)]
unsafe fn add<S: Byte>(numbers: *const S, acc: &mut [i32]) {
    let (whole, rest) = acc.as_chunks_mut::<16>();
    let done = 16 * whole.len();
    for (c, acc) in whole.iter_mut().enumerate() {
        // SAFETY: the caller's; a number is one byte.
        let some = unsafe { *numbers.add(16 * c).cast::<[S; 16]>() };
        for i in 0..16 {
            acc[i] += some[i].value();
        }
    }
    for (i, sum) in rest.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *sum += unsafe { *numbers.add(done + i) }.value();
    }
}

/// Writes groups of four of adjacent numbers, whose bits are flipped by those of `flip`.
///
/// # Safety
/// Four times `count` numbers are readable, and `to` is writable for as many groups of four.
#[inline(always)]
unsafe fn collect<S: Byte>(numbers: *const S, flip: i32, count: usize, to: *mut i32) {
    for i in 0..count {
        // SAFETY: the caller's; a number is one byte of any bits.
        unsafe { *to.add(i) = i32::from_le(numbers.cast::<i32>().add(i).read_unaligned()) ^ flip };
    }
}

/// `out[i]` is the four of element `i` of four lines, `stride` elements from each to the next, with bits flipped by those of `flip`.
///
/// # Safety
/// Each line is readable for as many elements.
#[inline(always)]
unsafe fn interleave<S: Byte>(line: *const S, stride: isize, flip: i32, out: &mut [i32]) {
    let (n, to) = (out.len(), out.as_mut_ptr());
    let mut i = 0;
    // SAFETY: passed on, for parts of `out`.
    unsafe {
        while i + 16 <= n {
            interleave_some::<S, 16>(line.wrapping_add(i), stride, flip, to.add(i));
            i += 16;
        }
        while i + 4 <= n {
            interleave_some::<S, 4>(line.wrapping_add(i), stride, flip, to.add(i));
            i += 4;
        }
        while i < n {
            interleave_some::<S, 1>(line.wrapping_add(i), stride, flip, to.add(i));
            i += 1;
        }
    }
}

/// The same for N elements.
///
/// # Safety
/// As there; `out` has room for as many.
#[inline(always)]
unsafe fn interleave_some<S: Byte, const N: usize>(line: *const S, stride: isize, flip: i32, out: *mut i32) {
    // SAFETY: passed on; a number is one byte.
    let [a, b, c, d] = unsafe {
        let line = |n: isize| *line.wrapping_offset(n * stride).cast::<[S; N]>();
        [line(0), line(1), line(2), line(3)]
    };
    let mut groups = [0; N];
    for i in 0..N {
        let byte = |x: S, at: u32| i32::from(x.bits()) << (8 * at);
        groups[i] = (byte(a[i], 0) | byte(b[i], 1) | byte(c[i], 2) | byte(d[i], 3)) ^ flip;
    }
    // SAFETY: passed on.
    unsafe { *out.cast::<[i32; N]>() = groups };
}

/// Packs a block with the vectors of an instruction set.
struct PackDot4<'p, 'a, S>(&'p Dot4<'a, S>, &'p PackBlock, &'p mut [i32]);

impl<S: Byte> WithSimd for PackDot4<'_, '_, S> {
    type Output = ();

    #[inline(always)]
    fn run<V: Simd>(self, _: V) {
        let PackDot4(source, block, dst) = self;
        if source.tiled {
            source.pack_tiles(block, dst);
        } else if source.matrix.k == 1 && block.panel <= 32 {
            source.pack_contiguous_k(block, dst);
        } else if source.matrix.row == 1 {
            source.pack_rows(block, dst);
        } else {
            source.pack_each(block, dst);
        }
    }
}

impl<S: Byte> PackSource<i32> for Dot4<'_, S> {
    fn pack(&self, block: &PackBlock, dst: &mut [i32]) {
        if dst.len() >= block.len() && !block.is_empty() {
            vectorize(self.isa.vectors(), PackDot4(self, block, &mut dst[..block.len()]));
        }
    }

    fn covers(&self, batch: usize, _: usize, k_len: usize) -> bool {
        self.matrix.batch.covers(batch) && k_len == self.isa.packed_k(self.k)
    }

    fn same_for_batch(&self) -> bool {
        self.matrix.batch.same()
    }
}
