//! Addresses that the tasks of a job share.

/// An address that several threads use: what each reads and writes through it is decided by its task, and whoever makes one vouches that
/// no two tasks meet.
#[derive(Debug)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: an address alone does nothing; whoever goes through it says why no other task uses the same elements.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// For memory that is only read.
    pub(crate) fn read(from: *const T) -> Shared<T> {
        Shared(from.cast_mut())
    }

    /// The element at this distance.
    pub(crate) fn at(self, n: usize) -> *mut T {
        self.0.wrapping_add(n)
    }

    /// The same, this many elements further on.
    pub(crate) fn add(self, n: usize) -> Shared<T> {
        Shared(self.at(n))
    }

    /// So many elements.
    ///
    /// # Safety
    /// They are inside the allocation, and no other task accesses them meanwhile.
    pub(crate) unsafe fn slice<'a>(self, len: usize) -> &'a mut [T] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0, len) }
    }

    /// The element at this distance, before or after the address.
    pub(crate) fn offset(self, n: isize) -> *mut T {
        self.0.wrapping_offset(n)
    }
}
