//! The vendor's libraries as they are: types, numbers, functions, loaded at run time.
//!
//! Nothing here judges or decides. Each library is one struct of function pointers, filled once per process and never
//! unloaded. Statuses are plain integers, because a newer driver may return numbers that no enum of ours has. All
//! functions are `unsafe` to call: their documentation is the vendor's.

pub(crate) mod cublaslt;
pub(crate) mod driver;
pub(crate) mod nvrtc;
pub(crate) mod nvtx;
mod search;

pub(crate) use search::{Wanted, locate, open};

/// What a function of these libraries returns; 0 is success in all of them.
pub(crate) type Status = i32;

/// Declares a library: a struct with one pointer for each function. Required ones make loading fail when they are
/// missing; optional ones are `None`.
macro_rules! library {
    (
        $(#[$doc:meta])*
        pub(crate) struct $name:ident;
        required { $(fn $f:ident as $symbol:literal ($($t:ty),* $(,)?) -> $r:ty;)* }
        optional { $(fn $of:ident as $osymbol:literal ($($ot:ty),* $(,)?) -> $or:ty;)* }
    ) => {
        $(#[$doc])*
        #[allow(clippy::type_complexity)]
        pub(crate) struct $name {
            $(pub(crate) $f: unsafe extern "C" fn($($t),*) -> $r,)*
            $(pub(crate) $of: Option<unsafe extern "C" fn($($ot),*) -> $or>,)*
        }

        impl $name {
            /// Looks up all functions; names the first that is required and missing.
            ///
            /// # Safety
            /// The library must be the one that these declarations describe.
            pub(crate) unsafe fn bind(library: libloading::Library) -> Result<$name, &'static str> {
                // The functions are used until the process ends: the library stays.
                let library: &'static libloading::Library = Box::leak(Box::new(library));
                Ok($name {
                    // SAFETY: the vendor's header gives these names these types; the caller vouches for the library.
                    $($f: *unsafe { library.get::<unsafe extern "C" fn($($t),*) -> $r>($symbol) }
                        .map_err(|_| $crate::sys::plain_name($symbol))?,)*
                    // SAFETY: as above.
                    $($of: unsafe { library.get::<unsafe extern "C" fn($($ot),*) -> $or>($osymbol) }.ok().map(|f| *f),)*
                })
            }
        }
    };
}
pub(crate) use library;

/// A symbol's name without its final zero.
pub(crate) fn plain_name(symbol: &'static [u8]) -> &'static str {
    std::str::from_utf8(symbol).unwrap_or("?").trim_end_matches('\0')
}
