//! Complex numbers.
