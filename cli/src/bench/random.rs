//! Random numbers, each a function of its seed and its index: nothing needs to be stored to know an element again.

use half::{bf16, f16};
use millstream::{DType, Tensor};

/// What an input is made of.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Normal numbers.
    Normal(Normal),
    /// Indices from 0 up to but without a number, all equally likely.
    Indices {
        /// Their dtype: u8 or i64.
        dtype: DType,
        /// Which of many such rows.
        seed: u64,
        /// The number.
        below: usize,
    },
}

impl Source {
    /// The row of this seed: indices below a number (i64, but among bytes bytes), or else normal numbers of a dtype.
    pub fn new(seed: u64, dtype: DType, below: Option<usize>) -> Source {
        match below {
            Some(below) => {
                let dtype = if dtype == DType::U8 { dtype } else { DType::I64 };
                Source::Indices { dtype, seed: mix(seed), below: below.max(1) }
            }
            None => Source::Normal(Normal::new(seed, dtype)),
        }
    }

    /// The element at an index.
    pub fn at(&self, at: usize) -> f64 {
        match self {
            Source::Normal(normal) => normal.at(at),
            Source::Indices { .. } => self.index(at) as f64,
        }
    }

    /// The element at an index, as an index; 0 where it is none.
    pub fn index(&self, at: usize) -> usize {
        match self {
            Source::Normal(_) => 0,
            Source::Indices { seed, below, .. } => (mix(seed ^ at as u64) % *below as u64) as usize,
        }
    }

    /// The first elements, as numbers.
    pub fn values(&self, count: usize) -> Vec<f64> {
        match self {
            Source::Normal(normal) => normal.fill(count, |v| normal.round(v)),
            Source::Indices { .. } => (0..count).map(|i| self.at(i)).collect(),
        }
    }

    /// The first elements as a tensor.
    pub fn tensor(&self, shape: &[usize]) -> Tensor {
        match self {
            Source::Normal(normal) => normal.tensor(shape),
            Source::Indices { dtype: DType::U8, .. } => {
                let bytes = (0..shape.iter().product()).map(|i| self.index(i) as u8);
                Tensor::from_shape(shape, &bytes.collect::<Vec<_>>())
            }
            Source::Indices { .. } => {
                let indices = (0..shape.iter().product()).map(|i| self.index(i) as i64);
                Tensor::from_shape(shape, &indices.collect::<Vec<_>>())
            }
        }
    }
}

/// An endless row of normal numbers, rounded to a dtype; for bytes 32 times as large, so that they are many.
#[derive(Clone, Copy, Debug)]
pub struct Normal {
    seed: u64,
    dtype: DType,
}

/// A well-mixed word for each counter (the finaliser of SplitMix64).
pub fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Normal {
    /// The row of this seed.
    pub fn new(seed: u64, dtype: DType) -> Normal {
        Normal { seed: mix(seed), dtype }
    }

    /// Two neighbours by the method of Box and Muller.
    fn two(&self, number: u64) -> (f64, f64) {
        let word = mix(self.seed ^ number);
        let unit = |bits: u32| (f64::from(bits) + 0.5) / 4294967296.0;
        let radius = (-2.0 * unit((word >> 32) as u32).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * unit(word as u32)).sin_cos();
        (radius * cos, radius * sin)
    }

    fn round(&self, value: f64) -> f64 {
        match self.dtype {
            DType::F64 => value,
            DType::F16 => f16::from_f32(value as f32).to_f64(),
            DType::BF16 => bf16::from_f32(value as f32).to_f64(),
            DType::I8 => f64::from((value * 32.0) as i8),
            _ => f64::from(value as f32),
        }
    }

    /// The element at an index.
    pub fn at(&self, at: usize) -> f64 {
        let (even, odd) = self.two(at as u64 / 2);
        self.round(if at.is_multiple_of(2) { even } else { odd })
    }

    /// The first elements as a tensor.
    pub fn tensor(&self, shape: &[usize]) -> Tensor {
        let count = shape.iter().product();
        match self.dtype {
            DType::F64 => Tensor::from_shape(shape, &self.fill(count, |v| v)),
            DType::F16 => Tensor::from_shape(shape, &self.fill(count, |v| f16::from_f32(v as f32))),
            DType::BF16 => Tensor::from_shape(shape, &self.fill(count, |v| bf16::from_f32(v as f32))),
            DType::I8 => Tensor::from_shape(shape, &self.fill(count, |v| (v * 32.0) as i8)),
            _ => Tensor::from_shape(shape, &self.fill(count, |v| v as f32)),
        }
    }

    fn fill<T: Default + Clone + Send>(&self, count: usize, convert: impl Fn(f64) -> T + Sync) -> Vec<T> {
        const CHUNK: usize = 1 << 18;
        let mut out = vec![T::default(); count];
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let share = count.div_ceil(threads).next_multiple_of(CHUNK);
        std::thread::scope(|scope| {
            for (part, piece) in out.chunks_mut(share).enumerate() {
                let (convert, first) = (&convert, (part * share / 2) as u64);
                scope.spawn(move || {
                    for (i, two) in piece.chunks_mut(2).enumerate() {
                        let (even, odd) = self.two(first + i as u64);
                        for (to, value) in two.iter_mut().zip([even, odd]) {
                            *to = convert(value);
                        }
                    }
                });
            }
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_variance_are_those_of_normal_numbers() {
        let normal = Normal::new(7, DType::F64);
        let n = 100_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for v in (0..n).map(|i| normal.at(i)) {
            sum += v;
            squares += v * v;
        }
        let (mean, variance) = (sum / n as f64, squares / n as f64);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn an_element_alone_is_the_one_in_the_tensor() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8] {
            let normal = Normal::new(3, dtype);
            let tensor = normal.tensor(&[3, 333]);
            let values = tensor.cast(DType::F64).to_vec::<f64>().unwrap();
            assert!(values.iter().enumerate().all(|(i, v)| *v == normal.at(i)), "{dtype}");
            assert_eq!(Source::new(3, dtype, None).values(999), values, "{dtype}");
        }
    }

    #[test]
    fn indices_lie_below_their_number_and_are_found_again() {
        let indices = Source::new(5, DType::F32, Some(37));
        let list = indices.tensor(&[400]).to_vec::<i64>().unwrap();
        assert!(list.iter().enumerate().all(|(i, &p)| p == indices.index(i) as i64 && (0..37).contains(&p)));
        assert!((0..37).all(|p| list.contains(&p)), "every index is among ten times as many");
    }

    #[test]
    fn large_tensors_are_filled_in_parts_without_seams() {
        let normal = Normal::new(9, DType::F32);
        let n = (1 << 19) + 11;
        let values = normal.fill(n, |v| v as f32);
        for i in [0, 1, (1 << 18) - 1, 1 << 18, (1 << 19) - 1, 1 << 19, n - 1] {
            assert_eq!(f64::from(values[i]), normal.at(i), "element {i}");
        }
    }
}
