//! Depthwise convolutions with their channels last against the reference, along one to three axes, on every instruction set, on
//! one thread and on two.

mod common;

use common::{Random, backends, check_with, extent};
use millstream_core::backend::Backend;
use millstream_core::{Access, Binary, Contract, DType, Expr, ExprBuilder, Guard, Node, Op, Scalar};

fn input(n: u16) -> Expr {
    let mut b = ExprBuilder::new();
    let x = b.input(n, DType::F32);
    b.finish(&[x])
}

/// One axis of the images.
#[derive(Clone, Copy, Debug)]
struct Line {
    size: usize,
    taps: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
}

impl Line {
    fn results(&self) -> usize {
        (self.size + self.before + self.after - (self.taps - 1) * self.dilation - 1) / self.stride + 1
    }

    fn random(random: &mut Random) -> Line {
        let (taps, stride, dilation) = (1 + random.below(4), 1 + random.below(3), 1 + random.below(2));
        let (before, after) = (random.below(3), random.below(3));
        let least = ((taps - 1) * dilation + 1).saturating_sub(before + after).max(1);
        Line { size: least + random.below(12), taps, stride, dilation, before, after }
    }
}

#[derive(Clone, Debug)]
struct Case {
    images: usize,
    channels: usize,
    lines: Vec<Line>,
    /// Whether images are pixels, or matrices of a batch.
    together: bool,
    /// Whether pixels are rows of the result, or its columns.
    rows: bool,
    /// Whether a bias for each channel and a value for each result are added, and the larger of that and zero taken.
    finished: bool,
    /// Whether results have their channels last, too.
    last: bool,
    fill: f32,
}

impl Case {
    /// Strides over (image, channel, pixels, taps) as the operation orders them.
    fn order<T: Copy>(&self, image: T, channel: T, pixels: &[T], taps: &[T]) -> Vec<T> {
        let mut all = if self.together { vec![channel, image] } else { vec![image, channel] };
        all.extend_from_slice(pixels);
        all.extend_from_slice(taps);
        all
    }

    fn op(&self) -> Op {
        let (c, axes) = (self.channels, self.lines.len());
        let (results, sizes): (Vec<_>, Vec<_>) = self.lines.iter().map(|l| (l.results(), l.size)).unzip();
        // Elements from one coordinate to the next, channels being last or first.
        let steps = |sizes: &[usize], last: bool| -> Vec<usize> {
            let inner = if last { c } else { 1 };
            (0..axes).map(|a| inner * sizes[a + 1..].iter().product::<usize>()).collect()
        };
        let signed = |v: Vec<usize>| v.into_iter().map(|n| n as isize).collect::<Vec<isize>>();
        let step = steps(&sizes, true);
        let by = |f: &dyn Fn(&Line) -> usize| (0..axes).map(|a| step[a] * f(&self.lines[a])).collect::<Vec<_>>();
        let (over, under) = (by(&|l| l.stride), by(&|l| l.dilation));
        let whole = c * sizes.iter().product::<usize>();
        let mut image = Access::new(DType::F32, &signed(self.order(whole, 1, &over, &under)));
        image.fill = Scalar::new(self.fill);
        for (a, l) in self.lines.iter().enumerate().filter(|(_, l)| l.before + l.after > 0) {
            let only = |n: usize| (0..axes).map(|b| if a == b { n } else { 0 }).collect::<Vec<usize>>();
            let coefficients = signed(self.order(0, 0, &only(l.stride), &only(l.dilation)));
            let offset = -(l.before as isize);
            image.guards.push(Guard { coefficients: coefficients.as_slice().into(), offset, limit: l.size });
            image.base -= (l.before * step[a]) as isize;
        }
        let none = vec![0; axes];
        let windows: Vec<usize> = self.lines.iter().map(|l| l.taps).collect();
        let taps: usize = windows.iter().product();
        let inside: Vec<usize> = (0..axes).map(|a| windows[a + 1..].iter().product()).collect();
        let filter = Access::new(DType::F32, &signed(self.order(0, taps, &none, &inside)));
        let plane: usize = results.iter().product();
        let channel = if self.last { 1 } else { plane };
        let result = self.order(c * plane, channel, &steps(&results, self.last), &none);
        let result = Access::new(DType::F32, &signed(result));
        let (lhs, rhs) = if self.rows { (input(0), input(1)) } else { (input(1), input(0)) };
        let mut inputs = vec![image, filter];
        let mut epilogue = Expr::acc(DType::F32);
        if self.finished {
            inputs.push(Access::new(DType::F32, &signed(self.order(0, 1, &none, &none))));
            inputs.push(result.clone());
            let mut b = ExprBuilder::new();
            let (sum, bias, other) = (b.push(Node::Acc, DType::F32), b.input(2, DType::F32), b.input(3, DType::F32));
            let sum = b.binary(Binary::Add, sum, bias).unwrap();
            let sum = b.binary(Binary::Add, sum, other).unwrap();
            let zero = b.constant(Scalar::new(0f32));
            let positive = b.binary(Binary::Max, sum, zero).unwrap();
            epilogue = b.finish(&[positive]);
        }
        let dims = self.order(self.images, c, &results, &windows);
        let m = if self.together { 1 } else { 2 };
        let n = if self.rows { 2 + axes } else { m };
        let accuracy = Default::default();
        let contract = Contract { m, n, k: 2 + axes, lhs, rhs, acc: DType::F32, epilogue, accuracy };
        Op::contract(&dims, inputs, vec![result], contract).unwrap()
    }

    fn check(&self, random: &mut Random) {
        println!("{self:?}");
        let op = self.op();
        for backend in backends() {
            let known = backend.variants(&op).iter().any(|v| v.variant.family.name() == "depthwise channels");
            assert!(known, "{self:?}");
        }
        let image = self.images * self.channels * self.lines.iter().map(|l| l.size).product::<usize>();
        let inputs: Vec<_> = op
            .inputs
            .iter()
            .enumerate()
            .map(|(i, a)| random.tensor(DType::F32, if i == 0 { image } else { extent(a, &op.dims).0 }))
            .collect();
        check_with(&op, &inputs, &[]);
    }
}

const LINE: Line = Line { size: 9, taps: 3, stride: 1, dilation: 1, before: 1, after: 1 };

fn base() -> Case {
    let (images, channels, lines) = (2, 19, vec![LINE, Line { size: 17, ..LINE }]);
    Case { images, channels, lines, together: true, rows: true, finished: false, last: true, fill: 0.0 }
}

#[test]
fn strides_dilations_and_paddings_agree() {
    let mut random = Random::new();
    let two = |y: Line, x: Line| vec![y, x];
    let cases = [
        base(),
        Case { channels: 16, finished: true, ..base() },
        Case { channels: 64, together: false, finished: true, ..base() },
        Case { rows: false, finished: true, channels: 37, ..base() },
        Case { last: false, ..base() },
        Case { last: false, finished: true, together: false, ..base() },
        Case { fill: 2.5, ..base() },
        Case { lines: two(LINE, Line { stride: 2, ..LINE }), ..base() },
        Case { lines: two(Line { stride: 2, ..LINE }, Line { dilation: 2, before: 2, after: 0, ..LINE }), ..base() },
        // Windows larger than the image, so that no column has all its taps.
        Case { lines: two(LINE, Line { size: 2, taps: 5, before: 3, after: 3, ..LINE }), finished: true, ..base() },
        Case { lines: two(Line { before: 0, after: 0, ..LINE }, Line { before: 0, after: 0, ..LINE }), ..base() },
        Case { lines: vec![Line { size: 40, ..LINE }], finished: true, ..base() },
        Case { lines: vec![Line { size: 5, ..LINE }, LINE, Line { size: 7, stride: 2, ..LINE }], ..base() },
    ];
    for case in cases {
        case.check(&mut random);
    }
}

#[test]
fn long_rows_of_many_channels_that_pass_through_tiles_agree() {
    let mut random = Random::new();
    for (channels, size) in [(300, 130), (200, 200), (120, 330)] {
        let lines = vec![Line { size, ..LINE }];
        Case { images: 1, channels, lines: lines.clone(), last: false, ..base() }.check(&mut random);
        Case { images: 1, channels, lines, finished: true, ..base() }.check(&mut random);
    }
}

#[test]
fn random_convolutions_agree() {
    let mut random = Random::new();
    for _ in 0..20 {
        let axes = 1 + random.below(3);
        let mut lines: Vec<Line> = (0..axes).map(|_| Line::random(&mut random)).collect();
        // More than one pixel and more than one tap, so that it is a convolution.
        let last = lines.last_mut().unwrap();
        (last.taps, last.dilation, last.size) = (3, 1, last.size.max(3 + 2 * last.stride));
        let case = Case {
            images: 1 + random.below(3),
            channels: 16 + random.below(30),
            lines,
            together: random.below(2) == 0,
            rows: random.below(2) == 0,
            finished: random.below(2) == 0,
            last: random.below(3) > 0,
            fill: random.below(2) as f32,
        };
        case.check(&mut random);
    }
}
