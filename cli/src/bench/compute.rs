//! The computed cases: how the tensor is built, what its elements must be, what arithmetic and bytes it takes at least.

use millstream::{DType, Tensor};

use super::random::Source;

/// What is said about a case beside its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Arithmetic a second.
    Flop,
    /// Bytes a second.
    Bytes,
}

/// How exactly a contraction multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In the dtype of its operands.
    Full,
    /// Operands in f32, rounded to the ten bits of tf32 before they are multiplied.
    Tf32,
}

/// A random input.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its shape.
    pub shape: Vec<usize>,
    /// For indices: they are below this. Other inputs are normal numbers of the case's dtype.
    pub below: Option<usize>,
}

impl Input {
    /// Normal numbers.
    pub fn normal(shape: &[usize]) -> Input {
        Input { shape: shape.to_vec(), below: None }
    }

    /// Indices from 0 up to but without `below`.
    pub fn indices(shape: &[usize], below: usize) -> Input {
        Input { shape: shape.to_vec(), below: Some(below) }
    }
}

/// The graph of a case, as a program would write it, from the inputs and sizes.
pub type Build = fn(&[Tensor], &[usize]) -> Tensor;
/// An element of the result in double precision, from the inputs and sizes.
pub type Expected = fn(&[Source], &[usize], usize) -> f64;
/// The error of a whole result, given as numbers, from the inputs and sizes: how far the worst element is off, over the largest.
pub type Whole = fn(&[Source], &[usize], &[f64]) -> f64;

/// A tensor to be computed from random inputs.
#[derive(Clone, Debug)]
pub struct Compute {
    /// The dtype of inputs and output.
    pub dtype: DType,
    /// How exactly it is computed.
    pub precision: Precision,
    /// The sizes of the case.
    pub sizes: Vec<usize>,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// How many elements the result has.
    pub elements: usize,
    /// The graph.
    pub build: Build,
    /// The inputs that stay the same for long, as a model's weights do.
    pub keep: &'static [usize],
    /// What an element must be.
    pub expected: Expected,
    /// How many input elements one such element takes: what checking it costs.
    pub reach: usize,
    /// How the result is checked as a whole, where no element can be told alone; `expected` is not asked then.
    pub whole: Option<Whole>,
    /// The relative error above which a result is wrong, whatever the order of the arithmetic.
    pub bound: f64,
    /// The arithmetic of the definition.
    pub flop: u64,
    /// The algorithms allowed may take as little as one part in this many of it: 1 for the definition itself.
    pub saving: u64,
    /// The least bytes read and written.
    pub bytes: u64,
    /// What is said about it.
    pub shown: Shown,
}

impl Compute {
    /// The inputs: where their elements come from, and as tensors of the host.
    pub fn inputs(&self) -> (Vec<Source>, Vec<Tensor>) {
        let source = |(seed, input): (u64, &Input)| Source::new(seed, self.dtype, input.below);
        let sources: Vec<Source> = (0..).zip(&self.inputs).map(source).collect();
        let tensors = sources.iter().zip(&self.inputs).map(|(s, input)| s.tensor(&input.shape)).collect();
        (sources, tensors)
    }
}

/// The bound for arithmetic in this dtype; integers are exact.
pub fn bound(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F32 => 1e-4,
        DType::F16 | DType::BF16 => 4.0 * dtype.epsilon(),
        _ => 0.0,
    }
}

/// The bytes of so many elements.
pub fn bytes(dtype: DType, elements: &[usize]) -> u64 {
    elements.iter().map(|&n| n as u64).sum::<u64>() * dtype.size() as u64
}

fn dot(of: &[Source], sizes: &[usize], i: usize) -> f64 {
    match (of, sizes) {
        ([a, b, ..], &[_, k, n]) => (0..k).map(|j| a.at(i / n * k + j) * b.at(j * n + i % n)).sum(),
        _ => f64::NAN,
    }
}

/// `A @ B`.
pub fn matmul(dtype: DType, sizes: &[usize]) -> Compute {
    let (m, k, n) = (sizes[0], sizes[1], sizes[2]);
    Compute {
        dtype,
        precision: Precision::Full,
        sizes: sizes.to_vec(),
        inputs: vec![Input::normal(&[m, k]), Input::normal(&[k, n])],
        elements: m * n,
        build: match dtype {
            // Sums of bytes are wider than bytes.
            DType::I8 => |x, _| x[0].cast(DType::I32).matmul(&x[1].cast(DType::I32)),
            _ => |x, _| x[0].matmul(&x[1]),
        },
        keep: &[],
        expected: dot,
        reach: 2 * k,
        whole: None,
        bound: bound(dtype),
        flop: 2 * (m * k * n) as u64,
        saving: 1,
        bytes: bytes(dtype, &[m * k, k * n]) + bytes(if dtype == DType::I8 { DType::I32 } else { dtype }, &[m * n]),
        shown: Shown::Flop,
    }
}

/// A batch of matmuls.
pub fn bmm(dtype: DType, sizes: &[usize]) -> Compute {
    let (b, m, k, n) = (sizes[0], sizes[1], sizes[2], sizes[3]);
    let one = matmul(dtype, &sizes[1..]);
    Compute {
        sizes: sizes.to_vec(),
        inputs: vec![Input::normal(&[b, m, k]), Input::normal(&[b, k, n])],
        elements: b * one.elements,
        expected: |of, sizes, i| {
            let (m, k, n) = (sizes[1], sizes[2], sizes[3]);
            let (row, batch) = (i / n, i / (m * n));
            (0..k).map(|j| of[0].at(row * k + j) * of[1].at((batch * k + j) * n + i % n)).sum()
        },
        flop: b as u64 * one.flop,
        bytes: b as u64 * one.bytes,
        ..one
    }
}

/// `gelu(A @ B + bias)`.
pub fn linear(dtype: DType, sizes: &[usize]) -> Compute {
    let (m, n) = (sizes[0], sizes[2]);
    let plain = matmul(dtype, sizes);
    let mut inputs = plain.inputs;
    inputs.push(Input::normal(&[n]));
    Compute {
        inputs,
        build: |x, _| (x[0].matmul(&x[1]) + &x[2]).gelu(),
        expected: |of, sizes, i| {
            let bias = of.last().map_or(f64::NAN, |b| b.at(i % sizes[2]));
            let v = dot(of, sizes, i) + bias;
            0.5 * v * (1.0 + erf(v * std::f64::consts::FRAC_1_SQRT_2))
        },
        flop: plain.flop + (m * n) as u64,
        bytes: plain.bytes + bytes(dtype, &[n]),
        ..plain
    }
}

/// A case over `inputs` rows of `n` elements, one result for each.
pub fn elementwise(dtype: DType, n: usize, inputs: usize, flop: u64) -> Compute {
    Compute {
        dtype,
        precision: Precision::Full,
        sizes: vec![n],
        inputs: vec![Input::normal(&[n]); inputs],
        elements: n,
        build: |x, _| x[0].clone(),
        keep: &[],
        expected: |of, _, i| of[0].at(i),
        reach: inputs,
        whole: None,
        bound: bound(dtype),
        flop: flop * n as u64,
        saving: 1,
        bytes: bytes(dtype, &vec![n; inputs + 1]),
        shown: Shown::Bytes,
    }
}

/// A copy.
pub fn copy(dtype: DType, sizes: &[usize]) -> Compute {
    Compute { build: |x, _| x[0].copy(), ..elementwise(dtype, sizes[0], 1, 0) }
}

/// `x + y`.
pub fn add(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| &x[0] + &x[1],
        expected: |of, _, i| of[0].at(i) + of[1].at(i),
        ..elementwise(dtype, sizes[0], 2, 1)
    }
}

/// `exp(x)`.
pub fn exp(dtype: DType, sizes: &[usize]) -> Compute {
    Compute { build: |x, _| x[0].exp(), expected: |of, _, i| of[0].at(i).exp(), ..elementwise(dtype, sizes[0], 1, 1) }
}

/// `tanh(1.5x + y) * sigmoid(x) - sqrt(|y|)`.
pub fn chain(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |t, _| {
            let (x, y) = (&t[0], &t[1]);
            (x * 1.5 + y).tanh() * x.sigmoid() - y.abs().sqrt()
        },
        expected: |of, _, i| {
            let (x, y) = (of[0].at(i), of[1].at(i));
            (1.5 * x + y).tanh() / (1.0 + (-x).exp()) - y.abs().sqrt()
        },
        ..elementwise(dtype, sizes[0], 2, 8)
    }
}

/// The sum of all elements.
pub fn sum(dtype: DType, sizes: &[usize]) -> Compute {
    let n = sizes[0];
    Compute {
        elements: 1,
        build: |x, _| x[0].sum(..),
        expected: |of, sizes, _| (0..sizes[0]).map(|i| of[0].at(i)).sum(),
        reach: n,
        bytes: bytes(dtype, &[n, 1]),
        ..elementwise(dtype, n, 1, 1)
    }
}

/// A case over the rows of one matrix, one result for each element.
pub fn rows(dtype: DType, sizes: &[usize], flop: u64) -> Compute {
    let (r, c) = (sizes[0], sizes[1]);
    Compute {
        sizes: sizes.to_vec(),
        inputs: vec![Input::normal(&[r, c])],
        reach: c,
        ..elementwise(dtype, r * c, 1, flop)
    }
}

/// Softmax of each row.
pub fn softmax(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| x[0].softmax(-1),
        expected: |of, sizes, i| {
            let c = sizes[1];
            let row = i / c * c;
            let total: f64 = (row..row + c).map(|j| of[0].at(j).exp()).sum();
            of[0].at(i).exp() / total
        },
        ..rows(dtype, sizes, 4)
    }
}

/// Each row brought to mean 0 and variance 1.
pub fn layernorm(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| x[0].layernorm(-1, 1e-5),
        expected: |of, sizes, i| {
            let c = sizes[1];
            let row: Vec<f64> = (i / c * c..i / c * c + c).map(|j| of[0].at(j)).collect();
            let mean = row.iter().sum::<f64>() / c as f64;
            let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / c as f64;
            (of[0].at(i) - mean) / (variance + 1e-5).sqrt()
        },
        ..rows(dtype, sizes, 6)
    }
}

/// A transposed copy.
pub fn transpose(dtype: DType, sizes: &[usize]) -> Compute {
    Compute {
        build: |x, _| x[0].transpose().contiguous(),
        expected: |of, sizes, i| of[0].at(i % sizes[0] * sizes[1] + i / sizes[0]),
        reach: 1,
        ..rows(dtype, sizes, 0)
    }
}

/// The sum of each column.
pub fn colsum(dtype: DType, sizes: &[usize]) -> Compute {
    let (r, c) = (sizes[0], sizes[1]);
    Compute {
        elements: c,
        build: |x, _| x[0].sum(0),
        expected: |of, sizes, i| (0..sizes[0]).map(|r| of[0].at(r * sizes[1] + i)).sum(),
        reach: r,
        bytes: bytes(dtype, &[r * c, c]),
        ..rows(dtype, sizes, 1)
    }
}

/// The sum of each row.
pub fn rowsum(dtype: DType, sizes: &[usize]) -> Compute {
    let (r, c) = (sizes[0], sizes[1]);
    Compute {
        elements: r,
        build: |x, _| x[0].sum(1),
        expected: |of, sizes, i| (i * sizes[1]..(i + 1) * sizes[1]).map(|j| of[0].at(j)).sum(),
        bytes: bytes(dtype, &[r * c, r]),
        ..rows(dtype, sizes, 1)
    }
}

/// The error function to about 15 digits: the series near 0, the continued fraction of its complement beyond.
fn erf(x: f64) -> f64 {
    let size = x.abs();
    let scale = (-size * size).exp() / std::f64::consts::PI.sqrt();
    let value = if size < 3.0 {
        let (mut term, mut sum) = (size, size);
        for n in 1..100 {
            term *= 2.0 * size * size / (2 * n + 1) as f64;
            sum += term;
        }
        2.0 * scale * sum
    } else {
        let fraction = (1..60).rev().fold(size, |below, n| size + n as f64 / 2.0 / below);
        1.0 - scale / fraction
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_is_exact_enough() {
        for (x, y) in [(0.0, 0.0), (0.5, 0.5204998778130465), (1.0, 0.8427007929497149), (2.0, 0.9953222650189527)] {
            assert!((erf(x) - y).abs() < 1e-14, "{x}");
            assert_eq!(erf(-x), -erf(x));
        }
        assert!((erf(2.9999999) - erf(3.0)).abs() < 1e-10 && erf(9.0) == 1.0);
        assert!((erf(3.5) - 0.9999992569016276).abs() < 1e-15);
    }

    #[test]
    fn flop_and_bytes_are_those_of_the_definition() {
        let case = matmul(DType::F16, &[2, 3, 5]);
        assert_eq!((case.flop, case.bytes, case.elements), (60, 2 * (6 + 15 + 10), 10));
        let case = add(DType::F32, &[100]);
        assert_eq!((case.bytes, case.elements), (1200, 100));
        let case = colsum(DType::F32, &[7, 9]);
        assert_eq!((case.bytes, case.elements, case.reach), (4 * (63 + 9), 9, 7));
        let case = rowsum(DType::F32, &[7, 9]);
        assert_eq!((case.bytes, case.elements, case.reach), (4 * (63 + 7), 7, 9));
    }
}
