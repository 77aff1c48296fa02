//! Convolutions by Winograd's algorithm against the reference, on every instruction set, on one thread and on two.

mod common;

use common::{Random, backends, check_with, default_stream, extent, run};
use millstream_core::backend::Backend;
use millstream_core::what::{HostTensor, Tolerance, evaluate};
use millstream_core::{Access, Accuracy, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar};

fn input(n: u16) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(n, DType::F32);
    b.finish(&[x])
}

/// The epilogue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behind {
    Nothing,
    /// A bias for each output channel, another image, and the larger of that and zero.
    BiasResidualRelu,
}

/// A convolution by 3 x 3 filters at every pixel.
#[derive(Clone, Copy, Debug)]
struct Case {
    images: usize,
    channels: usize,
    filters: usize,
    size: [usize; 2],
    /// Before and after rows, before and after columns.
    padding: [usize; 4],
    channels_last: bool,
    /// Whether images are pixels, as they are where results are small, or matrices of a batch.
    together: bool,
    /// Whether the filters are flipped, as for a transposed convolution.
    flipped: bool,
    /// Whether the image is read from its last row and column on.
    mirrored: bool,
    behind: Behind,
}

impl Case {
    fn random(random: &mut Random) -> Case {
        let amount = |random: &mut Random| random.below(3);
        let padding = [amount(random), amount(random), amount(random), amount(random)];
        // Results have two rows and columns at least.
        let size = [0, 2].map(|a: usize| {
            let least = 4usize.saturating_sub(padding[a] + padding[a + 1]).max(1);
            least + random.below(13)
        });
        Case {
            images: 1 + random.below(3),
            channels: 1 + random.below(40),
            filters: 1 + random.below(40),
            size,
            padding,
            channels_last: random.below(2) == 0,
            together: random.below(2) == 0,
            flipped: random.below(4) == 0,
            mirrored: random.below(4) == 0,
            behind: [Behind::Nothing, Behind::BiasResidualRelu][random.below(2)],
        }
    }

    fn results(&self) -> [usize; 2] {
        [0, 1].map(|a| self.size[a] + self.padding[2 * a] + self.padding[2 * a + 1] - 2)
    }

    fn op(&self) -> Op {
        let Case { images, channels, filters, size: [h, w], padding, .. } = *self;
        let [oh, ow] = self.results();
        let at = |c: usize, h: usize, w: usize| {
            // Image, channel, row, column.
            let strides = if self.channels_last { [h * w * c, 1, w * c, c] } else { [c * h * w, h * w, w, 1] };
            strides.map(|s| s as isize)
        };
        let (x, y) = (at(channels, h, w), at(filters, oh, ow));
        // Dimensions: image | row, column | filter | channel, tap, tap; by groups the image is in the batch or a pixel.
        let dims = [images, oh, ow, filters, channels, 3, 3];
        let image = [x[0], x[2], x[3], 0, x[1], x[2], x[3]];
        let filter = [0, 0, 0, 9 * channels as isize, 9, 3, 1];
        let filter = if self.flipped { [0, 0, 0, 9 * channels as isize, 9, -3, -1] } else { filter };
        let result = [y[0], y[2], y[3], y[1], 0, 0, 0];
        let bias = [0, 0, 0, 1, 0, 0, 0];
        // Channels first have filters as rows.
        let order: [usize; 7] = if self.channels_last { [0, 1, 2, 3, 4, 5, 6] } else { [0, 3, 1, 2, 4, 5, 6] };
        let order: [usize; 7] = if self.together && !self.channels_last { [3, 0, 1, 2, 4, 5, 6] } else { order };
        let dims = order.map(|d| dims[d]);
        let put = |s: [isize; 7]| order.map(|d| s[d]);
        let mut image = Access::new(DType::F32, &put(image));
        let [top, bottom, left, right] = padding.map(|p| p as isize);
        image.base = -top * x[2] - left * x[3];
        if self.mirrored {
            // The last row and the last column come first.
            image.base = (h as isize - 1 + top) * x[2] + (w as isize - 1 + left) * x[3];
            for d in [1, 2, 5, 6] {
                let at = order.iter().position(|&o| o == d).unwrap();
                image.strides[at] = -image.strides[at];
            }
        }
        let guard = |pixel: usize, tap: usize, offset: isize, limit: usize| {
            let mut coefficients = [0isize; 7];
            (coefficients[pixel], coefficients[tap]) = (1, 1);
            Guard { coefficients: put(coefficients).as_slice().into(), offset, limit }
        };
        if top + bottom > 0 {
            image.guards.push(guard(1, 5, -top, h));
        }
        if left + right > 0 {
            image.guards.push(guard(2, 6, -left, w));
        }
        let filter = Access::new(DType::F32, &put(filter));
        let result = Access::new(DType::F32, &put(result));
        let (m, n) = match (self.channels_last, self.together) {
            (true, true) => (0, 3),
            (true, false) => (1, 3),
            (false, true) => (0, 1),
            (false, false) => (1, 2),
        };
        let mut inputs = if self.channels_last { vec![image, filter] } else { vec![filter, image] };
        let mut epilogue = Expr::acc(DType::F32);
        if self.behind == Behind::BiasResidualRelu {
            inputs.push(Access::new(DType::F32, &put(bias)));
            inputs.push(result.clone());
            let mut b = ExprBuilder::new();
            let sum = b.push(Node::Acc, DType::F32);
            let (bias, other) = (b.input(2, DType::F32), b.input(3, DType::F32));
            let sum = b.binary(Binary::Add, sum, bias).unwrap();
            let sum = b.binary(Binary::Add, sum, other).unwrap();
            let zero = b.constant(Scalar::new(0f32));
            let positive = b.binary(Binary::Max, sum, zero).unwrap();
            epilogue = b.finish(&[positive]);
        }
        let contract = Contract {
            m,
            n,
            k: 4,
            lhs: input(0),
            rhs: input(1),
            acc: DType::F32,
            epilogue,
            accuracy: Accuracy::Winograd,
        };
        Op::contract(&dims, inputs, vec![result], contract).unwrap()
    }

    fn inputs(&self, op: &Op, random: &mut Random) -> Vec<HostTensor> {
        let image = self.images * self.channels * self.size[0] * self.size[1];
        let image_at = usize::from(!self.channels_last);
        let of = |(i, a): (usize, &Access)| match i {
            i if i == image_at => random.tensor(DType::F32, image),
            _ => {
                let (len, offset) = extent(a, &op.dims);
                random.tensor(DType::F32, len).with_offset(offset)
            }
        };
        op.inputs.iter().enumerate().map(of).collect()
    }

    fn check(&self, random: &mut Random) {
        println!("{self:?}");
        let op = self.op();
        let inputs = self.inputs(&op, random);
        for backend in backends().iter().filter(|b| b.isa() != millstream_cpu::Isa::Portable) {
            let families: Vec<_> = backend.variants(&op).iter().map(|v| v.variant.family.name().to_string()).collect();
            assert!(["winograd 4x4", "winograd 2x2"].iter().all(|w| families.iter().any(|f| f == w)), "{families:?}");
        }
        check_with(&op, &inputs, &[]);
    }
}

const BASE: Case = Case {
    images: 2,
    channels: 19,
    filters: 21,
    size: [9, 11],
    padding: [1, 1, 1, 1],
    channels_last: false,
    together: false,
    flipped: false,
    mirrored: false,
    behind: Behind::Nothing,
};

#[test]
fn images_that_are_read_backwards_agree() {
    let mut random = Random::new();
    for padding in [[0; 4], [1; 4], [2, 0, 1, 3]] {
        Case { mirrored: true, padding, ..BASE }.check(&mut random);
        Case { mirrored: true, padding, channels_last: true, ..BASE }.check(&mut random);
    }
}

#[test]
fn tiles_at_every_edge_and_every_padding_agree() {
    let mut random = Random::new();
    for channels_last in [false, true] {
        for padding in [[0; 4], [1; 4], [1, 0, 0, 2], [0, 0, 1, 1], [2, 2, 2, 2]] {
            Case { padding, channels_last, ..BASE }.check(&mut random);
        }
    }
    for size in [[2, 2], [4, 5], [3, 40]] {
        Case { size, ..BASE }.check(&mut random);
    }
}

#[test]
fn random_convolutions_agree() {
    let mut random = Random::new();
    for _ in 0..12 {
        Case::random(&mut random).check(&mut random);
    }
}

#[test]
fn many_channels_are_summed_in_pieces() {
    let mut random = Random::new();
    Case { channels: 300, filters: 9, size: [5, 6], behind: Behind::BiasResidualRelu, ..BASE }.check(&mut random);
}

#[test]
fn work_of_several_chunks_agrees() {
    // A chunk's transforms fill half of L2: some hundred kilobytes.
    let mut random = Random::new();
    Case { images: 3, channels: 64, filters: 3, size: [30, 30], together: true, ..BASE }.check(&mut random);
}

#[test]
fn other_windows_and_full_accuracy_are_computed_plainly() {
    let full = |op: Op| match op.body {
        millstream_core::Body::Contract(c) => {
            let contract = Contract { accuracy: Accuracy::Full, ..*c };
            Op::new(op.dims, op.inputs, op.outputs, millstream_core::Body::Contract(Box::new(contract)))
        }
        _ => op,
    };
    let plain = |op: &Op| backends()[0].variants(op).iter().all(|v| !v.variant.family.name().starts_with("winograd"));
    assert!(!plain(&BASE.op()));
    assert!(plain(&full(BASE.op())), "nobody allowed fewer multiplications");
    // Every second pixel.
    let mut op = BASE.op();
    let image = &mut op.inputs[1];
    for (d, n) in op.dims.iter().enumerate().skip(2).take(2) {
        assert!(*n > 2);
        image.strides[d] *= 2;
        image.guards.iter_mut().for_each(|g| g.coefficients[d] *= 2);
    }
    assert!(plain(&op));
}

#[test]
fn the_error_of_ordinary_numbers_is_a_few_roundings_of_their_size() {
    let mut random = Random::new();
    let case = Case { images: 1, channels: 64, filters: 16, size: [16, 16], ..BASE };
    let op = case.op();
    let inputs = case.inputs(&op, &mut random);
    let exact = evaluate(&op, &inputs, &[], Tolerance::CPU).unwrap();
    for backend in backends().iter().filter(|b| b.threads() == 1) {
        let stream = default_stream(backend);
        for variant in backend.variants(&op).iter().filter(|v| v.variant.family.name().starts_with("winograd")) {
            let got = run(backend, &*stream, &op, variant, &inputs, &[], common::Alignment::Aligned);
            let mut squares = (0.0, 0.0);
            for e in &exact[0] {
                let millstream_core::what::Exact::Float(value) = e.value else { panic!("a real number") };
                let off = got[0].at(e.position).unwrap().to_f64() - value;
                squares = (squares.0 + off * off, squares.1 + value * value);
            }
            let relative = (squares.0 / squares.1).sqrt();
            println!("{} {}: {relative:e}", backend.isa().name(), variant.variant.family);
            assert!(relative < 3e-6, "{}: {relative:e}", variant.variant.family);
        }
    }
}
