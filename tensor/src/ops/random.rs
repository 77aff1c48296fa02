//! Random numbers: the same on every device.
//!
//! A [`Generator`] is a seed and a count of the tensors it has made. The random words of a tensor are those of Philox-4x32 in ten
//! rounds under a key made of the two, one for each element, so that they depend on nothing else: not on the device, not on
//! the number of threads, not on what else is computed. They are part of the lazy graph and fuse like arithmetic.

use millstream_core::{DType, Error, Kind as Family};

use crate::arguments::{Integer, NewShape};
use crate::graph::{Inputs, Random};
use crate::{Order, Tensor};

/// Makes tensors of random numbers. Each call gives new ones; the same seed gives the same sequence on every device.
///
/// ```
/// use millstream::{DType, Generator};
/// let mut generator = Generator::new(7);
/// let x = generator.uniform(1000, DType::F32);
/// assert!(x.min(..).item::<f32>()? >= 0.0 && x.max(..).item::<f32>()? < 1.0);
/// assert_eq!(Generator::new(7).uniform(1000, DType::F32).to_vec::<f32>()?, x.to_vec::<f32>()?);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    seed: u64,
    count: u64,
}

impl Generator {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Generator {
        Generator { seed, count: 0 }
    }

    /// The key of the next tensor: seed and count mixed, so that neighbouring ones have nothing in common.
    fn key(&mut self) -> [u32; 2] {
        self.count = self.count.wrapping_add(1);
        let mut z = self.seed ^ self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        [z as u32, (z >> 32) as u32]
    }

    /// Random words: u32, all values equally likely.
    #[track_caller]
    pub fn words(&mut self, shape: impl Into<NewShape>) -> Tensor {
        let (key, shape) = (self.key(), shape.into());
        Tensor::build("words", || {
            let shape = shape.sizes()?;
            let elements = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            if elements.is_none_or(|n| n > 1 << 32) {
                return Err(Error::shape(format!(
                    "{shape:?} has more elements than the 2^32 random words of a tensor"
                )));
            }
            Tensor::new_node(Random { key, shape }, Inputs::new())
        })
    }

    /// 64 random bits for each element, as u64.
    #[track_caller]
    fn long_words(&mut self, shape: &NewShape) -> Tensor {
        let (high, low) = (self.words(shape.clone()), self.words(shape.clone()));
        high.cast(DType::U64).shl(32).or(&low.cast(DType::U64))
    }

    /// Numbers from 0 up to but without 1, all multiples of a power of two with as many bits as the dtype holds (24 for f32, 53
    /// for f64). Bit for bit the same on every device.
    #[track_caller]
    pub fn uniform(&mut self, shape: impl Into<NewShape>, dtype: DType) -> Tensor {
        Tensor::composed("uniform", || {
            let shape = shape.into();
            match dtype {
                DType::F64 => self.long_words(&shape).shr(11).cast(DType::F64) * (-53f64).exp2(),
                DType::F32 => self.words(shape).shr(8).cast(DType::F32) * (-24f64).exp2(),
                DType::F16 => (self.words(shape).shr(21).cast(DType::F32) * (-11f64).exp2()).cast(DType::F16),
                DType::BF16 => (self.words(shape).shr(24).cast(DType::F32) * (-8f64).exp2()).cast(DType::BF16),
                _ => Tensor::build("uniform", || Err(not_float("uniform", dtype))),
            }
        })
    }

    /// Numbers of the normal distribution with mean 0 and variance 1, by the method of Box and Muller. Within the error bounds of
    /// its functions the same on every device; no number is farther from 0 than 5.8 (f32) or 8.6 (f64).
    #[track_caller]
    pub fn normal(&mut self, shape: impl Into<NewShape>, dtype: DType) -> Tensor {
        Tensor::composed("normal", || {
            let of = match dtype {
                DType::F16 | DType::BF16 => DType::F32,
                other => other,
            };
            if dtype.kind() != Family::Float {
                return Tensor::build("normal", || Err(not_float("normal", dtype)));
            }
            let shape = shape.into();
            let (distance, angle) = (self.uniform(shape.clone(), of), self.uniform(shape, of));
            // One less the number lies above 0, so that its logarithm exists.
            let distance = ((1.0 - distance).log() * -2.0).sqrt();
            (distance * (angle * std::f64::consts::TAU).cos()).cast(dtype)
        })
    }

    /// Integers from `low` up to but without `high`, as i64. Bit for bit the same on every device; none is more likely than
    /// another by more than (high - low) / 2^64.
    #[track_caller]
    pub fn integers(&mut self, shape: impl Into<NewShape>, low: i64, high: i64) -> Tensor {
        Tensor::composed("integers", || {
            let words = self.long_words(&shape.into());
            Tensor::build("integers", || {
                if low >= high {
                    return Err(Error::argument(format!("there is no integer from {low} up to but without {high}")));
                }
                let range = Tensor::scalar(high.wrapping_sub(low) as u64);
                // Sums wrap, so that ranges wider than those of i64 come out right.
                Ok(words.rem(&range).cast(DType::I64) + low)
            })
        })
    }

    /// The numbers from 0 up to but without `n` in a random order, as i64; every order is as likely as any other but for one part in
    /// 2^64. Bit for bit the same on every device.
    ///
    /// ```
    /// use millstream::{Generator, Order};
    /// let order = Generator::new(3).permutation(100);
    /// assert_eq!(order.sort(0, Order::Ascending).to_vec::<i64>()?, (0..100).collect::<Vec<_>>());
    /// assert_eq!(Generator::new(3).permutation(100).to_vec::<i64>()?, order.to_vec::<i64>()?);
    /// # Ok::<(), millstream::Error>(())
    /// ```
    #[track_caller]
    pub fn permutation(&mut self, n: usize) -> Tensor {
        Tensor::composed("permutation", || self.long_words(&n.into()).argsort(0, Order::Ascending))
    }

    /// The slices of an axis in a random order: [`Generator::permutation`] of its indices.
    #[track_caller]
    pub fn shuffle(&mut self, x: &Tensor, axis: impl Integer) -> Tensor {
        Tensor::composed("shuffle", || match x.axis(axis) {
            Ok(at) => x.take(&self.permutation(x.sizes()[at]), axis),
            Err(error) => Tensor::build("shuffle", || x.check().and(Err(error))),
        })
    }

    /// True with this probability, from 0 to 1, else false.
    #[track_caller]
    pub fn bernoulli(&mut self, shape: impl Into<NewShape>, probability: f64) -> Tensor {
        Tensor::composed("bernoulli", || {
            if !(0.0..=1.0).contains(&probability) {
                return Tensor::build("bernoulli", || {
                    Err(Error::argument(format!("a probability of {probability} does not lie from 0 to 1")))
                });
            }
            self.uniform(shape, DType::F32).lt(probability)
        })
    }
}

/// # Dropout
impl Tensor {
    /// Elements set to 0 with this probability, the others divided by what is left of 1, as in training. Not for inference,
    /// which leaves it out.
    #[track_caller]
    pub fn dropout(&self, probability: f64, generator: &mut Generator) -> Tensor {
        Tensor::composed("dropout", || {
            if !(0.0..1.0).contains(&probability) {
                return Tensor::build("dropout", || {
                    Err(Error::argument(format!(
                        "a probability of {probability} does not lie from 0 up to but without 1"
                    )))
                });
            }
            let passed = generator.uniform(self.sizes(), DType::F32).ge(probability);
            passed.where_(&(self / (1.0 - probability)), 0)
        })
    }
}

fn not_float(what: &str, dtype: DType) -> Error {
    Error::dtype(format!("{what} random numbers are floats, not {dtype}"))
}
