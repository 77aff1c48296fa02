//! Arrays and images of other crates, each behind a feature of its name.

#[cfg(feature = "image")]
mod image;
#[cfg(feature = "ndarray")]
mod ndarray;
