//! The last few hundred prepared launches of a device, found again in a few nanoseconds.
//!
//! A [`Ring`] maps a 64-bit key to a shared value. It is a cache that the launching threads use themselves: there is no
//! thread behind it, no lock in it, and nobody ever waits for anybody. `get` always ends after a fixed number of steps.
//! `push` overwrites the oldest entry; if that one is being read at this moment it takes the next, and after
//! [`TRIES`] such meetings it gives up, since a cache may forget.
//!
//! How it holds together. A head counter hands out sequence numbers. Number `n` belongs to slot `n % CAPACITY` in
//! generation `n / CAPACITY`. A slot's state word holds its generation, whether it is full, whether somebody writes, and
//! how many read; the value is touched only by readers who counted themselves in while nobody wrote, or by the one
//! writer who entered while nobody read. A small table leads from a key to the sequence number where it was last put.
//! The table is a hint: an entry whose slot has gone on to another generation is a miss, and a hit counts only if the
//! key in the slot is the wanted key.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How many launches a device's ring keeps.
pub const CAPACITY: usize = 256;

/// How many slots a push tries before it gives up.
pub const TRIES: usize = 8;

/// How many cells of the table a key can be in.
const WAYS: usize = 4;

// A slot's state: readers below, two flags, the generation above. More readers than threads a machine can have.
const READERS: u64 = (1 << 24) - 1;
const WRITING: u64 = 1 << 24;
const FULL: u64 = 1 << 25;
const GENERATION_SHIFT: u32 = 26;

// A cell of the table: the sequence number below, some bits of the key above. All zero: never used.
const SEQUENCE_BITS: u32 = 46;
const SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

/// Whether a value was found or had to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hit {
    /// It was in the ring.
    Hit,
    /// It was made, and put there.
    Miss,
}

/// A lock-free cache of the last `N` values, for many threads: see the [module](self).
///
/// ```
/// use std::sync::Arc;
/// use millstream_core::ring::{Hit, Ring};
/// let ring: Ring<String> = Ring::new();
/// let (value, hit) = ring.get_or_push_with(7, || Ok(Arc::new("seven".to_string())))?;
/// assert_eq!((value.as_str(), hit), ("seven", Hit::Miss));
/// assert!(ring.get(7).is_some());
/// # Ok::<(), millstream_core::Error>(())
/// ```
pub struct Ring<T, const N: usize = CAPACITY> {
    head: AtomicU64,
    slots: Box<[Slot<T>]>,
    table: Box<[Bucket]>,
}

/// A key and its value.
type Entry<T> = Option<(u64, Arc<T>)>;

/// On a cache line of its own: two threads launching two kernels do not meet.
#[repr(align(64))]
struct Slot<T> {
    state: AtomicU64,
    entry: UnsafeCell<Entry<T>>,
}

#[repr(align(32))]
struct Bucket([AtomicU64; WAYS]);

// SAFETY: the cells are entered only under the protocol of the state word (see `read` and `try_write`), which gives out
// either shared reads or one writer; what is shared and moved between threads is an `Arc<T>`.
unsafe impl<T: Send + Sync, const N: usize> Send for Ring<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync, const N: usize> Sync for Ring<T, N> {}

impl<T> Slot<T> {
    /// The value, if this slot is still of this generation and holds this key.
    #[inline]
    fn read(&self, generation: u64, key: u64) -> Option<Arc<T>> {
        let current = |state: u64| state >> GENERATION_SHIFT == generation && state & (FULL | WRITING) == FULL;
        // A look before the write: a stale hint should not disturb the slot's present users.
        if !current(self.state.load(Ordering::Relaxed)) {
            return None;
        }
        let mut found = None;
        if current(self.state.fetch_add(1, Ordering::Acquire)) {
            found = self.entry.with(|entry| {
                // SAFETY: this reader counted itself in while nobody wrote, and a writer enters only at a count of
                // zero, so the entry does not change before the count is taken back below.
                match unsafe { &*entry } {
                    Some((own, value)) if *own == key => Some(value.clone()),
                    _ => None,
                }
            });
        }
        self.state.fetch_sub(1, Ordering::Release);
        found
    }

    /// Replaces the entry, unless the slot is in use; gives back what it could not store, or what was there before.
    fn try_write(&self, generation: Option<u64>, entry: Entry<T>) -> std::result::Result<Entry<T>, Entry<T>> {
        let state = self.state.load(Ordering::Relaxed);
        let old = state >> GENERATION_SHIFT;
        let new = generation.unwrap_or(old);
        // A producer that was held up for a whole round does not overwrite what came after it.
        if state & (READERS | WRITING) != 0 || generation.is_some_and(|new| new <= old) {
            return Err(entry);
        }
        let writing = new << GENERATION_SHIFT | WRITING;
        if self.state.compare_exchange(state, writing, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(entry);
        }
        let full = if entry.is_some() { FULL } else { 0 };
        let before = self.entry.with_mut(|entry_at| {
            // SAFETY: the exchange found no reader and no writer, and the flag keeps both out until it is taken back;
            // readers that count themselves in meanwhile see the flag and leave the entry alone.
            std::mem::replace(unsafe { &mut *entry_at }, entry)
        });
        // Added, not stored: readers that looked in meanwhile are in the count and will take themselves out.
        self.state.fetch_add(full.wrapping_sub(WRITING), Ordering::Release);
        Ok(before)
    }
}

impl<T, const N: usize> Ring<T, N> {
    const SHAPE: () = assert!(N.is_power_of_two() && N <= 1 << 16, "a ring's capacity is a power of two up to 65536");

    /// An empty ring.
    pub fn new() -> Ring<T, N> {
        let () = Self::SHAPE;
        Ring {
            // The first generation is 1: an unused slot is of generation 0 and matches nothing.
            head: AtomicU64::new(N as u64),
            slots: (0..N).map(|_| Slot { state: AtomicU64::new(0), entry: UnsafeCell::new(None) }).collect(),
            table: (0..2 * N).map(|_| Bucket(std::array::from_fn(|_| AtomicU64::new(0)))).collect(),
        }
    }

    /// The number of values it can hold.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// The key's bucket, and the bits of it that its cells carry.
    #[inline]
    fn bucket(&self, key: u64) -> (&Bucket, u64) {
        // Keys are hashes, but nobody promises that all their bits are good.
        let mixed = (key ^ (key >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bucket = (mixed >> 32) as usize % (2 * N);
        (&self.table[bucket], mixed & (u64::MAX >> SEQUENCE_BITS))
    }

    #[inline]
    fn slot(&self, sequence: u64) -> (&Slot<T>, u64) {
        (&self.slots[sequence as usize % N], sequence / N as u64)
    }

    /// The value last pushed under this key, if it is still there.
    #[inline]
    pub fn get(&self, key: u64) -> Option<Arc<T>> {
        let (bucket, tag) = self.bucket(key);
        bucket.0.iter().find_map(|cell| {
            let hint = cell.load(Ordering::Relaxed);
            if hint >> SEQUENCE_BITS != tag || hint & SEQUENCE == 0 {
                return None;
            }
            let (slot, generation) = self.slot(hint & SEQUENCE);
            slot.read(generation, key)
        })
    }

    /// Puts a value under this key, in place of the oldest entry. Of equal keys the last one
    /// pushed is found; of those pushed at the same time, either.
    pub fn push(&self, key: u64, value: Arc<T>) {
        let mut entry = Some((key, value));
        for _ in 0..TRIES {
            let sequence = self.head.fetch_add(1, Ordering::Relaxed) & SEQUENCE;
            let (slot, generation) = self.slot(sequence);
            match slot.try_write(Some(generation), entry) {
                Ok(before) => {
                    self.point(key, sequence);
                    // Last, because a value's destructor may take its time.
                    drop(before);
                    return;
                }
                Err(back) => entry = back,
            }
        }
    }

    /// Makes the table lead from the key to the sequence number.
    fn point(&self, key: u64, sequence: u64) {
        let (bucket, tag) = self.bucket(key);
        let new = tag << SEQUENCE_BITS | sequence;
        // Its own cell, else the one that was put there first: empty and outdated ones are the smallest of all.
        let rank = |hint: u64| if hint >> SEQUENCE_BITS == tag { 0 } else { hint & SEQUENCE };
        for _ in 0..TRIES {
            let Some((cell, hint)) =
                bucket.0.iter().map(|cell| (cell, cell.load(Ordering::Relaxed))).min_by_key(|(_, hint)| rank(*hint))
            else {
                return;
            };
            // Another thread has put the same key further on in the meantime.
            if hint >> SEQUENCE_BITS == tag && hint & SEQUENCE > sequence {
                return;
            }
            if cell.compare_exchange(hint, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// The value under this key, made and pushed if it is not there. If several threads miss at once, each makes its own.
    #[inline]
    pub fn get_or_push_with(&self, key: u64, make: impl FnOnce() -> Result<Arc<T>>) -> Result<(Arc<T>, Hit)> {
        if let Some(value) = self.get(key) {
            return Ok((value, Hit::Hit));
        }
        let value = make()?;
        self.push(key, value.clone());
        Ok((value, Hit::Miss))
    }

    /// Forgets everything pushed so far. A value that is being read at this moment is unreachable from now on, and
    /// dropped when its slot is next used; a push that runs at the same time may come before or after.
    pub fn clear(&self) {
        for cell in self.table.iter().flat_map(|bucket| &bucket.0) {
            cell.store(0, Ordering::Relaxed);
        }
        for slot in &self.slots {
            for _ in 0..TRIES {
                if let Ok(before) = slot.try_write(None, None) {
                    drop(before);
                    break;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// How many values it holds. Looks at each slot: for statistics.
    pub fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.state.load(Ordering::Relaxed) & FULL != 0).count()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        Ring::new()
    }
}

impl<T, const N: usize> fmt::Debug for Ring<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} of {N})", self.len())
    }
}
