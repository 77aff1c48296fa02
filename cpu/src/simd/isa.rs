//! Which instruction set to use.

use std::sync::OnceLock;

/// An instruction set for which vectors exist.
///
/// A value names a set; it does not promise that this machine has it. Whoever turns a value into running code asks
/// [`Isa::or_portable`] first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512 F, BW, DQ, VL with all of [`Isa::Avx2`]: 16 lanes of f32.
    Avx512,
    /// AVX2 with FMA and F16C: 8 lanes of f32.
    Avx2,
    /// Advanced SIMD of AArch64: 4 lanes of f32.
    Neon,
    /// What the compiler makes of small arrays with the target's base features: 4 lanes of f32.
    Portable,
}

impl Isa {
    /// All instruction sets, best first.
    pub const ALL: [Isa; 4] = [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Portable];

    /// The best instruction set of this machine. Asked once, then kept.
    ///
    /// The environment variable `MILLSTREAM_ISA` (`avx512`, `avx2`, `neon`, `portable`) lowers the choice, which is
    /// how a whole program is tested on each; a set that the machine lacks is ignored.
    pub fn detect() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let asked = std::env::var("MILLSTREAM_ISA").ok();
            let asked = Isa::ALL.into_iter().find(|isa| asked.as_deref() == Some(isa.name()));
            match asked {
                Some(isa) if isa.is_available() => isa,
                _ => Isa::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Portable),
            }
        })
    }

    /// The instruction sets of this machine, best first. Tests run on each of them.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Its name in lower case, as `MILLSTREAM_ISA` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Neon => "neon",
            Isa::Portable => "portable",
        }
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => true,
            Isa::Portable => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// This set where the machine has it, else [`Isa::Portable`].
    #[inline]
    pub fn or_portable(self) -> Isa {
        if self.is_available() { self } else { Isa::Portable }
    }
}
