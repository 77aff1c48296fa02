//! Convolutions whose filters see one channel each against the reference, on every instruction set, on one thread and on two.

mod common;

use common::{Random, backends, check_with, extent};
use millstream_core::backend::Backend;
use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar};

fn input(n: u16) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(n, DType::F32);
    b.finish(&[x])
}

/// A convolution with several filters for each channel.
#[derive(Clone, Copy, Debug)]
struct Case {
    images: usize,
    channels: usize,
    /// Filters of a channel.
    filters: usize,
    size: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    /// Before and after rows, before and after columns.
    padding: [usize; 4],
    /// Whether images are pixels, or matrices of a batch.
    together: bool,
    /// Whether the image is read from its last row on.
    mirrored: bool,
    /// Whether a bias for each result's channel is added, and the larger of that and zero added to that.
    biased: bool,
}

impl Case {
    fn random(random: &mut Random) -> Case {
        let mut pair = |least: usize, more: usize| [least + random.below(more), least + random.below(more)];
        let (window, stride, dilation, before, after) = (pair(1, 4), pair(1, 3), pair(1, 2), pair(0, 3), pair(0, 3));
        let more = pair(0, 20);
        // At least four columns of results, and one row.
        let size = [0, 1].map(|a| {
            let reach = (window[a] - 1) * dilation[a] + 1;
            let least = reach + (if a == 1 { 3 } else { 1 }) * stride[a];
            (least + more[a]).saturating_sub(before[a] + after[a]).max(1)
        });
        Case {
            images: 1 + random.below(3),
            channels: if random.below(2) == 0 { 1 + random.below(6) } else { 1 + random.below(40) },
            filters: 1 + random.below(3),
            size,
            window,
            stride,
            dilation,
            padding: [before[0], after[0], before[1], after[1]],
            together: random.below(2) == 0,
            mirrored: random.below(4) == 0,
            biased: random.below(2) == 0,
        }
    }

    fn results(&self) -> [usize; 2] {
        [0, 1].map(|a| {
            let whole = self.size[a] + self.padding[2 * a] + self.padding[2 * a + 1];
            (whole - (self.window[a] - 1) * self.dilation[a] - 1) / self.stride[a] + 1
        })
    }

    fn op(&self) -> Op {
        let Case { images, channels, filters, size: [h, w], window: [r, s], padding, .. } = *self;
        let [oh, ow] = self.results();
        // Image, channel | filter | row, column | tap, tap; or channel | filter | image, row, column | ...
        let order: [usize; 7] = if self.together { [1, 2, 0, 3, 4, 5, 6] } else { [0, 1, 2, 3, 4, 5, 6] };
        let put = |s: [usize; 7]| order.map(|d| s[d] as isize);
        let [sy, sx] = self.stride;
        let [dy, dx] = self.dilation;
        let mut image = Access::new(DType::F32, &put([channels * h * w, h * w, 0, sy * w, sx, dy * w, dx]));
        let [top, bottom, left, right] = padding;
        image.base = -((top * w + left) as isize);
        if self.mirrored {
            // The last row comes first.
            image.base = ((h - 1 + top) * w) as isize - left as isize;
            for d in [3, 5] {
                let at = order.iter().position(|&o| o == d).unwrap();
                image.strides[at] = -image.strides[at];
            }
        }
        let guard = |coefficients: [usize; 7], before: usize, limit: usize| Guard {
            coefficients: put(coefficients).as_slice().into(),
            offset: -(before as isize),
            limit,
        };
        if top + bottom > 0 {
            image.guards.push(guard([0, 0, 0, sy, 0, dy, 0], top, h));
        }
        if left + right > 0 {
            image.guards.push(guard([0, 0, 0, 0, sx, 0, dx], left, w));
        }
        let filter = Access::new(DType::F32, &put([0, filters * r * s, r * s, 0, 0, s, 1]));
        let plane = oh * ow;
        let result = Access::new(DType::F32, &put([channels * filters * plane, filters * plane, plane, ow, 1, 0, 0]));
        let mut inputs = vec![filter, image];
        let mut epilogue = Expr::acc(DType::F32);
        if self.biased {
            inputs.push(Access::new(DType::F32, &put([0, filters, 1, 0, 0, 0, 0])));
            let mut b = ExprBuilder::new();
            let (sum, bias) = (b.push(Node::Acc, DType::F32), b.input(2, DType::F32));
            let sum = b.binary(Binary::Add, sum, bias).unwrap();
            let zero = b.constant(Scalar::new(0f32));
            let positive = b.binary(Binary::Max, sum, zero).unwrap();
            // The sum is needed again.
            let both = b.binary(Binary::Add, positive, sum).unwrap();
            epilogue = b.finish(&[both]);
        }
        let dims = order.map(|d| [images, channels, filters, oh, ow, r, s][d]);
        let (m, n) = if self.together { (1, 2) } else { (2, 3) };
        let contract = Contract {
            m,
            n,
            k: 5,
            lhs: input(0),
            rhs: input(1),
            acc: DType::F32,
            epilogue,
            accuracy: Default::default(),
        };
        Op::contract(&dims, inputs, vec![result], contract).unwrap()
    }

    fn check(&self, random: &mut Random) {
        println!("{self:?}");
        let op = self.op();
        let image = self.images * self.channels * self.size[0] * self.size[1];
        let inputs: Vec<_> = op
            .inputs
            .iter()
            .enumerate()
            .map(|(i, a)| random.tensor(DType::F32, if i == 1 { image } else { extent(a, &op.dims).0 }))
            .collect();
        check_with(&op, &inputs, &[]);
    }

    fn is_known(&self) -> bool {
        backends()[0].variants(&self.op()).iter().any(|v| v.variant.family.name() == "depthwise")
    }
}

const BASE: Case = Case {
    images: 2,
    channels: 3,
    filters: 1,
    size: [9, 21],
    window: [3, 3],
    stride: [1, 1],
    dilation: [1, 1],
    padding: [1; 4],
    together: false,
    mirrored: false,
    biased: false,
};

#[test]
fn strides_dilations_paddings_and_several_filters_agree() {
    let mut random = Random::new();
    let cases = [
        BASE,
        Case { padding: [0; 4], ..BASE },
        Case { padding: [2, 0, 0, 3], biased: true, ..BASE },
        Case { stride: [2, 2], ..BASE },
        Case { stride: [2, 3], together: true, ..BASE },
        Case { dilation: [2, 3], padding: [2, 2, 3, 3], ..BASE },
        Case { stride: [3, 2], dilation: [1, 3], biased: true, ..BASE },
        Case { filters: 3, biased: true, ..BASE },
        Case { window: [5, 7], padding: [2, 2, 3, 3], together: true, ..BASE },
        Case { window: [1, 3], padding: [0, 0, 1, 1], ..BASE },
        Case { window: [3, 1], padding: [1, 1, 0, 0], ..BASE },
        // Square windows that have kernels of their own, in wide rows and in narrow ones.
        Case { size: [9, 90], biased: true, ..BASE },
        Case { size: [11, 90], window: [5, 5], padding: [2; 4], ..BASE },
        Case { size: [11, 80], window: [5, 5], padding: [0, 1, 3, 2], stride: [2, 2], ..BASE },
        Case { size: [12, 90], window: [7, 7], padding: [3; 4], ..BASE },
        Case { size: [8, 16], padding: [0; 4], ..BASE },
        Case { size: [9, 19], window: [5, 5], padding: [0; 4], ..BASE },
        Case { size: [8, 8], window: [7, 7], padding: [3; 4], biased: true, ..BASE },
        // Narrow planes, with windows that reach beyond both ends, and a large one.
        Case { size: [5, 6], window: [5, 5], padding: [2; 4], biased: true, ..BASE },
        Case { size: [4, 9], window: [3, 7], padding: [3, 2, 3, 3], dilation: [2, 1], together: true, ..BASE },
        Case { size: [2, 8], window: [1, 5], dilation: [1, 2], padding: [0, 0, 4, 4], ..BASE },
        Case { images: 1, channels: 1, size: [80, 90], biased: true, ..BASE },
        // Rows of results that are no whole vectors, and single rows; strides whose last elements lie beyond the row.
        Case { size: [11, 64], stride: [2, 2], padding: [0; 4], ..BASE },
        Case { size: [9, 70], stride: [2, 2], padding: [0, 1, 0, 1], biased: true, ..BASE },
        Case { size: [6, 67], stride: [1, 2], window: [2, 5], padding: [1, 0, 2, 2], ..BASE },
        Case { size: [8, 40], stride: [4, 4], ..BASE },
        Case { size: [7, 7], ..BASE },
        Case { mirrored: true, ..BASE },
        Case { mirrored: true, stride: [2, 2], padding: [0, 2, 1, 0], ..BASE },
        Case { size: [14, 14], stride: [2, 2], ..BASE },
        Case { size: [1, 50], window: [1, 3], padding: [0, 0, 1, 1], ..BASE },
    ];
    for case in cases {
        assert!(case.is_known(), "{case:?}");
        case.check(&mut random);
    }
}

#[test]
fn bundles_of_channels_agree() {
    let mut random = Random::new();
    let base = Case { channels: 19, size: [7, 7], ..BASE };
    let cases = [
        base,
        Case { window: [7, 7], padding: [3; 4], biased: true, ..base },
        Case { window: [5, 5], padding: [2; 4], stride: [2, 2], size: [15, 14], ..base },
        // Few results, and rows that are no whole tiles.
        Case { size: [2, 2], ..base },
        Case { size: [3, 4], padding: [0; 4], window: [2, 3], biased: true, ..base },
        Case { size: [3, 31], together: true, ..base },
        Case { size: [4, 60], together: true, biased: true, channels: 40, ..base },
        Case { filters: 3, channels: 33, together: true, ..base },
        Case { filters: 2, mirrored: true, ..base },
        Case { dilation: [2, 3], padding: [4, 1, 3, 6], window: [3, 4], ..base },
        // Windows beside the image, and columns that nobody reads.
        Case { size: [2, 5], padding: [6, 7, 5, 6], ..base },
        Case { size: [9, 10], stride: [3, 4], padding: [0; 4], ..base },
        Case { images: 9, channels: 16, size: [14, 14], ..base },
    ];
    for case in cases {
        let bundled = backends()[0].variants(&case.op()).iter().any(|v| v.variant.family.name() == "depthwise bundles");
        assert!(bundled, "{case:?}");
        case.check(&mut random);
    }
}

#[test]
fn bundles_of_large_planes_agree() {
    let mut random = Random::new();
    Case { images: 1, channels: 18, size: [120, 130], window: [7, 7], padding: [3; 4], biased: true, ..BASE }
        .check(&mut random);
    Case { images: 1, channels: 17, size: [70, 2000], stride: [2, 1], ..BASE }.check(&mut random);
}

#[test]
fn filters_that_are_not_finite_agree_at_every_border() {
    let mut random = Random::new();
    for at in 0..9 {
        let case = Case { size: [5, 9], channels: 2, ..BASE };
        let op = case.op();
        let mut inputs = vec![random.tensor(DType::F32, 18), random.tensor(DType::F32, 2 * 2 * 45)];
        let element = inputs[0].offset + at;
        inputs[0].set(element, Scalar::new(f32::INFINITY)).unwrap();
        check_with(&op, &inputs, &[]);
    }
}

#[test]
fn random_convolutions_agree() {
    let mut random = Random::new();
    // Dimensions that are single or join others may leave no image with rows and columns: such shapes are drawn again.
    for _ in 0..24 {
        let case = (0..100).map(|_| Case::random(&mut random)).find(Case::is_known);
        case.expect("most shapes are computed channel by channel").check(&mut random);
    }
}

#[test]
fn planes_of_several_tasks_agree() {
    let mut random = Random::new();
    Case { images: 1, channels: 1, size: [90, 100], ..BASE }.check(&mut random);
    Case { images: 1, channels: 1, size: [70, 101], stride: [2, 2], biased: true, ..BASE }.check(&mut random);
    Case { images: 1, channels: 2, size: [3, 9000], biased: true, ..BASE }.check(&mut random);
}
