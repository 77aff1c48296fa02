//! Whole programs through the public interface. One executable, so that it is linked once; what looks at the memory or the
//! allocator of the whole process has its own beside it.
// Borrowed lists and `x = x + y` are forms, too, and 1..-1 ends before the last.
#![allow(clippy::assign_op_pattern, clippy::needless_borrows_for_generic_args, clippy::reversed_empty_ranges)]

mod common;

mod accuracy;
mod assign;
mod attention;
mod bounds;
mod buffers;
mod compiled;
mod convolution;
mod devices;
mod edges;
mod elementwise;
mod errors;
mod exchange;
mod failures;
mod faults;
mod fft;
mod fusion;
mod hostile;
mod indexing;
mod keeping;
mod layouts;
mod linalg;
mod moving;
mod neural;
mod numbers;
mod pack_cache;
mod pieces;
mod plans;
mod races;
mod scattering;
mod several;
mod sizes;
mod sorting;
mod tensors;
