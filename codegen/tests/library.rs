//! The functions of kernels, computed on this machine and held to their error bounds, and read by the WGSL front end.

#[path = "library/complex.rs"]
mod complex;
#[path = "library/doubles.rs"]
mod doubles;
#[path = "library/host.rs"]
mod host;
#[path = "library/integers.rs"]
mod integers;
#[path = "library/singles.rs"]
mod singles;
#[path = "library/support.rs"]
mod support;
#[path = "library/text.rs"]
mod text;
