//! Sorting words by vectors of AVX-512, where the machine has them: quicksort by whole vectors, the last few words in registers.
//!
//! [`lanes`] is the only file that calls intrinsics; what stands above it is written for words of 32 and 64 bits alike.

#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod network;
#[cfg(target_arch = "x86_64")]
mod quick;

type Sort<W> = unsafe fn(&mut [W], &mut [W]);
type Part<W> = unsafe fn(&mut [W], &mut [W], &[W], &mut [u32]);

/// What this machine's vectors do with words.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // Only made there.
pub(crate) struct Vectors<W: 'static> {
    sort: Sort<W>,
    part: Part<W>,
}

impl<W> Vectors<W> {
    /// Sorts a list. `spare` is as long; what it holds afterwards is unspecified.
    pub(crate) fn sort(self, list: &mut [W], spare: &mut [W]) {
        // SAFETY: a value of this type is only made where the machine has the vectors.
        unsafe { (self.sort)(list, spare) }
    }

    /// Whether so many words are sorted faster this way than by so many digits.
    ///
    /// Moving words by a digit takes about as long as parting words of 64 bits five times by a pivot; halving down to what
    /// registers sort is a parting each, that and what else is done once take as long as six.
    pub(crate) fn pay(self, n: usize, digits: u32) -> bool {
        let words = 1024 / size_of::<W>();
        let partings = n.div_ceil(words).next_power_of_two().ilog2() as usize + 6;
        partings * size_of::<W>() <= 5 * size_of::<u64>() * digits as usize
    }

    /// Parts a list by ascending limits: first words below the first limit, then others below the second, and so on; how many each
    /// are, as `counts`, of which there is one more than limits. `spare` is as long as the list.
    pub(crate) fn part(self, list: &mut [W], spare: &mut [W], limits: &[W], counts: &mut [u32]) {
        // SAFETY: as in `sort`.
        unsafe { (self.part)(list, spare, limits, counts) }
    }
}

macro_rules! vectors {
    ($($name:ident, $word:ident, $lanes:ident;)*) => {
        $(
            /// The vectors of such words, if the machine has any.
            pub(crate) fn $name() -> Option<Vectors<$word>> {
                #[cfg(target_arch = "x86_64")]
                if able() {
                    return Some(Vectors { sort: quick::sort::<lanes::$lanes>, part: quick::part::<lanes::$lanes> });
                }
                None
            }
        )*
    };
}
vectors! { narrow, u32, Narrow; wide, u64, Wide; }

/// Calls `f`, compiled for vectors where the machine has them: a plain loop over many elements.
#[inline]
pub(crate) fn enter<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn inside<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        if able() {
            // SAFETY: the machine has the vectors.
            return unsafe { inside(f) };
        }
    }
    f()
}

/// Whether the machine has AVX-512 F, BW, DQ and VL. `MILLSTREAM_ISA` lowers the choice, as for the CPU backend's kernels.
#[cfg(target_arch = "x86_64")]
fn able() -> bool {
    static ABLE: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let lowered = std::env::var("MILLSTREAM_ISA").is_ok_and(|isa| isa == "avx2" || isa == "portable");
        !lowered
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
    });
    *ABLE
}

#[cfg(test)]
mod tests;
