//! How a number of bytes becomes the size of a block.
//!
//! Small sizes fall into classes, four to each doubling, so that at most a fifth of a block is lost and any freed block
//! serves the next request of its class. Large sizes are rounded to pages only.

/// Large blocks are multiples of this, or of the alignment if that is more.
const PAGE: usize = 4096;

/// The sizes that one pool gives out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    shift: u32,
    small: usize,
    largest: usize,
}

/// What a request becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// The bytes that the block really has.
    pub bytes: usize,
    /// Its class, if it is small.
    pub class: Option<usize>,
}

impl Classes {
    /// `alignment` is a power of two; sizes up to `small` have classes; nothing is larger than `largest`.
    pub fn new(alignment: usize, small: usize, largest: usize) -> Classes {
        Classes { shift: alignment.trailing_zeros(), small: small.min(largest) & !(alignment - 1), largest }
    }

    /// How many classes there are.
    pub fn count(&self) -> usize {
        match self.small >> self.shift {
            0 => 0,
            units => class_of(units).0 + 1,
        }
    }

    /// The block for so many bytes; `None` if there is none so large.
    #[inline]
    pub fn fit(&self, bytes: usize) -> Option<Size> {
        let alignment = 1usize << self.shift;
        if bytes <= self.small && self.small > 0 {
            let (class, units) = class_of((bytes.max(1) + alignment - 1) >> self.shift);
            // The last class ends at the limit, even where the next round size lies beyond it.
            return Some(Size { bytes: (units << self.shift).min(self.small), class: Some(class) });
        }
        if bytes > self.largest {
            return None;
        }
        let rounded = bytes.max(1).checked_next_multiple_of(alignment.max(PAGE)).unwrap_or(self.largest);
        Some(Size { bytes: rounded.min(self.largest), class: None })
    }
}

/// The class of so many units (at least one), and how many units its blocks have.
#[inline]
fn class_of(units: usize) -> (usize, usize) {
    if units <= 4 {
        return (units - 1, units);
    }
    let top = usize::BITS - 1 - (units - 1).leading_zeros() - 2;
    let step = (units - 1) >> top;
    (4 * top as usize + step, (step + 1) << top)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_class_follows_the_last_and_wastes_at_most_a_fifth() {
        let classes = Classes::new(64, 1 << 20, 1 << 40);
        let mut last = Size { bytes: 64, class: Some(0) };
        assert_eq!(classes.fit(0), Some(last));
        for bytes in (1..=1usize << 20).step_by(3).chain([1 << 20]) {
            let size = classes.fit(bytes).unwrap();
            assert!(size.bytes >= bytes && size.bytes.is_multiple_of(64));
            assert!(bytes < 512 || size.bytes - bytes <= size.bytes / 5 + 64, "{bytes} becomes {}", size.bytes);
            assert!(size == last || size.class == last.class.map(|class| class + 1), "a gap at {bytes}");
            assert_eq!(size == last, size.bytes == last.bytes);
            last = size;
        }
        assert_eq!(last.class, Some(classes.count() - 1));
        assert_eq!(last.bytes, 1 << 20);
    }

    #[test]
    fn sizes_without_a_class_are_whole_pages_up_to_the_largest() {
        let classes = Classes::new(256, 1 << 20, (1 << 31) - 1);
        assert_eq!(classes.fit((1 << 20) + 1), Some(Size { bytes: (1 << 20) + 4096, class: None }));
        assert_eq!(classes.fit((1 << 31) - 1), Some(Size { bytes: (1 << 31) - 1, class: None }));
        assert_eq!(classes.fit(1 << 31), None);
        assert_eq!(Classes::new(64, 1 << 20, usize::MAX >> 2).fit(usize::MAX), None);
    }
}
